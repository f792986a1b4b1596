"""The seams: what the server asks of an engine, and what the engine asks of a runner and a vocabulary."""

from segue.engine.seam.draws import (
    ADJUSTS,
    MAX_CUTS,
    AdaptiveState,
    Adjust,
    Changes,
    Cut,
    CutKind,
    Draw,
    Feedback,
    Late,
    MirostatState,
    Repeats,
    Texts,
    Told,
)
from segue.engine.seam.engines import (
    Engine,
    Models,
    Sink,
)
from segue.engine.seam.failures import error_of, failed_of
from segue.engine.seam.models import (
    FimTokens,
    Loaded,
    Loader,
    Model,
    Vocab,
)
from segue.engine.seam.runners import (
    Capabilities,
    Logits,
    Mix,
    MtpDrafting,
    Runner,
    Span,
    Step,
)
from segue.engine.seam.slot_bytes import SlotBytes, SlotKind

__all__ = [
    "ADJUSTS",
    "MAX_CUTS",
    "AdaptiveState",
    "Adjust",
    "Capabilities",
    "Changes",
    "Cut",
    "CutKind",
    "Draw",
    "Engine",
    "Feedback",
    "FimTokens",
    "Late",
    "Loaded",
    "Loader",
    "Logits",
    "MirostatState",
    "Mix",
    "Model",
    "Models",
    "MtpDrafting",
    "Repeats",
    "Runner",
    "Sink",
    "SlotBytes",
    "SlotKind",
    "Span",
    "Step",
    "Texts",
    "Told",
    "Vocab",
    "error_of",
    "failed_of",
]
