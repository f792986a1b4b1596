import importlib.metadata
import importlib.util
import logging
import tomllib
from pathlib import Path

import pytest

from segue.errors import Incompatible, ModelUnavailable
from segue.runners.cpu.products import processor
from segue.runners.llama import c_api
from tests.support.models.tiny_gguf import write_tiny_gguf


def test_the_project_pins_the_very_version() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text("utf-8"))
    pin = f"{c_api.PACKAGE}=={c_api.VERSION}"
    assert pin in project["project"]["dependencies"]


@pytest.fixture
def unloaded() -> None:
    """The next load() looks for the library anew; the one loaded stays valid for other tests."""
    c_api.load.cache_clear()


@pytest.mark.usefixtures("unloaded")
def test_another_version_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another build has other struct layouts: calling it would corrupt memory."""
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "1.2.3")
    with pytest.raises(Incompatible, match=r"xllamacpp is 1\.2\.3.*pip install xllamacpp=="):
        c_api.load()


@pytest.mark.usefixtures("unloaded")
def test_a_processor_without_what_the_wheel_is_compiled_for_never_calls_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As an Ivy Bridge: the process would end with an illegal instruction."""
    monkeypatch.setattr(processor, "arch", lambda: "x86_64")
    monkeypatch.setattr(processor, "instructions", lambda: frozenset({"sse4.2", "avx", "f16c"}))
    with pytest.raises(
        Incompatible, match=r"compiled for processors with AVX2, BMI2, FMA, which this one does not"
    ):
        c_api.load()
    monkeypatch.setattr(processor, "arch", lambda: "aarch64")
    c_api.load()


@pytest.mark.usefixtures("unloaded")
def test_missing_library_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(Incompatible, match=r"not installed\. Install it with: pip install"):
        c_api.load()


@pytest.mark.usefixtures("unloaded")
def test_a_library_the_system_lacks_is_named(tmp_path: Path) -> None:
    (tmp_path / "cut.so").write_bytes(b"")
    with pytest.raises(Incompatible, match=r"cut\.so: .*apt install libgomp1"):
        c_api._open(tmp_path / "cut.so")


@pytest.mark.usefixtures("unloaded")
def test_missing_function_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(c_api.SIGNATURES, "llama_no_such_thing", (None, ()))
    with pytest.raises(Incompatible, match="does not export llama_no_such_thing"):
        c_api.load()


@pytest.mark.usefixtures("unloaded")
def test_a_wheel_that_exports_nothing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the one for Windows: to install it again would not help."""
    monkeypatch.setattr(c_api, "SIGNATURES", {"llama_no_such_thing": (None, ())})
    with pytest.raises(
        Incompatible, match=r"exports none of llama\.cpp's functions on this system"
    ):
        c_api.load()


def test_shifted_layout_is_refused() -> None:
    params = c_api.load().llama_context_default_params()
    params.n_samplers = 7
    with pytest.raises(Incompatible, match="n_samplers reads 7 instead of 0"):
        c_api.check_defaults(params, c_api.EXPECTED_CONTEXT_DEFAULTS)


def test_unreadable_files_say_why(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ModelUnavailable, match="No such file"):
        c_api.open_model(str(tmp_path / "absent.gguf"))
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"not a model at all")
    with (
        caplog.at_level(logging.WARNING, "segue.llama"),
        pytest.raises(ModelUnavailable, match="invalid magic"),
    ):
        c_api.open_model(str(broken))
    assert "invalid magic" in caplog.text


def test_native_log_goes_to_logging_and_not_to_stderr(
    tiny_gguf: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.DEBUG, "segue.llama"):
        model = c_api.open_model(str(tiny_gguf), vocab_only=True)
    c_api.load().llama_model_free(model)
    assert "general.architecture" in caplog.text
    assert capfd.readouterr().err == ""


def test_a_cache_of_several_contexts_is_no_overflow(
    tiny_gguf: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Every start of a model on llama.cpp warned of one, whatever its context."""
    api, model = c_api.load(), c_api.open_model(str(tiny_gguf))
    params = api.llama_context_default_params()
    params.n_ctx = 4 * api.llama_model_n_ctx_train(model)
    with caplog.at_level(logging.DEBUG, "segue.llama"):
        api.llama_free(c_api.open_context(model, params))
    api.llama_model_free(model)
    [said] = [each for each in caplog.records if "overflow" in each.message]
    assert said.levelno == logging.DEBUG


def test_an_architecture_that_nobody_knows_is_named_with_the_version(tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "x.gguf", architecture="nextyears")
    words = "cannot load .*: unknown model architecture: 'nextyears' .the model may be newer than"
    with pytest.raises(ModelUnavailable, match=words):
        c_api.open_model(str(path))
