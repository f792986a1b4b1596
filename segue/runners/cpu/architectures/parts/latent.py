"""Latent attention: the keys and values of all heads are made from one short row a token, which alone is stored.

Its matrices are taken to the other side of the scores: a query head is multiplied by its `attn_k_b` before it meets the
rows, and what it takes of them by its `attn_v_b` after. So all heads share one key, whose first part is the value.
"""

from dataclasses import dataclass

from segue.models.gguf import GgufHeader
from segue.runners.cpu.architectures.family import Family

RANK, QUERY_RANK = "attention.kv_lora_rank", "attention.q_lora_rank"
KEY, VALUE = "attention.key_length", "attention.value_length"
TURNED = "rope.dimension_count"
JOINED = ".attn_kv_b.weight"  # the end of a tensor's name
_MOST_TOGETHER = 8


@dataclass(frozen=True)
class Latent:
    """The dimensions of one layer's latent attention."""

    rank: int  # numbers of a token's row that stand for its values: the first part of its key
    turned: int  # the rest of its key, which RoPE rotates
    plain: int  # dimensions of a query head before it is multiplied that RoPE does not rotate; `turned` follow
    values: int  # dimensions of a head's value
    query_rank: int  # numbers that queries are made of; 0: they are made of the residual
    is_joined: bool  # the matrices of keys and values of all heads are one tensor

    @property
    def size(self) -> int:
        """Numbers of a key."""
        return self.rank + self.turned

    @property
    def query(self) -> int:
        return self.plain + self.turned

    def outputs(self, heads: int) -> int:
        """Floats per row: what queries are made of, the key, and the queries."""
        return self.query_rank + self.size + heads * self.query


def latent_of(header: GgufHeader, family: Family) -> Latent | None:
    if not family.is_latent:
        return None
    is_joined = not header.count(f"{KEY}_mla")
    key, value = (
        _size(header, name) if is_joined else header.count(f"{name}_mla") for name in (KEY, VALUE)
    )
    turned = header.count(TURNED)
    return Latent(
        rank=header.count(RANK),
        turned=turned,
        plain=key - turned,
        values=value,
        query_rank=header.count(QUERY_RANK),
        is_joined=is_joined,
    )


def _size(header: GgufHeader, name: str) -> int:
    """Of a head, as the file says it, or by the width if it does not."""
    if f"{header.architecture}.{name}" in header.metadata:
        return header.count(name)
    return header.count("embedding_length") // max(1, header.count("attention.head_count"))


def latent_shapes(latent: Latent, heads: int, width: int) -> dict[str, tuple[int, ...]]:
    """The tensors of a layer's latent attention, besides the norm before it."""
    rank, asked, queries = latent.rank, latent.query_rank, heads * latent.query
    own: dict[str, tuple[int, ...]] = {"attn_q.weight": (width, queries)}
    if asked:
        own = {"attn_q_a.weight": (width, asked), "attn_q_b.weight": (asked, queries)}
        own["attn_q_a_norm.weight"] = (asked,)
    own |= {"attn_kv_a_mqa.weight": (width, latent.size), "attn_kv_a_norm.weight": (rank,)}
    own["attn_output.weight"] = (heads * latent.values, width)
    if latent.is_joined:
        return own | {"attn_kv_b.weight": (rank, heads * (latent.plain + latent.values))}
    own["attn_k_b.weight"] = (latent.plain, rank, heads)
    return own | {"attn_v_b.weight": (rank, latent.values, heads)}


def together(heads: int) -> int:
    """How many heads a thread works on at once: they share the reading of keys, and leave some to other threads."""
    return max(count for count in range(1, min(heads, _MOST_TOGETHER) + 1) if heads % count == 0)


def wrong_latent(header: GgufHeader, latent: Latent, tells_values: bool) -> str | None:
    """Which sizes of latent attention make no sense together, or None. `tells_values`: whether the file's width of
    values is that of these; Kimi Linear's is not used.
    """
    if bool(header.count(f"{KEY}_mla")) != bool(header.count(f"{VALUE}_mla")):
        return "of keys and values, the file says one's size in heads only"
    if min(latent.plain, latent.turned, latent.values, latent.rank) < 1:
        return (
            f"queries of {latent.query} dimensions, of which {latent.turned} turn, meet keys of "
            f"rank {latent.rank}, and values have {latent.values}"
        )
    told = header.count(KEY), header.count(VALUE) if tells_values else latent.rank
    if not latent.is_joined and told != (latent.size, latent.rank):
        return f"keys and values of {told} numbers are not those of rank {latent.rank}"
    return None
