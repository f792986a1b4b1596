"""Compiling the kernels of a step: `python -m segue.runners.cpu.compile TRIPLE CPU FEATURES` writes an object file.

A process of its own compiles them, beside the one that compiles all else: in one process LLVM is called by one thread
at a time. `step_code` starts it, unless code of the same sources, versions and processor is in the cache. It writes to
its standard output: no disk is needed, which may be full or read-only. It ends when its standard input does: with the
process that wants the code (not on Windows, where it compiles to the end).
"""

import gc
import hashlib
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from pathlib import Path

import llvmlite.binding as llvm
from llvmlite import ir

from segue.errors import Incompatible
from segue.runners.cpu.kept_code import sources_digest
from segue.runners.cpu.products.kernels import form_of, kernels
from segue.runners.cpu.products.machine_code import Kept, emitted
from segue.runners.cpu.products.processor import VARIABLE, Target, this_target
from segue.runners.cpu.step.attention.kv_formats import KvType

# name → how many integers it takes
ENTRIES = {"run_step": 2, "serve_steps": 3, "post_step": 4, "await_left": 1, "tell_word": 2}
_MODULE = "segue.runners.cpu.compile"
_HAS_FMA = "SEGUE_HAS_FMA"


def step_key(target: Target, kv_type: KvType) -> str:
    """The cache key: a digest of everything that the machine code depends on."""
    machine = "\0".join((target.triple, target.cpu, target.features, kv_type)).encode()
    return f"{sources_digest()}-{hashlib.sha256(machine).hexdigest()[:16]}"


def step_code(target: Target, kept: Kept, kv_type: KvType) -> bytes:
    """The object file with ENTRIES for this processor, and KV of this type."""
    return kept(step_key(target, kv_type), lambda: _made(target, kv_type))


def compile_all(
    types: Iterable[str], flavour: str, kept: Kept, rare: Sequence[str], kv_type: KvType
) -> None:
    """Compile what a model with tensors of these types needs: the step, and in parallel all else.

    `rare`: what it has of phases that are compiled apart (rare_phases.py).
    """
    from segue.runners.cpu.draws.drawer import draws_code
    from segue.runners.cpu.rare_phases import rare_code
    from segue.runners.cpu.step.softmax import Softmax

    target = this_target({VARIABLE: flavour})
    step: Future[bytes] = Future()

    def make_step() -> None:
        try:
            step.set_result(step_code(target, kept, kv_type))
        except BaseException as error:
            step.set_exception(error)

    # Not a pool's: Python waits for its threads at exit, and a server that is stopped would compile to the end.
    threading.Thread(target=make_step, name="compile-step", daemon=True).start()
    for form in filter(None, map(form_of, sorted(types))):
        kernels(form, target, kept)
    draws_code(target, kept)
    Softmax(target, kept)
    rare_code(target, kept, rare)
    step.result()


def _made(target: Target, kv_type: KvType) -> bytes:
    command = [sys.executable, "-m", _MODULE, target.triple, target.cpu, target.features]
    theirs, ours = os.pipe()  # the system closes our end when this process ends, however it does
    try:
        done = subprocess.run(
            command, env=_environment(target, kv_type), stdin=theirs, capture_output=True
        )
    finally:
        os.close(theirs)
        os.close(ours)
    if done.returncode or not done.stdout:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        why = lines[-1] if lines else _ending(done.returncode)
        raise Incompatible(f"the kernels cannot be compiled on this machine: {why}")
    return done.stdout


def _ending(exit_code: int) -> str:
    """How a process ended that said nothing. Where memory is short, the system kills the one that asks for most."""
    if exit_code < 0:
        name = signal.Signals(-exit_code).name
        return f"its process was ended by {name}; is there memory enough?"
    return f"its process ended with exit code {exit_code}"


def _environment(target: Target, kv_type: KvType) -> dict[str, str]:
    """For the process that compiles. It imports nothing that lies in the current folder, as `-m` would."""
    root = str(Path(__file__).parents[3])
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONSAFEPATH": "1",
        **_said(target, kv_type),
    }


def _said(target: Target, kv_type: KvType = "f16") -> dict[str, str]:
    """Environment variables that tell the kernels' modules about processor and KV when they are imported."""
    return {
        "SEGUE_WIDE_REGISTERS": str(int(target.flavour.lanes >= 16)),
        "SEGUE_HALVES_BY_HAND": str(int(not target.flavour.has_halves)),
        _HAS_FMA: str(int(target.has_fma)),
        "SEGUE_KV_IN_CODES": str(int(kv_type == "q8_0")),
    }


def _compile(triple: str, cpu: str, features: str) -> bytes:
    from segue.runners.cpu.step import run
    from segue.runners.cpu.translation.functions import Functions

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_triple(triple).create_target_machine(
        cpu=cpu, features=features, opt=3, jit=True, codemodel="jitdefault"
    )
    module = ir.Module("step")
    module.triple, module.data_layout = triple, str(machine.target_data)
    functions = Functions(module)
    for name, count in ENTRIES.items():
        functions.entry(getattr(run, name), count)
    has_fma = os.environ.get(_HAS_FMA) != "0"
    return emitted(str(module), machine, is_quick=True, has_fma=has_fma)


def _end_with_stdin() -> None:
    os.read(0, 1)  # nothing is ever written there
    os._exit(1)


def _main(*target: str) -> None:
    gc.disable()  # all that is made stays until the code is written: looking for garbage took a tenth of the time
    # On Windows all that asks for standard input would wait for the read.
    if os.name != "nt":
        threading.Thread(target=_end_with_stdin, daemon=True).start()
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)  # what a library prints is not code
        try:
            out.write(_compile(*target))
        except Exception as error:
            traceback.print_exc()
            # The last line is what a user is told: what is wrong, then the statement.
            why = [f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())]
            sys.exit(", ".join(why))


if __name__ == "__main__":
    _main(*sys.argv[1:])
