"""The commands in documents for users are run, in order, each document in a folder of its own.

A server with the fake runner stands in for the one they speak of, and small programs for those that would install or
serve: these check that what they are told exists, or leave it to the test.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from segue import config
from segue.bench.load.command import bench
from segue.cli import cli
from segue.commands.foreign.spellings import SPELLINGS
from segue.dialects import DIALECTS
from segue.runners.fake import FakeLoader
from tests.support.live import Live

ROOT = Path(__file__).parent.parent.parent
NAMES = ("quickstart", "library", "constraints", "scoring", "adapters", "scaling", "vllm")
DOCUMENTS = ("README.md", *(f"docs/{name}.md" for name in NAMES))
BLOCK = re.compile(r"```(sh|python)\n(.*?)```", re.DOTALL)

# Serving is written down, and its settings are read in this process; the rest is the real thing.
NOTE = 'printf "%s\\n" "$@" >"$(mktemp "$NOTES/XXXXXX")"\n'
SHIMS = {
    "segue": '#!/bin/sh\n[ "$1" = serve ] || exec {python} -m segue "$@"\n' + NOTE,
    "make": (
        '#!/bin/sh\ngrep -q "^$1:" {root}/Makefile || exit 1\neval "set -- $1 ${2#ARGS=}"\n' + NOTE
    ),
    "git": '#!/bin/sh\n[ "$1" = clone ] && mkdir -p segue\n',
    "pip": '#!/bin/sh\n[ "$1" = install ]\n',
    "lm_eval": "#!/bin/sh\n",  # make lm-eval runs it
    "ray": "#!/bin/sh\n",
}
# What the commands speak of; the fake runner reads no weights.
FILES = {"texts.txt": "The sea\n", "pairs.jsonl": '{"text": "The sea"}\n', "model.gguf": ""}


def blocks(name: str) -> list[tuple[str, str]]:
    return BLOCK.findall((ROOT / name).read_text("utf-8"))


CASES = [pytest.param(name, id=name) for name in DOCUMENTS]


@pytest.fixture(scope="module")
def served() -> Iterator[Live]:
    with Live(FakeLoader()) as live:
        yield live


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    shims, notes = tmp_path / "shims", tmp_path / "notes"
    shims.mkdir()
    notes.mkdir()
    for name, text in SHIMS.items():
        shim = shims / name
        python, root = (shlex.quote(str(path)) for path in (sys.executable, ROOT))
        shim.write_bytes(os.fsencode(text.replace("{python}", python).replace("{root}", root)))
        shim.chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{shims}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "PYTHONUTF8": "1",  # what is printed is any text, whatever the locale is
        "SEGUE_RUNNER": "fake",
        "NOTES": str(notes),
    }


def check_served(notes: Path) -> None:
    for note in notes.iterdir():
        serve, *arguments = note.read_text("utf-8").splitlines()
        read = [serve, "--print-config", *arguments]
        result = CliRunner().invoke(cli, read, env={"SEGUE_RUNNER": "fake"})
        assert result.exit_code == 0, (read, result.output, result.exception)


@pytest.mark.timeout(900)  # each command is a Python of its own
@pytest.mark.parametrize("name", CASES)
def test_every_block_runs(
    name: str, served: Live, environment: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    for file, text in FILES.items():
        (folder / file).write_text(text)
    for language, text in blocks(name):
        code = text.replace("http://127.0.0.1:8080", served.url).replace("<this repository>", "x")
        command = ["bash", "-euo", "pipefail", "-c"] if language == "sh" else [sys.executable, "-c"]
        done = subprocess.run(
            [*command, code],
            cwd=folder,
            env=environment,
            capture_output=True,
            encoding="utf-8",
            timeout=300,
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
        assert '"error"' not in done.stdout, text
    check_served(Path(environment["NOTES"]))


def test_there_are_blocks_to_run() -> None:
    assert all(len(blocks(name)) >= 1 for name in DOCUMENTS)
    assert len(blocks("docs/quickstart.md")) > 6


PAGES = sorted(
    [*(ROOT / "docs" / "from").glob("*.md"), ROOT / "docs/operations.md", ROOT / "docs/security.md"]
)
FLAGS = {row.flag for row in config.TABLE} | {"--config", "--print-config", "--model"}
CURL = {"--unix-socket"}
BENCH = {name for each in bench.params for name in each.opts} | {"--url"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_flag_of_ours_exists(page: Path) -> None:
    """In pages about another system only the right column of a table and the lines below it are about us."""
    text = page.read_text("utf-8")
    ours = "\n".join(
        line.rpartition(" | ")[2] if line.startswith("| ") else line for line in text.splitlines()
    )
    assert (
        set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", ours)) <= FLAGS | BENCH | set(SPELLINGS) | CURL
    )


def test_there_is_a_page_for_each_of_the_six() -> None:
    addresses = [
        page.read_text("utf-8").split("**Base URL**")[1]
        for page in PAGES
        if page.parent.name == "from"
    ]
    named = {name for text in addresses for name in re.findall(r"8080/(\w+)", text)[:1]}
    assert named == {dialect.name for dialect in DIALECTS} - {"openai"}
