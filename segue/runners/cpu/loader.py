"""Loading a GGUF on the CPU runner. A process that only chooses a runner imports this without compilers or kernels."""

import hashlib
import importlib.util
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from rich.filesize import decimal

from segue import fingerprint, machine
from segue.engine.seam import Loaded
from segue.errors import ModelUnavailable
from segue.models import adapter_files, gguf
from segue.models.digests import FilesDigest
from segue.models.gguf import GgufHeader
from segue.models.gguf.lists import lists_of_loaded
from segue.models.origin import gguf_origin
from segue.models.progress import Report
from segue.runners.cpu.architectures.families import FAMILIES
from segue.runners.cpu.architectures.hparams import IN_ONE, hparams_of
from segue.runners.cpu.architectures.settings import senseless
from segue.runners.cpu.architectures.support import supports
from segue.runners.cpu.architectures.tensors import is_vector
from segue.runners.cpu.kept_code import KeptCode, sources_digest, take_unwritten, unwritten
from segue.runners.cpu.products.formats import packed_bytes
from segue.runners.cpu.step.attention.kv_formats import KvType
from segue.runners.cpu.step.program.places import token_bytes
from segue.runners.llama.vocab import model_info
from segue.runners.vocab import open_vocab, vocab_obstacle

if TYPE_CHECKING:
    from segue.runners.cpu.runner import CpuRunner

_ADAPTER_TYPES = ("F32", "F16", "BF16", "Q8_0", "Q5_1", "Q5_0", "Q4_1", "Q4_0")

log = logging.getLogger("segue")


def flavour_obstacle(name: str) -> str | None:
    """Why the kernels cannot be compiled for the flavour of this name here, or None if they can."""
    if importlib.util.find_spec("llvmlite") is None:
        return None  # no flavour can: `obstacle` says so
    from segue.runners.cpu.products.processor import is_possible, possible

    if is_possible(name):
        return None
    return f"this processor can run {', '.join(flavour.name for flavour in possible())}"


def nonsense(path: str | Path) -> str | None:
    """Why no runner can compute what this file's settings say, or None."""
    return senseless(gguf.header(path))


def obstacle(path: str | Path, adapters: Sequence[str] = ()) -> str | None:
    """Why this model, with these files of LoRA adapters, cannot run here, or None if it can."""
    if importlib.util.find_spec("llvmlite") is None:
        return "llvmlite, which compiles its kernels, is not installed"
    header = gguf.header(path)
    if wrong := supports(header) or vocab_obstacle(header):
        return wrong
    for file in adapters:
        if wrong := adapter_obstacle(adapter_files.check(file, header)):
            return f"the adapter {file}: {wrong}"
    return None


def weights_bytes(header: GgufHeader) -> int:
    """The memory that the weights take when they are packed: more than the file for some types."""
    return sum(packed_bytes(each.type, each.num_bytes) for each in header.tensors)


def kv_token_bytes(header: GgufHeader, kv_type: KvType, drafts: bool) -> int:
    """The memory that a token's keys and values take, of a model that can run here. `drafts`: by its MTP layer too."""
    return token_bytes(hparams_of(header, drafts).by_layer, kv_type)


def adapter_obstacle(header: GgufHeader) -> str | None:
    """Why the CPU runner cannot apply an adapter that goes with its base."""
    family = FAMILIES.get(header.architecture)
    is_fused = family is not None and family.is_gate_fused
    is_grouped = family is not None and family.is_delta_grouped
    for name, pair in adapter_files.pairs(header).items():
        if name == "token_embd.weight" or name.startswith("per_layer_"):
            return f"it adapts the embeddings ({name})"
        if is_vector(name):
            return f"it adapts what is no matrix ({name})"
        if len(pair.a.shape) != 2:
            what = "experts" if "_exps." in name else "several matrices in one tensor"
            return f"it adapts {what} ({name})"
        if is_fused and name.endswith(".ffn_up.weight"):
            return f"it adapts gate and up as one matrix ({name})"
        if is_grouped and name.endswith(f".{IN_ONE}"):
            return f"it adapts what is two matrices here ({name})"
        for tensor in (pair.a, pair.b):
            if tensor.type not in _ADAPTER_TYPES:
                return f"{tensor.name} is of type {tensor.type}"
    return None


def _note(flavour: str, kv_type: KvType, types: Iterable[str]) -> str:
    """The name of a note on the code for these tensors: a digest of all that decides what is compiled."""
    words = fingerprint.sources("runners/cpu", "exact_math.py"), sources_digest()
    whole = chr(0).join([*words, machine.kind_of_processor(), flavour, kv_type, *types])
    return f"all-{hashlib.sha256(whole.encode()).hexdigest()[:32]}"


@dataclass(frozen=True)
class CpuLoader:
    """Implements seam.Loader."""

    path: str
    name: str
    _: KW_ONLY
    context_length: int | None = None
    kv_bytes: int | None = None
    kv_type: KvType = "f16"
    num_slots: int = 256
    threads: int = 0  # 0: all processors that the process may use
    max_rows: int = 512
    flavour: str = ""  # instruction set, see products/processor.py; "": the best one
    cache_dir: str = "."
    adapters: tuple[tuple[str, str], ...] = ()  # (name, file) of LoRA adapters
    drafts: bool = False  # by the model's MTP layer
    code: tuple[tuple[str, bytes], ...] = field(default=(), repr=False)  # see kept_code.unwritten

    def prepared(self, report: Report) -> "CpuLoader":
        """Compile the kernels now, with progress reports, so that loading the model finds them: in the cache, or in
        the loader that is returned."""
        self._compile(report)
        return replace(self, code=unwritten())

    def _compile(self, report: Report) -> None:
        what, is_told = "Compiling for this processor, once", threading.Event()

        def tell() -> None:
            is_told.set()
            report(what, 0, 0)

        header = gguf.header(self.path)
        types = sorted({tensor.type for tensor in header.tensors})
        family = FAMILIES.get(header.architecture)
        rare = () if family is None else family.rare_phases(self.drafts)
        kept = KeptCode(self.cache_dir, tell)
        # What is needed on this processor was noted, so that LLVM is not read only to find out.
        note = _note(self.flavour, self.kv_type, [*types, *rare])
        if kept.has_all(note):
            return
        from segue.runners.cpu.compile import compile_all

        compile_all(types, self.flavour, kept, rare, self.kv_type)
        kept.note(note)
        if is_told.is_set():
            report(what, 1, 1)

    def runner(
        self,
        beside: "CpuRunner | None" = None,
        await_quiet: Callable[[], object] = lambda: None,
    ) -> "CpuRunner":
        """The runner without the vocabulary.

        `beside`: one whose threads it uses. `await_quiet` is called before it measures speeds.
        """
        from segue.runners.cpu.mtp_runner import MtpRunner
        from segue.runners.cpu.products.processor import VARIABLE, this_target
        from segue.runners.cpu.runner import CpuRunner

        take_unwritten(self.code)
        kind = MtpRunner if self.drafts else CpuRunner
        return kind(
            self.path,
            cache_dir=self.cache_dir,
            context_length=self.context_length,
            kv_bytes=self.kv_bytes,
            kv_type=self.kv_type,
            num_slots=self.num_slots,
            threads=self.threads,
            max_rows=self.max_rows,
            target=this_target({VARIABLE: self.flavour}),
            adapters=dict(self.adapters),
            await_quiet=await_quiet,
            beside=beside,
        )

    def __call__(self) -> Loaded:
        from segue.runners.cpu.mtp_runner import MtpRunner

        files = gguf.header(self.path).files
        digest = FilesDigest(files, self.cache_dir)
        digests = {name: FilesDigest([file], self.cache_dir) for name, file in self.adapters}
        with ThreadPoolExecutor(1) as beside:  # the vocabulary is read while the weights are packed
            reading = beside.submit(open_vocab, self.path)
            runner = self.runner(await_quiet=reading.result)
        vocab, limits = reading.result(), runner.capabilities
        if runner.header.files != files:
            raise ModelUnavailable(f"{self.path} was changed while it was read")
        origin = gguf_origin(self.path, read=runner.header)
        log.info(
            "%s: %s, KV memory for %d tokens in %s",
            self.name,
            runner.flavour,
            limits.num_cells,
            self.kv_type,
        )
        if limits.num_slots < self.num_slots:
            log.warning(
                "%s: memory holds %d states of sequences, not %d (--num-slots): each takes %s",
                self.name,
                limits.num_slots,
                self.num_slots,
                decimal(limits.state_bytes),
            )
        shown = slot_bytes = None
        if limits.deterministic:
            sha256 = digest.wait()
            kernels = fingerprint.sources("runners/cpu")
            shown = fingerprint.promised(kernels, sha256, self.kv_type)
            origin = msgspec.structs.replace(origin, digest=sha256)
            slot_bytes = runner.slot_bytes(sha256)
        else:
            log.warning("a library lets this process flush denormal numbers: answers may vary")
        info = model_info(self.name, "cpu", vocab, limits, shown, origin=origin)
        if shown is not None:
            found = {name: each.wait() for name, each in digests.items()}
            info = msgspec.structs.replace(info, adapter_digests=found)
        return Loaded(
            runner,
            vocab,
            info,
            mtp=runner if isinstance(runner, MtpRunner) else None,
            lists=partial(lists_of_loaded, self.path, origin),
            slot_bytes=slot_bytes,
        )
