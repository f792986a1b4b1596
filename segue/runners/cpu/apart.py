"""Code of phases that few models have: compiled for those alone, so that a first start of others takes no longer."""

from collections.abc import Mapping
from typing import Any

from llvmlite import ir

from segue.runners.cpu.products import machine_code
from segue.runners.cpu.products.machine_code import Kept
from segue.runners.cpu.products.processor import Target
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.apart.sparsity import sparse_phase
from segue.runners.cpu.step.apart.streams import streams_phase
from segue.runners.cpu.translation.functions import Functions

_OF_STREAMS = (on.SPREAD, on.PREDICT, on.CORRECT, on.PART_STREAMS, on.MERGE_STREAMS)
_PHASES: Mapping[int, Any] = {
    **dict.fromkeys(_OF_STREAMS, streams_phase),
    on.SPARSE: sparse_phase,
}
_NUM_PARAMETERS = 4  # board, row, counter, tid


def apart_code(target: Target, kept: Kept) -> dict[int, int]:
    """The addresses of the code of all such phases, by their numbers."""
    names = {kind: phase.function.__name__ for kind, phase in _PHASES.items()}
    wanted = [*dict.fromkeys(names.values())]
    found = machine_code.load_module("apart", _module, wanted, target, kept)
    return {kind: found[name] for kind, name in names.items()}


def _module(target: Target) -> ir.Module:
    made = ir.Module("apart")
    made.triple = target.triple
    functions = Functions(made)
    for phase in dict.fromkeys(_PHASES.values()):
        functions.entry(phase, _NUM_PARAMETERS)
    return made
