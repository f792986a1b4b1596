"""Receipts: the same bytes, or which token differs first."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from segue.cli import cli
from segue.commands import receipts
from segue.commands.folding import Folding
from segue.commands.receipts import make, why
from segue.errors import RequestError, SetupError
from segue.runners.fake import FakeLoader
from tests.support.live import Live, serve


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, [*arguments, "--runner", "fake"])


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The text of a receipt."""
    file = tmp_path_factory.mktemp("receipts") / "receipt.json"
    asked = ["complete", "The sea", "--max-tokens", "20", "--seed", "3", "--save", str(file)]
    assert run(*asked).exit_code == 0
    return file.read_text("utf-8")


@pytest.fixture
def receipt(written: str, tmp_path: Path) -> Path:
    file = tmp_path / "receipt.json"
    file.write_text(written)
    return file


def test_a_receipt_holds_request_answer_and_fingerprint(receipt: Path) -> None:
    kept = json.loads(receipt.read_text("utf-8"))
    assert kept["request"]["prompt"] == "The sea"
    assert isinstance(kept["request"]["seed"], int)
    assert "stream" not in kept["request"]
    assert len(kept["answer"]["choices"][0]["tokens"]) == 20
    assert kept["system_fingerprint"]


def test_the_same_bytes_here_and_on_a_server(receipt: Path) -> None:
    result = run("verify", str(receipt))
    assert result.exit_code == 0, result.output
    assert "same bytes" in result.output
    assert "20 tokens" in result.output
    with Live(FakeLoader()) as live:
        asked = ["verify", str(receipt), "--url", live.url]
        assert CliRunner().invoke(cli, asked).exit_code == 0


def test_a_server_is_asked_for_the_model_that_is_named(receipt: Path) -> None:
    with serve(FakeLoader(), "fake", strict=True) as live:
        named = ["verify", str(receipt), "--url", live.url, "--model", "another"]
        error = CliRunner().invoke(cli, named).exception
    assert isinstance(error, RequestError)
    assert "another" in error.message


@pytest.mark.parametrize(
    ("fingerprint", "word"), [("other-kernels", "other-kernels"), (None, "promises nothing")]
)
def test_the_first_token_that_differs_is_told_and_why(
    receipt: Path, fingerprint: str | None, word: str
) -> None:
    kept = json.loads(receipt.read_text("utf-8"))
    choice = kept["answer"]["choices"][0]
    choice["tokens"][7] += 1
    choice["text"] = choice["text"][:7] + "§" + choice["text"][8:]
    if fingerprint:
        kept["system_fingerprint"] = fingerprint
    receipt.write_text(json.dumps(kept), encoding="utf-8")
    result = run("verify", str(receipt))
    assert result.exit_code == 1
    assert "from token 8 on" in result.output
    assert word in result.output


@pytest.mark.parametrize(
    "content", ["", "[]", '{"format": "segue-receipt-1"}', '{"format": "other"}']
)
def test_what_is_no_receipt_is_said_to_be_none(tmp_path: Path, content: Any) -> None:
    file = tmp_path / "x.json"
    file.write_text(content)
    assert isinstance(run("verify", str(file)).exception, SetupError)


def test_what_may_explain_a_difference() -> None:
    assert "should not have" in why("fp_a", "fp_a")
    assert "other kernels" in why("fp_a", "fp_b")
    assert "promises nothing" in why("fp_varies_llama", "fp_a")
    assert "without a fingerprint" in why(None, "fp_a")


def test_an_answer_without_a_seed_has_no_receipt() -> None:
    with pytest.raises(SetupError, match="--seed"):
        make({"prompt": "x"}, Folding())


def test_a_receipt_is_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk an empty file was left, which is no receipt."""
    file = tmp_path / "receipt.json"

    def fill(self: Path, text: str, **_: object) -> None:
        self.write_bytes(text[:5].encode())
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_text", fill)
        with pytest.raises(SetupError, match="cannot write"):
            receipts.write(file, {})
    assert not file.exists()
