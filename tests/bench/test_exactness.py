"""`python -m segue.bench.exactness` where the development tools are not installed."""

import sys

import pytest

from segue.bench.exactness.__main__ import main


def test_without_jsonschema_the_other_trials_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema", None)  # as if it were not installed
    monkeypatch.setattr(sys, "argv", ["exactness", "regexes", "grammars", "--trials", "2"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert capsys.readouterr().out.count(" 0 wrong") == 2


def test_without_jsonschema_schemas_say_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    monkeypatch.setattr(sys, "argv", ["exactness", "--trials", "2"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "pip install jsonschema" in capsys.readouterr().err
