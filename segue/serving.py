"""`segue serve`: reads the settings; assembly/ puts the parts together.

What that takes is imported only after the worker's process was started, which imports modules of its own meanwhile.
"""

from pathlib import Path
from typing import Any

import click

from segue import config, imports
from segue.assembly.ahead import worker_ahead, worker_sockets
from segue.commands.foreign.flags import Understanding
from segue.commands.options import with_settings


@click.command(cls=Understanding)
@with_settings
@click.option("--print-config", is_flag=True, help="print the settings as a TOML file, and stop")
def serve(print_config: bool, config_file: Path | None, **flags: Any) -> None:
    """Serve MODELS over HTTP; without any, the embedded one.

    \b
    segue serve
    segue serve ./model.gguf --port 9000
    segue serve small=./a.gguf large=OWNER/REPO:Q8_0

    A model is PATH.gguf, OWNER/REPO[:QUANT] or hf:OWNER/REPO/FILE.gguf of Hugging Face; with --engine vllm also a
    folder. NAME= in front sets the name that requests use. Every flag is also a variable SEGUE_* and a key of the
    --config file; docs/settings.md lists them all.
    """
    settings = config.load(flags, file=config_file)
    if print_config:
        click.echo(settings.as_toml(), nl=False)
        return
    with worker_sockets(settings) as sockets, worker_ahead(settings, sockets) as worker:
        with imports.many():
            from segue.assembly import server
        server.run(settings, sockets, worker)
