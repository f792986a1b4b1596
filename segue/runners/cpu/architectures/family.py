"""What the models of one architecture have in common: the columns of the table in families/."""

from dataclasses import dataclass
from typing import Literal

Mixer = Literal["attention", "delta", "conv", "mamba", "mamba1", "plamo", "kda", "wkv6", "wkv7"]
Turns = Literal["neighbours", "halves", "none"]
Rotated = Literal[
    "all",
    "three of four",
    "last three of four",
    "windowed",
    "only windowed",
    "windowed or dense",
    "as listed",
    "by setting",
    "by depth",
    "none",
]
Norm = Literal["rms", "layer"]
HeadNorms = Literal[
    "none",
    "each",
    "each or none",
    "own",
    "own or none",
    "whole",
    "whole or none",
    "unweighted",
    "gains",
]
Residuals = Literal["sequential", "parallel", "by setting", "by norm"]
Activation = Literal[
    "silu", "bounded silu", "limited silu", "gelu", "relu", "squared relu", "clamped silu", "xielu"
]
Experts = Literal["none", "some", "all", "by layer"]
Routing = Literal[
    "renormalised",
    "softmax",
    "of the chosen",
    "sigmoid",
    "sigmoid renormalised",
    "sigmoid before",
    "as told",
    "as told renormalised",
]
Sections = Literal[
    "none", "side by side", "side by side or none", "side by side if told", "interleaved"
]
Shared = Literal["none", "plain", "gated", "one", "dense", "beside"]
Layers = Literal["whole", "a part", "a mixer", "as counted", "experts first"]
Passes = Literal["none", "loops", "stacks"]
Gate = Literal["none", "own", "joined", "heads", "own or heads"]
Drafts = Literal["none", "norm", "sum"]


@dataclass(frozen=True)
class Window:
    """Sliding-window attention: all layers but every `period`-th see only the last tokens."""

    period: int
    is_full_first: bool = False  # the first of a period sees all tokens, not the last
    size: int = 0  # used if the file gives none; 0: then no layer has a window
    # The RoPE base of layers with a window, if the file gives none; 0: the base of all layers.
    base: float = 0.0
    is_plain: bool = False  # RoPE is not scaled in layers with a window
    is_magnified: bool = False  # but the file's factor of cosines and sines counts there
    layers: int = 0  # only models with this many layers have windows; 0: all
    is_listed: bool = False  # the file lists the layers with a window
    is_fixed: bool = False  # of `size` tokens, whatever the file says, if it has windows
    # Texts are cut into chunks of `size` tokens, whatever the file says; a token sees those before it in its chunk.
    is_chunked: bool = False


@dataclass(frozen=True)
class Family:
    """What all models of one architecture have in common."""

    # RoPE: the two dimensions of a pair are half a head apart ("halves") or neighbours; "none": learned positions.
    turns: Turns = "halves"
    # The layers with RoPE. "windowed": those with a window, if the model has such layers, else all; "only windowed":
    # those with a window; "windowed or dense": those, and the first ones, which have no experts; "last three of four":
    # if the model has windows, else all; "as listed": those that a file lists, if it does; "by setting": all, or none.
    rotated: Rotated = "all"
    turned_depth: int = 0  # "by depth": all layers of a model with this many, none of others
    # ALiBi (see alibi.py) that a file does not tell; 0: none. Only models with `biased_depth` layers have it; 0: all.
    max_bias: float = 0.0
    biased_depth: int = 0
    turns_half: bool = False  # of the dimensions a file counts, in layers without a window
    may_learn_positions: bool = False
    # How pairs of dimensions are shared out to positions in time and in a picture, which are all one for text.
    # "or none": if the file has none of the first two. "if told": the same, and the two dimensions of a pair are then
    # half a head apart.
    sections: Sections = "none"
    # All dimensions turn, by a base of 10000 and unscaled: a file that says another base or scaling is refused.
    has_plain_turns: bool = False
    norm: Norm = "rms"
    may_norm_by_rms: bool = False  # if the file has an epsilon of such norms
    # Whose name the epsilon has in every file, if that is not the family's norm. Under the latter's it counts first.
    epsilon_of: Norm | Literal[""] = ""
    has_norm_bias: bool = False
    may_have_norm_bias: bool = False  # norms of queries and keys too
    has_norm_weights: bool = True
    norms: tuple[str, str] = ("attn_norm", "ffn_norm")  # before attention and feed-forward
    # Before attention, if the file has it: then the norm of that name is before the feed-forward.
    second_norm: str = ""
    after: tuple[str, str] = ("", "")  # norms of their outputs, before the residual is added
    after_epsilon: float = 0.0  # of these norms; 0: that of all
    # Norms of what the last products of attention and of the feed-forward take.
    sub_norms: tuple[str, str] = ("", "")
    is_latent: bool = False  # keys and values are made from one row a token, see latent.py
    # Norms of queries and keys: per head with shared weights, per head with its own weights, or over all heads at once;
    # "unweighted": per head in layers with RoPE, if there are not 128 experts; "gains": per head, queries with a number
    # for each head, keys without weights.
    head_norms: HeadNorms = "none"
    head_epsilon: float = 0.0  # they are layer norms with this epsilon; 0: norms as the others are
    norms_heads_last: bool = False  # after they are rotated
    # Values are normed, without weights; a layer that has none takes its keys for them.
    norms_values: bool = False
    residuals: Residuals = "sequential"
    # Four residuals side by side, a small product beside attention, few columns that act in the first layers.
    has_streams: bool = False
    # "bounded silu": what is gated, and what silu takes, has a limit, if the file gives one; "limited silu": what silu
    # gives, not what it takes.
    activation: Activation = "silu"
    is_gated: bool = True
    is_gate_fused: bool = False  # gate and up are one matrix
    halves_hidden: bool = False  # the file counts the columns of gate and up together
    # "some": all layers, in some models; "by layer": in some models the layers that have a router.
    experts: Experts = "none"
    # How scores of experts become shares. "as told": the file says if by softmax or by sigmoid. After these two it may
    # ask for renormalising. "sigmoid before": what experts take is multiplied by it, not what they give.
    routing: Routing = "renormalised"
    routes_early: bool = (
        False  # experts are chosen by what the layer takes, as it is before any norm
    )
    # An expert that every row uses. "gated": its share is computed; "plain": its share is 1, and a file may lack it;
    # "one": its share is 1, and it is as wide as the others;
    # "dense": the layer's own feed-forward, and both have norms of their own before and after them;
    # "beside": the same without these norms, if the file has one: the sum is multiplied by the root of a half.
    shared_expert: Shared = "none"
    halves_experts: bool = False  # what experts give is halved where there is a shared one
    has_choice_bias: bool = False  # experts may be chosen with a bias that their shares do not have
    has_sinks: bool = False
    may_have_sinks: bool = False  # in some layers
    has_head_biases: bool = True  # queries, keys and values may have one
    may_narrow_values: bool = False  # values may have fewer numbers than keys
    # Attention's output is multiplied by the sigmoid of a product: of a matrix of its own, or of that of the queries,
    # where each head's gate follows its query; "heads": of a matrix of its own, with one output for each head;
    # "own or heads": as the tensor says.
    attention_gate: Gate = "none"
    gates_by_softplus: bool = False  # instead of a sigmoid
    # What layers without attention have: "delta", a gated delta net, in all but every fourth layer; "conv", a short
    # convolution with gates, "mamba", a state of Mamba 2, "mamba1", one of Mamba 1, "plamo", one of Mamba 2 whose times
    # are made as Mamba 1's, and "kda", a delta net whose keys fade each by itself, in layers for which the file counts
    # no heads of keys; "wkv6" and "wkv7", the time mixes of RWKV 6 and 7, in all.
    mixer: Mixer = "attention"
    is_mixer_beside: bool = False  # every layer has both, side by side
    # What the feed-forward takes is mixed with the row before, and its tensors have RWKV's names (channel mix).
    is_feed_forward_shifted: bool = False
    is_output_gated: bool = False  # what such a feed-forward gives is multiplied by a sigmoid
    has_embedding_norm: bool = False  # embeddings are normed before the first layer
    is_embedding_norm_plain: bool = False  # without weights
    # "a part": attention, or a mixer, or a feed-forward; "a mixer": there is nothing else. "as counted": attention, if
    # the file counts heads of keys, or one matrix, if it counts heads only; and a feed-forward, if it counts columns.
    # "experts first": they take what attention takes, by a norm of their own; then a feed-forward, as wide as the
    # residual, takes what attention gave.
    layers_are: Layers = "whole"
    has_time_norms: bool = False  # Mamba 1: what times, B and C are made of is normed, with weights
    # Delta nets: values of heads that share a key are side by side, and beta and alpha of these heads are one matrix.
    is_delta_grouped: bool = False
    temperature: float = 0.0  # by which queries of layers without RoPE grow with every chunk
    biases: tuple[str, ...] = ()  # products with a bias, besides queries, keys and values
    may_bias: tuple[str, ...] = ()  # products that may have a bias
    unsaid: tuple[int, int] = (0, 0)  # tokens, first and end, that are never drawn: of pictures
    is_tied: bool = False  # the output matrix is always the embedding matrix
    is_untied: bool = False  # it never is: a file without an output matrix lacks it
    window: Window | None = None
    query_scale: float = 0.0  # 0: by the size of a head
    is_query_scaled_whole: bool = False  # by 1 / the size of a head, not by its root
    wide_scale: int = 0  # a model with this many layers scales queries by width / heads
    is_embedding_scaled: bool = False  # by the square root of the width
    # Scales that a file does not tell; 0: none. Of what layers add: divided by the root of their number; of logits,
    # which are multiplied by it: divided by the width.
    embedding_factor: float = 0.0
    depth_scale: float = 0.0
    logit_width: int = 0
    logit_factor: float = 0.0
    # YaRN's betas, fast and slow, if the file says no others: a pair with more rotations than the first over the
    # original context is unchanged, one with fewer than the second is scaled.
    yarn_betas: tuple[float, float] = (32.0, 1.0)
    score_cap: float = 0.0  # both caps: used if the file gives none
    logit_cap: float = 0.0
    divides_logits: bool = False  # logits are divided by the file's scale, not multiplied
    has_layer_scales: bool = False  # the residual may be scaled after each layer
    adds_embeddings: bool = False  # after each layer, normed and by a scale of the layer's
    passes: Passes = "none"  # layers are passed several times: see layers.py
    # The MTP layer (see parts/drafts.py) takes rows as the last norm gives them, or as they are before
    # it; "none": such a layer is not computed.
    drafts_by: Drafts = "none"
    may_have_factors: bool = True  # of RoPE, one for each pair of dimensions
    needs_factors: bool = False  # the same, for layers without a window
    has_long_rope: bool = False  # the file may have RoPE factors for long and short contexts
    # Tensors with names that are not the usual ones: how theirs end, and how they would.
    renamed: tuple[str, str] = ("", "")
    unread: tuple[str, ...] = ()  # how names of a layer's tensors begin that texts do not use
    # Keys of the file, besides the common ones, that are read or have no effect. Any other key is refused.
    settings: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()  # those without which llama.cpp takes values of its own
    # Of these 0 is another thing than nothing said: llama.cpp computes with it. More in checks/kinds.py.
    nonzero: tuple[str, ...] = ()

    def rare_phases(self, drafts: bool) -> tuple[str, ...]:
        """What a step has of code that is compiled apart (rare_phases.py). `drafts`: with the layer for them."""
        return (*["streams"] * self.has_streams, *["drafts"] * drafts)
