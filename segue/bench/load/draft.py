"""What a draft model saves: the same requests with and without `--draft`, in turns within one run. Or, without a draft
model, the model's own MTP layer.

    python -m segue.bench.load.draft MODEL.gguf [DRAFT.gguf] [--rounds 3] [--clients 1 4] [--temperature 0]

The two servers must give the same texts. Prompts are pieces of a text, so that answers are text as well.
"""

import argparse
import asyncio
import json
import statistics
import time
from contextlib import ExitStack
from http.client import HTTPConnection
from typing import Any

from segue.bench.faithfulness import passage
from segue.bench.harness.served import Served, served
from segue.bench.harness.wire import run
from segue.bench.peers import Pieces, model_path, post

NUM_PROMPT, NUM_OUTPUT = 48, 96
COUNTED = ("segue_draft_tokens_total", "segue_draft_accepted_total")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("draft", nargs="?", default="auto")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--temperature", type=float, default=0.0)
    options = parser.parse_args()
    path = model_path(options.model)
    result: dict[str, Any] = {}
    with ExitStack() as stack:
        alone = stack.enter_context(served(path, "--draft", "none"))
        helped = stack.enter_context(served(path, "--draft", options.draft))
        text = alone.post("/tokenize", {"content": passage()})["tokens"]
        pieces = Pieces.of(path, text)
        for clients in options.clients:
            speeds: dict[str, list[float]] = {"without": [], "with": []}
            before = drafted(helped)
            for turn in range(options.rounds + 1):  # the first warms up
                texts = []
                for name, server in (("without", alone), ("with", helped)):
                    speed, said = run(_load(server, pieces, clients, turn, options.temperature))
                    speeds[name] += [speed] if turn else []
                    texts.append(said)
                if texts[0] != texts[1]:
                    raise SystemExit("drafts change answers")
            tried, accepted = (
                now - then for now, then in zip(drafted(helped), before, strict=True)
            )
            ours, plain = (statistics.median(speeds[name]) for name in ("with", "without"))
            print(
                f"{clients:3} clients: {plain:.0f} tokens per second, {ours:.0f} with drafts "
                f"({ours / plain:.2f}); {accepted:.0f} of {tried:.0f} draft tokens accepted"
            )
            result[f"clients_{clients}"] = [round(plain, 1), round(ours, 1), tried, accepted]
    print(json.dumps(result))


async def _load(
    server: Served, pieces: Pieces, clients: int, turn: int, temperature: float
) -> tuple[float, list[str]]:
    url = f"http://{server.host}:{server.port}"
    begun = time.perf_counter()
    answers = await asyncio.gather(
        *(
            post(url, pieces.prompt(1000 * turn + c, NUM_PROMPT), c, NUM_OUTPUT, temperature)
            for c in range(clients)
        )
    )
    took = time.perf_counter() - begun
    return clients * NUM_OUTPUT / took, [_said(answer) for _, answer in answers]


def _said(answer: bytes) -> str:
    """The text of a stream."""
    events = [line[6:] for line in answer.splitlines() if line.startswith(b"data: {")]
    return "".join(choice["text"] for event in events for choice in json.loads(event)["choices"])


def drafted(server: Served) -> tuple[float, float]:
    """Draft tokens so far, and those of them that were accepted."""
    connection = HTTPConnection(server.host, server.port, timeout=60)
    connection.request("GET", "/metrics")
    lines = connection.getresponse().read().decode().splitlines()
    connection.close()
    found = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    tried, accepted = (
        sum(float(value) for name, value in found.items() if name.startswith(counted))
        for counted in COUNTED
    )
    return tried, accepted


if __name__ == "__main__":
    main()
