"""Compiling the kernels of a step: `python -m segue.runners.cpu.compile OUT TRIPLE CPU FEATURES` writes an object file.

A process of its own compiles, so that numba is loaded only there. `step_code` starts that process, unless code of
the same sources, versions and processor is in the cache. It starts a second one for attention, `compile OUT`, which
writes LLVM's bitcode: most of the time is numba's, on one thread.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from segue.errors import Incompatible
from segue.runners.cpu.kept_code import sources_digest
from segue.runners.cpu.products.kernels import form_of, kernels
from segue.runners.cpu.products.machine_code import Kept
from segue.runners.cpu.products.processor import VARIABLE, Target, this_target

# name → how many integers it takes
ENTRIES = {"run_step": 2, "serve_steps": 3, "post_step": 4, "await_left": 1, "tell_word": 2}
_MODULE = "segue.runners.cpu.compile"
_APART = {"attend_phase": 4, "heads_phase": 3}  # compiled by the second process


def step_key(target: Target) -> str:
    """The cache key: a digest of everything that the machine code depends on."""
    machine = "\0".join((target.triple, target.cpu, target.features)).encode()
    return f"{sources_digest()}-{hashlib.sha256(machine).hexdigest()[:16]}"


def step_code(target: Target, kept: Kept) -> bytes:
    """The object file with ENTRIES for this processor."""
    return kept(step_key(target), lambda: _made(target))


def compile_all(types: Iterable[str], flavour: str, kept: Kept) -> None:
    """Compile what a model with tensors of these types needs: the step, and in parallel the products."""
    target = this_target({VARIABLE: flavour})
    with ThreadPoolExecutor(1) as beside:
        step = beside.submit(step_code, target, kept)
        for form in filter(None, map(form_of, sorted(types))):
            kernels(form, target, kept)
        step.result()


def _made(target: Target) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "step.o"
        command = [sys.executable, "-m", _MODULE, str(out)]
        command += [target.triple, target.cpu, target.features]
        root = str(Path(__file__).parents[3])
        paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(paths),
            "NUMBA_CPU_NAME": target.cpu,
            "NUMBA_CPU_FEATURES": target.features,
            "NUMBA_OPT": "0",  # LLVM optimises all modules together at the end
            **_said(target),
        }
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        if done.returncode or not out.exists():
            lines = done.stderr.strip().splitlines() or ["it says nothing"]
            raise Incompatible(f"the kernels cannot be compiled on this machine: {lines[-1]}")
        return out.read_bytes()


def _said(target: Target) -> dict[str, str]:
    """Environment variables that tell the kernels' modules about the processor when they are imported."""
    return {
        "SEGUE_WIDE_REGISTERS": str(int(target.flavour.lanes >= 16)),
        "SEGUE_HALVES_BY_HAND": str(int(not target.flavour.arch)),
    }


def _compile(out: str, triple: str, cpu: str, features: str) -> None:
    import llvmlite.binding as llvm

    others = Path(out).with_suffix(".bc")
    with subprocess.Popen([sys.executable, "-m", _MODULE, str(others)]) as beside:
        from segue.runners.cpu.step import run

        for name in _APART:  # numba links what it compiles, though nothing is called here
            llvm.add_symbol(name, id(_APART))
        whole = _lowered(run, ENTRIES)
    if beside.returncode:
        raise SystemExit(beside.returncode)
    whole.link_in(llvm.parse_bitcode(others.read_bytes()))
    machine = llvm.Target.from_triple(triple).create_target_machine(
        cpu=cpu, features=features, opt=3, jit=True, codemodel="jitdefault"
    )
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    # The kernels are written with explicit vectors: LLVM need not vectorise or unroll.
    options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(whole, builder)
    Path(out).write_bytes(machine.emit_object(whole))


def _compile_apart(out: str) -> None:
    from segue.runners.cpu.step import heads

    Path(out).write_bytes(_lowered(heads, _APART).as_bitcode())


def _lowered(kernels: Any, names: dict[str, int]) -> Any:
    """One module of LLVM's with these kernels under their plain names, not optimised yet."""
    import llvmlite.binding as llvm
    from numba.core import types

    whole: Any = None
    for name, count in names.items():
        dispatcher: Any = getattr(kernels, name)
        dispatcher.compile((types.int64,) * count)
        made = dispatcher.overloads[(types.int64,) * count]
        text = made.library.get_llvm_str().replace(made.fndesc.llvm_func_name, name)
        module = llvm.parse_assembly(text)
        if whole is None:
            whole = module
        else:
            whole.link_in(module)
    return whole


if __name__ == "__main__":
    (_compile_apart if len(sys.argv) == 2 else _compile)(*sys.argv[1:])
