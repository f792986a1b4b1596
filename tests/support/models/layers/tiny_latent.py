"""Tensors of latent attention, as files of DeepSeek 2 and later have them."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tests.support.models.tiny_gguf import Weights

Array = NDArray[np.float32]


@dataclass(frozen=True)
class TinyLatent:
    """Sizes of latent attention."""

    heads: int = 4
    rank: int = 32
    turned: int = 16
    plain: int = 64
    values: int = 48
    query_rank: int = 96  # 0: queries are made of the residual
    is_joined: bool = False  # the matrices of keys and values are one, as in older files
    tells_values: bool = True  # else values are as wide as the residual, all heads together

    def settings(self) -> dict[str, int]:
        query = self.plain + self.turned
        own = {
            "attention.kv_lora_rank": self.rank,
            "attention.q_lora_rank": self.query_rank,
            "rope.dimension_count": self.turned,
            "attention.head_count": self.heads,
            "attention.head_count_kv": self.heads if self.is_joined else 1,
            "attention.key_length": query if self.is_joined else self.rank + self.turned,
            "attention.value_length": self.values if self.is_joined else self.rank,
        }
        if self.is_joined:
            return own
        return own | {
            "attention.key_length_mla": query,
            "attention.value_length_mla": self.values,
        }

    def tensors(self, width: int, weights: Weights) -> Iterator[tuple[str, Array]]:
        heads = self.heads
        queries = heads * (self.plain + self.turned)
        if self.query_rank:
            yield "attn_q_a.weight", weights.matrix(self.query_rank, width)
            yield "attn_q_a_norm.weight", weights.vector(1.2, self.query_rank)
            yield "attn_q_b.weight", weights.matrix(queries, self.query_rank)
        else:
            yield "attn_q.weight", weights.matrix(queries, width)
        yield "attn_kv_a_mqa.weight", weights.matrix(self.rank + self.turned, width, 1.5)
        yield "attn_kv_a_norm.weight", weights.vector(1.2, self.rank)
        yield "attn_output.weight", weights.matrix(width, heads * self.values)
        if self.is_joined:
            yield "attn_kv_b.weight", weights.matrix(heads * (self.plain + self.values), self.rank)
            return
        keys = weights.matrix(heads * self.rank, self.plain)
        yield "attn_k_b.weight", keys.reshape(heads, self.rank, self.plain)
        values = weights.matrix(heads * self.values, self.rank)
        yield "attn_v_b.weight", values.reshape(heads, self.values, self.rank)
