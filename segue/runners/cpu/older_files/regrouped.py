"""Older files of Qwen3-Next: what queries, keys, values and gates of a delta net are made by is one tensor, `ssm_in`.

Of each head of keys it has rows for its query, its key, the values of heads that share it, and their gates. They are
copied to where newer files have them: queries, keys and values of all heads in one matrix, gates in another.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from segue.models.gguf import Tensor
from segue.runners.cpu.architectures.hparams import IN_ONE, Hparams
from segue.runners.cpu.architectures.states.recurrence import Recurrence
from segue.runners.cpu.products.matrix import checked


def _in_one(tensors: Sequence[Tensor], hparams: Hparams) -> Iterator[tuple[Tensor, Recurrence]]:
    for tensor in tensors if hparams.has_states_in_one else ():
        if tensor.name.endswith(f".{IN_ONE}"):
            layer = hparams.by_layer[int(tensor.name.split(".")[1])].recurrence
            if layer is not None:
                yield tensor, layer


def regrouped(tensors: Sequence[Tensor], hparams: Hparams, file: int) -> Iterator[Tensor]:
    """The two matrices of each layer. `file`: the number of `regrouped_rows` among the files."""
    place = 0
    for tensor, layer in _in_one(tensors, hparams):
        row_bytes = tensor.num_bytes // tensor.shape[1]
        for name, rows in (("attn_qkv", layer.channels), ("attn_gate", layer.taken)):
            yield replace(
                tensor,
                name=tensor.name.replace("ssm_in", name),
                shape=(tensor.shape[0], rows),
                offset=place,
                num_bytes=rows * row_bytes,
                file=file,
            )
            place += rows * row_bytes


def regrouped_rows(
    tensors: Sequence[Tensor], hparams: Hparams, files: Sequence[NDArray[np.uint8]]
) -> NDArray[np.uint8]:
    """Their rows as they are in the file, in the order of the matrices."""
    made: list[NDArray[np.uint8]] = [np.empty(0, np.uint8)]
    for tensor, layer in _in_one(tensors, hparams):
        checked(tensor, files[tensor.file].size)
        raw = files[tensor.file][tensor.offset : tensor.offset + tensor.num_bytes]
        heads = raw.reshape(layer.key_heads, -1, tensor.num_bytes // tensor.shape[1])
        values = layer.taken // layer.key_heads
        ends = np.cumsum([layer.states, layer.states, values])
        made += [np.ascontiguousarray(part).reshape(-1) for part in np.split(heads, ends, axis=1)]
    return np.concatenate(made)
