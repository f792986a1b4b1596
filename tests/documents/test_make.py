"""`make serve` where nothing need be installed, and no package index can be reached."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.installed import elsewhere, missing

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


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


def installed_from(folder: Path, site: Path) -> None:
    """What pip leaves of an editable installation."""
    facts = site / "segue-0.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: segue\nVersion: 0\n")
    groups = {"console_scripts": PROJECT["scripts"], **PROJECT["entry-points"]}
    lines = [
        line
        for group, rows in groups.items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in rows.items()))
    ]
    (facts / "entry_points.txt").write_text("\n".join(lines))
    told = {"url": folder.as_uri(), "dir_info": {"editable": True}}
    (facts / "direct_url.json").write_text(json.dumps(told))


def test_a_copy_of_a_clone_is_not_what_was_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "a clone, copied"
    installed_from(own, tmp_path / "site")
    monkeypatch.syspath_prepend(tmp_path / "site")
    assert elsewhere(own) == ""
    assert elsewhere(tmp_path / "clone") == own.as_uri()
    (tmp_path / "site" / "segue-0.dist-info" / "direct_url.json").unlink()
    assert elsewhere(own) == "an index"


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
    installed_from(tmp_path, tmp_path / "site")
    unreachable = os.environ | {
        "PYTHONPATH": str(tmp_path / "site"),
        "PIP_INDEX_URL": "http://127.0.0.1:9/",
        "PIP_CONFIG_FILE": os.devnull,
    }
    command = ["make", "--silent", "serve", "ARGS=a.gguf"]
    done = subprocess.run(command, cwd=tmp_path, env=unreachable, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "serve a.gguf\n"), done.stderr
