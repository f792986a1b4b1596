from dataclasses import replace
from pathlib import Path

import pytest

from segue.models.gguf import header
from segue.runners.cpu.architectures.settings import senseless
from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import write


@pytest.mark.parametrize(
    ("name", "key", "value", "reason"),
    [
        ("qwen2vl", "head_count", 2, "2 heads of 16 are not 64 wide (blk.0.attn_q)"),
        ("qwen2", "head_count", 8, "8 heads of 16 are not 64 wide (blk.0.attn_q)"),
        ("qwen2", "key_length", 8, "4 heads of 8 are not 64 wide (blk.0.attn_q)"),
        (
            "starcoder",
            "head_count",
            8,
            "8 heads of 16 with 1 keys are not 96 wide (blk.0.attn_qkv)",
        ),
        ("cohere2", "key_length_swa", 32, "4 heads of 32 are not 64 wide (blk.0.attn_q)"),
        ("olmo2", "head_count", 0, "no layer has a head"),
        ("dots1", "head_count_kv", 2, "4 heads of 16 with 2 keys are not 64 wide (blk.0.attn_k)"),
        ("dots1", "value_length", 3, "4 heads of 16 with 4 keys are not 64 wide (blk.0.attn_v)"),
    ],
)
def test_heads_that_do_not_fit_their_matrices_are_computed_by_no_runner(
    tmp_path: Path, name: str, key: str, value: int, reason: str
) -> None:
    """llama.cpp loaded such files, and ended the process at the first token."""
    given = header(write(tmp_path / "x.gguf", MODELS[name]))
    assert senseless(given) is None
    told = {f"{name}.attention.{key}": value}
    assert reason in (senseless(replace(given, metadata={**given.metadata, **told})) or "")
