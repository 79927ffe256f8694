"""Serves a GGUF by llama.cpp's own HTTP server: ``python llamaserver.py MODEL [GRAMMAR]`` in an environment
that has xllamacpp. The first line says its address. What is said is forced by the grammar (GBNF), if one is
given: a model of noise then says what a test needs.
"""

import sys
import time

import xllamacpp


def main() -> None:
    """Serve until killed."""
    wish = xllamacpp.CommonParams()
    wish.model.path = sys.argv[1]
    wish.n_ctx, wish.n_parallel, wish.port = 2048, 1, 0
    wish.model_alias = {"tiny"}
    if sys.argv[2:]:
        wish.sampling.grammar = xllamacpp.CommonGrammar(
            xllamacpp.common_grammar_type.COMMON_GRAMMAR_TYPE_USER, sys.argv[2]
        )
    server = xllamacpp.Server(wish)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    while True:
        time.sleep(60)


if __name__ == "__main__":
    main()
