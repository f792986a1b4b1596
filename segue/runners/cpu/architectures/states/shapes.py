"""The tensors of layers with a state that are not RWKV's: names and shapes that must or may be there."""

from segue.runners.cpu.architectures.hparams import IN_ONE, Hparams
from segue.runners.cpu.architectures.states.recurrence import Recurrence

Shapes = dict[str, tuple[int, ...]]  # GGML's order of dimensions: columns first

KDA_PARTS = ("q", "k", "v")


def _delta(hparams: Hparams, layer: Recurrence) -> Shapes:
    width, heads, size = hparams.width, layer.heads, layer.size
    own: Shapes = {"ssm_out.weight": (layer.taken, width)}
    if hparams.has_states_in_one:
        own[IN_ONE] = (width, layer.channels + layer.taken)
    else:
        own |= {"attn_qkv.weight": (width, layer.channels)}
        own |= {"attn_gate.weight": (width, layer.taken)}
    own |= {"ssm_conv1d.weight": (layer.taps, layer.channels), "ssm_norm.weight": (size,)}
    own |= {"ssm_a": (heads,), "ssm_dt.bias": (heads,)}
    if hparams.family.is_delta_grouped:
        return own | {"ssm_ba.weight": (width, 2 * heads)}
    return own | {f"ssm_{name}.weight": (width, heads) for name in ("beta", "alpha")}


def _kda(hparams: Hparams, layer: Recurrence) -> Shapes:
    width, whole, heads, size = hparams.width, layer.taken, layer.heads, layer.size
    own: Shapes = {f"attn_{part}.weight": (width, whole) for part in KDA_PARTS}
    own |= {f"ssm_conv1d_{part}.weight": (layer.taps, 1, whole) for part in KDA_PARTS}
    if layer.least:
        own |= {f"ssm_{name}_a.weight": (width, whole) for name in "fg"}
    else:
        own |= {f"ssm_{name}_a.weight": (width, size) for name in "fg"}
        own |= {f"ssm_{name}_b.weight": (size, whole) for name in "fg"}
    own |= {"ssm_a": (1, heads), "ssm_dt.bias": (whole,), "ssm_beta.weight": (width, heads)}
    return own | {"ssm_norm.weight": (size,), "attn_output.weight": (whole, width)}


def _mamba(hparams: Hparams, layer: Recurrence) -> Shapes:
    """GGUF has the numbers of heads as matrices of one column."""
    width, heads, groups = hparams.width, (1, layer.heads), layer.key_heads
    own: Shapes = {"ssm_in.weight": (width, layer.outputs), "ssm_out.weight": (layer.taken, width)}
    own |= {"ssm_conv1d.weight": (layer.taps, layer.channels), "ssm_dt.bias": heads[1:]}
    own |= {"ssm_a": heads, "ssm_d": heads}
    if not hparams.family.is_mixer_beside:
        own["ssm_norm.weight"] = (layer.taken // groups, groups)
    return own


def mamba_extras(layer: Recurrence) -> Shapes:
    """What Mamba 2 may have."""
    groups = layer.key_heads
    norm = (layer.taken // groups, groups)
    return {"ssm_conv1d.bias": (layer.channels,), "ssm_norm.weight": norm}


def _short_convolution(hparams: Hparams, layer: Recurrence) -> Shapes:
    width = hparams.width
    return {
        "shortconv.in_proj.weight": (width, layer.outputs),
        "shortconv.conv.weight": (layer.taps, width),
        "shortconv.out_proj.weight": (width, width),
    }


def _mamba1(hparams: Hparams, layer: Recurrence) -> Shapes:
    width, inner, states, rank = hparams.width, layer.taken, layer.states, layer.rank
    own: Shapes = {"ssm_in.weight": (width, 2 * inner), "ssm_out.weight": (inner, width)}
    own |= {"ssm_conv1d.weight": (layer.taps, inner), "ssm_conv1d.bias": (inner,)}
    own |= {"ssm_x.weight": (inner, rank + 2 * states), "ssm_dt.weight": (rank, inner)}
    own |= {"ssm_dt.bias": (inner,), "ssm_a": (states, inner), "ssm_d": (inner,)}
    return own | (_time_norms(layer) if hparams.family.has_time_norms else {})


def _time_norms(layer: Recurrence) -> Shapes:
    sizes = {"dt": layer.rank, "b": layer.states, "c": layer.states}
    return {f"ssm_{name}_norm.weight": (size,) for name, size in sizes.items()}


def _plamo(hparams: Hparams, layer: Recurrence) -> Shapes:
    width, inner, heads, rank = hparams.width, layer.taken, layer.heads, layer.rank
    own: Shapes = {"ssm_in.weight": (width, 2 * inner), "ssm_out.weight": (inner, width)}
    own |= {"ssm_conv1d.weight": (layer.taps, inner), "ssm_dt.weight": (rank, heads)}
    own["ssm_x.weight"] = (inner, rank + 2 * layer.states)
    own |= {"ssm_dt.bias": (heads,), "ssm_a": (heads,), "ssm_d": (heads,)}
    return own | _time_norms(layer)


RECURRENT = {
    "delta": _delta,
    "kda": _kda,
    "mamba": _mamba,
    "mamba1": _mamba1,
    "plamo": _plamo,
    "conv": _short_convolution,
}
