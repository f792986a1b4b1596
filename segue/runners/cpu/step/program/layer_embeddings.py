"""Embeddings of layers (Gemma 3n, Gemma 4): see step/layer_embeddings.py."""

import math
from collections.abc import Iterator

from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.program.places import Places
from segue.runners.cpu.step.program.words import ACTIVATIONS, Row, float_word, product
from segue.runners.cpu.weights import Weights


def layer_inputs(weights: Weights, places: Places) -> Iterator[Row]:
    """The words of layer_embeddings.py, in its order."""
    hparams, columns = weights.hparams, weights.hparams.layer_columns
    whole, matrix = columns * hparams.layers, weights.matrix("per_layer_model_proj.weight")
    yield product(places.layer_inputs, whole, on.INPUT_FLOATS, [(matrix, 0)])
    norm = weights.vector("per_layer_proj_norm.weight")
    row = [places.layer_inputs, weights.matrix("per_layer_token_embd.weight"), hparams.layers]
    row += [columns, norm, float_word(hparams.epsilon)]
    scales = 1 / math.sqrt(hparams.width), math.sqrt(columns), 1 / math.sqrt(2)
    yield [on.LAYER_INPUTS, *row, *map(float_word, scales)]


def layer_gate(weights: Weights, places: Places, layer: int) -> Iterator[Row]:
    """Its output goes to `attended`, which was added to the residual already."""
    hparams, columns, name = weights.hparams, weights.hparams.layer_columns, f"blk.{layer}."
    gate, out = (weights.matrix(f"{name}{part}.weight") for part in ("inp_gate", "proj"))
    yield product(places.layer_gate, columns, on.INPUT_FLOATS, [(gate, 0)])
    row = [places.layer_gate, places.layer_inputs + 4 * layer * columns]
    row += [4 * columns * hparams.layers, columns, ACTIVATIONS[hparams.family.activation]]
    yield [on.LAYER_GATE, *row]
    yield product(places.attended, hparams.width, on.HIDDEN_FLOATS, [(out, 0)])
