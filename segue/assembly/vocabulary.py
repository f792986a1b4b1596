"""Whether a model's vocabulary can be read here. It is tried, by a process of its own: llama.cpp ends the process over
some files."""

import multiprocessing
import os
from multiprocessing.connection import Connection
from pathlib import Path

from segue.engine.process.spawning import ending, ignore_signals, reap, start_apart
from segue.errors import SegueError


def vocabulary_obstacle(path: Path) -> str | None:
    """Why this file's vocabulary cannot be read, or None."""
    told, tell = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("spawn").Process(
        target=_read, args=(tell, str(path)), name="segue-vocabulary", daemon=True
    )
    try:
        start_apart(process, None)
        tell.close()
        wrong = told.recv()
    except EOFError:
        process.join()
        return f"reading it {ending(process.exitcode)}"
    finally:
        told.close()
        tell.close()
        reap(process)
    return None if wrong is None else str(wrong).replace(str(path), path.name)


def _read(tell: "Connection[str | None, None]", path: str) -> None:
    """The process's first function."""
    ignore_signals()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what a library says as it ends the process
    from segue.runners.vocab import open_vocab

    try:
        open_vocab(path)
    except SegueError as error:
        tell.send(error.message)
    else:
        tell.send(None)
