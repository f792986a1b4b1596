"""The cost of one hostile request for others: the longest pause of a stream beside it, and of /livez.

    python -m segue.bench.hostile [--rounds 3] [--only NAME] [MODEL and flags of segue serve]...

A victim streams all the time, and /livez is asked all the time. Each request of the list (grammars, and bodies of
every shape up to the largest) is sent beside them, alone, and in the end all grammars at once. `extra` is the longest
silence of the stream while the request is read, prepared, refused or answered, less the usual one: the median of
rounds, because a machine has pauses of its own; those of quiet windows before each case are printed too. `livez` is
the longest answer of /livez, the median of rounds too. Every round has a server of its own, which has compiled
nothing yet. `lag` is by how much the victim is late in all at the window's end.

The rule: no single request silences /livez for 0.5 s, or another stream for 1 s. The last line is JSON and says whether
it is kept, and by how much; exit code 1 where it is not.
"""

import argparse
import asyncio
import contextlib
import json
import sys
import time
from collections.abc import AsyncGenerator, Awaitable
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple

from segue.bench.harness.hostile_requests import hostile_requests
from segue.bench.harness.served import Served, served
from segue.bench.harness.wire import Wire, get, request, run

QUIET, EVERYTHING = "(quiet)", "everything at once"
QUIET_S = 0.5
STREAMED = b'"stream": true'
SETTLE_S = 2.0
AFTER_S = 0.2  # work that goes on after a refusal counts too
MAX_LIVEZ_S, MAX_SILENCE_S = 0.5, 1.0  # the rule
LIVEZ_EVERY_S = 0.02


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0],
        epilog="What follows is for segue serve: a model, flags. Without it the fake runner serves.",
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="cases whose name begins so")
    options, arguments = parser.parse_known_args()
    found: dict[str, list[Window]] = {}
    for _ in range(options.rounds):
        with served(*(arguments or ["--runner", "fake"])) as server:
            for name, windows in run(_measure(server, options.only)).items():
                found.setdefault(name, []).extend(windows)
    figures = _show(found)
    print(json.dumps(figures))
    sys.exit(0 if figures["rule_is_kept"] else 1)


def _show(found: dict[str, list["Window"]]) -> dict[str, Any]:
    quiet = found[QUIET]
    usual = median(gap for window in quiet for gap in window.gaps)
    pace = median(window.pace_s for window in quiet)
    extras = {}
    livez = {name: median(each.livez_s for each in windows) for name, windows in found.items()}
    silence = {name: median(each.worst for each in windows) for name, windows in found.items()}
    print(f"{'':34}{'worst gap':>10}{'extra':>8}{'lag':>8}{'livez':>8}  ms")
    for name, windows in found.items():
        extras[name] = round((median(each.worst for each in windows) - usual) * 1e3, 1)
        worst, lag = (
            max(each.worst for each in windows),
            median(each.lag_s(pace) for each in windows),
        )
        row = f"{worst * 1e3:10.1f}{extras[name]:8.1f}{lag * 1e3:8.0f}{livez[name] * 1e3:8.0f}"
        print(f"{name:34}{row}")
    alone = {name: extra for name, extra in extras.items() if name not in (QUIET, EVERYTHING)}
    slowest = max(alone, key=lambda name: livez[name])
    return {
        "usual_gap_ms": round(usual * 1e3, 1),
        "quiet_extra_ms": extras[QUIET],
        "worst_extra_ms": max(alone.values()),
        "worst_case": max(alone, key=lambda name: alone[name]),
        "everything_extra_ms": extras.get(EVERYTHING),
        "worst_silence_ms": round(max(silence[name] for name in alone) * 1e3, 1),
        "worst_livez_ms": round(livez[slowest] * 1e3, 1),
        "worst_livez_case": slowest,
        "rule_is_kept": all(
            silence[name] < MAX_SILENCE_S and livez[name] < MAX_LIVEZ_S for name in alone
        ),
    }


# --- the constraints ----------------------------------------------------------------------------


def _nested(depth: int, inner: dict[str, Any]) -> dict[str, Any]:
    for _ in range(depth):
        inner = {"type": "object", "properties": {"a": inner}}
    return inner


def _chain(num_rules: int, sign: str) -> str:
    return "".join(f"r{i}{sign}r{i + 1}\n" for i in range(num_rules)) + f'r{num_rules}{sign}"a"'


def _lazy() -> dict[str, dict[str, Any]]:
    """An ambiguous grammar behind a word that it reads."""
    pairs = [" | ".join(f"n{j} n{(i + j) % 8} | n{i} n{j}" for j in range(8)) for i in range(8)]
    rules = (f'n{i} ::= {pair} | [ab] | "(" n0 ")"' for i, pair in enumerate(pairs))
    grammar = "\n".join(("root ::= n0", *rules))
    words = {"all of it": "(" + "ab" * 100, "its beginning": "(ab"}
    return {
        name: {
            "grammar": grammar,
            "grammar_lazy": True,
            "grammar_triggers": [{"type": 1, "value": word}],
        }
        for name, word in words.items()
    }


def _cases() -> dict[str, dict[str, Any]]:
    """Fields of a request. The first one also makes the compiler read the vocabulary."""
    refs = {f"{i}": {"$ref": f"#/$defs/{i + 1}"} for i in range(5000)}
    regexes = {
        "first of all": "[a-z]+",
        "powers": "(a{9999}){9999}",
        "one power": "a{99999999}",
        "stars": "(a*)*" * 2000,
        "dots": "(.*a){30}.{20}",
        "a far dot": ".*a.{200}",
        "counts": "([a-z]{1,1000}){1,1000}",
        "brackets": "(" * 50_000 + "a" + ")" * 50_000,
        "long": "a" * 20_000,
    }
    schemas = {
        "references": {"$ref": "#/$defs/0", "$defs": refs},
        "5000 properties": {"type": "object", "properties": {f"p{i}": {} for i in range(5000)}},
        "450 properties": {"type": "object", "properties": {f"p{i}": {} for i in range(450)}},
        "10000 choices": {"enum": [f"value {i}" for i in range(10_000)]},
        "a megabyte of choices": {"enum": ["x" * 1000] * 1000},
        "nested 45": _nested(45, {"type": "string"}),
        "nested 300": _nested(300, {"type": "string"}),
        "length": _nested(3, {"type": "string", "maxLength": 100_000}),
        "items": {"type": "array", "items": {"type": "string"}, "maxItems": 100_000_000},
    }
    gbnfs = {
        "ambiguous": 'root ::= root root | "a"',
        "chain": "root ::= r0\n" + _chain(900, " ::= "),
        "long chain": "root ::= r0\n" + _chain(5000, " ::= "),
        "brackets": "root ::= " + "(" * 30_000 + '"a"' + ")" * 30_000,
        "open brackets": "root ::= " + "(" * 1_000_000,
    }
    larks = {
        "both": "start: A\nA: /(a|b)*a(a|b){20}/ & /(a|b)*b(a|b){19}/",
        "neither": "start: A\nA: /.*a.{20}/ & /.*b.{19}/ & ~/.*c.{18}/",
        "chain": "start: r0\n" + _chain(900, ": "),
        "one long line": "start: " + "a" * 262_000,
        "a name without a rule": "a" * 262_000,
        "an open string": 'start: "' + '\\"' * 130_000,
        "an open expression": "start: /" + "\\/" * 130_000,
        "open schemas": "start: " + "%json {" * 37_000,
    }
    llguidance = json.dumps({"grammars": [{"lark_grammar": "a" * 262_000}]})
    return {
        **{f"regex: {name}": {"guided_regex": value} for name, value in regexes.items()},
        **{f"schema: {name}": {"guided_json": value} for name, value in schemas.items()},
        **{f"gbnf: {name}": {"grammar": value} for name, value in gbnfs.items()},
        **{
            f"lark: {name}": {"grammar": {"type": "lark", "value": value}}
            for name, value in larks.items()
        },
        **{f"lazy: {name}": fields for name, fields in _lazy().items()},
        "llguidance: a long line": {"grammar": {"type": "llguidance", "value": llguidance}},
    }


# --- the measurement ----------------------------------------------------------------------------


class Window(NamedTuple):
    """The victim's tokens from one moment to another."""

    gaps: list[float]
    seconds: float
    num_tokens: int
    livez_s: float  # the longest answer of /livez meanwhile

    @property
    def worst(self) -> float:
        return max(self.gaps)

    @property
    def pace_s(self) -> float:
        return self.seconds / max(self.num_tokens, 1)

    def lag_s(self, pace_s: float) -> float:
        return self.seconds - self.num_tokens * pace_s


class Victim:
    """Runs one stream after another; records the time of each token."""

    def __init__(self, server: Served) -> None:
        self._server = server
        self._arrivals: list[tuple[float, int]] = []
        self._livez: list[float] = []

    async def run(self) -> None:
        body = {"prompt": "A story:", "max_tokens": 2000, "stream": True, "ignore_eos": True}
        while True:
            wire = await Wire.open(self._server.host, self._server.port)
            with contextlib.closing(wire):
                async for num_events, _ in wire.events(request({**body, "seed": 1})):
                    self._arrivals.append((time.perf_counter(), num_events))

    async def ask_livez(self) -> None:
        """Over one connection, again and again."""
        wire = await Wire.open(self._server.host, self._server.port)
        with contextlib.closing(wire):
            while True:
                begun = time.perf_counter()
                await wire.ask(get("/livez"))
                self._livez.append(time.perf_counter() - begun)
                await asyncio.sleep(LIVEZ_EVERY_S)

    async def during(self, doing: Awaitable[object]) -> Window:
        """From the last token before to the first one after, so that a pause at either end counts."""
        first, first_livez = len(self._arrivals) - 1, len(self._livez)
        await doing
        last, last_livez = len(self._arrivals), len(self._livez)
        while len(self._arrivals) <= last or len(self._livez) <= last_livez:
            await asyncio.sleep(0.001)
        arrivals = self._arrivals[first : last + 1]
        times = [at for at, _ in arrivals]
        gaps = [after - before for before, after in pairwise(times)]
        num_tokens = sum(count for _, count in arrivals[1:])
        return Window(gaps, times[-1] - times[0], num_tokens, max(self._livez[first_livez:]))


@contextlib.asynccontextmanager
async def _running(victim: Victim) -> AsyncGenerator[None, None]:
    tasks = [asyncio.create_task(each) for each in (victim.run(), victim.ask_livez())]
    await asyncio.sleep(SETTLE_S)
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def _measure(server: Served, only: str) -> dict[str, list[Window]]:
    victim = Victim(server)
    grammars = {
        name: request({"prompt": "x", "max_tokens": 12, **fields})
        for name, fields in _cases().items()
    }
    asked = {**grammars, **hostile_requests()}
    asked = {name: sent for name, sent in asked.items() if name.startswith(only)}
    found: dict[str, list[Window]] = {QUIET: []}
    async with _running(victim):
        for name, sent in asked.items():
            found[QUIET].append(await victim.during(asyncio.sleep(QUIET_S)))
            found[name] = [await victim.during(_send(server, sent))]
        if not only:
            all_at_once = asyncio.gather(*(_send(server, sent) for sent in grammars.values()))
            found[EVERYTHING] = [await victim.during(all_at_once)]
    return found


async def _send(server: Served, sent: bytes) -> None:
    wire = await Wire.open(server.host, server.port)
    try:
        if STREAMED in sent:
            async for _ in wire.events(sent):
                pass
        else:
            answer = await wire.ask(sent)
            if answer.status not in (200, 400, 413):
                raise SystemExit(f"{answer.status}: {answer.body[:500]!r}")
    finally:
        wire.abort()
    await asyncio.sleep(AFTER_S)


if __name__ == "__main__":
    main()
