import pickle
import subprocess
import sys
from pathlib import Path

import gguf
import pytest

from segue.runners.openvino import OpenVinoLoader
from tests.tiny_gguf import write_tiny_gguf


def test_choosing_a_runner_does_not_load_the_library() -> None:
    """The server's own process never computes, so it should not pay for what does."""
    check = "import sys, segue.runners.openvino; sys.exit('openvino' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check]).returncode == 0


def test_loader_survives_pickling_and_fills_in_defaults(tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "x.gguf", tensor_type=gguf.GGMLQuantizationType.Q8_0)
    loader = OpenVinoLoader(str(path), "tiny", threads=1, cache_dir=str(tmp_path))
    told: list[str] = []
    loader.prepare(lambda what, done, total: told.append(what))
    assert "converting the model for OpenVINO" in told
    loader.prepare(lambda *_: pytest.fail("it was converted already"))
    pytest.importorskip("openvino")
    runner, vocab, info = pickle.loads(pickle.dumps(loader))()
    assert (info.name, info.runner, info.quantization) == ("tiny", "openvino", "Q8_0")
    assert info.context_length == runner.capabilities.context_length == 512
    assert info.kv_tokens == runner.capabilities.num_cells
    assert info.vocab_size == vocab.size == runner.capabilities.vocab_size
    assert info.deterministic == runner.capabilities.deterministic
    runner.close()
    vocab.close()
