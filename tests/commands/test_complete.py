import json
import re
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

from segue.cli import cli
from segue.commands.folding import Folding
from segue.errors import (
    PromptTooLong,
    RequestError,
    SegueError,
    SetupError,
    Unavailable,
)
from segue.runners.fake import FakeLoader
from tests.support.live import Live


def complete(*arguments: str, text: str = "") -> Result:
    return CliRunner().invoke(cli, ["complete", "--runner", "fake", *arguments], input=text)


def ask(url: str, *arguments: str) -> Result:
    """Of a server: no setting of an engine belongs there."""
    return CliRunner().invoke(cli, ["complete", "--url", url, *arguments])


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    """For what does not depend on where it is computed: a server starts once, and `complete` each time."""
    with Live(FakeLoader()) as live:
        yield live


def test_the_same_seed_writes_the_same_text(live: Live) -> None:
    first, again, other = (
        ask(live.url, "hello", "--max-tokens", "20", "--seed", seed).stdout
        for seed in ("1", "1", "2")
    )
    assert first == again != other
    assert len(first) > 10


def test_standard_input_and_echo() -> None:
    result = complete("--max-tokens", "0", "--echo", text="hello there")
    assert result.stdout == "hello there\n"


def test_standard_input_is_read_whole() -> None:
    """As the help says: its last line break counts, as every other."""
    shown = complete("--max-tokens", "0", "--echo", "--json", text="hello\n").stdout
    assert json.loads(shown)["choices"][0]["text"] == "hello\n"


@pytest.mark.skipif(sys.platform == "win32", reason="arguments are characters there")
def test_texts_are_utf_8_in_a_locale_of_ascii_too() -> None:
    """Their bytes come as half characters then, and were said to be that."""
    shown = complete(
        "\udcc3\udca9", "--max-tokens", "0", "--echo", "--json", "--stop", "\udcc3\udca8"
    )
    assert json.loads(shown.stdout)["choices"][0]["text"] == "é"


def test_standard_input_that_is_not_utf_8_or_closed_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arguments = ["complete", "--runner", "fake"]
    error = CliRunner().invoke(cli, arguments, input=b"caf\xe9").exception
    assert isinstance(error, SetupError)
    assert "standard input is not UTF-8" in error.message
    assert message(complete("caf\udce9")) == "the prompt is not UTF-8", "as an argument comes"
    monkeypatch.setattr("segue.commands.standard_input.sys", SimpleNamespace(stdin=None))
    assert isinstance(CliRunner().invoke(cli, arguments).exception, SetupError)


def test_a_stop_text_ends_it(live: Live) -> None:
    greedy = (live.url, "hello", "--temperature", "0", "--max-tokens", "12")
    whole = ask(*greedy).stdout.rstrip("\n")
    assert ask(*greedy, "--stop", whole[5]).stdout == whole[: whole.index(whole[5])] + "\n"


@pytest.mark.parametrize(("text", "error"), [("", SetupError), ("x" * 5000, PromptTooLong)])
def test_a_prompt_that_cannot_be_read_is_an_error(text: str, error: type[Exception]) -> None:
    assert isinstance(complete(text=text).exception, error)


def test_a_gap_a_schema_a_regex_and_a_grammar(live: Live) -> None:
    seeded = (live.url, "x", "--seed", "1", "--max-tokens", "40")
    assert ask(*seeded, "--suffix", " end").exit_code == 0
    assert json.loads(ask(*seeded, "--json-schema", '{"type": "integer"}').stdout) is not None
    assert re.fullmatch("[ab]{4}\n", ask(*seeded, "--regex", "[ab]{4}").stdout)
    assert ask(*seeded, "--grammar", 'root ::= "yes"').stdout == "yes\n"


def test_a_schema_can_be_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text('{"const": 7}')
    assert complete("x", "--json-schema", f"@{file}").stdout == "7\n"
    assert "No such file" in complete("x", "--json-schema", "@/nothing.json").output
    said = message(complete("x", "--json-schema", str(file)))
    assert said == f"--json-schema is the name of a file: write @{file} to have it read"
    file.write_bytes(b'{"const": "\xe9"}')
    assert "is not UTF-8" in complete("x", "--json-schema", f"@{file}").output


def test_only_a_schema_and_a_grammar_can_be_in_a_file(live: Live) -> None:
    """What follows a gap in Python may be a decorator."""
    seeded = (live.url, "x", "--seed", "1", "--max-tokens", "4")
    assert ask(*seeded, "--suffix", "@property").exit_code == 0
    assert ask(*seeded, "--regex", "@[ab]{2}").stdout.startswith("@")


def test_several_choices_stand_below_each_other(live: Live) -> None:
    result = ask(live.url, "x", "-n", "3", "--seed", "1", "--max-tokens", "5")
    assert result.stdout.count("---\n") == 2


def test_the_answer_as_json_and_its_stats() -> None:
    result = complete("x", "--seed", "5", "--max-tokens", "4", "--json", "--stats")
    answer = json.loads(result.stdout)
    assert len(answer["choices"][0]["tokens"]) == 4
    assert answer["seed"] == 5
    assert answer["model"] == "fake"
    assert answer["usage"]["completion_tokens"] == 4
    assert "4 tokens" in result.stderr
    assert "seed 5" in result.stderr


def test_a_server_gives_what_is_computed_here(live: Live) -> None:
    arguments = ["abc", "--seed", "3", "--max-tokens", "12", "--json"]
    here = json.loads(complete(*arguments).stdout)
    there = json.loads(ask(live.url, *arguments).stdout)
    also = json.loads(ask(live.url + "/vllm/v1", *arguments).stdout)
    assert here["choices"] == there["choices"] == also["choices"]
    assert here["model"] == there["model"] == "fake"


def test_what_a_server_ignored_is_told(live: Live) -> None:
    """Another model answered than the one that was asked for, and nothing said so."""
    done = ask(live.url, "abc", "--model", "mistyped", "--max-tokens", "2")
    assert done.exit_code == 0
    assert done.stderr == "segue: the server ignored: model\n"
    asked = ("abc", "--model", "fake", "--max-tokens", "2")
    assert ask(live.url + "/llamacpp/v1", *asked).stderr == ""


LENIENT = '{"type": "array", "maxItems": 2, "uniqueItems": true, "x-guidance": {"lenient": true}}'


def test_what_a_schema_that_allows_it_does_not_enforce_is_told(live: Live) -> None:
    """A server tells it in a second header, which was not read; without a server it was not told at all."""
    asked = ("abc", "--json-schema", LENIENT, "--max-tokens", "2")
    told = "ignored: json_schema#/uniqueItems\n"
    assert complete(*asked).stderr == f"segue: {told}"
    assert ask(live.url, *asked).stderr == f"segue: the server {told}"
    both = told.replace("json", "model, json")
    assert ask(live.url, *asked, "--model", "mistyped").stderr == f"segue: the server {both}"


def test_the_load_of_a_model_is_not_part_of_the_wait_for_the_first_token() -> None:
    """`first after 4721 ms` was said of a start that took most of it."""
    clock = iter([0.0, 5.0, 5.25]).__next__
    answer = Folding(clock)
    answer.push({"seed": 1, "begins": True})
    answer.push({"choices": [{"index": 0, "text": "a", "token_ids": [1]}]})
    assert "first after 250 ms" in answer.stats()


def test_a_server_that_refuses_or_is_not_there_is_one_sentence(live: Live) -> None:
    refused = ask(live.url, "x" * 5000)
    assert isinstance(refused.exception, RequestError)
    assert "400" in refused.exception.message
    with socket.socket() as closed:  # bound but not listening: refuses every connection
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        assert isinstance(ask(url, "x").exception, Unavailable)


def test_a_model_is_one_whatever_its_name_has(tmp_path: Path) -> None:
    """What stood before the first comma was taken for the model."""
    named = str(tmp_path / "a,b.gguf")
    for command in (["complete", "x"], ["score", __file__]):
        result = CliRunner().invoke(cli, [*command, "--model", named])
        assert message(result).startswith(f"there is no file {named};")


@pytest.mark.parametrize("name", ["", "none/x.json"])
def test_a_receipt_that_cannot_be_written_is_told_before_the_answer(
    tmp_path: Path, name: str
) -> None:
    """It was told by a traceback, after it."""
    result = complete("x", "--save", str(tmp_path / name))
    assert isinstance(result.exception, SetupError)
    assert result.exception.message.startswith(f"cannot write {tmp_path / name}: ")
    assert result.stdout == ""


@pytest.fixture(scope="module")
def receipt(live: Live, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("receipts") / "receipt.json"
    assert ask(live.url, "x", "--max-tokens", "1", "--save", str(file)).exit_code == 0
    return file


@pytest.mark.parametrize(
    "flags",
    [
        ("--runner", "fake"),
        ("--threads", "2"),
        ("--vllm-option", "seed=1"),
        ("--config", "segue.toml"),
    ],
)
@pytest.mark.parametrize("command", ["complete", "verify"])
def test_a_setting_of_an_engine_is_refused_where_a_server_answers(
    receipt: Path, command: str, flags: tuple[str, str]
) -> None:
    """It was taken in silence, and had no effect."""
    argument = "x" if command == "complete" else str(receipt)
    result = CliRunner().invoke(cli, [command, argument, "--url", "http://127.0.0.1:1", *flags])
    assert result.exit_code == 2
    assert f"{flags[0]} is for a model that runs here" in result.stderr


def message(result: Result) -> str:
    assert isinstance(result.exception, SegueError), result.output
    return result.exception.message


@pytest.mark.parametrize(
    ("flag", "value", "complaint"),
    [
        ("--regex", "[", r"--regex: .*unclosed"),
        ("--json-schema", '{"type": "strin"}', r"--json-schema: .*no type 'strin'"),
        ("--json-schema", "{", r"--json-schema: the schema is not JSON"),
        ("--grammar", "root ::= x", r"--grammar: rule root uses x"),
        ("--temperature", "nan", r"--temperature must be a number"),
        ("--top-p", "nan", r"--top-p must be a number"),
        ("--min-p", "nan", r"--min-p must be a number"),
        ("--seed", "9" * 20, r"--seed must be an integer"),
        ("-n", "9" * 20, r"-n must be an integer"),
        ("--stop", "caf\udce9", "--stop is not UTF-8"),
        ("--suffix", "caf\udce9", "--suffix is not UTF-8"),
    ],
)
def test_an_error_names_the_flag_that_was_typed(
    live: Live, flag: str, value: str, complaint: str
) -> None:
    """It named the field of the request: guided_regex, top_p."""
    said = message(ask(live.url, "x", flag, value)).removeprefix(f"400 of {live.url}: ")
    assert re.match(complaint, said, re.DOTALL)


def test_an_error_of_the_model_that_runs_here_names_the_flag_too() -> None:
    assert message(complete("x", "--regex", "[")).startswith("--regex: ")


@pytest.mark.parametrize(
    ("first", "second"),
    [("--json-schema", "--regex"), ("--json-schema", "--grammar"), ("--regex", "--grammar")],
)
def test_two_constraints_are_refused_in_one_line(first: str, second: str) -> None:
    """Both stand there as they were typed, and nothing is read or loaded before."""
    for one, other in ((first, second), (second, first)):
        said = message(complete("x", one, "@/nothing", other, "@/nothing"))
        assert said == f"{first} cannot be given together with {second}"


def test_a_file_that_cannot_be_read_is_told_with_its_flag() -> None:
    assert "--grammar: /nothing: No such file" in complete("x", "--grammar", "@/nothing").output


def test_json_is_about_the_output_and_goes_with_every_constraint(live: Live) -> None:
    answer = json.loads(ask(live.url, "x", "--json", "--regex", "[ab]{2}").stdout)
    assert re.fullmatch("[ab]{2}", answer["choices"][0]["text"])
