"""`segue complete`: one prompt, its completion on standard output as it is written."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from segue import config
from segue.commands.options import with_engine
from segue.commands.running import error_of, running
from segue.config import Settings
from segue.types import CompletionRequest, Delta, Failed, Prompt, Prompted, Sampling

_PROBABILITY = click.FloatRange(0, 1)


@click.command()
@click.argument("prompt", default="-")
@click.option("--max-tokens", type=click.IntRange(-1), default=128, help="-1: as many as fit")
@click.option("--temperature", type=click.FloatRange(0, 2), default=1.0, help="0 is greedy")
@click.option("--top-p", type=_PROBABILITY, default=1.0, help="nucleus sampling")
@click.option("--top-k", type=click.IntRange(0), default=0, help="0 is off")
@click.option("--min-p", type=_PROBABILITY, default=0.0, help="0 is off")
@click.option("--seed", type=int, help="the same seed gives the same text")
@click.option("--stop", multiple=True, help="text that ends it; may be given several times")
@click.option("--echo", is_flag=True, help="print the prompt too")
@with_engine
def complete(
    prompt: str,
    max_tokens: int,
    stop: tuple[str, ...],
    echo: bool,
    config_file: Path | None,
    temperature: float,
    top_p: float,
    top_k: int,
    min_p: float,
    seed: int | None,
    **flags: Any,
) -> None:
    """Complete PROMPT; without one, or with -, what standard input holds."""
    text = sys.stdin.read() if prompt == "-" else prompt
    request = CompletionRequest(
        request_id="complete",
        model="",
        prompts=(Prompt((text,)),),
        max_tokens=None if max_tokens < 0 else max_tokens,
        stop=tuple(filter(None, stop)),
        echo=echo,
        sampling=Sampling(
            temperature=temperature, top_p=top_p, top_k=top_k, min_p=min_p, seed=seed
        ),
    )
    asyncio.run(_write(request, config.load(flags, file=config_file)))


async def _write(request: CompletionRequest, settings: Settings) -> None:
    async with running(settings, Console(stderr=True)) as engine:
        async for event in engine.submit(request):
            match event:
                case Prompted(text=str(text)) if request.echo:
                    click.echo(text, nl=False)
                case Delta():
                    click.echo(event.text, nl=False)
                case Failed():
                    raise error_of(event)
    click.echo()
