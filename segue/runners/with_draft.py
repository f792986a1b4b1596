"""A model with a small one beside it, which proposes what comes next."""

from dataclasses import dataclass

from segue.engine.seam import Loaded, Loader
from segue.runners.cpu.loader import CpuLoader


@dataclass(frozen=True)
class LoaderWithDraft:
    """Implements seam.Loader: the model of one loader, and the CPU runner of another for drafts."""

    target: Loader
    draft: CpuLoader

    def __call__(self) -> Loaded:
        from segue.runners.cpu.runner import CpuRunner

        loaded = self.target()
        target = loaded.runner
        return loaded._replace(
            draft=self.draft.runner(target if isinstance(target, CpuRunner) else None)
        )
