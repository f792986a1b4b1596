"""The models of a machine, in a cache of the test's own."""

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from segue.cli import cli
from segue.errors import ModelUnavailable
from segue.models import sources
from segue.models.embedded import SMOLLM2
from segue.models.names import ModelRef
from segue.models.progress import Report
from tests.support.models.tiny_gguf import write_tiny_gguf


@pytest.fixture
def cache(tmp_path: Path, tiny_gguf: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SEGUE_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    (tmp_path / "models").mkdir()
    shutil.copy(tiny_gguf, tmp_path / "models" / SMOLLM2.file_name)
    return tmp_path


def models(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["models", *arguments])


def test_what_is_here_is_listed(cache: Path) -> None:
    result = models("list")
    assert "default" in result.output
    assert "llama" in result.output
    assert "FIM tokens" in result.output
    assert "in all" in result.output


def test_a_model_and_its_runners_are_shown(cache: Path, tiny_gguf: Path) -> None:
    for name in ("default", str(tiny_gguf)):
        result = models("show", name, "--runner", "llama")
        assert result.exit_code == 0, result.exception
        assert "architecture" in result.output
        assert "FIM tokens" in result.output
        assert "llama, as asked for" in result.output


def test_the_sampling_defaults_of_a_file_are_shown(cache: Path) -> None:
    assert "no defaults of its own" in models("show", "default").output
    file = write_tiny_gguf(cache / "own.gguf", sampling={"temp": 0.6, "top_k": "many"})
    shown = models("show", str(file)).output
    assert "temperature 0.6; left out: general.sampling.top_k must be a whole number" in shown


def test_showing_fetches_nothing(cache: Path) -> None:
    assert isinstance(models("show", "owner/repo").exception, ModelUnavailable)


@pytest.mark.parametrize("flag", ["--cache-dir", "--config"])
def test_every_command_takes_the_folder_that_a_server_is_given(
    cache: Path,
    tiny_gguf: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    flag: str,
) -> None:
    """What was pulled into the usual folder, a server with another one downloaded again."""

    def fetch(ref: ModelRef, cache_dir: Path, report: Report) -> Path:
        return cache_dir / "models" / SMOLLM2.file_name  # nothing is downloaded here

    monkeypatch.setattr(sources, "fetch", fetch)
    other = tmp_path_factory.mktemp("other")
    (other / "models").mkdir()
    kept = Path(shutil.copy(tiny_gguf, other / "models" / SMOLLM2.file_name))
    where = [flag, str(other)]
    if flag == "--config":
        monkeypatch.delenv("SEGUE_CACHE")  # it comes before a file
        (other / "segue.toml").write_text(f'cache_dir = "{other.as_posix()}"\n')
        where = [flag, str(other / "segue.toml")]
    assert "default" in models("list", *where).output
    for command in ("pull", "show"):
        assert str(kept) in models(command, *where).output
    assert models("rm", "default", "--yes", *where).exit_code == 0
    assert not kept.exists()
    assert "none yet" in models("list", *where).output
    assert (cache / "models" / SMOLLM2.file_name).exists()


def test_removing_asks_first(cache: Path) -> None:
    kept = cache / "models" / SMOLLM2.file_name
    assert CliRunner().invoke(cli, ["models", "rm", "default"], input="n\n").exit_code == 1
    assert kept.exists()
    assert models("rm", "default", "--yes").exit_code == 0
    assert not kept.exists()
    assert isinstance(models("rm", "default", "--yes").exception, ModelUnavailable)
    assert "none yet" in models("list").output


def test_pulling_a_path_says_where_it_is(cache: Path, tiny_gguf: Path) -> None:
    assert str(tiny_gguf) in models("pull", str(tiny_gguf)).output
