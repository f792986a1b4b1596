"""What is refused before a model's process is started."""

import logging
from pathlib import Path
from typing import Any

import pytest

from segue import config
from segue.assembly import fleet
from segue.assembly.fleet import build_fleet, build_members, warn_of_idle
from segue.errors import Incompatible, SetupError
from segue.models import names, sources
from segue.models.progress import silent


@pytest.mark.parametrize(
    ("flags", "environ", "origin"),
    [
        ({"cpu_flavour": "abacus"}, {"SEGUE_CPU": "avx2"}, "--cpu-flavour"),
        ({}, {"SEGUE_CPU": "abacus"}, "SEGUE_CPU"),
    ],
)
def test_an_instruction_set_that_is_not_here_is_refused_at_once(
    flags: dict[str, str], environ: dict[str, str], origin: str
) -> None:
    """A worker was started first, and SEGUE_CPU named even where the flag was used."""
    settings = config.load(flags, {"HOME": "/nowhere", **environ})
    with pytest.raises(Incompatible) as told:
        build_fleet(settings, silent, ahead=None)
    assert told.value.message.startswith(f"{origin} is 'abacus', but this processor can run ")
    assert told.value.message.endswith("generic")


@pytest.mark.parametrize("other", [{"engine": "vllm"}, {"runner": "fake"}])
@pytest.mark.parametrize("said", [{"lora": ("a.gguf",)}, {"draft": "a.gguf"}])
def test_adapters_and_drafts_are_refused_where_nothing_uses_them(
    other: dict[str, str], said: dict[str, object]
) -> None:
    settings = config.load({**other, **said}, {"HOME": "/nowhere"})
    with pytest.raises(SetupError, match="--lora and --draft are for"):
        build_fleet(settings, silent, ahead=None)


def test_no_draft_at_all_is_refused_nowhere() -> None:
    settings = config.load({"runner": "fake", "draft": "none"}, {"HOME": "/nowhere"})
    assert names.draft_model(settings.draft) is None
    assert len(build_members(settings, silent)) == 1


@pytest.mark.parametrize(
    ("said", "drafts"), [("auto", [True, True]), ("none", [False, False]), ("x", [False, True])]
)
def test_models_draft_for_themselves_unless_another_does_or_none_should(
    said: str, drafts: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A draft model is for the first of them."""
    asked: list[bool] = []

    def choose(*args: Any) -> Any:
        asked.append(args[-1])
        return args[2]

    monkeypatch.setattr(fleet, "choose_loader", choose)
    monkeypatch.setattr(fleet, "draft_loader", lambda *_: None)
    monkeypatch.setattr(fleet, "_with_defaults", lambda loader, *_: loader)
    monkeypatch.setattr(sources, "fetch", lambda *_: Path("x.gguf"))
    monkeypatch.setattr(fleet, "_starter", lambda _, fetch, *__: fetch)
    models = ("a=a.gguf", "b=b.gguf")
    settings = config.load({"models": models, "draft": said}, {"HOME": "/nowhere"})
    for member in build_members(settings, silent):
        member.start()
    assert asked == drafts


def test_slots_are_saved_in_a_folder_that_is_there(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()

    def build(folder: Path) -> None:
        flags = {"runner": "fake", "slot_save_path": str(folder)}
        build_members(config.load(flags, {"HOME": "/nowhere"}), silent)

    for path in (tmp_path / "none", file):
        with pytest.raises(SetupError, match="--slot-save-path: there is no folder"):
            build(path)
    build(tmp_path)
    settings = config.load({"runner": "fake", "slot_save_mib": 9}, {"HOME": "/nowhere"})
    with pytest.raises(SetupError, match="--slot-save-mib limits what --slot-save-path has"):
        build_members(settings, silent)


def test_settings_that_vllm_does_not_read_are_named(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "segue")
    ours = {"threads": 4, "kv_type": "q8_0", "max_queue": 9, "step_timeout_s": 60.0}
    environ = {"HOME": "/nowhere", "SEGUE_NUM_SLOTS": "8"}
    warn_of_idle(config.load(ours, environ))
    assert caplog.messages == []
    warn_of_idle(config.load({**ours, "engine": "vllm"}, environ))
    (told,) = caplog.messages
    assert "--threads, --kv-type, SEGUE_NUM_SLOTS;" in told
    assert "max_queue" not in told
    assert "step" not in told
