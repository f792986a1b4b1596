"""`segue bench URL`: load for a server, in its dialect, and what it made of it; beside another one if asked."""

import asyncio
import contextlib
import json
import math
import os
import secrets
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import click
from click.core import ParameterSource

from segue import unix_socket
from segue.bench.faithfulness import passage
from segue.bench.load.drive import (
    FIRST_MODEL,
    Outcome,
    Target,
    closed_loop,
    listed_model,
    open_loop,
)
from segue.bench.load.plot import cost, throughput
from segue.bench.load.report import Figures, figures, table
from segue.bench.load.requests import REQUEST_FORMATS, Body, prompt
from segue.cpus import usable_cpus
from segue.errors import Unavailable
from segue.logs import printable_lines
from segue.machine import file_problem

WARM_UP = 2
DEFAULT_URL = "http://127.0.0.1:8080"
KEYS = ("SEGUE_API_KEY", "SEGUE_AGAINST_API_KEY")  # variables: what is in a command, everybody sees


@click.command()
@click.argument("url", default=DEFAULT_URL)
@click.option(
    "--dialect",
    type=click.Choice(list(REQUEST_FORMATS)),
    default="openai",
    show_default=True,
    help="dialect of the requests",
)
@click.option("--clients", default="1,4,16", show_default=True, help="closed loop: clients at once")
@click.option(
    "--requests", type=click.IntRange(1), help="requests per load; by default four per client"
)
@click.option("--rate", help="open loop instead: requests per second, such as 1,2,4")
@click.option(
    "--seconds",
    type=click.FloatRange(0.1),
    default=30.0,
    show_default=True,
    help="duration of each open load",
)
@click.option("--contexts", help="one client; words of its prompts, such as 64,512,2048")
@click.option(
    "--prompt-words",
    type=click.IntRange(1),
    default=64,
    show_default=True,
    help="words of each prompt",
)
@click.option(
    "--max-tokens",
    type=click.IntRange(1),
    default=64,
    show_default=True,
    help="tokens of each answer",
)
@click.option("--against", help='another server to measure in turns: its URL, or "llama.cpp"')
@click.option(
    "--against-dialect",
    type=click.Choice(list(REQUEST_FORMATS)),
    default="openai",
    show_default=True,
    help="dialect of the requests to the other",
)
@click.option("--model", help="the model to ask for; none: the first that the server lists")
@click.option("--against-model", help="the other server's model; for llama.cpp, the file it serves")
@click.option(
    "--svg",
    "svg_file",
    type=click.Path(path_type=Path),
    help="file for a plot of tokens per second, or of costs",
)
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="file for all figures")
def bench(
    url: str,
    dialect: str,
    clients: str,
    requests: int | None,
    rate: str | None,
    seconds: float,
    contexts: str | None,
    prompt_words: int,
    max_tokens: int,
    against: str | None,
    against_dialect: str,
    model: str | None,
    against_model: str | None,
    svg_file: Path | None,
    json_file: Path | None,
) -> None:
    """Put load on the server at URL, and print throughput and latency. Without a URL, http://127.0.0.1:8080. Keys are
    read from SEGUE_API_KEY and, for the server of --against, SEGUE_AGAINST_API_KEY. The table has tokens and requests
    per second, milliseconds to the first token and from each to the next (gap), medians and 90th percentiles."""
    _check_kind(click.get_current_context())
    for address in (url, against):
        _check_address(address)
    for file in filter(None, (svg_file, json_file)):
        if problem := file_problem(file):  # told before the load, not after it
            raise click.BadParameter(f"cannot write {file}: {problem}")
    loads = _numbers(contexts or rate or clients, are_whole=not rate)
    unit = "words" if contexts else "/s" if rate else "clients"
    words = passage().split()
    run = secrets.randbits(32)  # what the servers cached in an earlier one is of no use
    with _peer(against, against_model) as other:
        key, against_key = (os.environ.get(name, "") for name in KEYS)
        ours = Target(_server(url), REQUEST_FORMATS[dialect], key)
        targets = {"segue" if against else _host(url): _named(ours, model)}
        if other and against:
            theirs = Target(_server(other), REQUEST_FORMATS[against_dialect], against_key)
            asked = None if against == "llama.cpp" else against_model
            targets[_host(against)] = _named(theirs, asked)

        async def one(target: Target, load: float, seed: int) -> list[Outcome]:
            length = int(load) if contexts else prompt_words

            def body(number: int) -> Body:
                text = prompt(words, length, seed + number, run)
                return target.format.body(target.model, text, max_tokens, seed + number)

            if rate:
                return await open_loop(target, body, load, seconds)
            at_once = 1 if contexts else int(load)
            return await closed_loop(target, body, at_once, requests or 4 * at_once)

        rows = asyncio.run(_measure(targets, loads, unit, one))
    click.echo(printable_lines(table(rows)))  # a server's words are among them
    if svg_file:
        title = "requests per second" if rate else unit
        svg_file.write_text(cost(rows) if contexts else throughput(rows, title), encoding="utf-8")
    if json_file:
        json_file.write_text(_as_json(unit, rows), encoding="utf-8")
    if any(row.failed == row.requests for row in rows):  # of that load nothing was measured
        click.get_current_context().exit(1)


def _as_json(unit: str, rows: list[Figures]) -> str:
    content = {"unit": unit, "figures": [row.as_json() for row in rows]}
    return json.dumps(content, indent=1) + "\n"


_EXCLUDE = (
    ("rate", "contexts"),
    ("rate", "clients"),
    ("rate", "requests"),
    ("contexts", "clients"),
)


def _check_kind(context: click.Context) -> None:
    """Of one kind of load alone: a flag of another would have no effect."""
    given = {
        name
        for name in context.params
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    for one, other in _EXCLUDE:
        if {one, other} <= given:
            raise click.UsageError(f"--{one} and --{other} exclude each other")
    if "seconds" in given and "rate" not in given:
        raise click.UsageError("--seconds is for --rate alone; --requests says how many there are")


_SCHEMES = ("http://", "https://", unix_socket.SCHEME)


def _check_address(address: str | None) -> None:
    if address not in (None, "llama.cpp") and not address.startswith(_SCHEMES):
        raise click.BadParameter(f"{address!a} is no address such as {DEFAULT_URL}")


def _server(url: str) -> str:
    """Without the /v1 at the end that clients' base URLs have."""
    return url.rstrip("/").removesuffix("/v1")


def _named(target: Target, model: str | None) -> Target:
    """With the model that is asked of it: vLLM and Ollama answer to its name alone."""
    return replace(target, model=model or asyncio.run(listed_model(target)))


def _host(url: str) -> str:
    return url.rpartition("//")[2].rstrip("/")


def _numbers(text: str, *, are_whole: bool) -> list[float]:
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        raise click.BadParameter(f"{text!r} must be numbers with commas between them") from None
    if not all(0 < number < math.inf for number in numbers):
        raise click.BadParameter("loads must be above 0")
    if are_whole and not all(number.is_integer() for number in numbers):
        raise click.BadParameter("clients and words must be whole numbers")
    return numbers


async def _measure(
    targets: dict[str, Target],
    loads: list[float],
    unit: str,
    one: Callable[[Target, float, int], Awaitable[list[Outcome]]],
) -> list[Figures]:
    """Every load on one server, then on the other, so that both see the same machine."""
    rows = []
    for name, target in targets.items():
        hello = partial(target.format.body, target.model, "Hello", 4)
        warm = await closed_loop(target, hello, 1, WARM_UP)
        if problem := next((each.problem for each in warm if each.problem), ""):
            raise Unavailable(f"{name} {problem}")
    for place, load in enumerate(loads):
        for name, target in targets.items():
            outcomes = await one(target, load, 1000 * (place + 1))
            rows.append(figures(name, _load_words(load, unit), load, outcomes))
    return rows


def _load_words(load: float, unit: str) -> str:
    if unit == "/s":
        return f"{load:g}/s"
    return f"{load:g} {unit.removesuffix('s') if load == 1 else unit}"


@contextlib.contextmanager
def _peer(against: str | None, model: str | None) -> Iterator[str | None]:
    """The address of the other server; llama.cpp's own is started for the time."""
    if against != "llama.cpp":
        yield against
        return
    from segue.bench.harness.llama_server import llama_server
    from segue.bench.peers import SLOTS, model_path

    with llama_server(model_path(model or FIRST_MODEL), usable_cpus(), SLOTS) as address:
        yield address
