"""What a flag of another server is answered with, and that the documents say the same."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from segue.cli import cli
from segue.commands.complete import complete
from segue.commands.foreign.flags import FOREIGN, FOREIGN_COMMANDS, FOREIGN_TO_COMPLETE
from segue.commands.foreign.spellings import SPELLINGS
from segue.config import TABLE

OWN = {row.flag for row in TABLE}
MOVING = sorted((Path(__file__).parents[3] / "docs" / "from").glob("*.md"))


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
        (["-fa"], "nothing to choose"),
        (["-ctk", "q8_0"], "--kv-type"),
        (["--kv-cache-dtype", "fp8"], "--kv-type"),
        (["--spec-type", "draft-mtp"], "--draft none"),
        (["--speculative-config", "{}"], "--vllm-option speculative_config"),
        (["--enable-force-include-usage"], "stream_options.include_usage"),
        (["--no-enable-log-requests"], "always on"),
        (["--no-enforce-eager"], "--vllm-option enforce_eager"),
        (["--no-mmap"], "No such option '--no-mmap': there is nothing to choose"),
        (["--otlp-traces-endpoint", "http://x"], "--otlp-endpoint"),
        (["--sse-keep-alive-interval", "20"], "--sse-ping-interval"),
        (["--model-id", "owner/repo"], "segue serve FILE.gguf"),
        (["--pa-memory-mb", "4096"], "--kv-memory-mib"),
    ],
)
def test_a_flag_of_another_server_is_answered_with_ours(arguments: list[str], advice: str) -> None:
    result = CliRunner().invoke(cli, ["serve", *arguments])
    assert result.exit_code == 2
    assert advice in result.output


def test_all_flags_of_another_server_are_answered_at_once() -> None:
    given = "m.gguf -ngl 99 --port 0 -c4096 --prot 1 --default -fa --parallel=4 --frob -tp 2 -n -1"
    result = CliRunner().invoke(cli, ["serve", *given.split(), "--", "--jinja"])
    assert result.exit_code == 2
    told = result.output.partition("No such options:\n")[2].splitlines()
    answers = dict(line.strip().split(": ", 1) for line in told)
    foreign = {flag: FOREIGN[flag] for flag in ("-ngl", "-c", "--parallel", "-tp", "-n")}
    words = {"--prot": "it is near --port", "--frob": "it is not known here"}
    assert answers == foreign | words
    assert "--vllm-option tensor_parallel_size=VALUE" in answers["-tp"]


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (["-m", "m.gguf", "hi"], "--model FILE.gguf"),
        (["-p", "hi"], 'segue complete "PROMPT"'),
        (["hi", "--n-predict", "3"], "--max-tokens N"),
        (["hi", "--temp=0"], "--temperature N"),
        (["Once", "upon"], "in quotes"),
        (["hi", "--port", "9000"], "--url http://HOST:PORT"),
        (["hi", "-ngl", "99"], "--engine vllm"),
        (["hi", "-np", "4"], "-n N gives several answers"),
        (["-no-cnv", "hi"], "there is no chat"),
        (["hi", "--repeat-penalty", "1.1"], "a field of a request"),
        (["hi", "-ctk", "q8_0"], "--kv-type"),
        (["hi", "-n", "5", "--max-tokens", "x"], "'x' is not a valid integer range"),
    ],
)
def test_complete_knows_those_of_other_programs(arguments: list[str], advice: str) -> None:
    result = CliRunner().invoke(cli, ["complete", *arguments])
    assert result.exit_code == 2
    assert advice in result.output


@pytest.mark.parametrize(
    ("command", "advice"),
    [
        ("run", "segue complete"),
        ("pull", "segue models pull"),
        ("list", "segue models list"),
        ("model.gguf", "segue serve model.gguf"),
        ("help", "segue --help"),
        ("version", "segue --version"),
        ("sreve", "did you mean serve?"),
        ("frobnicate", "No such command 'frobnicate'."),
    ],
)
def test_a_command_of_another_system_is_answered_with_ours(command: str, advice: str) -> None:
    result = CliRunner().invoke(cli, [command, "llama3"])
    assert result.exit_code == 2
    assert advice in result.output


@pytest.mark.parametrize(
    ("mistyped", "advice"),
    [
        ("--modle", "if --model is meant: write the model itself: segue serve"),
        ("--no-foo", "if --no-perf is meant: it is in the timings"),
        ("--prot", "--host, --port"),  # by click, whose older versions have no quotes
    ],
)
def test_a_flag_that_is_mistyped_is_answered_with_the_nearest(mistyped: str, advice: str) -> None:
    """Of --modle it was asked whether --dialect was meant."""
    done = CliRunner().invoke(cli, ["serve", mistyped, "x"])
    assert done.exit_code == 2
    assert advice in " ".join(done.output.replace("'", "").split())


def test_a_flag_of_nobody_is_refused_as_ever() -> None:
    result = CliRunner().invoke(cli, ["serve", "--frobnicate"])
    assert result.exit_code == 2
    assert re.search("No such option.* '?--frobnicate", result.output)


def test_advice_names_flags_that_there_are() -> None:
    assert flags_in(FOREIGN) <= OWN | {"--help", "--version"}
    assert not OWN & set(FOREIGN)
    assert flags_in(FOREIGN_COMMANDS) <= OWN | {"--model", "--help", "--version"}
    there = {flag for option in complete.params for flag in option.opts}
    assert flags_in(FOREIGN_TO_COMPLETE) <= there | {"--engine"}
    assert not there & set(FOREIGN_TO_COMPLETE)


def flags_in(table: dict[str, str]) -> set[str]:
    return {flag for words in table.values() for flag in re.findall(r"--[a-z-]+", words)}


def test_flags_whose_names_begin_alike_are_told_apart() -> None:
    """-c stands for -c4096, but neither for -cb nor for -ctk."""
    result = CliRunner().invoke(cli, ["serve", "-cb", "-ctk", "q8_0", "-c4096"])
    assert [line.split(":")[0].strip() for line in result.output.splitlines()[-3:]] == [
        "-cb",
        "-ctk",
        "-c",
    ]


@pytest.mark.parametrize("file", MOVING, ids=lambda file: file.stem)
def test_every_flag_in_the_documents_is_ours_or_has_an_answer(file: Path) -> None:
    rows = [line for line in file.read_text("utf-8").splitlines() if line.startswith("| ")]
    flags = {
        flag
        for row in rows
        for code in re.findall(r"`([^`]+)`", row.split(" | ")[0])
        for flag in re.findall(r"(?<![\w-])--?[a-z][\w-]*", code)
    }
    assert flags <= OWN | set(FOREIGN) | set(SPELLINGS)
