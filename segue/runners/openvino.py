"""Loading a GGUF on OpenVINO. The process that only chooses a runner reads this without the library itself."""

import logging
from dataclasses import dataclass

from segue.engine.seam import Loaded
from segue.models.progress import Report
from segue.runners.llama.vocab import LlamaVocab, model_info
from segue.runners.openvino_convert import converted, is_converted
from segue.runners.openvino_shape import supports

__all__ = ["OpenVinoLoader", "supports"]

log = logging.getLogger("segue")

VERDICTS = {
    True: "the same request gives the same bytes (proven now)",
    False: "answers may differ in their last bits with the load",
}


@dataclass(frozen=True)
class OpenVinoLoader:
    """Implements seam.Loader."""

    path: str
    name: str
    context_length: int | None = None
    kv_bytes: int | None = None
    num_slots: int = 256
    threads: int = 0  # 0: every processor it may use
    max_rows: int = 512
    fast_kv: bool = False
    cache_dir: str = "."

    def prepare(self, report: Report) -> None:
        """Convert the model where somebody can watch, so that the call does not have to."""
        if not is_converted(self.path, self.cache_dir, report):
            converted(self.path, self.cache_dir, report)

    def __call__(self) -> Loaded:
        from segue.runners.openvino_runner import OpenVinoRunner

        vocab = LlamaVocab(self.path)  # first, as it fails sooner
        runner = OpenVinoRunner(
            converted(self.path, self.cache_dir),
            context_length=self.context_length,
            kv_bytes=self.kv_bytes,
            num_slots=self.num_slots,
            threads=self.threads,
            max_rows=self.max_rows,
            fast_kv=self.fast_kv,
        )
        limits = runner.capabilities
        verdict = VERDICTS[limits.deterministic]
        log.info("%s: KV memory for %d tokens; %s", self.name, limits.num_cells, verdict)
        return Loaded(runner, vocab, model_info(self.name, "openvino", vocab, limits))
