"""Answers of tokens, as vLLM writes them where tokens came in."""

from collections.abc import Iterable, Sequence
from typing import Any

from segue.dialects.base import Call
from segue.dialects.rendering.chat_logprobs import token_entry
from segue.dialects.rendering.logprobs import finite, prompt_scores
from segue.dialects.rendering.tally import Choice, Meter, Tally
from segue.dialects.vllm.answer import ended, render_usage, whole_usage
from segue.types import Delta, Done, Event, Finished, Prompted, TokenScore

_NOTHING_OF = ("kv_transfer_params", "ec_transfer_params", "metrics", "mm_placeholders")


class Generated:
    """Implements Renderer. Choices have tokens, and their text where output_mode asks for it."""

    def __init__(self, call: Call) -> None:
        stamp, shape = call.stamp, call.shape
        chosen = shape.get("request_id") if stamp.public_id == stamp.request_id else None
        self._call = call
        self._head = {"request_id": f"generate-tokens-{chosen or stamp.public_id}"}
        self._mode: str = shape["output_mode"]
        self._wants_ids: bool = shape.get("token_ids", False)
        self._include_usage: bool = shape.get("include_usage", False)
        is_metered = self._include_usage and shape.get("continuous_usage", False)
        self._meter = Meter(call.request.n) if is_metered else None
        self._opening: dict[str, Any] = {}  # of the first chunk

    # --- streamed --------------------------------------------------------------------------------

    def push(self, event: Event) -> list[Any]:
        if self._meter:
            self._meter.push(event)
        match event:
            case Prompted() if self._wants_ids:
                self._opening = {"prompt_token_ids": event.tokens}
            case Delta() if event.tokens or (event.text and self._mode == "text"):
                choice = self._choice(event.choice, event.tokens, event.text, event.scores or ())
                return [self._chunk(choice)]
            case Finished():
                ending = ended(event, is_told=True)
                return [self._chunk({**self._choice(event.choice, (), "", ()), **ending})]
            case Done() if self._include_usage:
                mode = {"output_mode": self._mode}
                return [{**self._head, "usage": render_usage(event.usage), **mode, "choices": []}]
        return []

    def _chunk(self, choice: dict[str, Any]) -> dict[str, Any]:
        opening, self._opening = self._opening, {}
        usage = self._meter and whole_usage(self._meter.usage_of(choice["index"]))
        told = {"usage": usage, **opening, "output_mode": self._mode}
        return {**self._head, **told, "choices": [choice]}

    # --- in one object ---------------------------------------------------------------------------

    def fold(self, tally: Tally) -> Any:
        [prompt] = tally.prompts
        num_top = self._call.shape["prompt_logprobs"]
        return {
            **self._head,
            "model": self._call.model,
            "created": self._call.stamp.created,
            "usage": whole_usage(tally.usage),
            "prompt_logprobs": None if num_top is None else prompt_scores(prompt, num_top),
            "prompt_token_id_logprobs": None,
            "prompt_token_ids": prompt.tokens if self._wants_ids else None,
            **dict.fromkeys(_NOTHING_OF),
            "output_mode": self._mode,
            "choices": [self._folded(*each) for each in enumerate(tally.choices)],
        }

    def _folded(self, index: int, choice: Choice) -> dict[str, Any]:
        folded = self._choice(index, choice.tokens, choice.text, choice.scores)
        return {**folded, **ended(choice.finished, is_told=True)}

    def _choice(
        self, index: int, tokens: Sequence[int], text: str, scores: Iterable[TokenScore]
    ) -> dict[str, Any]:
        is_text, is_scored = self._mode == "text", self._call.request.logprobs is not None
        write = _named if is_text else _numbered
        entries = [write(score) for score in scores] if is_scored else []
        return {
            "index": index,
            "finish_reason": None,
            "stop_reason": None,
            "token_ids": tokens,
            "routed_experts": None,
            "sampling_mask": None,
            "weight_versions": None,
            **({"text": text} if is_text else {}),
            "logprobs": {"content": entries} if is_scored else None,
        }


def _alternatives(score: TokenScore) -> list[tuple[Any, int]]:
    """With their ranks: the drawn token is the first, whether it is among the likeliest or not."""
    ranked = [(other, rank) for rank, other in enumerate(score.top, start=1)]
    return [(score, score.rank), *(each for each in ranked if each[0].token != score.token)]


def _numbered(score: TokenScore) -> dict[str, Any]:
    top = [
        {"token_id": each.token, "logprob": finite(each.logprob), "rank": rank}
        for each, rank in _alternatives(score)
    ]
    return {**top[0], "top_logprobs": top}


def _named(score: TokenScore) -> dict[str, Any]:
    top = [token_entry(each) for each, _ in _alternatives(score)]
    return {**top[0], "top_logprobs": top}
