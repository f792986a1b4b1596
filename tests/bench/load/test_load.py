"""The load generator against a real server with the fake runner."""

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from segue.bench.load.drive import Outcome, _dechunked
from segue.bench.load.plot import throughput
from segue.bench.load.report import figures, table
from segue.bench.load.requests import prompt
from segue.cli import cli
from segue.runners.fake import FakeLoader
from tests.support.live import Live
from tests.support.models.tiny_gguf import write_tiny_gguf


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    with Live(FakeLoader()) as live:
        yield live


def bench(*arguments: str) -> Result:
    return CliRunner().invoke(
        cli, ["bench", *arguments, "--max-tokens", "6", "--prompt-words", "4"]
    )


def lines_of(plot: Path) -> list[ElementTree.Element]:
    return ElementTree.fromstring(plot.read_text("utf-8")).findall(
        "{http://www.w3.org/2000/svg}polyline"
    )


@pytest.mark.parametrize("dialect", ["openai", "llamacpp", "ollama"])
def test_every_dialect_is_measured(live: Live, tmp_path: Path, dialect: str) -> None:
    file = tmp_path / "figures.json"
    result = bench(live.url, "--dialect", dialect, "--clients", "1,2", "--json", str(file))
    assert result.exit_code == 0, result.output
    rows = json.loads(file.read_text("utf-8"))["figures"]
    assert [row["load"] for row in rows] == ["1 client", "2 clients"]
    assert all(row["failed"] == 0 and row["tokens_per_second"] > 0 for row in rows)
    assert rows[1]["requests"] == 8


@pytest.mark.parametrize("end", ["/", "/v1", "/v1/"])
def test_the_address_may_be_a_clients_base_url(live: Live, end: str) -> None:
    """As that of `segue complete --url` may."""
    result = bench(live.url + end, "--clients", "1", "--requests", "1")
    assert result.exit_code == 0, result.output


def test_an_open_loop_and_a_plot_beside_another_server(live: Live, tmp_path: Path) -> None:
    plot = tmp_path / "plot.svg"
    result = bench(
        *(live.url, "--rate", "30,60", "--seconds", "0.3"),
        *("--against", live.url, "--against-dialect", "llamacpp", "--svg", str(plot)),
    )
    assert result.exit_code == 0, result.output
    assert "30/s" in result.output
    assert "segue /" in result.output
    assert len(lines_of(plot)) == 2


def test_costs_over_contexts(live: Live, tmp_path: Path) -> None:
    plot, file = tmp_path / "plot.svg", tmp_path / "figures.json"
    options = ["--contexts", "8,16,32", "--svg", str(plot), "--json", str(file)]
    result = bench(live.url, *options)
    assert result.exit_code == 0, result.output
    rows = json.loads(file.read_text("utf-8"))["figures"]
    assert [(row["load"], row["failed"]) for row in rows] == [
        ("8 words", 0),
        ("16 words", 0),
        ("32 words", 0),
    ]
    answers, prompts = (line.attrib["points"].split() for line in lines_of(plot))
    assert len(answers) == len(prompts) == 3
    assert "exclude each other" in bench(live.url, "--contexts", "8", "--rate", "1").output


def test_why_requests_failed_is_told(live: Live) -> None:
    """The table had their number alone, and a zero in every other column."""
    result = bench(live.url, "--contexts", "8,9000", "--requests", "2")
    assert result.exit_code == 1, "a load of which nothing was measured is no success"
    host = live.url.removeprefix("http://")
    last = result.output.splitlines()[-1]
    assert last.startswith(
        f"2 of 2 failed at 9000 words: {host} answers 400: This model's maximum context length is 4096"
    )


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--rate 1 --clients 2", "--rate and --clients exclude each other"),
        ("--rate 1 --requests 2", "--rate and --requests exclude each other"),
        ("--contexts 8 --clients 2", "--contexts and --clients exclude each other"),
        ("--seconds 2", "--seconds is for --rate alone"),
    ],
)
def test_a_flag_of_another_kind_of_load_is_refused(live: Live, flags: str, words: str) -> None:
    """It had no effect, and nothing said so."""
    assert words in bench(live.url, *flags.split()).output


def test_the_servers_are_compared_with_llamacpps_own(live: Live, tmp_path: Path) -> None:
    model = write_tiny_gguf(tmp_path / "tiny.gguf")
    result = bench(
        *(live.url, "--clients", "1", "--requests", "1"),
        *("--against", "llama.cpp", "--against-model", str(model)),
    )
    assert result.exit_code == 0, result.output
    head, ours, theirs, ratio = result.output.splitlines()
    assert (ours.split()[0], theirs.split()[0]) == ("segue", "llama.cpp")
    assert theirs.endswith("  0"), f"{head}\n{theirs}"  # none failed
    assert ratio.startswith("segue / llama.cpp at 1 client: ")


def test_prompts_may_be_longer_than_the_text() -> None:
    assert len(prompt(["a", "b", "c"], 7, seed=1).split()) == 8


def test_a_server_that_is_not_there_or_refuses_is_told(live: Live) -> None:
    assert "127.0.0.1:9 does not answer: " in str(bench("http://127.0.0.1:9").exception)
    assert "/nothing answers 404: There is nothing" in str(bench(live.url + "/nothing").exception)
    for arguments in (["foo"], ["127.0.0.1:8080"], [live.url, "--against", "foo"]):
        assert "is no address such as http" in bench(*arguments).output
    assert "must be numbers" in bench(live.url, "--clients", "x").output
    assert "must be whole numbers" in bench(live.url, "--clients", "1.5").output
    assert "must be above 0" in bench(live.url, "--rate", "inf").output


def test_a_file_that_cannot_be_written_is_told_before_the_load(tmp_path: Path) -> None:
    for flag in ("--json", "--svg"):
        output = bench("http://127.0.0.1:9", flag, str(tmp_path / "none" / "x")).output
        assert "cannot write" in output.replace("\n", " ")


def test_figures_are_those_of_the_answers() -> None:
    outcomes = [
        Outcome(0.0, 0.5, 2.5, 5, problem=""),
        Outcome(1.0, 0.1, 4.0, 5, problem=""),
        Outcome(1.0, 0, 1, 0, "no"),
    ]
    row = figures("it", "2 clients", 2, outcomes)
    assert row.tokens_per_second == 10 / 5
    assert row.failed == 1
    assert row.first_p50 == 500
    assert outcomes[0].gap_s == 0.5
    assert table([row]).splitlines()[-1] == "1 of 3 failed at 2 clients: it no"
    assert "&lt;" in throughput([figures("<b>", "1", 1, outcomes)], "clients")


def test_chunks_are_joined() -> None:
    assert _dechunked(b"3\r\nabc\r\n2;x=1\r\nde\r\n0\r\n\r\n") == b"abcde"
