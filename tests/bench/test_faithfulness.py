import json
import sys
from pathlib import Path

import numpy as np
import pytest

from segue.bench import faithfulness
from segue.bench.faithfulness import measure, passage
from segue.bench.harness.reference import Reference
from segue.runners.llama.runner import LlamaLoader

TEXT = list(b"the end and then the other one \xc3\xa9 and so on")


def test_a_runner_of_the_same_weights_is_near_and_one_of_others_is_far(tiny_gguf: Path) -> None:
    loader = LlamaLoader(str(tiny_gguf), "tiny", threads=1)
    logits = Reference(tiny_gguf).logits(TEXT).astype(np.float64)
    truth = logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True)
    near = measure(loader, TEXT, truth)
    assert 0 <= near.divergence < 1e-4
    assert near.agreement == 1
    assert near.loss == pytest.approx(-truth[np.arange(len(TEXT) - 1), TEXT[1:]].mean(), abs=1e-3)
    assert measure(loader, TEXT, np.roll(truth, 1, axis=1)).divergence > 1


def test_passage_is_long_enough() -> None:
    assert len(passage().split()) >= 1000, "a token is never more than a word"


def test_ends_in_one_line_of_json(
    tiny_gguf: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(faithfulness, "passage", lambda: "the end and then the other one")
    monkeypatch.setattr(sys, "argv", ["faithfulness", str(tiny_gguf), "--runner", "llama"])
    faithfulness.main()
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert report["ok"] is True
    assert report["llama"]["divergence"] < 0.001
