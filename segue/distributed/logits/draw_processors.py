"""distributed/logits/own_draws.py inside vLLM: one logits processor for each of its two model runners."""

from typing import Any

import torch
from vllm.v1.sample.logits_processor import LogitsProcessor as Processor
from vllm.v1.sample.logits_processor.builtin import process_dict_updates
from vllm.v1.worker.gpu.sample.logits_processor import LogitsProcessor as SlotProcessor

from segue.distributed.logits.own_draws import Draw, OwnDraws, unpack
from segue.distributed.request.mapping import DRAW_KEY


def _wanted(params: Any) -> Draw | None:
    packed = (params.extra_args or {}).get(DRAW_KEY)
    return None if packed is None else unpack(packed)


def _narrow(logits: torch.Tensor, draws: OwnDraws, rows: list[tuple[int, Draw, int]]) -> None:
    """Leave only the drawn token in each of these rows."""
    if not rows:
        return
    copied = logits[[place for place, *_ in rows]].to("cpu", torch.float32).numpy().copy()
    if found := draws.tokens(rows, copied):
        places, tokens = list(found), list(found.values())
        logits[places] = -torch.inf
        logits[places, tokens] = 0.0


class DrawRows(Processor):  # type: ignore[misc, unused-ignore]
    """For the first model runner. It has rows for parts of prompts too; their tokens are dropped."""

    def __init__(self, vllm_config: Any, device: Any, is_pin_memory: bool) -> None:
        self._draws = OwnDraws(vllm_config.model_config.get_vocab_size())
        self._rows: dict[int, tuple[Draw, list[int]]] = {}  # with its output so far

    def is_argmax_invariant(self) -> bool:
        return False

    def update_state(self, batch_update: Any) -> None:
        process_dict_updates(self._rows, batch_update, _entry)

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        rows = [(row, draw, len(output)) for row, (draw, output) in self._rows.items()]
        _narrow(logits, self._draws, rows)
        return logits


def _entry(params: Any, _: Any, output: list[int]) -> tuple[Draw, list[int]] | None:
    draw = _wanted(params)
    return None if draw is None else (draw, output)


class DrawSlots(SlotProcessor):  # type: ignore[misc, unused-ignore]
    """For the second model runner, which identifies requests by slot and tells how far each has come."""

    def __init__(self, vllm_config: Any, req_states: Any) -> None:
        self._draws = OwnDraws(vllm_config.model_config.get_vocab_size())
        self._slots: dict[int, Draw] = {}

    def add_request(self, req_idx: int, sampling_params: Any) -> bool:
        draw = _wanted(sampling_params)
        if draw is None:
            self._slots.pop(req_idx, None)
        else:
            self._slots[req_idx] = draw
        return draw is not None

    def apply(self, logits: torch.Tensor, ctx: Any) -> torch.Tensor:
        if not self._slots or self._slots.keys().isdisjoint(ctx.idx_mapping_np):
            return logits
        lengths = ctx.seq_lens_upper_bound_np  # prompt and output; less while the prompt is read
        rows = [
            (row, self._slots[slot], int(lengths[row]) - self._slots[slot].num_prompt)
            for row, slot in enumerate(ctx.idx_mapping_np)
            if slot in self._slots
        ]
        _narrow(logits, self._draws, rows)
        return logits
