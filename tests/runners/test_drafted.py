from pathlib import Path

from segue import config
from segue.engine.seam import Span
from segue.runners.cpu.loader import CpuLoader
from segue.runners.drafted import DraftedLoader
from segue.runners.llama.runner import LlamaLoader
from tests.runners.cpu.conftest import NewThreads
from tests.support.models.tiny_gguf import write_tiny_gguf


def test_a_draft_model_computes_with_the_threads_of_its_target(tmp_path: Path) -> None:
    path = str(write_tiny_gguf(tmp_path / "x.gguf"))
    cache = str(config.load({}).cache_dir)
    small = CpuLoader(path, "small", kv_bytes=1 << 20, num_slots=4, threads=2, cache_dir=cache)
    num_threads = []
    for target in (small, LlamaLoader(path, "large", threads=1)):
        threads = NewThreads()
        loaded = DraftedLoader(target, small)()
        num_threads.append(len(threads))
        assert loaded.draft is not None
        assert loaded.draft.decode([Span(0, [1, 2, 3], 0, 1)]).shape[0] == 1
        loaded.draft.close()
        loaded.runner.close()
        assert len(threads) == 0
    assert num_threads == [1, 1]  # beside llama.cpp's, which Python does not see, it has its own
