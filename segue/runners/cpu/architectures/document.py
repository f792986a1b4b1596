"""The table of architectures as a document: `python -m segue.runners.cpu.architectures.document > docs/models.md`."""

import re
from textwrap import fill

from segue.runners.cpu.architectures.document_points import NAMES, TAIL
from segue.runners.cpu.architectures.families import FAMILIES
from segue.runners.cpu.architectures.families.keys import CLAMP
from segue.runners.cpu.architectures.family import Family, Window
from segue.runners.cpu.architectures.parts.alibi import MOST
from segue.runners.cpu.architectures.states.recurrence import RWKV
from segue.runners.cpu.products.formats import FLOATS, FORMATS

_HEAD = """# Models that the CPU runner computes

<!-- Written by `python -m segue.runners.cpu.architectures.document > docs/models.md`: change families/ instead. -->

Segue's own kernels compute GGUF files whose architecture is in the table. Other architectures, and files that go beyond
this page, run on llama.cpp (here always build 11549). `segue models show FILE.gguf` shows the architecture, which
runner would serve the file, and why. How to name and download a model: [quickstart.md](quickstart.md#other-models).

{contents}
"""
_LEGEND = """
An empty cell means as in Llama: RMS norms before attention and feed-forward, plain attention, a gated silu, one
residual, a head of its own or tied to the embeddings. Positions: RoPE, whose pairs are neighbours or half a head
apart (halves, as in NeoX), unless something else is named. QK norm: queries and keys are normed head by head. After
"experts" comes the function that gives their shares. The file may change which layers have windows or a state.

"""
_WIDTH = 120
_USUAL = ("RMS, before", "", "plain", "gated silu", "sequential", "own or tied")
_COLUMNS = ("architecture", "norms", "positions", "attention", "feed-forward", "residuals", "head")
_NORMS = {"rms": "RMS", "layer": "layer"}
_HEAD_NORMS = {
    "each": "QK norm",
    "each or none": "QK norm or none",
    "own": "QK norm, weights of each head",
    "own or none": "QK norm, weights of each head, or none",
    "whole": "QK norm of all heads together",
    "whole or none": "QK norm of all heads together, or none",
    "unweighted": "QK norm without weights, where RoPE turns them",
    "gains": "QK norm, queries with a number for each head",
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
    "delta": "a gated delta net instead in all but every 4th layer",
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
    "renormalised": "normalised softmax",
    "softmax": "softmax",
    "sigmoid": "sigmoid",
    "sigmoid before": "inputs multiplied by a sigmoid",
    "sigmoid renormalised": "normalised sigmoid",
    "of the chosen": "softmax of the chosen",
    "as told": "softmax or sigmoid",
    "as told renormalised": "normalised softmax or sigmoid",
}


def markdown() -> str:
    rows = [_COLUMNS, ("---",) * len(_COLUMNS)]
    rows += [_row(name, family) for name, family in FAMILIES.items()]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    tail = (
        NAMES
        + "## Architectures\n"
        + _LEGEND
        + table
        + "\n"
        + TAIL.format(types=_types(), larger=_larger())
    )
    return _HEAD.format(contents=_contents(tail)) + tail


def _contents(text: str) -> str:
    """A list of the headings, as links."""
    titles = [line[3:] for line in text.splitlines() if line.startswith("## ")]
    anchors = [re.sub("[^a-z0-9-]", "", title.lower().replace(" ", "-")) for title in titles]
    rows = zip(titles, anchors, strict=True)
    return "".join(f"- [{title}](#{anchor})\n" for title, anchor in rows)


def _types() -> str:
    return _point(f"Weights: {', '.join((*FLOATS, *FORMATS))}.")


def _larger() -> str:
    """Types that take clearly more memory than in the file."""
    factors = {name: form.kept_bytes / form.block_bytes for name, form in FORMATS.items()}
    larger = [f"{name} {factor:.2f}" for name, factor in factors.items() if factor > 1.1]
    return _point(
        "In memory weights take as much as in the file, or up to 4% more. Those that the file has as rows of a "
        "table, or as digits in base 3, are expanded when they are packed and take this many times the file: "
        f"{', '.join(larger)}. `segue models show` says what a file takes."
    )


def _point(text: str) -> str:
    """One of the list, in lines of the document's width."""
    return fill(text, _WIDTH, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False)


def _row(name: str, family: Family) -> tuple[str, ...]:
    cells = (
        _norms(family),
        "learned" if family.turns == "none" else _positions(family),
        _attention(family),
        _feed_forward(family),
        "four side by side (AltUp)"
        if family.has_streams
        else _RESIDUALS.get(family.residuals, family.residuals) + _residual_scale(family),
        _head(family),
    )
    pairs = zip(cells, _USUAL, strict=True)
    return (f"`{name}`", *("" if cell == usual else cell for cell, usual in pairs))


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
    if family.sections == "side by side if told":
        sections = ", or sections side by side (halves), if the file has some"
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
    parts += ["after rotation"] if family.norms_heads_last else []
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
    return f"{kind}{whose}; {which} layer in {window.period} has none"


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
        ", normalised if the file says": is_told,
        ", scaled": "expert_weights_scale" in family.settings,
        ", chosen by what the layer takes": family.routes_early,
        ", with a bias": family.has_choice_bias,
        ", a shared expert": family.shared_expert in ("plain", "gated", "one"),
        ", both halved": family.halves_experts,
        ", by groups": "expert_group_count" in family.settings,
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
