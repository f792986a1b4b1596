"""Compiling the kernels of a step: `python -m segue.runners.cpu.compile TRIPLE CPU FEATURES` writes an object file.

A process of its own compiles, so that numba is loaded only there. `step_code` starts that process, unless code of
the same sources, versions and processor is in the cache. It starts a second one for attention, `compile` alone, which
writes LLVM's bitcode: most of the time is numba's, on one thread. Both write to their standard output: no disk is
needed, which may be full or read-only. Both end when their standard input does: with the process that wants the code
(not on Windows, where they compile to the end).
"""

import hashlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable
from concurrent.futures import Future
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
    """Compile what a model with tensors of these types needs: the step, and in parallel all else."""
    from segue.runners.cpu.draws.drawer import draws_code
    from segue.runners.cpu.step.softmax import Softmax

    target = this_target({VARIABLE: flavour})
    step: Future[bytes] = Future()

    def make_step() -> None:
        try:
            step.set_result(step_code(target, kept))
        except BaseException as error:
            step.set_exception(error)

    # Not a pool's: Python waits for its threads at exit, and a server that is stopped would compile to the end.
    threading.Thread(target=make_step, name="compile-step", daemon=True).start()
    for form in filter(None, map(form_of, sorted(types))):
        kernels(form, target, kept)
    draws_code(target, kept)
    Softmax(target, kept)
    step.result()


def _made(target: Target) -> bytes:
    command = [sys.executable, "-m", _MODULE, target.triple, target.cpu, target.features]
    theirs, ours = os.pipe()  # the system closes our end when this process ends, however it does
    try:
        done = subprocess.run(command, env=_environment(target), stdin=theirs, capture_output=True)
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


def _environment(target: Target) -> dict[str, str]:
    """For the process that compiles. Settings of numba's are for other programs: some would leave no kernels.

    Nor does it import what lies in the current folder, as `-m` would.
    """
    root = str(Path(__file__).parents[3])
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    usual = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    return usual | {
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONSAFEPATH": "1",
        "NUMBA_CPU_NAME": target.cpu,
        "NUMBA_CPU_FEATURES": target.features,
        "NUMBA_OPT": "0",  # LLVM optimises all modules together at the end
        **_said(target),
    }


def _said(target: Target) -> dict[str, str]:
    """Environment variables that tell the kernels' modules about the processor when they are imported."""
    return {
        "SEGUE_WIDE_REGISTERS": str(int(target.flavour.lanes >= 16)),
        "SEGUE_HALVES_BY_HAND": str(int(not target.flavour.arch)),
    }


def _compile(triple: str, cpu: str, features: str) -> bytes:
    import llvmlite.binding as llvm

    with subprocess.Popen([sys.executable, "-m", _MODULE], stdout=subprocess.PIPE) as beside:
        from segue.runners.cpu.step import run

        for name in _APART:  # numba links what it compiles, though nothing is called here
            llvm.add_symbol(name, id(_APART))
        whole = _lowered(run, ENTRIES)
        others, _ = beside.communicate()
    if beside.returncode:  # if it has failed, it has said why
        raise SystemExit(_ending(beside.returncode) if beside.returncode < 0 else 1)
    whole.link_in(llvm.parse_bitcode(others))
    machine = llvm.Target.from_triple(triple).create_target_machine(
        cpu=cpu, features=features, opt=3, jit=True, codemodel="jitdefault"
    )
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    # The kernels are written with explicit vectors: LLVM need not vectorise or unroll.
    options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(whole, builder)
    made: bytes = machine.emit_object(whole)
    return made


def _compile_apart() -> bytes:
    from segue.runners.cpu.step import heads

    made: bytes = _lowered(heads, _APART).as_bitcode()
    return made


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


def _end_with_stdin() -> None:
    os.read(0, 1)  # nothing is ever written there
    os._exit(1)


def _main(*target: str) -> None:
    # On Windows all that asks for standard input would wait for the read, in the second process too.
    if os.name != "nt":
        threading.Thread(target=_end_with_stdin, daemon=True).start()
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)  # what a library prints is not code
        out.write(_compile(*target) if target else _compile_apart())


if __name__ == "__main__":
    _main(*sys.argv[1:])
