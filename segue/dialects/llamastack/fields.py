"""Llama Stack's fields of a completion: its own, as leniently as it reads them, and those of its provider."""

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from msgspec import UNSET

from segue.bounds import MAX_BIAS
from segue.dialects.fields.kinds import (
    Boolean,
    Endless,
    Integer,
    Kind,
    Lax,
    LaxFlag,
    Mismatch,
    Number,
    Text,
)
from segue.dialects.fields.sampler_fields import Biases
from segue.dialects.fields.table import Draft, Field
from segue.dialects.openai import fields as openai

MAX_OWN_LOGPROBS = 5


@dataclass(frozen=True)
class Scored:
    """Whether to report log-probabilities, in Llama Stack; in OGX, as it is called now, how many alternatives."""

    def read(self, value: Any) -> Any:
        if type(value) is int and 0 <= value <= MAX_OWN_LOGPROBS:
            return value
        with suppress(Mismatch):
            return LaxFlag(Boolean()).read(value) or UNSET
        with suppress(Mismatch):
            return Lax(Integer(0, MAX_OWN_LOGPROBS)).read(value)
        raise Mismatch(f"true, false or an integer from 0 to {MAX_OWN_LOGPROBS}", value)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [Boolean().schema(), Integer(0, MAX_OWN_LOGPROBS).schema()]}


@dataclass(frozen=True)
class LaxBiases:
    """An object of biases. Others take a list, and false for a ban, which is the number 0 here."""

    def read(self, value: Any) -> dict[int | str, float]:
        if type(value) is not dict:
            raise Mismatch("an object of tokens and their biases", value)
        return Biases(MAX_BIAS).read({key: self._bias(key, value[key]) for key in value})

    def _bias(self, key: str, bias: Any) -> float:
        try:
            number: float = Lax(Number(-MAX_BIAS, MAX_BIAS)).read(bias)
        except Mismatch as wrong:
            raise wrong.inside(f"[{key}]") from None
        return number

    def schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "additionalProperties": Number(-MAX_BIAS, MAX_BIAS).schema(),
        }


def _root(name: str) -> Field:
    (row,) = openai.ROOT.pick(name).rows
    return row


def _lax(name: str, lax: type[Lax] | type[LaxFlag]) -> Field:
    row = _root(name)
    kind: Kind = lax(row.kind)
    return replace(row, kind=kind)


_NUMBERS = (
    "n",
    "best_of",
    "seed",
    "temperature",
    "top_p",
    "presence_penalty",
    "frequency_penalty",
)
_FLAGS = ("echo", "stream")
_LENGTH, _SCORES = _root("max_tokens"), _root("logprobs")

# Llama Stack hands a field that it does not know to the provider, which is the root dialect here. So what the root
# takes under other names is read as the root reads it, in rows of their own.
FIELDS = openai.ROOT.extend(
    Field("model", Text(256), "The name of a served model.", "model", required=True),
    Field(
        "logprobs",
        Scored(),
        "Report log-probabilities: true in the layout of Llama Stack's documents; a number, which is how many "
        "alternatives each token has, in OpenAI's.",
        "shape.logprobs",
    ),
    Field("max_tokens", Lax(Endless(1)), "Tokens to generate.", "max_tokens"),
    replace(_root("logit_bias"), kind=LaxBiases(), doc="Added to the logits, by token id or text."),
    *(_lax(name, Lax) for name in _NUMBERS),
    *(_lax(name, LaxFlag) for name in _FLAGS),
    replace(
        _LENGTH,
        name=_LENGTH.aliases[0],
        aliases=_LENGTH.aliases[1:],
        target="shape.max_tokens",
    ),
    replace(
        _SCORES,
        name=_SCORES.aliases[0],
        aliases=_SCORES.aliases[1:],
        target="shape.n_probs",
    ),
)

# A target, and where its value comes from: the first that was sent.
_SOURCES = {
    "max_tokens": ("max_tokens", "shape.max_tokens"),
    "logprobs": ("shape.logprobs", "shape.n_probs"),
}


def prefer_own_names(draft: Draft) -> None:
    """What came under a name of the provider's counts where its own was not sent."""
    for target, sources in _SOURCES.items():
        sent = [source for source in sources if source in draft.given]
        for source in sent[:1]:
            draft.values[target] = draft.values[source]
            draft.given[target] = draft.given[source]
        draft.ignored += [draft.given[source] for source in sent[1:]]


def count_alternatives(draft: Draft) -> None:
    """True is one alternative; which of both was said remains in `shape`, for the layout."""
    if draft.values.get("logprobs") is True:
        draft.values["logprobs"] = 1


RULES = (openai.name_a_model, prefer_own_names, count_alternatives, *openai.RULES)
