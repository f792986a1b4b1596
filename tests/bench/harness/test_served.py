import pytest

from segue.bench.harness.served import served


def test_a_server_that_does_not_start_says_how_it_ended_and_why() -> None:
    with (
        pytest.raises(SystemExit, match=r"(?s)ended with 1 .*no-such-file"),
        served("no-such-file.gguf"),
    ):
        pass
