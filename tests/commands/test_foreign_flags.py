"""What a flag of another server is answered with, and that the documents say the same."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from segue.cli import cli
from segue.commands.foreign_flags import FOREIGN
from segue.config import TABLE

OWN = {row.flag for row in TABLE}
MOVING = sorted((Path(__file__).parents[2] / "docs" / "from").glob("*.md"))


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (["--ctx-size", "4096"], "--context-length"),
        (["--max-model-len=4096"], "--context-length"),
        (["-c", "4096"], "--context-length"),
        (["-m", "m.gguf"], "segue serve FILE.gguf"),
        (["-hf", "owner/repo"], "segue serve OWNER/REPO"),
        (["m.gguf", "-ngl", "99"], "--engine vllm"),
        (["m.gguf", "--port", "0", "-np", "4"], "--num-slots"),
        (["--served-model-name", "x"], "--alias"),
        (["--tensor-parallel-size", "2"], "--vllm-option"),
    ],
)
def test_a_flag_of_another_server_is_answered_with_ours(arguments: list[str], advice: str) -> None:
    result = CliRunner().invoke(cli, ["serve", *arguments])
    assert result.exit_code == 2
    assert advice in result.output


def test_a_flag_of_nobody_is_refused_as_ever() -> None:
    result = CliRunner().invoke(cli, ["serve", "--frobnicate", "-c5"])
    assert result.exit_code == 2
    assert "No such option '--frobnicate'" in result.output


def test_advice_names_flags_that_there_are() -> None:
    named = {flag for words in FOREIGN.values() for flag in re.findall(r"--[a-z-]+", words)}
    assert named <= OWN
    assert not OWN & set(FOREIGN)


@pytest.mark.parametrize("file", MOVING, ids=lambda file: file.stem)
def test_every_flag_in_the_documents_is_ours_or_has_an_answer(file: Path) -> None:
    rows = [line for line in file.read_text().splitlines() if line.startswith("| ")]
    flags = {
        flag
        for row in rows
        for code in re.findall(r"`([^`]+)`", row.split(" | ")[0])
        for flag in re.findall(r"(?<![\w-])--?[a-z][\w-]*", code)
    }
    assert flags <= OWN | set(FOREIGN)
