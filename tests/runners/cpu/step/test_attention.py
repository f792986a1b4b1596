from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from segue.engine.seam import Logits, Span
from segue.runners.cpu.step.attention.scratch import QUERY_PART
from tests.runners.cpu.conftest import load
from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import write

TOKENS = [(5 * i * i + i) % 256 for i in range(300)]


@pytest.mark.parametrize("size", [16, 48, 80, QUERY_PART, QUERY_PART + 16, 2 * QUERY_PART])
@pytest.mark.parametrize("key_heads", [1, 4])
def test_bits_do_not_depend_on_how_many_rows_share_a_tile(
    tmp_path: Path, size: int, key_heads: int
) -> None:
    """Heads of all widths: with columns left over, as wide as a row of scratch memory, and wider: in parts."""
    tiny = replace(MODELS["qwen3"], head_size=size, key_heads=key_heads)
    runner = load(write(tmp_path / "x.gguf", tiny), kv_bytes=16 << 20)
    rows: dict[int, Logits] = {}
    for chunk in (240, 1, 3, 17):
        for start in range(0, len(TOKENS), chunk):
            some = TOKENS[start : start + chunk]
            for i, row in enumerate(runner.decode([Span(0, some, start, len(some))]), start):
                np.testing.assert_array_equal(row, rows.setdefault(i, row.copy()))
        runner.free(0)
    runner.close()
