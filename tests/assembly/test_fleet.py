"""What is refused before a model's process is started."""

import logging

import pytest

from segue import config
from segue.assembly.fleet import build_fleet, warn_of_idle
from segue.errors import Incompatible, SetupError
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
        build_fleet(settings, silent)
    assert told.value.message.startswith(f"{origin} is 'abacus', but this processor can run ")
    assert told.value.message.endswith("generic")


@pytest.mark.parametrize("other", [{"engine": "vllm"}, {"runner": "fake"}])
@pytest.mark.parametrize("said", [{"lora": ("a.gguf",)}, {"draft": "a.gguf"}])
def test_adapters_and_drafts_are_refused_where_nothing_uses_them(
    other: dict[str, str], said: dict[str, object]
) -> None:
    settings = config.load({**other, **said}, {"HOME": "/nowhere"})
    with pytest.raises(SetupError, match="--lora and --draft are for"):
        build_fleet(settings, silent)


def test_settings_that_vllm_does_not_read_are_named(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "segue")
    ours = {"threads": 4, "kv_type": "q8_0", "max_queue": 9}
    environ = {"HOME": "/nowhere", "SEGUE_NUM_SLOTS": "8"}
    warn_of_idle(config.load(ours, environ))
    assert caplog.messages == []
    warn_of_idle(config.load({**ours, "engine": "vllm"}, environ))
    (told,) = caplog.messages
    assert "--threads, --kv-type, SEGUE_NUM_SLOTS;" in told
    assert "max_queue" not in told
