"""What has the shape of a secret: told with few mistakes, for a text that is refused because of it.

Two ways to tell. Keys of well-known issuers, private keys and web tokens have a shape of their own, wherever
they stand. Any other value counts only where it is named like a secret and is no word, path, address, digest
or place holder. ``harness.secrecy``, which guards the import of what others wrote, is of the other mind and
takes everything for a secret that is not plainly public. No function here gives back a value.
"""

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice, pairwise
from math import log2
from typing import Final

_START: Final = r"(?<![A-Za-z0-9+/_.-])"  # not within a longer run, as base64 has them
_BASIC: Final = (
    r"\b[Bb]asic (?=[A-Za-z+/]*[0-9])(?=[a-z0-9+/]*[A-Z])(?:[A-Za-z0-9+/]{4}){3,}"
    r"(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?(?![A-Za-z0-9+/=])"
)
# What it is, the letters that a text must have for it (so that most texts are passed at once), the shape.
_SHAPES: Final[tuple[tuple[str, bytes, str], ...]] = (
    ("a private key", b"-----BEGIN", r"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----"),
    ("a key of age", b"AGE-SECRET-KEY-", r"AGE-SECRET-KEY-(?:PQ-)?1[0-9A-Z]{20,}"),
    ("a web token", b"eyJ", _START + r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"),
    ("an API key", b"sk-", _START + r"sk-(?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]*[A-Za-z0-9]{12,}[A-Za-z0-9_-]*"),
    ("a key of Stripe", b"k_live_", _START + r"[sr]k_live_[A-Za-z0-9]{12,}"),
    ("a key of Stripe", b"k_test_", _START + r"[sr]k_test_[A-Za-z0-9]{12,}"),
    ("a signing secret", b"whsec_", _START + r"whsec_[A-Za-z0-9+/=_-]{16,}"),
    ("a token of GitHub", b"gh", _START + r"gh[opusr]_[A-Za-z0-9]{20,}"),
    ("a token of GitHub", b"github_pat_", _START + r"github_pat_[A-Za-z0-9_]{20,}"),
    ("a token of GitLab", b"glpat-", _START + r"glpat-[A-Za-z0-9_.-]{16,}"),
    ("a token of Slack", b"xox", _START + r"xox[a-z]-[A-Za-z0-9-]{10,}"),
    ("a token of Slack", b"xapp-", _START + r"xapp-[0-9]-[A-Za-z0-9-]{10,}"),
    ("a webhook of Slack", b"hooks.slack.com", r"hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9/]{20,}"),
    ("a webhook of Discord", b"/api/webhooks/", r"discord(?:app)?\.com/api/webhooks/[0-9]{10,}/[\w-]{20,}"),
    ("a token of Telegram", b":AA", _START + r"[0-9]{8,10}:AA[A-Za-z0-9_-]{33}"),
    ("a key of AWS", b"AKIA", _START + r"AKIA[A-Z2-7]{16}(?![A-Za-z0-9+/=])"),
    ("a key of AWS", b"ASIA", _START + r"ASIA[A-Z2-7]{16}(?![A-Za-z0-9+/=])"),
    ("a key of Google", b"AIza", _START + r"AIza[A-Za-z0-9_-]{35}"),
    ("a token of Google", b"ya29.", _START + r"ya29\.[A-Za-z0-9_-]{20,}"),
    ("a secret of Google", b"GOCSPX-", _START + r"GOCSPX-[A-Za-z0-9_-]{20,}"),
    ("a key of SendGrid", b"SG.", _START + r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
    ("a token of Hugging Face", b"hf_", _START + r"hf_[A-Za-z]{30,}"),
    ("a token of npm", b"npm_", _START + r"npm_[A-Za-z0-9]{36}"),
    ("a token of PyPI", b"pypi-", _START + r"pypi-AgE[A-Za-z0-9_-]{20,}"),
    ("a key of Groq", b"gsk_", _START + r"gsk_[A-Za-z0-9]{20,}"),
    ("a token of Replicate", b"r8_", _START + r"r8_[A-Za-z0-9]{20,}"),
    ("a key of NVIDIA", b"nvapi-", _START + r"nvapi-[A-Za-z0-9_-]{20,}"),
    ("a key of Perplexity", b"pplx-", _START + r"pplx-[A-Za-z0-9]{20,}"),
    ("a key of Tavily", b"tvly-", _START + r"tvly-[A-Za-z0-9_-]{16,}"),
    ("a token of DigitalOcean", b"do", _START + r"do[opr]_v1_[0-9a-f]{32,}"),
    ("a token of Shopify", b"shp", _START + r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"),
    ("a key of Linear", b"lin_api_", _START + r"lin_api_[A-Za-z0-9]{20,}"),
    ("a token of Notion", b"ntn_", _START + r"ntn_[A-Za-z0-9]{20,}"),
    ("a token of Figma", b"figd_", _START + r"figd_[A-Za-z0-9_-]{20,}"),
    ("a key of Azure", b"AccountKey=", r"AccountKey=[A-Za-z0-9+/]{40,}"),
    ("a password in an address", b"://", r"://[^/\s?#@:\"'{}<>$]+:(?![\"'{<$*]|x+@)[^/\s?#@\"']{3,}@"),
    ("a token", b"earer ", r"[Bb]earer (?=[A-Za-z_.~+/-]*[0-9])[A-Za-z0-9_.~+/-]{16,}"),
    ("a password", b"asic ", _BASIC),
)
_COMPILED: Final = tuple((word, letters, re.compile(shape)) for word, letters, shape in _SHAPES)
# A translation and a search see a long run of a key's characters ten times faster than an expression does.
_RUNS: Final = bytes(ord("0") if chr(byte).isascii() and (chr(byte).isalnum() or chr(byte) in "_+=~-") else 32
                     for byte in range(256))  # fmt: skip
_RUN: Final = b"0" * 20
_SIGNS: Final = (b"@", b"-----BEGIN", b"\\u", b"\\U")  # the last two write any character

_PASSWORDS: Final = frozenset({"password", "passwd", "passphrase", "pwd"})
_STRONG: Final = _PASSWORDS | {
    "secret", "token", "apikey", "credential", "authorization", "bearer", "cookie", "jwt", "pat", "pass",
}  # fmt: skip
_KEYS: Final = frozenset(
    {"api", "access", "private", "secret", "signing", "encryption", "account", "auth", "master", "service"}
)
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_NAMED: Final = r"(?<![A-Za-z0-9_.-])-{0,2}(?P<name>[A-Za-z_][A-Za-z0-9_.-]{0,63})"
_VALUE: Final = r"(?=(?P<value>[^\s\"'`&,;)}\]<>]{6,64}))"  # looked at alone: it may hold another name
_ASSIGNED: Final = re.compile(_NAMED + r"[\"'`]?[ \t]{0,8}[=:][ \t]{0,8}(?:\[[ \t]*)?[\"'`]{0,4}" + _VALUE)
_OPTION: Final = re.compile(r"(?<!\S)--?(?P<name>[A-Za-z][A-Za-z0-9_-]{0,63})[ \t]{1,8}" + _VALUE)

# What no value of a secret's name is: a path, an address, a template, a digest, a place holder.
_PLAIN: Final = re.compile(
    r"(?:[~.]{0,2}/|[A-Za-z]:\\|\$|\{|%|@|data:|(?:sha|SHA|md5|MD5|blake)[0-9a-z]*[-:])"
    r"|.*(?:://|\$\{|\{\{|\.\.\.|…)|.*(?i:example|placeholder|change.?me|redacted|your[-_. ]|dummy)"
    r"|(?:[0-9A-Fa-f]{2}:){4,}|[xX*.•_-]+\Z|(?:sk|pk|key|token)[-_][xX*.•]+\Z"
)
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_WORDLIKE: Final = re.compile(r"(?:[A-Za-z]{0,14}[0-9]{0,4}|[0-9]{1,6}[A-Za-z]{0,3})")
_LOWER_WORDS: Final = re.compile(r"[a-z]+(?:[ _./:-][a-z]+)*")
_LEAST, _LEAST_OF_A_KEY = 8, 20  # characters; `key` alone also names what is no secret
_MOST_ASSIGNED = 5000  # names of one text: no file that a person writes has more
_BITS = 2.5  # of a character, by how often each stands there: words of a keyboard and `aaaa1111` have less


def suspicious(data: bytes) -> bool:
    """Whether a text may hold a known shape, or a random value of 20 characters: seldom, and seen at once."""
    return _RUN in data.translate(_RUNS) or any(sign in data for sign in _SIGNS)


@lru_cache(maxsize=4096)
def names_one(name: str) -> bool:
    """Whether a key, an option or a variable is called like a secret; a bare ``key`` counts, too."""
    return bool(_sort_of(name))


def shape(text: str) -> str | None:
    """What a text holds by its shape, as words (``a token of GitHub``); None: nothing that is known."""
    return next((word for _, word in shapes(text)), None)


def shapes(text: str) -> Iterator[tuple[int, str]]:
    """Each known shape in a text: where it begins, and what it is."""
    data = text.encode("utf-8", "replace")
    for word, letters, pattern in _COMPILED:
        if letters in data:
            for found in pattern.finditer(text):
                if not _is_a_placeholder(found[0]):
                    yield found.start(), word


def named(text: str) -> Iterator[tuple[int, str]]:
    """Each value that a text gives to a secret's name (``--api-key=…``, ``token: …``), and the name."""
    for pattern in (_ASSIGNED, _OPTION):
        for found in islice(pattern.finditer(text), _MOST_ASSIGNED):
            if is_value_of(found["name"], found["value"]):
                yield found.start("value"), found["name"]


def is_value_of(name: str, text: str) -> bool:
    """Whether the value of a key, an option or a variable of this name looks like a secret."""
    match _sort_of(name):
        case "password":
            return len(text) >= _LEAST - 2 and not _LOWER_WORDS.fullmatch(text) and not _PLAIN.match(text)
        case "secret":
            return is_random(text, _LEAST)
        case "key":
            return is_random(text, _LEAST_OF_A_KEY) and not _UUID.fullmatch(text)
        case _:
            return False


def _sort_of(name: str) -> str:
    """What a name says that its value is: ``password``, ``secret``, ``key``, or "" for anything else."""
    words = [word.lower() for word in _WORD.findall(name)]
    words = [word if word.endswith("ss") else word.removesuffix("s") for word in words if not word.isdigit()]
    if words and words[-1] in ("value", "literal"):
        words.pop()
    if not words or "public" in words:
        return ""
    last = words[-1]
    if last in _PASSWORDS:
        return "password"
    if last in _STRONG or (last == "key" and _KEYS & set(words[-2:-1])):
        return "secret"
    return "key" if last == "key" else ""


def is_random(text: str, least: int) -> bool:
    """Whether a text of at least so many characters is no word, path, address, digest or place holder."""
    if len(text) < least or any(ch.isspace() for ch in text) or _PLAIN.match(text):
        return False
    parts = [part for part in re.split(r"[^A-Za-z0-9]+", text) if part]
    if all(_WORDLIKE.fullmatch(part) and not _is_mixed(part) for part in parts):
        return False
    counts = Counter(text)
    bits = -sum(count / len(text) * log2(count / len(text)) for count in counts.values())
    return bits >= _BITS


def _is_mixed(part: str) -> bool:
    """One run of letters whose case changes again and again, as no word's does."""
    changes = sum(a.islower() != b.islower() for a, b in pairwise(part))
    return part.isalpha() and len(part) >= _LEAST and changes > len(part) // 3


def _is_a_placeholder(text: str) -> bool:
    """Documentation's own: AWS's keys end so, others repeat one character."""
    folded = text.lower()
    tail = re.split(r"[^A-Za-z0-9]", text)[-1] or text
    return "example" in folded or "placeholder" in folded or len(set(tail.lower())) <= 2 < len(tail)
