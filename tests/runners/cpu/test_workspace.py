"""How much memory steps work in."""

from dataclasses import replace
from pathlib import Path

import pytest

from segue.models.gguf import header
from segue.runners.cpu.anatomy.measures import anatomy_of
from segue.runners.cpu.workspace import Workspace
from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import write


@pytest.mark.parametrize("name", ["mamba", "rwkv6", "rwkv7"])
def test_heads_that_no_layer_has_take_none(tmp_path: Path, name: str) -> None:
    """Files may tell how wide heads of attention are where there is no attention."""
    found = anatomy_of(header(write(tmp_path / "x.gguf", MODELS[name])))
    wide = tuple(replace(layer, head_size=2**31) for layer in found.by_layer)
    sizes = {
        sum(array.nbytes for array in Workspace(anatomy, max_rows=8, threads=2)._arrays)
        for anatomy in (found, replace(found, by_layer=wide))
    }
    assert len(sizes) == 1
