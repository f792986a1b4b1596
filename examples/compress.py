"""Lossless text compression with a language model; the packed file is the same on every machine.

    python examples/compress.py pack < page.txt > page.packed
    python examples/compress.py unpack < page.packed

Arithmetic coding: the text is an interval between 0 and 1. Each token narrows the interval to the token's share, which
is its probability; the file is the shortest fraction inside the last interval. So likely text takes few bytes. Packing
scores the whole text in one request; unpacking asks for one token at a time. Both need exactly the same
log-probabilities: with one bit of difference, all text after it would be wrong.
"""

import sys
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from segue import LLM, exact_math
from segue.types import Alternative

NUM_TOP = 64  # the likeliest tokens have their own shares; others are coded by id after an escape
WHOLE = 1 << 24
START = "\n"  # the prompt before the first token

Share = tuple[int, int, int]  # where the share begins, its size, and the size of the whole


def pack(llm: LLM, text: str) -> bytes:
    tokens = llm.tokenize(text, add_special=False)
    if llm.detokenize(tokens) != text:
        raise ValueError("this model's tokens do not spell the text exactly")
    begin = llm.tokenize(START, add_special=False)
    low, size, whole = 0, 1, 1
    for token, score in zip(
        tokens, llm.score([*begin, *tokens], NUM_TOP).tokens[len(begin) :], strict=True
    ):
        for start, part, of in shares(token, score.top, llm.info.vocab_size):
            low, size, whole = low * of + size * start, size * part, whole * of
    num_bytes = 0
    while (fraction := -(-(low << 8 * num_bytes) // whole)) * whole >= (
        low + size
    ) << 8 * num_bytes:
        num_bytes += 1
    return len(tokens).to_bytes(4, "little") + fraction.to_bytes(num_bytes, "big")


def unpack(llm: LLM, packed: bytes) -> str:
    num_tokens, fraction = int.from_bytes(packed[:4], "little"), packed[4:]
    value, whole = int.from_bytes(fraction, "big"), 1 << 8 * len(fraction)
    begin = llm.tokenize(START, add_special=False)
    tokens: list[int] = []
    for _ in range(num_tokens):
        answer = llm.complete(
            [*begin, *tokens], max_tokens=1, temperature=0, logprobs=NUM_TOP, ignore_eos=True
        )
        top = answer.choices[0].scores[0].top
        starts = table(top)
        index = bisect_right(starts, value * starts[-1] // whole) - 1
        value, whole = (
            value * starts[-1] - starts[index] * whole,
            whole * (starts[index + 1] - starts[index]),
        )
        if index < len(top):
            tokens.append(top[index].token)
        else:
            size = llm.info.vocab_size
            tokens.append(value * size // whole)
            value = value * size - tokens[-1] * whole
    return llm.detokenize(tokens)


def shares(token: int, top: Sequence[Alternative], vocab_size: int) -> Iterator[Share]:
    """The token's own share; or the share of the escape, then one of `vocab_size` equal shares."""
    starts = table(top)
    index = next((i for i, each in enumerate(top) if each.token == token), len(top))
    yield starts[index], starts[index + 1] - starts[index], starts[-1]
    if index == len(top):
        yield token, 1, vocab_size


def table(top: Sequence[Alternative]) -> list[int]:
    """Where each share begins, the escape's as the last one, then the end of all shares. Integers: sums are exact."""
    sizes = [1 + int(WHOLE * exact_math.exp(each.logprob)) for each in top]
    return [0, *accumulate([*sizes, max(WHOLE - sum(sizes), 1)])]


def main() -> None:
    if sys.argv[1:] not in (["pack"], ["unpack"]):
        sys.exit("usage: compress.py pack|unpack, from standard input to standard output")
    with LLM(runner="cpu") as llm:
        if sys.argv[1] == "pack":
            sys.stdout.buffer.write(pack(llm, sys.stdin.buffer.read().decode()))
        else:
            sys.stdout.buffer.write(unpack(llm, sys.stdin.buffer.read()).encode())


if __name__ == "__main__":
    main()
