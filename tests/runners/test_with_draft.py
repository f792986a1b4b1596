from pathlib import Path

from segue import config
from segue.engine.scheduling.drafts.model import DraftModel
from segue.engine.scheduling.scheduler import Scheduler
from segue.engine.seam import Span
from segue.runners.cpu.loader import CpuLoader
from segue.runners.llama.runner import LlamaLoader
from segue.runners.with_draft import LoaderWithDraft
from segue.types import Sampling
from tests.engine.harness import Bench, ask
from tests.engine.scheduling.drafts.test_model import Always
from tests.runners.cpu.conftest import NewThreads
from tests.support.models.tiny_gguf import write_tiny_gguf
from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import write


def test_a_draft_model_computes_with_the_threads_of_its_target(tmp_path: Path) -> None:
    path = str(write_tiny_gguf(tmp_path / "x.gguf"))
    cache = str(config.load({}).cache_dir)
    small = CpuLoader(path, "small", kv_bytes=1 << 20, num_slots=4, threads=2, cache_dir=cache)
    num_threads = []
    for target in (small, LlamaLoader(path, "large", threads=1)):
        threads = NewThreads()
        loaded = LoaderWithDraft(target, small)()
        num_threads.append(len(threads))
        assert loaded.draft is not None
        assert loaded.draft.decode([Span(0, [1, 2, 3], 0, 1)]).shape[0] == 1
        loaded.draft.close()
        loaded.runner.close()
        assert len(threads) == 0
    assert num_threads == [1, 1]  # beside llama.cpp's, which Python does not see, it has its own


def test_a_draft_model_leaves_the_answers_of_a_model_with_states(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{name}.gguf", MODELS[name]) for name in ("qwen35", "llama")]
    target, small = (
        CpuLoader(
            str(path),
            path.stem,
            kv_bytes=1 << 20,
            num_slots=4,
            threads=2,
            cache_dir=str(config.load({}).cache_dir),
        )
        for path in paths
    )
    loaded = LoaderWithDraft(target, small)()
    assert loaded.draft is not None
    answers = []
    for draft in (DraftModel(loaded.draft, Always()), None):
        bench = Bench(loaded.runner, loaded.vocab)
        bench.scheduler = Scheduler(loaded.runner, loaded.vocab, 64, lambda: 0.0, draft)
        stories = bench.run(
            *(ask("so", max_tokens=40, sampling=Sampling(seed=seed)) for seed in range(3))
        )
        answers.append([story.essence for story in stories])
        bench.scheduler.check()
        assert (bench.scheduler.stats.draft_tokens > 0) == (draft is not None)
        for slot in range(4):
            loaded.runner.free(slot)
    loaded.draft.close()
    loaded.runner.close()
    assert answers[0] == answers[1]
