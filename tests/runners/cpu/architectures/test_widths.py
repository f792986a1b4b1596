from pathlib import Path

import pytest

from segue.models.gguf import header
from segue.runners.cpu.architectures.hparams import hparams_of
from segue.runners.cpu.architectures.widths import Widths, widths_of
from tests.support.models.tiny_drafts import DRAFTING
from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import WIDTH, write


def widths(tmp_path: Path, name: str) -> Widths:
    return widths_of(hparams_of(header(write(tmp_path / "x.gguf", MODELS[name]))))


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("llama", set()),
        ("qwen3moe", set()),
        ("gemma3n", {"columns", "all_columns", "streamed"}),
        ("deepseek2", {"latent"}),
        ("mamba", {"convolved"}),
        ("qwen35", {"convolved"}),
        ("rwkv7", {"convolved", "shifted", "ranked"}),
    ],
)
def test_a_model_takes_memory_for_the_parts_that_it_has(
    tmp_path: Path, name: str, parts: set[str]
) -> None:
    found = widths(tmp_path, name)
    uncommon = {"latent", "convolved", "shifted", "ranked", "columns", "all_columns", "streamed"}
    assert {part for part in uncommon if getattr(found, part)} == parts
    assert min(found.heads, found.projected) > 0


def test_the_mtp_layer_takes_a_token_and_a_row_side_by_side(tmp_path: Path) -> None:
    file = header(write(tmp_path / "x.gguf", DRAFTING["glm4moe"]))
    plain, drafting = (widths_of(hparams_of(file, drafts)) for drafts in (False, True))
    assert plain.hidden < drafting.hidden == 2 * WIDTH
