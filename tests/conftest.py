"""Fixtures shared by all tests."""

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from segue import cli, config
from segue.distributed.request import constraint_state
from segue.engine.constraints import compiler, token_reading
from segue.engine.constraints.threads import priority
from segue.models import names, sources
from segue.server import endpoints
from tests.support.models.tiny_gguf import write_tiny_gguf

# No test may fail because the machine is busy, nor by the luck of a draw: every run has the same examples.
# `--hypothesis-profile=explore` has others, and more where a test does not say how many.
_BUSY: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("explore", **_BUSY, derandomize=False)
settings.register_profile("segue", **_BUSY, derandomize=True, max_examples=60)
settings.load_profile("segue")


# What a user has set for himself must not reach the tests, nor the servers that they start: but for the folders of
# models and compiled kernels, the flavour these are compiled for, a browser, and how the tests on vLLM measure.
_OTHERS = ("SEGUE_", "HF_", "LLAMA_ARG_", "LLAMA_API_KEY", "OLLAMA_", "VLLM_API_KEY", "OTEL_")
_KEPT = ("SEGUE_CACHE", "SEGUE_CPU", "SEGUE_CHROMIUM", "SEGUE_VLLM_", "HF_HOME")


def pytest_configure() -> None:
    """Before any module of tests is imported, and by it huggingface_hub, which reads its settings only then."""
    for name in list(os.environ):
        if name.startswith(_OTHERS) and not name.startswith(_KEPT):
            del os.environ[name]


def pytest_collection() -> None:
    """Hypothesis also takes numbers and texts out of the modules loaded so far: other ones after other tests.

    It begins when tests are collected, and reads all modules for it.
    """
    if settings.get_current_profile_name() == "segue":
        providers._get_local_constants = Constants


# Nothing that is made while tests are collected is garbage: looking for some took a tenth of that time.
gc.disable()


def pytest_itemcollected(item: pytest.Item) -> None:
    """An address in a test's name differs between processes, and workers that run tests together refuse to."""
    if "<function " in item.name or " at 0x" in item.name:
        raise pytest.UsageError(f"{item.nodeid} has an address in its name: give it ids")


def pytest_collection_finish() -> None:
    """Modules and collected tests stay: a full garbage collection took a third of a second to visit them."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def no_slow_grammars() -> Iterator[None]:
    """Of a grammar that is slow a guide knows less at once. What tests see must not hang on how fast the machine is:
    under an emulator all grammars are slow. Tests that want one say so themselves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler, "_SLOW_S", 1.0)
        patch.setattr(constraint_state, "_SLOW_S", 1.0)
        patch.setattr(token_reading, "_DEAR_S", 1.0)
        yield


@pytest.fixture(scope="session", autouse=True)
def threads_are_alike() -> Iterator[None]:
    """What a thread of low priority has not found in half a minute counts as lost, and where tests have all processors
    one may wait as long for a moment of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(priority, "_FURTHER", 0)
        yield


@pytest.fixture(scope="session", autouse=True)
def signals_stay() -> Iterator[None]:
    """A command takes them for the rest of its process, which is pytest's where a test runs one without a process of
    its own: SIGTERM then raised Stopped in whatever test came later."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cli, "take_signals", lambda: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def no_signs_of_life() -> Iterator[None]:
    """Where an answer is slow to begin, a stream begins with a comment; tests that want one say so themselves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(endpoints, "HEADERS_AFTER_S", 600.0)
        yield


@pytest.fixture(scope="session", autouse=True)
def terminals_are_alike() -> Iterator[None]:
    """Wherever the tests run: rich draws no bars where TERM is "dumb", as in many a CI, and breaks lines to the width
    of the terminal that it is started from."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TERM", "xterm")
        patch.setenv("COLUMNS", "80")
        for name in ("LINES", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(scope="session", autouse=True)
def no_proxy_between_us() -> Iterator[None]:
    """Whatever proxy leads out of the machine where the tests run: servers of tests are on this side of it."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("no_proxy", "NO_PROXY"):
            others = os.environ.get(name, "")
            patch.setenv(name, ",".join(filter(None, [others, "127.0.0.1", "::1", "localhost"])))
        yield


@pytest.fixture(scope="session")
def tiny_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random llama model with FIM tokens, in F32."""
    return write_tiny_gguf(tmp_path_factory.mktemp("models") / "tiny.gguf")


@pytest.fixture(scope="session")
def embedded_gguf() -> Path:
    """The embedded default model, fetched into the user's cache the first time."""
    return sources.fetch(names.parse("default"), config.load({}).cache_dir)
