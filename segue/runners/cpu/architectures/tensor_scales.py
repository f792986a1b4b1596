"""Scales of whole tensors: a file of NVFP4 has a number for each matrix, by which its outputs are multiplied.

Beside `NAME.weight` there is `NAME.scale`, one number or one for each expert. `NAME.input_scale` is for processors that
round activations to 4 bits: it has no effect here, as in llama.cpp.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from segue.models.gguf import Tensor
from segue.runners.cpu.architectures.hparams import Hparams
from segue.runners.cpu.architectures.tensors import Shapes, expert_name, extras, shapes

TYPE, WEIGHT, SCALE = "NVFP4", ".weight", ".scale"
# The matrices whose scale llama.cpp reads.
SCALED = (
    *("attn_q", "attn_k", "attn_v", "attn_output", "attn_qkv", "attn_gate"),
    *("ffn_gate", "ffn_up", "ffn_down", "ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp"),
    *("ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"),
    *("ssm_in", "ssm_out", "ssm_alpha", "ssm_beta", "output"),
)


def scale_shapes(tensors: Sequence[Tensor], hparams: Hparams) -> Shapes:
    """The scales that may be there, with their shapes."""
    return {
        f"{stem}{SCALE}": tensor.shape[2:] or (1,) for stem, tensor in _scaled(tensors, hparams)
    }


def factors(
    tensors: Sequence[Tensor], hparams: Hparams, vectors: Mapping[str, NDArray[np.float32]]
) -> dict[str, float]:
    """The factor of each matrix that has one, by its name (`expert_name` of experts)."""
    found = {}
    for stem, tensor in _scaled(tensors, hparams):
        numbers = vectors.get(f"{stem}{SCALE}", np.empty(0, np.float32)).tolist()
        is_whole = len(tensor.shape) == 2
        for i, number in enumerate(numbers):
            found[tensor.name if is_whole else expert_name(tensor.name, i)] = number
    return found


def _scaled(tensors: Sequence[Tensor], hparams: Hparams) -> Iterator[tuple[str, Tensor]]:
    own = shapes(hparams) | extras(hparams)  # a scale of this name may be the model's own
    for tensor in tensors:
        stem = tensor.name.removesuffix(WEIGHT)
        is_fused = hparams.family.is_gate_fused and stem.endswith("ffn_up")
        is_fused |= hparams.has_states_in_one and stem.endswith("ssm_in")
        is_known = stem.split(".")[-1] in SCALED and not is_fused
        if tensor.type == TYPE and is_known and f"{stem}{SCALE}" not in own:
            yield stem, tensor
