import io
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from segue.cli import cli
from segue.commands.running.scoring import _table
from segue.errors import InvalidField


def score(text: str, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["score", "--runner", "fake", *arguments], input=text)


def objects(result: Result) -> list[Any]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_each_line_has_its_figures_and_the_last_is_for_all() -> None:
    result = score("hello\nhello there\n")
    assert result.exit_code == 0, result.stderr
    head, first, second, total = (line.split() for line in result.stdout.splitlines())
    assert head[:2] == ["line", "tokens"]
    assert (first[:2], second[:2], total[:2]) == (["1", "5"], ["2", "11"], ["all", "16"])
    assert float(first[2]) + float(second[2]) == pytest.approx(float(total[2]), abs=2e-3)
    assert float(first[2]) / 4 == pytest.approx(float(first[3]), abs=1e-3)


def test_more_lines_than_are_in_flight_come_back_in_order() -> None:
    result = score("".join(f"line {number}\n" for number in range(300)), "--json")
    assert [entry["line"] for entry in objects(result)] == list(range(1, 301))
    assert "".join(objects(result)[-1]["tokens"]) == "line 299"


def test_context_and_continuation_add_up_to_the_whole() -> None:
    lines = [{"text": "ab cd"}, {"text": "ab"}, {"context": "ab", "continuation": " cd"}]
    whole, start, rest = objects(score("\n".join(map(json.dumps, lines)), "--json"))
    assert rest["tokens"] == [" ", "c", "d"]
    assert rest["num_scored"] == 3
    assert start["logprob"] + rest["logprob"] == pytest.approx(whole["logprob"])


def test_a_line_that_is_too_long_is_refused_alone() -> None:
    result = score("x" * 5000 + "\nshort\n", "--json")
    assert result.exit_code == 1
    refused, scored = objects(result)
    assert "5000 tokens" in refused["error"]
    assert scored["num_tokens"] == 5
    assert "line 1" in result.stderr


def test_a_line_with_half_a_character_is_refused_alone() -> None:
    """JSON can write one, and UTF-8 cannot."""
    result = score('{"text": "a\\ud83d"}\n{"text": "ab"}', "--json")
    refused, scored = objects(result)
    assert "half a character" in refused["error"]
    assert scored["num_tokens"] == 2


@pytest.mark.parametrize("width", [20, 80, 1000])
def test_no_figure_is_cut_and_a_text_stays_on_its_line(width: int) -> None:
    """In a narrow terminal the perplexity was `12…`, and texts were broken into words below each other."""
    rows = [
        ("1", "74", "-457.885", "-6.2724", "529.747", "The sea is blue " * 3),
        ("all", *"ABCD", ""),
    ]
    table, needed = _table(rows, width)
    console = Console(file=io.StringIO(), width=max(width, needed))
    console.print(table)
    head, first, total = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert " ".join(head.split()) == "line tokens log p per token perplexity text"
    assert first.split()[:6] == ["1", "74", "-457.885", "-6.2724", "529.747", "The"]
    assert ("…" in first) == (width < 1000)
    assert total.split() == ["all", *"ABCD"]


def test_nothing_but_results_is_written_without_a_terminal() -> None:
    assert score("abc\n", "--json").stderr == ""  # an empty line, of the bar


def test_bad_input_is_refused_before_anything_is_loaded() -> None:
    result = score('{"text": "a"}\nplain\n')
    assert isinstance(result.exception, InvalidField)
    assert "line 2" in result.exception.message


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    """Editors on Windows write one; JSONL was scored as if its braces were the text."""
    marked = tmp_path / "marked.jsonl"
    marked.write_text('{"text": "abc"}\n{"text": "de"}\n', encoding="utf-8-sig")
    results = objects(score("", "--json", str(marked)))
    assert ["".join(each["tokens"]) for each in results] == ["abc", "de"]
    assert objects(score("\ufeffabc\n", "--json"))[0]["num_tokens"] == 3


def test_a_text_cannot_steer_the_terminal() -> None:
    line = "one \x1b[2J\x7ftwo"
    shown = score(line).stdout
    assert "one \\x1b[2J\\x7ftwo" in shown
    (scored,) = objects(result := score(line, "--json"))
    assert result.stdout.rstrip("\n").isprintable()
    assert "".join(scored["tokens"]) == line
