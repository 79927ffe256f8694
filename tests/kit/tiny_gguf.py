"""Writes a language model of 50,000 random weights in GGUF (version 3): small enough to make for each test.

It is a real llama to every engine that reads the format; what it says is noise, which is what a test of the
way to a model wants. The vocabulary is SentencePiece's bytes, so it can say any text. ``python -m
tests.kit.tiny_gguf PATH`` writes one.
"""

import random
import struct
import sys
from array import array
from collections.abc import Iterator
from pathlib import Path

_EMBEDDING, _HEADS, _FORWARD, _CONTEXT, _LAYERS = 32, 4, 64, 2048, 1
_U32, _F32, _BOOL, _STRING, _ARRAY, _I32 = 4, 6, 7, 8, 9, 5
_ALIGNMENT = 32
_NORMAL, _UNKNOWN, _CONTROL, _BYTE = 1, 2, 3, 6
_WORDS = ("▁", *(chr(code) for code in range(0x20, 0x7F)), "▁the", "▁a", "▁of")
_TEMPLATE = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}assistant:"


def _vocabulary() -> list[tuple[str, float, int]]:
    """Pieces with score and sort: the three marks, all bytes, and a few words."""
    marks = [("<unk>", 0.0, _UNKNOWN), ("<s>", 0.0, _CONTROL), ("</s>", 0.0, _CONTROL)]
    every_byte = [(f"<0x{code:02X}>", 0.0, _BYTE) for code in range(256)]
    return [*marks, *every_byte, *((word, -float(at), _NORMAL) for at, word in enumerate(_WORDS))]


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _list(sort: int, items: list[bytes]) -> bytes:
    return struct.pack("<IQ", sort, len(items)) + b"".join(items)


def _facts(vocabulary: list[tuple[str, float, int]]) -> Iterator[tuple[str, int, bytes]]:
    yield "general.architecture", _STRING, _text("llama")
    yield "general.name", _STRING, _text("noise")
    for key, number in (
        ("context_length", _CONTEXT), ("embedding_length", _EMBEDDING), ("block_count", _LAYERS),
        ("feed_forward_length", _FORWARD), ("attention.head_count", _HEADS),
        ("attention.head_count_kv", _HEADS), ("rope.dimension_count", _EMBEDDING // _HEADS),
        ("vocab_size", len(vocabulary)),
    ):  # fmt: skip
        yield f"llama.{key}", _U32, struct.pack("<I", number)
    yield "llama.attention.layer_norm_rms_epsilon", _F32, struct.pack("<f", 1e-5)
    yield "tokenizer.ggml.model", _STRING, _text("llama")
    yield "tokenizer.ggml.tokens", _ARRAY, _list(_STRING, [_text(piece) for piece, _, _ in vocabulary])
    yield (
        "tokenizer.ggml.scores",
        _ARRAY,
        _list(_F32, [struct.pack("<f", score) for _, score, _ in vocabulary]),
    )
    yield (
        "tokenizer.ggml.token_type",
        _ARRAY,
        _list(_I32, [struct.pack("<i", sort) for _, _, sort in vocabulary]),
    )
    for mark, number in (("unknown", 0), ("bos", 1), ("eos", 2)):
        yield f"tokenizer.ggml.{mark}_token_id", _U32, struct.pack("<I", number)
    yield "tokenizer.ggml.add_bos_token", _BOOL, b"\1"
    yield "tokenizer.chat_template", _STRING, _text(_TEMPLATE)


def _shapes(words: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield "token_embd.weight", (_EMBEDDING, words)
    for layer in range(_LAYERS):
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            yield f"blk.{layer}.{name}.weight", (_EMBEDDING, _EMBEDDING)
        yield f"blk.{layer}.ffn_gate.weight", (_EMBEDDING, _FORWARD)
        yield f"blk.{layer}.ffn_up.weight", (_EMBEDDING, _FORWARD)
        yield f"blk.{layer}.ffn_down.weight", (_FORWARD, _EMBEDDING)
        yield f"blk.{layer}.attn_norm.weight", (_EMBEDDING,)
        yield f"blk.{layer}.ffn_norm.weight", (_EMBEDDING,)
    yield "output_norm.weight", (_EMBEDDING,)
    yield "output.weight", (_EMBEDDING, words)


def gguf(seed: int = 7) -> bytes:
    """The whole file; the same seed gives the same bytes."""
    dice, vocabulary = random.Random(seed), _vocabulary()
    facts, tensors = list(_facts(vocabulary)), list(_shapes(len(vocabulary)))
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(facts))
    head += b"".join(_text(key) + struct.pack("<I", sort) + value for key, sort, value in facts)
    data = bytearray()
    for name, shape in tensors:
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        head += _text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape)
        head += struct.pack("<IQ", 0, len(data))
        weights = array("f", (1.0 if len(shape) == 1 else dice.gauss(0, 0.1) for _ in range(count)))
        if sys.byteorder == "big":
            weights.byteswap()
        data += weights.tobytes()
        data += b"\0" * (-len(data) % _ALIGNMENT)
    return head + b"\0" * (-len(head) % _ALIGNMENT) + bytes(data)


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(gguf())
