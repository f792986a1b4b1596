"""distributed/logits/filters.py inside vLLM: one logits processor for each of its two model runners."""

from collections.abc import Iterable
from typing import Any

import torch
from vllm.v1.sample.logits_processor import LogitsProcessor as Processor
from vllm.v1.sample.logits_processor.builtin import process_dict_updates
from vllm.v1.worker.gpu.sample.logits_processor import LogitsProcessor as SlotProcessor

from segue.distributed.logits.filters import cut
from segue.distributed.request.mapping import CUTS_KEY

_Key = tuple[tuple[str, float], ...]


def _wanted(params: Any) -> _Key | None:
    cuts = (params.extra_args or {}).get(CUTS_KEY)
    return None if cuts is None else tuple((name, value) for name, value in cuts)


def _temperature(key: _Key) -> float:
    return dict(key).get("temperature", 1.0)


def _alike(rows: Iterable[tuple[int, _Key]]) -> dict[_Key, list[int]]:
    """Group the rows by equal settings, so that each group is filtered in one call."""
    groups: dict[_Key, list[int]] = {}
    for row, key in rows:
        groups.setdefault(key, []).append(row)
    return groups


class CutRows(Processor):  # type: ignore[misc, unused-ignore]
    """For the first model runner, which calls it after scaling the logits by the temperature."""

    def __init__(self, vllm_config: Any, device: Any, is_pin_memory: bool) -> None:
        self._rows: dict[int, _Key] = {}

    def is_argmax_invariant(self) -> bool:
        return True  # every filter keeps the likeliest token

    def update_state(self, batch_update: Any) -> None:
        process_dict_updates(self._rows, batch_update, lambda params, *_: _wanted(params))

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        for key, rows in _alike(self._rows.items()).items():
            temperature = _temperature(key)
            logits[rows] = cut(logits[rows] * temperature, key) / temperature
        return logits


class CutSlots(SlotProcessor):  # type: ignore[misc, unused-ignore]
    """For the second model runner, which calls it before scaling and identifies requests by slot."""

    def __init__(self, vllm_config: Any, req_states: Any) -> None:
        self._slots: dict[int, _Key] = {}

    def add_request(self, req_idx: int, sampling_params: Any) -> bool:
        key = _wanted(sampling_params)
        if key is None:
            self._slots.pop(req_idx, None)
        else:
            self._slots[req_idx] = key
        return key is not None

    def apply(self, logits: torch.Tensor, ctx: Any) -> torch.Tensor:
        slots = ctx.idx_mapping_np
        # Nearly always: then no step must wait for the device.
        if not self._slots or self._slots.keys().isdisjoint(slots):
            return logits
        if len(slots) != len(logits):  # speculative decoding: a request has several rows
            slots = ctx.expanded_idx_mapping.cpu().numpy()
        wanted = ((row, self._slots[slot]) for row, slot in enumerate(slots) if slot in self._slots)
        for key, rows in _alike(wanted).items():
            logits[rows] = cut(logits[rows], key)
        return logits
