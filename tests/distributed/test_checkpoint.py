from pathlib import Path

import numpy as np

from segue.distributed.checkpoint import read_weights
from tests.support.tiny_hf import write_safetensors


def test_sizes_are_read_from_the_headers(tmp_path: Path) -> None:
    tensors = {"a": np.zeros((3, 4), np.float32), "b": np.zeros(5, np.float32)}
    write_safetensors(tmp_path / "one.safetensors", tensors)
    write_safetensors(tmp_path / "two.safetensors", {"c": np.zeros(2, np.float32)})
    weights = read_weights(str(tmp_path))
    assert weights.num_params == 19
    assert weights.size_bytes == sum(file.stat().st_size for file in tmp_path.iterdir())


def test_a_name_of_the_hub_has_none() -> None:
    assert read_weights("owner/name") == (0, 0)
