"""`make serve` where nothing need be installed, and no package index can be reached."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.installed import missing

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_this_environment_has_all_that_is_asked_for() -> None:
    assert missing(PROJECT, "dev") == []


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"dependencies": ["click>=8", "nosuchthing>=1"]}, "nosuchthing>=1"),
        ({"dependencies": ["click>=900"]}, "click>=900"),
        ({"dependencies": ["nosuchthing; python_version < '3'"]}, None),
        ({"scripts": {"segue": "segue.elsewhere:main"}}, "segue"),
    ],
)
def test_what_is_missing_is_named(change: dict[str, object], told: str | None) -> None:
    assert missing(PROJECT | change) == ([told] if told else [])


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_make_serve_asks_no_index_for_what_is_here(tmp_path: Path) -> None:
    """After `git pull` pyproject.toml is newer than what was installed by it."""
    bin = tmp_path / ".venv" / "bin"
    bin.mkdir(parents=True)
    (bin.parent / ".created").touch()
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "tests" / "support").mkdir(parents=True)
    shutil.copy(ROOT / "tests/support/installed.py", tmp_path / "tests/support")
    for name, does in (("python", f'exec "{sys.executable}" "$@"'), ("segue", 'echo "$@"')):
        (bin / name).write_text(f"#!/bin/sh\n{does}\n")
        (bin / name).chmod(0o755)
    unreachable = os.environ | {
        "PIP_INDEX_URL": "http://127.0.0.1:9/",
        "PIP_CONFIG_FILE": os.devnull,
    }
    command = ["make", "--silent", "serve", "ARGS=a.gguf"]
    done = subprocess.run(command, cwd=tmp_path, env=unreachable, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "serve a.gguf\n"), done.stderr
