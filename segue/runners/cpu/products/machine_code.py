"""LLVM IR → machine code in this process.

The code is a function of the sources, the target and LLVM's version, so it can be cached under a hash of these.
"""

import gc
import hashlib
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding as llvm
from llvmlite import ir

from segue import fingerprint
from segue.runners.cpu.native import link
from segue.runners.cpu.products import fused
from segue.runners.cpu.products.processor import Target

_linked: dict[tuple[str, Target], dict[str, int]] = {}
_emitting = threading.Lock()  # options are of the whole process
# Versions of LLVM that know the option -disable-lsr: an unknown one would end the process.
_KNOWING = range(20, 23)

# The cache of machine code: returns the code under a key, and calls `make` if there is none.
Kept = Callable[[str, Callable[[], bytes]], bytes]


def nothing_kept(key: str, make: Callable[[], bytes]) -> bytes:
    return make()


def load(
    key: str,
    make: Callable[[], ir.Module],
    names: list[str],
    target: Target,
    kept: Kept = nothing_kept,
    is_quick: bool = False,
) -> dict[str, int]:
    """The addresses of functions of the module that `make` returns, or of the one cached under the key.

    `key` names the module; a digest of sources, versions and processor is added to it. `is_quick`: see `emitted`.
    """
    machine = (sources_digest(), target.triple, target.cpu, target.features)
    whole = f"{key}-{hashlib.sha256(chr(0).join(machine).encode()).hexdigest()[:32]}"
    compiled = compile_quickly if is_quick else compile_text
    code = kept(whole, lambda: compiled(_written(make), target))
    return link(code, names, target)


def _written(make: Callable[[], ir.Module]) -> str:
    """The module's text. All that is made stays until it is written: looking for garbage took half of the time."""
    looks = gc.isenabled()
    gc.disable()
    try:
        return str(make())
    finally:
        if looks:
            gc.enable()


def load_module(
    name: str, make: Callable[[Target], ir.Module], names: list[str], target: Target, kept: Kept
) -> dict[str, int]:
    """The addresses of functions of `make(target)`. Linked once in a process, for all models in it.

    It is cached under a digest of all sources that it may depend on: a start with kept code need not make it.
    """
    found = _linked.get((name, target))
    if found is None:
        key = f"{name}-{fingerprint.sources('runners/cpu', 'exact_math.py')[:32]}"
        found = _linked[name, target] = load(key, lambda: make(target), names, target, kept, True)
    return found


@cache
def sources_digest() -> str:
    """A digest of the sources and versions that the products' code depends on."""
    digest = hashlib.sha256(llvmlite.__version__.encode())
    own = Path(__file__).parent
    for path in (own.parent / "emit.py", *sorted(own.rglob("*.py"))):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def compile_text(text: str, target: Target) -> bytes:
    """An object file."""
    return emitted(text, _machine(target), has_fma=target.has_fma)


def compile_quickly(text: str, target: Target) -> bytes:
    return emitted(text, _machine(target), is_quick=True, has_fma=target.has_fma)


def emitted(text: str, machine: Any, *, is_quick: bool = False, has_fma: bool) -> bytes:
    """The object file of an IR text, for LLVM's target machine, and whether that has fused multiply-adds.

    `is_quick`: without the search for fewer registers that loops step through (LSR), two fifths of the time of
    generating code. On x86 draws and the phases of a step are as fast without; products lose by it, and nothing is
    known of ARM.
    """
    parsed = prepared(text, machine, has_fma)
    with _emitting:
        if llvm.llvm_version_info[0] in _KNOWING:
            leaves_out = is_quick and machine.triple.startswith("x86_64")
            llvm.set_option("segue", f"-disable-lsr={str(leaves_out).lower()}")
        made: bytes = machine.emit_object(parsed)
    return made


def assembly(module: ir.Module, target: Target) -> str:
    """The assembly for a target, for people to read. The target may be another processor than this one."""
    machine = _machine(target)
    made: str = machine.emit_assembly(prepared(str(module), machine, target.has_fma))
    return made


def prepared(text: str, machine: Any, has_fma: bool) -> Any:
    """LLVM's module of an IR text, for LLVM's target machine."""
    parsed = llvm.parse_assembly(text if has_fma else fused.spelled_out(text))
    parsed.verify()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    # The IR is already vectorised and unrolled: a few cheap passes suffice, mainly to use registers.
    passes = llvm.create_new_function_pass_manager()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    for function in parsed.functions:
        if not function.is_declaration:
            passes.run(function, builder)
    return parsed


def _machine(target: Target) -> Any:
    if target.triple == llvm.get_process_triple():  # all targets would take ten megabytes
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
    else:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=2, jit=True, codemodel="jitdefault"
    )
