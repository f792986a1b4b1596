"""The values that all parts of Segue share: requests, events, facts about models. Plain and frozen, without behaviour.

Token ids are `token`/`tokens`, their bytes are a `piece`, decoded output is `text`. A *prompt* is one
entry of the request; a *choice* is one text returned for it, numbered prompt-major (prompt × n + j).
"""

from segue.types.events import (
    LAST,
    Cause,
    Delta,
    Done,
    Event,
    Failed,
    Finished,
    Progress,
    Prompted,
    Reason,
    Searching,
    Share,
    Split,
    Usage,
)
from segue.types.models import ModelDefaults, ModelInfo, Origin, ServedAdapter, Stats
from segue.types.requests import (
    Adapter,
    CompletionRequest,
    Constraint,
    ConstraintKind,
    Infill,
    InfillMethod,
    Prompt,
    Repetition,
    Sampling,
    Shift,
    Snippet,
    Trigger,
    TriggerKind,
    Truncation,
)
from segue.types.scores import LOWEST_LOGPROB, Alternative, PromptScores, TokenScore
from segue.types.served import Buckets, Served
from segue.types.slots import HeldText, SlotAction, SlotResult, SlotVerb
from segue.types.steps import CUT_FIRST, SCALE_FIRST, STEP_NAMES, Step, step_named

__all__ = [
    "CUT_FIRST",
    "LAST",
    "LOWEST_LOGPROB",
    "SCALE_FIRST",
    "STEP_NAMES",
    "Adapter",
    "Alternative",
    "Buckets",
    "Cause",
    "CompletionRequest",
    "Constraint",
    "ConstraintKind",
    "Delta",
    "Done",
    "Event",
    "Failed",
    "Finished",
    "HeldText",
    "Infill",
    "InfillMethod",
    "ModelDefaults",
    "ModelInfo",
    "Origin",
    "Progress",
    "Prompt",
    "PromptScores",
    "Prompted",
    "Reason",
    "Repetition",
    "Sampling",
    "Searching",
    "Served",
    "ServedAdapter",
    "Share",
    "Shift",
    "SlotAction",
    "SlotResult",
    "SlotVerb",
    "Snippet",
    "Split",
    "Stats",
    "Step",
    "TokenScore",
    "Trigger",
    "TriggerKind",
    "Truncation",
    "Usage",
    "step_named",
]
