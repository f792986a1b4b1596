"""Filters in an order that vLLM does not support: llama.cpp's and Ollama's dialects filter first, then scale.

The definitions are those of engine/sampling/filters.py: there for one row in numpy, here for many rows in torch.
"""

from collections.abc import Callable, Sequence

import torch

_Cut = Callable[[torch.Tensor, float, float], torch.Tensor]


def cut(logits: torch.Tensor, steps: Sequence[tuple[str, float]]) -> torch.Tensor:
    """Unscaled logits [rows, vocabulary] → the same, with minus infinity for removed tokens."""
    temperature = 1.0
    for name, value in steps:
        if name == "temperature":
            temperature = value
        else:
            logits = _CUTS[name](logits, value, temperature)
    return logits


def _top_k(logits: torch.Tensor, count: float, _: float) -> torch.Tensor:
    most = min(int(count), logits.shape[-1])
    return _floor(logits, logits.topk(most).values[:, -1:])


def _top_p(logits: torch.Tensor, mass: float, temperature: float) -> torch.Tensor:
    shares, order = (logits / temperature).softmax(-1).sort(descending=True)
    before = shares.cumsum(-1) - shares
    is_cut = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, order, before >= mass)
    return logits.masked_fill(is_cut, -torch.inf)


def _min_p(logits: torch.Tensor, ratio: float, temperature: float) -> torch.Tensor:
    best = logits.amax(-1, keepdim=True)
    return _floor(logits, best + temperature * torch.tensor(ratio).log().item())


def _top_n_sigma(logits: torch.Tensor, count: float, _: float) -> torch.Tensor:
    is_possible = logits > -torch.inf
    number = is_possible.sum(-1, keepdim=True)
    mean = torch.where(is_possible, logits, 0.0).sum(-1, keepdim=True) / number
    squares = torch.where(is_possible, (logits - mean) ** 2, 0.0).sum(-1, keepdim=True)
    return _floor(logits, logits.amax(-1, keepdim=True) - count * (squares / number).sqrt())


def _floor(logits: torch.Tensor, least: torch.Tensor) -> torch.Tensor:
    return logits.masked_fill(logits < least, -torch.inf)


_CUTS: dict[str, _Cut] = {
    "top_k": _top_k,
    "top_p": _top_p,
    "min_p": _min_p,
    "top_n_sigma": _top_n_sigma,
}
