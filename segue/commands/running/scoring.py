"""Texts scored by an engine, many at once, and their figures as a table or as JSON."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import nullcontext

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column, Table

from segue.commands.running.engine import running
from segue.commands.score_lines import Refused, Scored, Subject, Sum, counted, perplexity
from segue.config import Settings
from segue.engine.process.new_worker import NewWorker
from segue.engine.seam import Engine, error_of
from segue.errors import RequestError
from segue.logs import printable, printable_json
from segue.models.progress_bars import has_bars
from segue.types import CompletionRequest, Failed, Prompted

IN_FLIGHT = 128  # enough to fill every step, few enough to bound memory
_HEADS = ("line", "tokens", "log p", "per token", "perplexity")
_LABEL_CHARS, _LEAST_LABEL = 48, 8
_WIDEST = 1000  # of what is no terminal


def report(
    subjects: list[Subject], as_json: bool, settings: Settings, ahead: NewWorker | None
) -> Sum:
    """Write the figures of every text, and return those of all. `ahead`: the model's worker, if it was started."""
    return asyncio.run(_report(subjects, as_json, settings, ahead))


async def _report(
    subjects: list[Subject], as_json: bool, settings: Settings, ahead: NewWorker | None
) -> Sum:
    total, console, out = Sum(), Console(stderr=True), Console()
    rows: list[tuple[str, ...]] = []
    columns = (TextColumn("scoring"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    # Where results are lines of the terminal themselves, they would stand on the bar's line.
    has_no_bar = not has_bars(console) or (as_json and out.is_terminal)
    async with running(settings, console, ahead) as engine:
        progress = Progress(*columns, console=console, transient=True, disable=has_no_bar)
        # Not begun: at its end one of an older rich writes a line break, though there is no bar.
        with nullcontext() if has_no_bar else progress:
            bar = progress.add_task("", total=len(subjects))
            async for subject, result in results(engine, subjects):
                total.add(result)
                if as_json:
                    click.echo(printable_json(result.as_json()))
                elif isinstance(result, Scored):
                    label = printable(" ".join(subject.label.split())[:_LABEL_CHARS])
                    logprobs = result.logprobs
                    figures = _figures(len(result.tokens), len(logprobs), sum(logprobs))
                    rows.append((str(subject.line), *figures, label))
                progress.advance(bar)
    if not as_json:
        rows.append(("all", *_figures(total.num_tokens, total.num_scored, total.logprob), ""))
        width = out.width if out.is_terminal else _WIDEST
        table, needed = _table(rows, width)
        Console(width=max(width, needed)).print(table, markup=False)
    return total


def _table(rows: Sequence[tuple[str, ...]], width: int) -> tuple[Table, int]:
    """The rows as a table, and the columns of a terminal that it needs. No figure is ever cut: of a text there is as
    much as fits beside them, but for its first word or so, and a terminal breaks lines that are longer."""
    figures = [
        max(map(len, column)) + 2
        for column in zip(_HEADS, *(row[:-1] for row in rows), strict=True)
    ]
    room = max(_LEAST_LABEL, width - sum(figures) - 2)
    heads = (Column(head, no_wrap=True) for head in _HEADS)
    text = Column("text", no_wrap=True, overflow="ellipsis", max_width=room)
    table = Table(*heads, text, box=None)
    for row in rows:
        table.add_row(*row)
    return table, sum(figures) + room + 2


def _figures(num_tokens: int, num_scored: int, logprob: float) -> Iterable[str]:
    ratio = perplexity(logprob, num_scored)
    mean = "–" if ratio is None else f"{logprob / num_scored:.4f}"
    return str(num_tokens), f"{logprob:.3f}", mean, "–" if ratio is None else f"{ratio:.3f}"


async def results(
    engine: Engine, subjects: Iterable[Subject]
) -> AsyncIterator[tuple[Subject, Scored | Refused]]:
    """The results in the order of the subjects; many are scored at once."""
    started: deque[tuple[Subject, asyncio.Task[Scored | Refused]]] = deque()
    try:
        for subject in subjects:
            started.append((subject, asyncio.create_task(_score(engine, subject))))
            if len(started) >= IN_FLIGHT:
                first, task = started.popleft()
                yield first, await task
        while started:
            first, task = started.popleft()
            yield first, await task
    finally:
        for _, task in started:
            task.cancel()


async def _score(engine: Engine, subject: Subject) -> Scored | Refused:
    request = CompletionRequest(
        request_id=f"line-{subject.line}",
        model="",
        prompts=(subject.prompt,),
        max_tokens=0,
        prompt_logprobs=0,
    )
    scored = Scored(subject.line, ())
    try:
        async for event in engine.submit(request):
            if isinstance(event, Failed):
                raise error_of(event)
            if isinstance(event, Prompted):
                scored = counted(subject, tuple(event.scores or ()))
    except RequestError as error:
        return Refused(subject.line, error.message)
    return scored
