"""What our kernels read from files that are around, beside what llama.cpp printed when it loaded them."""

import math
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from segue.models.gguf import GgufHeader
from segue.runners.cpu.architectures.hparams import Hparams, hparams_of
from segue.runners.cpu.architectures.layers import Layer, heads_of
from segue.runners.cpu.architectures.positions import original_context, rotations
from segue.runners.cpu.architectures.scaling import SCALED, real, scaling
from segue.runners.cpu.architectures.states.recurrence import Recurrence
from segue.runners.cpu.architectures.support import supports
from tests.support.models.real_files import RealFile, real_files, write

# llama.cpp's numbers for ways to turn positions.
NONE, NEIGHBOURS, HALVES, SIDE_BY_SIDE, INTERLEAVED = -1, 0, 2, 8, 40


class Read:
    """A file as our kernels take it."""

    def __init__(self, header: GgufHeader) -> None:
        self.header = header
        self.hparams: Hparams = hparams_of(header)
        attending = [layer for layer in self.hparams.by_layer if layer.attends]
        # Of layers that see all tokens, if there are any, as llama.cpp counts.
        self.full: Layer | None = min(attending, key=lambda layer: layer.window != 0, default=None)
        self.windowed = next((layer for layer in attending if layer.window), self.full)

    @property
    def state(self) -> Recurrence:
        layers = (layer.recurrence for layer in self.hparams.by_layer)
        return next(found for found in layers if found is not None)

    def key_size(self, layer: Layer | None) -> int:
        if layer is None:
            return 0
        if layer.latent is None:
            return layer.head_size
        return layer.latent.query if layer.latent.is_joined else layer.latent.size

    def value_size(self, layer: Layer | None) -> int:
        if layer is None:
            return 0
        if layer.latent is None:
            return layer.mixed
        return layer.latent.values if layer.latent.is_joined else layer.latent.rank

    def turned(self, is_windowed: bool) -> int:
        layers = [layer for layer in self.hparams.by_layer if layer.pairs]
        own = [layer for layer in layers if (layer.window != 0) == is_windowed] or layers
        return 2 * own[0].pairs if own else 0

    @property
    def turns(self) -> int:
        family = self.hparams.family
        if "none" in (family.turns, family.rotated):
            return NONE
        kinds = {"side by side": SIDE_BY_SIDE, "interleaved": INTERLEAVED}
        plain = HALVES if family.turns == "halves" else NEIGHBOURS
        return kinds.get(family.sections, plain)

    @property
    def logit_scale(self) -> float:
        scale = self.hparams.logit_scale
        return 1 / scale if scale and self.hparams.family.divides_logits else scale

    @property
    def gating(self) -> str:
        routing = self.hparams.routing
        return "sigmoid" if routing.startswith("sigmoid") else "softmax"


def of_layers(values: list[int]) -> str:
    return str(values[0]) if len({*values}) == 1 else " ".join(map(str, values))


def small(value: float) -> str:
    return f"{value:.1e}"


# llama.cpp's word → ours, as it prints it
FOUND: Mapping[str, Callable[[Read], object]] = {
    "n_vocab": lambda read: read.hparams.vocab_size,
    "n_head": lambda read: of_layers([*heads_of(read.header)[0]]),
    "n_head_kv": lambda read: of_layers([*heads_of(read.header)[1]]),
    "n_rot": lambda read: read.turned(False),
    "n_rot_swa": lambda read: read.turned(True),
    "n_swa": lambda read: abs(read.windowed.window) if read.windowed else 0,
    "is_swa": lambda read: of_layers([int(layer.window != 0) for layer in read.hparams.by_layer]),
    "n_embd_head_k": lambda read: read.key_size(read.full),
    "n_embd_head_v": lambda read: read.value_size(read.full),
    "n_embd_head_k_swa": lambda read: read.key_size(read.windowed),
    "n_embd_head_v_swa": lambda read: read.value_size(read.windowed),
    "n_embd_head_k_mla": lambda read: read.full and read.full.latent and read.full.latent.query,
    "n_embd_head_v_mla": lambda read: read.full and read.full.latent and read.full.latent.values,
    "n_lora_q": lambda read: read.full and read.full.latent and read.full.latent.query_rank,
    "n_lora_kv": lambda read: read.full and read.full.latent and read.full.latent.rank,
    "f_clamp_kqv": lambda read: small(read.hparams.clamp),
    "f_max_alibi_bias": lambda read: small(read.hparams.max_bias),
    "f_logit_scale": lambda read: small(read.logit_scale),
    "f_attn_value_scale": lambda read: f"{read.hparams.attended_scale:.4f}",
    "f_embedding_scale": lambda read: f"{read.hparams.embedding_scale:f}",
    "f_residual_scale": lambda read: f"{read.hparams.residual_scale:f}",
    "f_attention_scale": lambda read: f"{read.hparams.query_scale:f}",
    "n_ff": lambda read: of_layers([layer.hidden for layer in read.hparams.by_layer]),
    "n_expert": lambda read: read.hparams.experts,
    "n_expert_used": lambda read: read.hparams.experts_used,
    "n_expert_groups": lambda read: read.hparams.groups,
    "n_group_used": lambda read: read.hparams.groups_used,
    "n_ff_exp": lambda read: read.hparams.expert_hidden,
    "n_ff_shexp": lambda read: read.hparams.shared_hidden,
    "n_expert_shared": lambda read: read.hparams.shared_hidden // read.hparams.expert_hidden,
    "n_layer_dense_lead": lambda read: read.hparams.dense_layers,
    "expert_weights_scale": lambda read: f"{read.hparams.share_scale:.1f}",
    "expert_weights_norm": lambda read: int(read.hparams.renormalises),
    "expert_gating_func": lambda read: read.gating,
    "rope type": lambda read: read.turns,
    "rope scaling": lambda read: scaling(read.header)[0],
    "n_ctx_orig_yarn": lambda read: original_context(read.header),
    "rope_yarn_log_mul": lambda read: f"{real(read.header, SCALED):.4f}",
    # Of cosines and sines, with YaRN's own factor.
    "yarn_attn_factor": lambda read: f"{rotations(read.header, {}).magnitude:.4f}",
    "mrope sections": lambda read: of_layers(
        [int(each) for each in read.header.listed("rope.dimension_sections")]
    ),
    "ssm_d_conv": lambda read: read.state.taps,
    "ssm_d_inner": lambda read: read.state.taken,
    "ssm_d_state": lambda read: read.state.states,
    "ssm_dt_rank": lambda read: read.state.rank or read.state.heads,
    "ssm_n_group": lambda read: read.state.key_heads,
}
# What llama.cpp prints of every file, and what it is where the facts do not say.
USUAL = {
    **dict.fromkeys(("f_clamp_kqv", "f_max_alibi_bias", "f_logit_scale"), "0.0e+00"),
    **dict.fromkeys(("n_swa", "n_expert", "n_expert_used"), "0"),
    "rope scaling": "linear",
}


@pytest.mark.parametrize("real_file", real_files("files"), ids=lambda each: each.name)
def test_a_file_is_read_as_llama_cpp_reads_it(tmp_path: Path, real_file: RealFile) -> None:
    read = Read(checked(tmp_path, real_file))
    wrong = {}
    for word, told in {**USUAL, **real_file.printed}.items():
        if word in FOUND and told != "unsaid" and (found := str(FOUND[word](read))) != told:
            wrong[word] = f"{found}, not {told}"
    assert not wrong
    check_norms(read.hparams, real_file.printed)
    check_scores(read, real_file.printed)
    check_turning(read, real_file.printed)


@pytest.mark.parametrize("real_file", real_files("sizes"), ids=lambda each: each.name)
def test_models_of_these_measures_are_computed(tmp_path: Path, real_file: RealFile) -> None:
    checked(tmp_path, real_file)


def checked(path: Path, real_file: RealFile) -> GgufHeader:
    """The file's header: it has as many tensors and numbers as the real one, and is computed or refused."""
    header = write(path / "x.gguf", real_file)
    if real_file.types:
        assert len(header.tensors) == sum(real_file.types.values())
    if (told := real_file.printed.get("model params")) is not None:
        assert parameters(header.num_params, told)
    reason = supports(header)
    assert (reason is None) == (not real_file.refused), reason
    assert real_file.refused in (reason or "")
    return header


def parameters(count: int, told: str) -> bool:
    """Whether `told` ("8.03B", or all digits) is this count, rounded."""
    if told.isdigit():
        return count == int(told)
    unit = {"M": 1e6, "B": 1e9, "T": 1e12}[told[-1]]
    digits = len(told[:-1].partition(".")[2])
    return f"{count / unit:.{digits}f}" == told[:-1]


def check_norms(hparams: Hparams, printed: Mapping[str, str]) -> None:
    word = "f_norm_rms_eps" if hparams.norm == "rms" else "f_norm_eps"
    assert small(hparams.epsilon) == printed.get(word, "0.0e+00"), word


def check_scores(read: Read, printed: Mapping[str, str]) -> None:
    """Scores are scaled as printed, or by the root of a head's size. Those of latent attention follow from more."""
    told = printed.get("f_attn_scale")
    if told == "unsaid" or read.full is None or read.full.latent is not None:
        return
    usual = 1 / math.sqrt(read.full.head_size)
    assert small(read.hparams.query_scale) == (told or small(usual))


def check_turning(read: Read, printed: Mapping[str, str]) -> None:
    """The fastest and the slowest pair of dimensions turn as base and scale say."""
    if read.turns == NONE:
        return
    for is_windowed, end in ((False, "train"), (True, "swa")):
        if f"freq_base_{end}" not in printed or not read.turned(is_windowed):
            continue
        base = float(printed[f"freq_base_{end}"])
        scale = float(printed.get(f"freq_scale_{end}", 1.0))
        count = read.turned(is_windowed)
        speeds = rotations(read.header, {}, is_windowed).speeds
        assert len(speeds) == count // 2
        kind = scaling(read.header)[0]
        first = 1.0 if kind == "yarn" else scale
        slowest = scale * base ** (2 / count - 1)
        moving = [speed for speed in speeds if speed]
        assert math.isclose(moving[0], first, rel_tol=1e-5)
        if len(moving) == len(speeds):
            assert math.isclose(moving[-1], slowest, rel_tol=1e-4), (
                is_windowed,
                moving[-1],
                slowest,
            )
