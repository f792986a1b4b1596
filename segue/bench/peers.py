"""Segue beside llama.cpp's own server: same file, same threads, same requests, in turns within one run.

    python -m segue.bench.peers [MODEL.gguf] [--rounds 3] [--clients 1 8 32] [--text FILE] [--svg FILE]
                                [--llama-server FILE]

llama.cpp's server is the one in the xllamacpp wheel, or one that was built on the machine (FILE). Each round runs every
client count on one server, then on the other; the figures are medians over the rounds. Prompts are pieces of a text, so
that answers are text as well; a model that was not trained on prose needs a text of its own. Machines are shared and
noisy: read the ratios.
"""

import argparse
import asyncio
import json
import statistics
import time
from pathlib import Path
from typing import Any, NamedTuple

from segue.bench.faithfulness import passage
from segue.bench.harness.llama_server import llama_server
from segue.bench.harness.served import served
from segue.bench.harness.wire import Streamed, collect, run
from segue.bench.load.plot import plot
from segue.cpus import usable_cpus
from segue.models import gguf

NUM_PROMPT, NUM_OUTPUT, NUM_LONG = 64, 64, 512
SLOTS = {"n_parallel": 32, "n_ctx": 32 * 1024}
REQUESTS_EACH = 1  # per client: llama.cpp takes minutes for more


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", nargs="?", default="default")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--text", type=Path, help="what prompts are pieces of")
    parser.add_argument("--svg", type=Path, help="a plot of tokens a second over clients")
    parser.add_argument("--llama-server", help="one that was built here, not the wheel's")
    options = parser.parse_args()
    path, threads = model_path(options.model), usable_cpus()
    prose = options.text.read_text(encoding="utf-8") if options.text else passage()
    peer = llama_server(path, threads, SLOTS, options.llama_server)
    with served(path, "--threads", str(threads)) as server, peer as theirs:
        ours = f"http://{server.host}:{server.port}"
        tokens = server.post("/tokenize", {"content": prose})["tokens"]
        pieces = Pieces.of(path, tokens)
        result = run(_compare({"segue": ours, "llama.cpp": theirs}, pieces, options))
    if options.svg:
        options.svg.write_text(_plot(result, options.clients), encoding="utf-8")
    print(json.dumps(result))


class Pieces(NamedTuple):
    """Prompts for one model."""

    text: list[int]
    num_vocab: int
    num_long: int  # tokens of the prompt whose first answer is timed

    @classmethod
    def of(cls, path: str, text: list[int]) -> "Pieces":
        found = gguf.header(path)
        long = min(NUM_LONG, found.train_context - 1)
        return cls(text * (1 + 2 * long // len(text)), found.n_vocab, long)

    def prompt(self, seed: int, length: int) -> list[int]:
        """A piece of the text after a token that no other piece begins with, so that the prefix cache has no match.

        A small vocabulary has no such tokens: there only the place in the text differs.
        """
        start = seed * 7919 % (len(self.text) - length)
        piece = self.text[start : start + length]
        return [100 + seed % 20_000, *piece[1:]] if self.num_vocab > 20_100 else piece


def _plot(result: dict[str, Any], clients: list[int]) -> str:
    speeds = [(count, *result[f"clients_{count}"]) for count in clients]
    lines = {
        "segue": [(count, ours) for count, ours, _ in speeds],
        "llama.cpp": [(count, theirs) for count, _, theirs in speeds],
    }
    return plot(lines, "clients", "tokens a second")


def model_path(model: str) -> str:
    from segue import config
    from segue.models import names, sources

    return str(sources.fetch(names.parse(model), config.load({}).cache_dir))


async def _compare(
    urls: dict[str, str], pieces: Pieces, options: argparse.Namespace
) -> dict[str, object]:
    for url in urls.values():
        await _load(url, pieces, 2, seed=0)  # warm up
    speeds: dict[tuple[str, int], list[float]] = {}
    waits: dict[str, list[float]] = {name: [] for name in urls}
    for turn in range(1, options.rounds + 1):
        for clients in options.clients:
            for name, url in urls.items():
                speed = await _load(url, pieces, clients, seed=turn * 1000 + clients)
                speeds.setdefault((name, clients), []).append(speed)
        for name, url in urls.items():
            waits[name].append(await _first_token(url, pieces, seed=turn))
    result: dict[str, object] = {}
    print(f"{'tokens per second':24}{'segue':>10}{'llama.cpp':>12}{'ratio':>8}")
    for clients in options.clients:
        ours, theirs = (statistics.median(speeds[name, clients]) for name in urls)
        print(f"{clients:3} clients{'':13}{ours:10.0f}{theirs:12.0f}{ours / theirs:8.2f}")
        result[f"clients_{clients}"] = [round(ours, 1), round(theirs, 1)]
    ours, theirs = (statistics.median(waits[name]) for name in urls)
    label = f"first token of {pieces.num_long}, s"
    print(f"{label:24}{ours:10.2f}{theirs:12.2f}{theirs / ours:8.2f}")
    return result | {"first_token_s": [round(ours, 3), round(theirs, 3)]}


async def _load(url: str, pieces: Pieces, clients: int, seed: int) -> float:
    """Tokens per second of a closed loop."""
    begun = time.perf_counter()
    counts = await asyncio.gather(*(_client(url, pieces, seed * 100 + c) for c in range(clients)))
    return sum(counts) / (time.perf_counter() - begun)


async def _client(url: str, pieces: Pieces, seed: int) -> int:
    total = 0
    for number in range(REQUESTS_EACH):
        one = seed * 10 + number
        _, answer = await post(url, pieces.prompt(one, NUM_PROMPT), one, NUM_OUTPUT)
        total += answer.count(b'"finish_reason":null')
    return total


async def _first_token(url: str, pieces: Pieces, seed: int) -> float:
    waited, _ = await post(url, pieces.prompt(seed, pieces.num_long), seed, 1)
    return waited


def _body(prompt: list[int], seed: int, num_output: int, temperature: float) -> bytes:
    fields = {
        "prompt": prompt,
        "max_tokens": num_output,
        "temperature": temperature,
        "seed": seed,
        "stream": True,
        "ignore_eos": True,
        "cache_prompt": False,
    }
    return json.dumps(fields).encode()


async def post(
    url: str, prompt: list[int], seed: int, num_output: int, temperature: float = 0.8
) -> tuple[float, bytes]:
    """Seconds until the first event, and the whole answer."""
    begun = time.perf_counter()
    answer = await stream(url, prompt, seed, num_output, temperature)
    return answer.first_s - begun, answer.data


async def stream(
    url: str, prompt: list[int], seed: int, num_output: int, temperature: float = 0.8
) -> Streamed:
    body = _body(prompt, seed, num_output, temperature)
    host, _, port = url.removeprefix("http://").partition(":")
    head = (
        f"POST /v1/completions HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    answer = await collect(host, int(port), head.encode() + body)
    if b"data: [DONE]" not in answer.data:
        raise SystemExit(f"a stream broke off: {answer.data[:300]!r}")
    return answer


if __name__ == "__main__":
    main()
