"""Older files of latent attention: the matrices of keys and values of all heads are one tensor, `attn_kv_b`.

Of each head it has rows for keys, then rows for values. Those of values are matrices as they stand. Those of keys are
multiplied by queries from the other side here, so they are turned, as floats: no packed type can be turned as it is.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from segue.models.gguf import Tensor
from segue.models.gguf.floats import as_floats
from segue.runners.cpu.architectures.hparams import Hparams
from segue.runners.cpu.architectures.layers import Layer
from segue.runners.cpu.architectures.parts.latent import JOINED, Latent
from segue.runners.cpu.products.matrix import checked


def joined(tensors: Sequence[Tensor], hparams: Hparams) -> Iterator[tuple[Tensor, Layer, Latent]]:
    """The tensors with keys and values in one, with their layers."""
    for tensor in tensors:
        if tensor.name.endswith(JOINED):
            layer = hparams.by_layer[int(tensor.name.split(".")[1])]
            if layer.latent is not None:
                yield tensor, layer, layer.latent


def parted(tensors: Sequence[Tensor], hparams: Hparams, file: int) -> Iterator[Tensor]:
    """The matrices of all heads. `file`: the number of `turned_keys` among the files."""
    place = 0
    for tensor, layer, latent in joined(tensors, hparams):
        rows = latent.plain + latent.values
        row_bytes, key_bytes = tensor.num_bytes // tensor.shape[1], 4 * latent.plain * latent.rank
        for head in range(layer.heads):
            yield replace(
                tensor,
                name=tensor.name.replace("kv_b", "v_b") + f"/{head}",
                shape=(latent.rank, latent.values),
                offset=tensor.offset + (head * rows + latent.plain) * row_bytes,
                num_bytes=latent.values * row_bytes,
            )
            yield replace(
                tensor,
                name=tensor.name.replace("kv_b", "k_b") + f"/{head}",
                type="F32",
                shape=(latent.plain, latent.rank),
                offset=place,
                num_bytes=key_bytes,
                file=file,
            )
            place += key_bytes


def turned_keys(
    tensors: Sequence[Tensor], hparams: Hparams, files: Sequence[NDArray[np.uint8]]
) -> NDArray[np.uint8]:
    """The matrices of keys as floats, one after the other, turned."""
    made: list[NDArray[np.uint8]] = [np.empty(0, np.uint8)]
    for tensor, layer, latent in joined(tensors, hparams):
        checked(tensor, files[tensor.file].size)
        raw = files[tensor.file][tensor.offset : tensor.offset + tensor.num_bytes]
        whole = as_floats(tensor.type, raw.reshape(tensor.shape[1], -1)).astype(np.float32)
        keys = whole.reshape(layer.heads, -1, latent.rank)[:, : latent.plain]
        made.append(np.ascontiguousarray(keys.transpose(0, 2, 1)).reshape(-1).view(np.uint8))
    return np.concatenate(made)
