"""KV in 8 bits on llama.cpp: near to f16 where it can, and refused where it cannot."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from segue import config
from segue.assembly.runners import choose_runner
from segue.engine.seam import Span
from segue.errors import Incompatible
from segue.runners.llama.runner import LlamaRunner
from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import write

TOKENS = [(5 * i * i + i) % 256 for i in range(100)]
WIDE = replace(MODELS["qwen3"], head_size=64)


def test_it_is_near_to_f16_and_holds_more(tmp_path: Path) -> None:
    path = str(write(tmp_path / "x.gguf", WIDE))
    logits, cells = {}, {}
    for precision in ("f16", "q8_0"):
        runner = LlamaRunner(
            path,
            threads=1,
            context_length=128,
            kv_bytes=8 << 20,
            num_slots=1,
            kv_precision=precision,
        )
        logits[precision] = runner.decode([Span(0, TOKENS, 0, len(TOKENS))]).copy()
        cells[precision] = runner.capabilities.num_cells
        runner.close()
    off = np.abs(logits["q8_0"] - logits["f16"])
    assert 0 < off.mean() < 0.02 * logits["f16"].std()
    assert 1.8 < cells["q8_0"] / cells["f16"] < 1.95


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (
            replace(MODELS["qwen3"], head_size=48),
            "--kv-type q8_0 needs heads of a multiple of 32, not of 48",
        ),
        (MODELS["plm"], "--kv-type q8_0 needs flash attention, which plm goes without"),
    ],
)
def test_what_it_cannot_is_refused(tmp_path: Path, model: object, reason: str) -> None:
    path = write(tmp_path / "x.gguf", model)  # type: ignore[arg-type]
    flags = {"runner": "llama", "kv_type": "q8_0"}
    with pytest.raises(Incompatible, match=reason):
        choose_runner(config.load(flags, {"HOME": "/nowhere"}), path, "x")
    assert choose_runner(config.load({"runner": "llama"}, {"HOME": "/x"}), path, "x")[0] == "llama"
    assert choose_runner(config.load({"kv_type": "q8_0"}, {"HOME": "/x"}), path, "x")[0] == "cpu"
