"""The steps in which a token is drawn: their names, and the usual orders."""

from typing import Literal

Step = Literal[
    "penalties", "dry", "logit_bias", "top_n_sigma", "top_k", "typical_p", "top_p", "min_p", "xtc",
    "temperature", "infill", "adaptive_p",
]  # fmt: skip
# The usual orders. If temperature comes last, the filters see the model's own probabilities; if it comes
# first, they see the probabilities after temperature.
CUT_FIRST: tuple[Step, ...] = (
    "penalties", "dry", "top_n_sigma", "top_k", "typical_p", "top_p", "min_p", "xtc", "temperature",
)  # fmt: skip
SCALE_FIRST: tuple[Step, ...] = (
    "penalties", "dry", "temperature", "top_n_sigma", "min_p", "top_k", "typical_p", "top_p", "xtc",
)  # fmt: skip

# Every name that llama.cpp knows a step by. It has none for logit_bias, which comes first there.
STEP_NAMES: dict[str, Step] = {
    "penalties": "penalties",
    "dry": "dry",
    "top_n_sigma": "top_n_sigma",
    "top_k": "top_k",
    "typ_p": "typical_p",
    "top_p": "top_p",
    "min_p": "min_p",
    "xtc": "xtc",
    "temperature": "temperature",
    "infill": "infill",
    "adaptive_p": "adaptive_p",
    "typical_p": "typical_p",
    "typical": "typical_p",
    "typ": "typical_p",
    "nucleus": "top_p",
    "temp": "temperature",
}


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


_BY_PLAIN_NAME = {_plain(name): step for name, step in STEP_NAMES.items()}


def step_named(name: str) -> Step | None:
    """The step of this name, in capitals or with dashes too; None if there is none."""
    return _BY_PLAIN_NAME.get(_plain(name))
