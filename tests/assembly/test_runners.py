"""Which runner serves a model, and which none does."""

from dataclasses import replace
from pathlib import Path

import pytest

from segue import config
from segue.assembly.runners import (
    choose_runner,
    draft_obstacle,
    runner_obstacle,
    wrong_flavour,
)
from segue.errors import Incompatible, ModelUnavailable
from segue.runners.llama import c_api
from tests.support.models.tiny_gguf import write_tiny_gguf
from tests.support.models.tiny_lora import write_tiny_lora
from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import Value, write

EXPERTS = "llama with experts"


@pytest.mark.parametrize(
    "other", [{"runner": "llama"}, {"runner": "fake"}, {"cpu_flavour": "auto"}]
)
def test_where_it_has_no_say_it_is_no_obstacle(other: dict[str, str]) -> None:
    assert wrong_flavour(load(**{"cpu_flavour": "abacus", **other})) is None


def load(runner: str = "auto", **flags: str) -> config.Settings:
    return config.load({"runner": runner, **flags}, {"HOME": "/nowhere"})


@pytest.mark.parametrize("runner", ["auto", "llama", "cpu"])
@pytest.mark.parametrize(
    ("model", "settings", "reason"),
    [
        # llama.cpp ends the process that loads these.
        ("llama", {"block_count": 0}, "block_count is 0, but the file has 30 tensors"),
        ("llama", {"block_count": 600}, "block_count is 600, but the file has 30 tensors"),
        (
            "llama",
            {"rope.scaling.type": "abacus"},
            "rope.scaling.type is 'abacus', not one of none",
        ),
        (EXPERTS, {"expert_used_count": 0}, "0 of 8 experts are used"),
        (EXPERTS, {"expert_used_count": 9}, "9 of 8 experts are used"),
        (EXPERTS, {"expert_count": 0}, "3 of 0 experts are used"),
        (EXPERTS, {"expert_count": 100_000}, "3 of 100000 experts are used"),
        # With these it computes what is no number, or for ever, or ends later.
        ("llama", {"rope.freq_base": float("nan")}, "rope.freq_base is nan"),
        ("phi2", {"rope.dimension_count": 99}, "positions turn 99 of a head's 16 dimensions"),
        ("phi2", {"rope.dimension_count": 0}, "phi2.rope.dimension_count is 0: no dimension"),
        ("plamo2", {"rope.dimension_count": 0}, "plamo2.rope.dimension_count is 0: no dimension"),
        ("gemma4", {"rope.dimension_count_swa": 0}, "gemma4.rope.dimension_count_swa is 0"),
        ("glm4moe", {"nextn_predict_layers": 3}, "3 of 3 layers are for drafts"),
        # Beside a setting that our kernels do not know.
        ("llama", {"novelty": 1, "block_count": 600}, "block_count is 600, but the file has"),
    ],
)
def test_settings_that_make_no_sense_go_on_to_no_other_runner(
    tmp_path: Path, runner: str, model: str, settings: dict[str, Value], reason: str
) -> None:
    tiny = MODELS[model]
    path = write(tmp_path / "x.gguf", replace(tiny, settings={**tiny.settings, **settings}))
    with pytest.raises(ModelUnavailable) as told:
        choose_runner(load(runner), path, "x")
    assert "makes no sense: " in told.value.message
    assert reason in told.value.message
    assert reason in (runner_obstacle("llama", path) or "")


def test_what_our_kernels_do_not_know_goes_on_to_llama_cpp(tmp_path: Path) -> None:
    tiny = MODELS["llama"]
    path = write(tmp_path / "x.gguf", replace(tiny, settings={"novelty": 1}))
    runner, why = choose_runner(load(), path, "x")
    assert runner == "llama"
    assert "settings it does not know: novelty" in why


@pytest.mark.parametrize("model", MODELS)
def test_every_known_model_makes_sense(tmp_path: Path, model: str) -> None:
    path = write(tmp_path / "x.gguf", MODELS[model])
    assert choose_runner(load(), path, "x") == ("cpu", "")
    assert runner_obstacle("llama", path) is None


@pytest.mark.parametrize("model", ["gpt2", "mamba", "granitehybrid"])
def test_dimensions_that_turn_may_be_none_where_nothing_turns(tmp_path: Path, model: str) -> None:
    path = write(tmp_path / "x.gguf", MODELS[model].with_settings(rope__dimension_count=0))
    assert choose_runner(load(), path, "x") == ("cpu", "")
    assert runner_obstacle("llama", path) is None


def test_another_architecture_makes_sense(tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "x.gguf", architecture="t5")
    assert choose_runner(load(), path, "x")[0] == "llama"


def test_what_only_llama_cpp_knows_is_refused_with_both_reasons_where_it_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load_library() -> None:
        raise Incompatible("xllamacpp exports nothing")

    monkeypatch.setattr(c_api, "load", load_library)
    known = write_tiny_gguf(tmp_path / "known.gguf")
    assert choose_runner(load(), known, "x") == ("cpu", "")
    path = write_tiny_gguf(tmp_path / "x.gguf", architecture="t5")
    for runner in ("auto", "llama"):
        with pytest.raises(Incompatible, match="xllamacpp exports nothing"):
            choose_runner(load(runner), path, "x")
    with pytest.raises(Incompatible, match=r"the CPU runner cannot run it: .*; llama\.cpp cannot"):
        choose_runner(load(), path, "x")


@pytest.mark.parametrize(
    "model", ["qwen35", "lfm2", "granitehybrid", "kimi-linear", "mamba", "mamba2"]
)
def test_models_with_states_do_not_draft_but_take_drafts(tmp_path: Path, model: str) -> None:
    plain = write(tmp_path / "plain.gguf", MODELS["llama"])
    latent = write(tmp_path / "latent.gguf", MODELS["deepseek2"])
    stateful = write(tmp_path / "stateful.gguf", MODELS[model])
    auto = load()
    assert draft_obstacle(auto, plain, latent) is draft_obstacle(auto, latent, plain) is None
    assert "its layers carry states" in (draft_obstacle(auto, stateful, plain) or "")
    assert draft_obstacle(auto, plain, stateful) is None
    told = draft_obstacle(load("llama"), plain, stateful)
    assert "the model's (stateful) layers carry states" in (told or "")


def test_what_only_llama_cpp_computes_takes_no_drafts_either(tmp_path: Path) -> None:
    """Its times are made of eight numbers, which are too few here."""
    recurrent = write_tiny_gguf(tmp_path / "mamba.gguf", architecture="mamba")
    draft = write_tiny_gguf(tmp_path / "draft.gguf")
    assert "(mamba) layers carry states" in (draft_obstacle(load(), draft, recurrent) or "")


def test_adapters_that_only_llama_cpp_takes_leave_a_model_without_drafts(tmp_path: Path) -> None:
    """Its drafts would never be made, and nothing would say so."""
    stateful, draft = write(tmp_path / "b.gguf", MODELS["mamba2"]), tmp_path / "draft.gguf"
    write(draft, MODELS["llama"])
    for tensor, words in (("ssm_in", ""), ("ssm_conv1d", "layers carry states")):
        lora = write_tiny_lora(
            tmp_path / "l.gguf",
            stateful,
            names=[f"blk.0.{tensor}.weight"],
            rank=1,
            architecture="mamba2",
        )
        settings = replace(load(), lora=(str(lora),))
        assert words in (draft_obstacle(settings, draft, stateful) or "")
        assert bool(words) == (draft_obstacle(settings, draft, stateful) is not None)
