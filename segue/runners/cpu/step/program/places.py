"""The memory that instructions name, besides weights."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from segue.runners.cpu.architectures.layers import Layer
from segue.runners.cpu.step.attention.kv_formats import KvType, head_bytes
from segue.runners.cpu.step.attention.scratch import BLOCK


@dataclass(frozen=True)
class Mixture:
    """Addresses of the arrays of a mixture of experts; see step/mixture/routing.py."""

    scores: int
    chances: int
    chosen: int
    shares: int
    places: int
    order: int
    active: int
    filled: int
    out: int
    shared: int  # output of the shared expert


@dataclass(frozen=True)
class Streams:
    """Addresses of what Gemma 3n has besides; see step/rare/."""

    all: int
    laurel: int  # output of the small product beside attention
    both: int  # gates and ups


@dataclass(frozen=True)
class Places:
    """Addresses that the instructions name, besides those of weights."""

    residual: int
    heads: int  # what the product after attention takes
    hidden: int  # what the last product of the feed-forward takes
    projected: int  # output of the products for queries, keys and values
    attended: int  # output of the product after attention
    added: int  # output of the feed-forward
    logits: int
    logits_row: int  # floats
    kv: tuple[tuple[int, int], ...]  # of each layer: its keys and its values in block 0
    block_bytes: int  # from one block to the next
    kv_type: KvType  # what numbers of those are kept as
    turns: tuple[int, ...]  # cosines and sines, then those of layers with a window; temperatures
    mixture: Mixture
    streams: Streams
    rare: Mapping[int, int]  # code of phases that are compiled apart, by their numbers
    layer_inputs: int  # embeddings of all layers, [rows][layers][columns]
    layer_gate: int  # what gates those of a layer
    convolved: int  # output of a convolution
    first_values: int  # of RWKV's first layer
    high: int  # the residual as a high stack left it, or as it was embedded
    low: int  # as a low stack left it
    states: tuple[int, ...]  # of each layer: where its part begins in a slot's state, in bytes


def block_bytes(layer: Layer, kv_type: KvType) -> int:
    """Bytes for the keys of 32 tokens."""
    return layer.key_heads * head_bytes(kv_type, layer.head_size)


def token_bytes(layers: Iterable[Layer], kv_type: KvType) -> int:
    """Bytes for keys and values of one token, in all layers."""
    own = (layer_bytes(layer, kv_type) for layer in layers if layer.has_keys)
    return sum(own) // BLOCK


def layer_bytes(layer: Layer, kv_type: KvType) -> int:
    """Bytes for keys and values of 32 tokens: values take as many as keys, or are a part of them."""
    return (1 if layer.latent else 2) * block_bytes(layer, kv_type)
