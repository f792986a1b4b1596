"""`segue serve`, up to where its server is made."""

from click.testing import CliRunner

from segue.cli import cli


def test_what_is_wrong_is_still_one_sentence() -> None:
    result = CliRunner().invoke(cli, ["serve", "--runner", "fake", "--dialect", "klingon"])
    assert "there is no dialect 'klingon'" in str(result.exception)
