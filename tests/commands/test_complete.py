import pytest
from click.testing import CliRunner, Result

from segue.cli import cli
from segue.errors import InvalidField, PromptTooLong


def complete(*arguments: str, text: str = "") -> Result:
    return CliRunner().invoke(cli, ["complete", "--runner", "fake", *arguments], input=text)


def test_the_same_seed_writes_the_same_text() -> None:
    first, again, other = (
        complete("hello", "--max-tokens", "20", "--seed", seed).stdout for seed in ("1", "1", "2")
    )
    assert first == again != other
    assert len(first) > 10


def test_standard_input_and_echo() -> None:
    result = complete("--max-tokens", "0", "--echo", text="hello there")
    assert result.stdout == "hello there\n"


def test_a_stop_text_ends_it() -> None:
    greedy = ("hello", "--temperature", "0", "--max-tokens", "12")
    whole = complete(*greedy).stdout.rstrip("\n")
    assert complete(*greedy, "--stop", whole[5]).stdout == whole[: whole.index(whole[5])] + "\n"


@pytest.mark.parametrize(("text", "error"), [("", InvalidField), ("x" * 5000, PromptTooLong)])
def test_a_prompt_that_cannot_be_read_is_an_error(text: str, error: type[Exception]) -> None:
    assert isinstance(complete(text=text).exception, error)
