"""The transformer as an OpenVINO graph with paged attention, built on a converted model's arrays.

One row a token, of any sequences. Logits are computed for the rows asked for only.
"""

from typing import Any

import numpy as np
import openvino as ov
from openvino import opset13 as op
from openvino.op import _PagedAttentionExtension as PagedAttention

from segue.models.requantise import GROUP
from segue.runners.openvino_convert import JOINED, Entry

Node = Any  # openvino ships no types

INPUTS = {  # name → element type
    "input_ids": ov.Type.i64,
    "position_ids": ov.Type.i64,
    "past_lens": ov.Type.i32,
    "subsequence_begins": ov.Type.i32,
    "block_indices": ov.Type.i32,
    "block_indices_begins": ov.Type.i32,
    "max_context_len": ov.Type.i32,
    "logit_rows": ov.Type.i64,
}
ELEMENT_TYPES = {"i8": ov.Type.i8, "i4": ov.Type.i4, "f16": ov.Type.f16, "f32": ov.Type.f32}


def build(entry: Entry) -> ov.Model:
    """Inputs: INPUTS, then key_cache.i and value_cache.i for each layer."""
    return _Builder(entry).model()


class _Builder:
    def __init__(self, entry: Entry):
        self.entry = entry
        self.shape = entry.shape
        self.inputs = {
            name: _parameter(name, [] if name == "max_context_len" else [-1], kind)
            for name, kind in INPUTS.items()
        }
        self.caches: list[Node] = []

    def model(self) -> ov.Model:
        embedding = self.weight("token_embd.weight")
        ids = op.convert(self.inputs["input_ids"], "i32")
        hidden = op.gather(embedding, ids, _ints(0))  # [rows, width]
        cos_sin = self.turns()
        for layer in range(self.shape.layers):
            hidden = op.add(hidden, self.attention(layer, hidden, cos_sin))
            hidden = op.add(hidden, self.feed_forward(layer, hidden))
        hidden = op.gather(hidden, self.inputs["logit_rows"], _ints(0))
        hidden = self.norm(hidden, "output_norm.weight")
        is_tied = "output.weight" not in self.entry.places
        head = embedding if is_tied else self.weight("output.weight")
        result = op.result(op.matmul(hidden, head, False, True))
        return ov.Model([result], [*self.inputs.values(), *self.caches], "segue")

    def turns(self) -> tuple[Node, Node]:
        """Cosine and sine of each row's angles, [rows, 1, 1, head_dim]."""
        positions = op.convert(op.unsqueeze(self.inputs["position_ids"], _ints([1, 2, 3])), "f32")
        speeds = self.entry.values("rope").reshape(1, 1, 1, -1)
        angles = op.multiply(positions, op.constant(speeds))
        angles = op.concat([angles, angles], -1)
        return op.cos(angles), op.sin(angles)

    def attention(self, layer: int, hidden: Node, cos_sin: tuple[Node, Node]) -> Node:
        shape, prefix = self.shape, f"blk.{layer}."
        sizes = [n * shape.head_dim for n in (shape.heads, shape.kv_heads, shape.kv_heads)]
        normed = self.norm(hidden, f"{prefix}attn_norm.weight")
        query, key, value = self.products(normed, prefix, "attn_qkv", sizes)
        query = self.turned(query, f"{prefix}attn_q_norm.weight", shape.heads, cos_sin)
        key = self.turned(key, f"{prefix}attn_k_norm.weight", shape.kv_heads, cos_sin)
        attended = self.paged(layer, query, key, value)
        return self.product(attended, f"{prefix}attn_output")

    def feed_forward(self, layer: int, hidden: Node) -> Node:
        prefix = f"blk.{layer}."
        normed = self.norm(hidden, f"{prefix}ffn_norm.weight")
        gate, up = self.products(normed, prefix, "ffn_gate_up", None)
        return self.product(op.multiply(op.swish(gate), up), f"{prefix}ffn_down")

    def norm(self, x: Node, name: str) -> Node:
        """Root mean square over the last dimension, in the very form that the plugin fuses."""
        power = [1] * len(x.get_output_partial_shape(0))
        squares = op.power(x, op.constant(np.full(power, 2, np.float32)))
        mean = op.reduce_mean(squares, op.constant(np.array([-1], np.int32)), True)
        epsilon = op.constant(np.full(power, self.shape.epsilon, np.float32))
        root = op.sqrt(op.add(mean, epsilon))
        scaled = op.multiply(op.divide(op.constant(np.ones(power, np.float32)), root), x)
        weight = self.entry.values(name).reshape(*power[:-1], -1)
        return op.multiply(scaled, op.constant(weight))

    def turned(self, x: Node, norm: str, heads: int, cos_sin: tuple[Node, Node]) -> Node:
        """Split into heads, normalised where the model does so, and turned by position; flat again."""
        head_dim, half = self.shape.head_dim, self.shape.head_dim // 2
        x = op.reshape(x, _ints([0, heads, 1, head_dim]), True)
        if norm in self.entry.places:
            x = self.norm(x, norm)
        first = op.slice(x, _ints([0]), _ints([half]), _ints([1]), _ints([3]))
        second = op.slice(x, _ints([half]), _ints([head_dim]), _ints([1]), _ints([3]))
        minus = op.constant(np.full((1, 1, 1, 1), -1, np.float32))
        across = op.concat([op.multiply(second, minus), first], -1)
        x = op.add(op.multiply(x, cos_sin[0]), op.multiply(across, cos_sin[1]))
        return op.reshape(x, _ints([0, heads * head_dim]), True)

    def paged(self, layer: int, query: Node, key: Node, value: Node) -> Node:
        shape = self.shape
        caches = [
            _parameter(f"{kind}_cache.{layer}", [-1, -1, -1, -1], ov.Type.dynamic)
            for kind in ("key", "value")
        ]
        self.caches += caches
        named = [self.inputs[name] for name in list(INPUTS)[2:6]]
        arguments = [query, key, value, *caches, *named, *self._options()]
        node = PagedAttention([_output(argument) for argument in arguments])
        for kind in "kv":  # which the plugin cannot tell from the flat inputs
            node.get_rt_info()[f"num_{kind}_heads"] = shape.kv_heads
            node.get_rt_info()[f"{kind}_head_size"] = shape.head_dim
        return node.output(0)

    def _options(self) -> list[Node]:
        """The operation's further inputs: its scale, and nothing for all that is not used."""
        zero, none = op.constant(np.int32(0)), op.constant(np.zeros(0, np.int32))
        no_floats = op.constant(np.zeros(0, np.float32))
        scale = op.constant(np.float32(self.shape.head_dim**-0.5))
        no_sinks = op.constant(np.zeros((0, 0, 0, 0), np.float32))
        no_bytes = op.constant(np.zeros(0, np.uint8))
        return [
            *(scale, zero, no_floats),  # sliding window, ALiBi slopes
            *(self.inputs["max_context_len"], none),  # score aggregation
            *(none, none, no_floats),  # rotation of blocks in the cache
            *(no_floats, zero, zero),  # sparse attention
            no_sinks,
            *(zero, none, none),  # eviction
            *(none, none),  # updates of blocks in the cache
            *(no_bytes, none),  # bias between queries
        ]

    # --- products with weights ---

    def products(self, x: Node, prefix: str, joined: str, sizes: list[int] | None) -> list[Node]:
        """Of one input with several matrices, which the conversion has joined where it could."""
        names = JOINED[joined]
        if f"{prefix}{joined}.weight" not in self.entry.places:
            return [self.product(x, f"{prefix}{name}") for name in names]
        both = self.product(x, f"{prefix}{joined}")
        rows = self.entry.places[f"{prefix}{joined}.weight"].shape[0]
        sizes = sizes or [rows // len(names)] * len(names)
        parts = op.variadic_split(both, _ints(-1), _ints(sizes))
        return [parts.output(index) for index in range(len(names))]

    def product(self, x: Node, name: str) -> Node:
        y = op.matmul(x, self.weight(f"{name}.weight"), False, True)
        if f"{name}.bias" in self.entry.places:
            y = op.add(y, op.constant(self.entry.values(f"{name}.bias").reshape(1, -1)))
        return y

    def weight(self, name: str) -> Node:
        """A matrix as f32 by declaration; the plugin keeps it as it is stored and multiplies so."""
        place = self.entry.places[name]
        stored = self.entry.values(name)
        if place.form == "f32":
            return op.constant(stored, shared_memory=True)
        if place.form == "f16":
            widened = op.convert(op.constant(stored, shared_memory=True), "f32")
            widened.get_rt_info()["decompression_0"] = ""  # or it would be widened once and for all
            return widened
        rows, columns = place.shape
        groups = [rows, columns // GROUP, GROUP]
        integers = ov.Tensor(stored, ov.Shape(groups), ELEMENT_TYPES[place.form])
        scales = op.constant(self.entry.scales(name), shared_memory=True)
        grouped = op.multiply(op.convert(op.constant(integers, shared_memory=True), "f16"), scales)
        return op.convert(op.reshape(grouped, _ints([rows, columns]), False), "f32")


def _parameter(name: str, shape: list[int], kind: ov.Type) -> Node:
    node = op.parameter(shape, kind, name=name)
    node.output(0).set_names({name})
    return node


def _ints(values: int | list[int]) -> Node:
    return op.constant(np.array(values, np.int64))


def _output(node: Node) -> Node:
    """Some operations give a node, those with several outputs one of these."""
    return node.output(0) if isinstance(node, ov.Node) else node
