"""Generative scoring: how likely a label is as the next token, after a query and each of several items."""

from dataclasses import dataclass, replace
from math import exp
from typing import Any

from msgspec import structs

from segue.bounds import CHARS_OF_ID, MAX_PROMPTS, MAX_SCORED_CHARS
from segue.dialects.base import Call, Operation
from segue.dialects.fields.kinds import Boolean, Mismatch
from segue.dialects.fields.table import Draft, Field
from segue.dialects.fields.token_fields import MAX_ASKED
from segue.dialects.rendering.tally import Tally
from segue.dialects.vllm import fields as vllm
from segue.dialects.vllm.kinds import LaxTokenIds
from segue.errors import InvalidField
from segue.types import LOWEST_LOGPROB, Event, ModelInfo, Prompt, TokenScore

Part = str | tuple[int, ...]


@dataclass(frozen=True)
class TextOrIds:
    def read(self, value: Any) -> Part:
        if type(value) is str:
            return value
        if type(value) is not list:
            raise Mismatch("a string or a list of token ids", value)
        return LaxTokenIds().read(value)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [{"type": "string"}, LaxTokenIds().schema()]}


@dataclass(frozen=True)
class Items:
    def read(self, value: Any) -> tuple[Part, ...]:
        if type(value) is not list or not 0 < len(value) <= MAX_PROMPTS:
            raise Mismatch(f"a list of 1 to {MAX_PROMPTS} texts or lists of token ids", value)
        return tuple(self._item(item, f"[{place}]") for place, item in enumerate(value))

    def _item(self, value: Any, at: str) -> Part:
        try:
            return TextOrIds().read(value)
        except Mismatch as wrong:
            raise wrong.inside(at) from None

    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": TextOrIds().schema(), "minItems": 1}


@dataclass(frozen=True)
class Labels:
    def read(self, value: Any) -> tuple[int, ...]:
        labels = LaxTokenIds(MAX_ASKED).read(value)
        if not labels:
            raise Mismatch(f"a list of 1 to {MAX_ASKED} token ids", value)
        return tuple(dict.fromkeys(labels))

    def schema(self) -> dict[str, Any]:
        return {**LaxTokenIds(MAX_ASKED).schema(), "minItems": 1}


FIELDS = vllm.FIELDS.pick("model", "cache_salt", "priority", "request_id").extend(
    Field("query", TextOrIds(), "What stands before each item.", "shape.query", required=True),
    Field("items", Items(), "What is scored, each by itself.", "shape.items", required=True),
    Field(
        "label_token_ids",
        Labels(),
        "Tokens that may follow; the score is that of the first.",
        "logprob_token_ids",
        required=True,
    ),
    *(
        vllm.lenient(replace(row, nullable=False))
        for row in (
            Field(
                "apply_softmax",
                Boolean(),
                "A score is a share among the labels; otherwise among all tokens.",
                "shape.apply_softmax",
                default=True,
            ),
            Field(
                "item_first",
                Boolean(),
                "Put each item before the query.",
                "shape.item_first",
                default=False,
            ),
            Field(
                "add_special_tokens",
                Boolean(),
                "Put BOS in front of text, if the model wants one.",
                "shape.add_special",
                default=True,
            ),
        )
    ),
)


def ask_for_labels(draft: Draft) -> None:
    """One token after each prompt, whichever it is: only what the labels were given counts."""
    values = draft.values
    query, items = values["shape.query"], values.pop("shape.items")
    size = len(items) * _num_chars(query) + sum(map(_num_chars, items))
    if size > MAX_SCORED_CHARS:
        raise draft.refuse(
            "shape.items",
            f"would make prompts of {size} characters, each with the query ({CHARS_OF_ID} for a token id): at most "
            f"{MAX_SCORED_CHARS} are taken, so send fewer at once",
        )
    draft.given["prompts"] = draft.given["shape.items"]  # what is wrong with a prompt is an item's
    is_item_first, has_bos = values.pop("shape.item_first"), values.pop("shape.add_special")
    pairs = ((item, query) if is_item_first else (query, item) for item in items)
    values["prompts"] = tuple(_prompt(pair, has_bos) for pair in pairs)
    values |= {"max_tokens": 1, "logprobs": 0, "score_stops": True, "sampling.temperature": 0.0}


def _num_chars(part: Part) -> int:
    return len(part) if isinstance(part, str) else CHARS_OF_ID * len(part)


def _prompt(pair: tuple[Part, Part], has_bos: bool) -> Prompt:
    """Its parts become tokens one by one, so that an item's do not depend on the query."""
    parts = tuple(part for part in pair if part)
    return Prompt(parts or ("",), add_special=has_bos)


def check_ids(call: Call, info: ModelInfo) -> None:
    """Those of the items are checked with the prompts."""
    query = call.shape["query"]
    given = {
        "label_token_ids": call.request.logprob_token_ids,
        "query": () if isinstance(query, str) else query,
    }
    for field, tokens in given.items():
        for token in tokens:
            if token >= info.vocab_size:
                raise InvalidField(
                    f"{field} holds token id {token}, but the model's ids are 0 to {info.vocab_size - 1}",
                    field,
                )


class Scores:
    """The answer as vLLM writes it. It is never streamed."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def push(self, event: Event) -> list[Any]:
        return []

    def fold(self, tally: Tally) -> Any:
        stamp, shape = self._call.stamp, self._call.shape
        chosen = shape.get("request_id") if stamp.public_id == stamp.request_id else None
        labels = self._call.request.logprob_token_ids
        scores = [_score(each.scores[0], labels, shape["apply_softmax"]) for each in tally.choices]
        num_read, num_drawn, _ = structs.astuple(tally.usage)
        return {
            "id": f"generative-scoring-{chosen or stamp.public_id}",
            "object": "list",
            "created": stamp.created,
            "model": self._call.model,
            "data": [
                {"index": index, "object": "score", "score": score}
                for index, score in enumerate(scores)
            ],
            "usage": {
                "prompt_tokens": num_read,
                "total_tokens": num_read + num_drawn,
                "completion_tokens": num_drawn,
                "prompt_tokens_details": None,
                "completion_tokens_details": None,
            },
        }


def _score(drawn: TokenScore, labels: tuple[int, ...], is_share: bool) -> float:
    """Log-probabilities become shares by the distance from the largest, which no exponential overflows."""
    known = {other.token: other.logprob for other in drawn.top}
    logprobs = [max(known[label], LOWEST_LOGPROB) for label in labels]
    if not is_share:
        return exp(logprobs[0])
    highest = max(logprobs)
    weights = [exp(logprob - highest) for logprob in logprobs]
    return weights[0] / sum(weights)


SCORING = Operation(
    "/generative_scoring",
    "How likely a label is as the next token, for each of several items.",
    FIELDS,
    Scores,
    (ask_for_labels,),
    check=check_ids,
    exact_model=True,
    priority_header=b"x-vllm-priority",
)
