"""The feed-forward: the one that all rows take, and mixtures of experts."""

from collections.abc import Iterator, Sequence

from segue.runners.cpu.architectures.family import Family
from segue.runners.cpu.architectures.tensors import DENSE_NORMS
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.program.norms import norm
from segue.runners.cpu.step.program.places import Places
from segue.runners.cpu.step.program.words import ACTIVATIONS, Row, float_word, product
from segue.runners.cpu.weights import Weights

ROUTINGS = {
    "softmax": on.SOFTMAX,
    "renormalised": on.RENORMALISED,
    "of the chosen": on.OF_THE_CHOSEN,
    "sigmoid": on.SIGMOID,
    "sigmoid renormalised": on.SIGMOID_RENORMALISED,
    "sigmoid before": on.SIGMOID_BY_SCORE,
}
_ROOT_OF_HALF = 0.7071067811865476
ROUTINGS_TO_1 = {"softmax": on.RENORMALISED, "sigmoid": on.SIGMOID_RENORMALISED}


def feed_forward(
    weights: Weights,
    name: str,
    tile_outputs: int,
    kind: str,
    hidden: int,
    out: int,
    *,
    shape: int = 0,
    limit: float = 0.0,
    before_last: Row | None = None,
) -> Iterator[Row]:
    """The feed-forward that all rows take. `kind` is the suffix of its tensors' names; `shape` and `limit`: see
    products.py; `before_last`: a phase before the last product.
    """
    hparams = weights.hparams
    gate = weights.matrix(f"{name}ffn_gate{kind}.weight") if hparams.family.is_gated else 0
    up = weights.matrix(f"{name}ffn_up{kind}.weight")
    biases = [weights.vector(f"{name}ffn_{part}{kind}.bias") for part in ("gate", "up")]
    activation = _activation(hparams.family, limit)
    row = gated(gate, up, hidden, tile_outputs, activation, biases=biases, shape=shape)
    yield [*row, *[0] * (on.LIMIT - len(row)), float_word(limit)]
    if before_last is not None:
        yield before_last
    down = weights.matrix(f"{name}ffn_down{kind}.weight")
    yield product(out, hparams.width, on.HIDDEN_FLOATS, [(down, 0)])


def _activation(family: Family, limit: float) -> int:
    """Limits are given layer by layer; without one there is no limit."""
    kind = ACTIVATIONS[family.activation]
    has_none = kind in (on.BOUNDED_SILU, on.LIMITED_SILU) and not limit
    return on.SILU if has_none else kind


def gated(
    gate: int,
    up: int,
    hidden: int,
    tile_outputs: int,
    activation: int,
    *,
    biases: Sequence[int] = (0, 0),
    shape: int = 0,
    source: int = on.INPUT_FLOATS,
) -> Row:
    """The words of step/products.py, in its order."""
    return [on.GATED, gate, up, hidden, tile_outputs, activation, *biases, shape, source]


def scores_of_experts(weights: Weights, places: Places, layer: int) -> Row:
    """The product by whose outputs rows choose their experts."""
    router = weights.matrix(f"{weights.hparams.name_of(layer)}ffn_gate_inp.weight")
    return product(places.mixture.scores, weights.hparams.experts, on.INPUT_FLOATS, [(router, 0)])


def experts(weights: Weights, places: Places, layer: int, tile_outputs: int) -> Iterator[Row]:
    """The words of the files in mixture, in their order."""
    hparams, kept, family = weights.hparams, places.mixture, weights.hparams.family
    name, is_dense = hparams.name_of(layer), family.shared_expert == "dense"
    is_beside = is_dense or hparams.is_fed_beside
    shared = kept.shared if hparams.shared_hidden or is_beside else 0
    if shared:
        kind, hidden = "_shexp", hparams.shared_hidden
        if is_beside:
            kind, hidden = "", hparams.by_layer[layer].hidden
        limit = hparams.by_layer[layer].limit
        yield from feed_forward(weights, name, tile_outputs, kind, hidden, shared, limit=limit)
    if is_dense:
        yield norm(weights, name, "ffn_gate_inp", on.FROM_SUM, [], end="scale")
    common = [kept.scores, hparams.experts, hparams.experts_used, kept.chosen, kept.shares]
    common += [kept.places, kept.order, kept.active, kept.filled]

    def phase(*own: int) -> Row:
        return [*own, *[0] * (8 - len(own)), *common]

    if not family.routes_early:
        yield scores_of_experts(weights, places, layer)
    before, *after = DENSE_NORMS if is_dense else ("", "", "")
    if before:
        yield norm(weights, name, before, on.FROM_SUM, [])
    routings = ROUTINGS | (ROUTINGS_TO_1 if hparams.renormalises else {})
    bias, choice = (weights.vector(f"{name}{of}.bias") for of in ("ffn_gate_inp", "exp_probs_b"))
    routing = hparams.routing
    by_chance = choice or hparams.groups or routing.startswith("sigmoid")
    chances = kept.chances if by_chance else 0
    factor, share = hparams.share_scale, 1.0  # of the experts' shares, and that of the shared one
    if hparams.is_fed_beside:
        factor = share = _ROOT_OF_HALF
    scales = float_word(factor), weights.vector(f"{name}ffn_down_exps.scale")
    route = phase(on.ROUTE, routings[routing], bias, chances, choice, *scales)
    yield [*route, hparams.groups, hparams.groups_used]
    yield phase(on.SORT)
    weighs = int(routing == "sigmoid before")
    yield phase(on.GATHER, int(weights.has_float_experts), weighs)
    gate, up, down = (
        weights.each(f"{name}ffn_{part}_exps.weight", hparams.experts)
        if part != "gate" or family.is_gated
        else 0
        for part in ("gate", "up", "down")
    )
    biases = [weights.vector(f"{name}ffn_{part}_exps.bias") for part in ("gate", "up", "down")]
    hidden = hparams.expert_hidden
    limit = hparams.by_layer[layer].expert_limit
    activation = _activation(family, limit)
    row = phase(on.EXPERTS, gate, up, hidden, tile_outputs, activation, *biases[:2])
    yield [*row, float_word(limit)]
    yield phase(on.EXPERTS_DOWN, down, kept.out, hidden)
    gated = weights.vector(f"{name}ffn_gate_inp_shexp.weight")
    last = phase(on.COMBINE, 0, kept.out, weighs, biases[2], places.added, shared, gated)
    norms = [weights.vector(f"{name}{norm}.weight") for norm in reversed(after)]
    yield [*last, *norms, float_word(hparams.epsilon), float_word(share)]
