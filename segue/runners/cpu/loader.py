"""Loading a GGUF on the CPU runner. The process that only chooses a runner reads this without compilers or kernels."""

import importlib.util
import logging
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from segue import fingerprint
from segue.engine.seam import Loaded
from segue.models import gguf
from segue.models.digests import FileDigest
from segue.models.progress import Report
from segue.runners.cpu.anatomy.support import supports
from segue.runners.cpu.kept_code import KeptCode
from segue.runners.llama.vocab import LlamaVocab, model_info

log = logging.getLogger("segue")


def obstacle(path: str | Path) -> str | None:
    """Why this model cannot run here, or None if it can."""
    for library in ("numba", "llvmlite"):
        if importlib.util.find_spec(library) is None:
            return f"{library}, which compiles its kernels, is not installed"
    return supports(gguf.header(path))


@dataclass(frozen=True)
class CpuLoader:
    """Implements seam.Loader."""

    path: str
    name: str
    _: KW_ONLY
    context_length: int | None = None
    kv_bytes: int | None = None
    num_slots: int = 256
    threads: int = 0  # 0: every processor it may use
    max_rows: int = 512
    flavour: str = ""  # of the processor; "": the best it has
    cache_dir: str = "."

    def prepare(self, report: Report) -> None:
        """Compile the kernels where somebody can watch, so that the call does not have to."""
        kept = KeptCode(self.cache_dir)
        if kept.has_step():
            return
        what = "Compiling for this processor, once"
        report(what, 0, 0)
        from segue.runners.cpu.compile import compile_all

        compile_all({tensor.type for tensor in gguf.header(self.path).tensors}, self.flavour, kept)
        report(what, 1, 1)

    def __call__(self) -> Loaded:
        from segue.runners.cpu.products.processor import VARIABLE, this_target
        from segue.runners.cpu.runner import CpuRunner

        vocab = LlamaVocab(self.path)  # first, as it fails sooner
        digest = FileDigest(self.path, self.cache_dir)
        target = this_target({VARIABLE: self.flavour})
        runner = CpuRunner(
            self.path,
            cache_dir=self.cache_dir,
            context_length=self.context_length,
            kv_bytes=self.kv_bytes,
            num_slots=self.num_slots,
            threads=self.threads,
            max_rows=self.max_rows,
            target=target,
        )
        limits = runner.capabilities
        log.info(
            "%s: %s, KV memory for %d tokens",
            self.name,
            target.flavour.name,
            limits.num_cells,
        )
        shown = None
        if limits.deterministic:
            shown = fingerprint.promised(fingerprint.sources("runners/cpu"), digest.wait())
        else:
            log.warning("a library lets this process flush denormal numbers: answers may vary")
        return Loaded(runner, vocab, model_info(self.name, "cpu", vocab, limits, shown))
