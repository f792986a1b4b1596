import pytest
from click.testing import CliRunner

from segue.cli import cli
from segue.commands.foreign.flags import FOREIGN
from segue.commands.foreign.spellings import SPELLINGS, in_our_words
from segue.config import TABLE


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (["--uds", "/run/x"], ["--host=unix:/run/x"]),
        (
            ["m.gguf", "--uds=/run/x", "--port", "1"],
            ["m.gguf", "--host=unix:/run/x", "--port", "1"],
        ),
        (["--", "--uds", "/run/x"], ["--", "--uds", "/run/x"]),
        (["--host", "x"], ["--host", "x"]),
    ],
)
def test_a_flag_of_another_server_is_one_of_ours(given: list[str], meant: list[str]) -> None:
    assert list(in_our_words(given)) == meant


def test_ours_are_flags_and_theirs_are_not_answered_besides() -> None:
    assert {ours for ours, _ in SPELLINGS.values()} <= {row.flag for row in TABLE}
    assert not SPELLINGS.keys() & ({row.flag for row in TABLE} | FOREIGN.keys())


def test_one_without_its_value_is_refused() -> None:
    refused = CliRunner().invoke(cli, ["serve", "--uds"])
    assert refused.exit_code == 2
    assert "--uds" in refused.output


def test_the_settings_have_what_was_given() -> None:
    shown = CliRunner().invoke(cli, ["serve", "--uds", "run/x", "--print-config"])
    assert 'host = "unix:run/x"' in shown.output
