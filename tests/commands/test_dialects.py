import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from segue.cli import cli
from segue.commands.dialects import NAMES
from segue.dialects import DIALECTS
from segue.dialects.reference.tables import takers

DOCS = Path(__file__).parent.parent.parent / "docs"


def run(*arguments: str, columns: int = 200) -> str:
    done = CliRunner(env={"COLUMNS": str(columns)}).invoke(cli, ["dialects", *arguments])
    assert done.exit_code == 0, done.output
    return done.output


def test_the_matrix_names_every_dialect_and_field() -> None:
    head, *lines = run().splitlines()
    assert head.split() == ["field", *NAMES]
    taken = {line.split()[0]: line.count("●") for line in lines}
    assert taken["prompt"] == len(NAMES)
    assert taken["n_indent"] == 3


def test_in_a_narrow_terminal_every_name_stands_over_its_column() -> None:
    lines = run(columns=80).splitlines()
    heads = lines[: len(NAMES)]
    assert [head.split()[-1] for head in heads] == NAMES
    at = [head.index(name) for head, name in zip(heads, NAMES, strict=True)]
    [prompt] = [line for line in lines if line.split()[:1] == ["prompt"]]
    assert [column for column, sign in enumerate(prompt) if sign == "●"] == at


@pytest.mark.parametrize("columns", [20, 40, 60, 80])
def test_nothing_is_cut_or_wider_than_the_terminal(columns: int) -> None:
    longest = max(map(len, takers(DIALECTS)))  # a field's name is never broken
    for name in [(), *((name,) for name in NAMES)]:
        shown = run(*name, columns=columns)
        assert "…" not in shown
        assert max(len(line.rstrip()) for line in shown.splitlines()) <= max(columns, longest)


def test_in_the_narrowest_terminal_every_field_has_its_dialects() -> None:
    """It showed names that were broken, and not one mark."""
    assert "\nn_indent\n    openai, llamacpp, llamastack\n" in run(columns=40)


def test_its_help_names_every_dialect_whole() -> None:
    words = run("--help", columns=80).replace(",", " ").replace(".", " ").split()
    assert set(NAMES) <= set(words)


def test_one_dialect() -> None:
    names = ["max_completion_tokens", "max_tokens"]
    for columns, between in ((200, r",.*\n *"), (80, ", ")):
        shown = run("llamafile", columns=columns)
        assert "/llamafile/v1/completions" in shown
        assert re.search(between.join(names), shown)


def test_the_document_is_what_the_tables_say() -> None:
    """Run `segue dialects --markdown > docs/dialects.md` after changing a table."""
    assert (DOCS / "dialects.md").read_text("utf-8") == run("--markdown")


def test_the_document_on_sampling_is_what_the_tables_say() -> None:
    """Run `segue dialects --sampling > docs/sampling.md` after changing a table or a step."""
    assert (DOCS / "sampling.md").read_text("utf-8") == run("--sampling")
