"""Code of phases that few models have: compiled for those alone, so that a first start of others takes no longer."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from llvmlite import ir

from segue.runners.cpu.products import machine_code
from segue.runners.cpu.products.machine_code import Kept
from segue.runners.cpu.products.processor import Target
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.rare.drafts import drafts_phase
from segue.runners.cpu.step.rare.sparsity import sparse_phase
from segue.runners.cpu.step.rare.streams import streams_phase
from segue.runners.cpu.translation.functions import Functions

_OF_STREAMS = (on.SPREAD, on.PREDICT, on.CORRECT, on.PART_STREAMS, on.MERGE_STREAMS)
# By the names of modules: what a model has of these, it has whole.
_PHASES: Mapping[str, Mapping[int, Any]] = {
    "streams": {**dict.fromkeys(_OF_STREAMS, streams_phase), on.SPARSE: sparse_phase},
    "drafts": dict.fromkeys((on.PAIR, on.HAND_ON), drafts_phase),
}
_NUM_PARAMETERS = 4  # board, row, counter, tid


def rare_code(target: Target, kept: Kept, parts: Iterable[str]) -> dict[int, int]:
    """The addresses of the code of these parts' phases, by their numbers."""
    found: dict[int, int] = {}
    for part in parts:
        names = {kind: phase.function.__name__ for kind, phase in _PHASES[part].items()}
        wanted = [*dict.fromkeys(names.values())]
        code = machine_code.load_module(
            f"rare-{part}", partial(_module, part), wanted, target, kept
        )
        found |= {kind: code[name] for kind, name in names.items()}
    return found


def _module(part: str, target: Target) -> ir.Module:
    made = ir.Module(f"rare-{part}")
    made.triple = target.triple
    functions = Functions(made)
    for phase in dict.fromkeys(_PHASES[part].values()):
        functions.entry(phase, _NUM_PARAMETERS)
    return made
