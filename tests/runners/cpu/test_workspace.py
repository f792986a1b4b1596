"""How much memory steps work in, and how many rows attend together."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.models.gguf import header
from segue.runners.cpu.architectures.hparams import hparams_of
from segue.runners.cpu.architectures.layers import Layer
from segue.runners.cpu.architectures.support import supports
from segue.runners.cpu.step.attention.scratch import TILE_ROWS
from segue.runners.cpu.workspace import Workspace, item_rows
from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import write


@pytest.mark.parametrize("name", ["mamba", "rwkv6", "rwkv7"])
def test_heads_that_no_layer_has_take_none(tmp_path: Path, name: str) -> None:
    """Files may tell how wide heads of attention are where there is no attention."""
    found = hparams_of(header(write(tmp_path / "x.gguf", MODELS[name])))
    wide = tuple(replace(layer, head_size=2**31) for layer in found.by_layer)
    sizes = {
        sum(array.nbytes for array in Workspace(hparams, max_rows=8, threads=2)._arrays)
        for hparams in (found, replace(found, by_layer=wide))
    }
    assert len(sizes) == 1


@pytest.mark.parametrize("name", ["qwen3moe", "gpt-oss", "mamba"])
def test_a_feed_forward_that_no_layer_has_takes_none(tmp_path: Path, name: str) -> None:
    """Files tell its width where experts, or nothing, stand in its place: 512 GiB were asked for."""
    found = header(write(tmp_path / "x.gguf", MODELS[name]))
    told = {f"{name}.feed_forward_length": 2**31}
    wide = replace(found, metadata={**found.metadata, **told})
    assert supports(wide) is None
    sizes = {
        sum(array.nbytes for array in Workspace(hparams_of(each), 8, threads=2)._arrays)
        for each in (found, wide)
    }
    assert len(sizes) == 1


def layer(shared: int, key_heads: int, size: int = 64) -> Layer:
    return Layer(
        heads=shared * key_heads,
        key_heads=key_heads,
        head_size=size,
        hidden=64,
        window=0,
        pairs=size // 2,
        keys_of=-1,
        has_values=True,
        gate=0,
        is_gate_joined=False,
        attends=True,
        recurrence=None,
        latent=None,
    )


@pytest.mark.parametrize(
    ("shared", "few", "many"),
    [
        *((1, 48, 96), (2, 24, 48), (3, 16, 32), (4, 12, 24), (5, 6, 18), (6, 8, 16), (7, 6, 12)),
        *((8, 6, 12), (64, 1, 1), (128, 1, 1)),
    ],
)
def test_rows_attend_together_in_sixes_of_query_heads(shared: int, few: int, many: int) -> None:
    rows = item_rows([layer(shared, 2)], threads=4)
    assert (rows.few, rows.many) == (few, many)
    assert item_rows([layer(shared, 2, size=256)], threads=4).many == few  # wide heads


def test_a_span_whose_threads_would_wait_for_each_other_is_cut_finer() -> None:
    rows = item_rows([layer(3, 4)], threads=4)
    assert [rows.of(count) for count in (1, 127, 128, 256)] == [16, 16, 32, 32]
    assert item_rows([layer(3, 4)], threads=16).of(256) == 16


@given(st.lists(st.tuples(st.integers(1, 128), st.integers(1, 8)), min_size=1, max_size=4))
def test_all_layers_have_room_for_the_heads_of_that_many_rows(
    shapes: list[tuple[int, int]],
) -> None:
    rows = item_rows([layer(*shape) for shape in shapes], threads=2)
    for shared, _ in shapes:
        assert rows.few <= rows.many
        assert rows.many * shared <= TILE_ROWS or rows.many == 1


def test_models_without_attention_have_a_number_too() -> None:
    assert item_rows([], threads=2).of(1000) == TILE_ROWS
