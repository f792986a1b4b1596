"""The models of a machine, in a cache of the test's own."""

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from rich.filesize import decimal

from segue.cli import cli
from segue.errors import ModelUnavailable
from segue.models import sources
from segue.models.embedded import SMOLLM2
from segue.models.gguf import header
from segue.models.names import ModelRef
from segue.models.progress import Report
from segue.runners.cpu.architectures.hparams import hparams_of
from segue.runners.cpu.slots.kv import BLOCK, Kv
from segue.runners.cpu.step.attention.kv_formats import KvType
from tests.support.models.split_gguf import split_gguf
from tests.support.models.tiny_drafts import DRAFTING
from tests.support.models.tiny_gguf import write_tiny_gguf
from tests.support.models.tiny_types import write_types
from tests.support.models.tiny_writer import write


@pytest.fixture(autouse=True)
def unread(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Vocabularies are not tried, which takes a process each: what is put here is why one cannot be read."""
    reasons: list[str] = []
    monkeypatch.setattr(
        "segue.assembly.vocabulary.vocabulary_obstacle", lambda path: next(iter(reasons), None)
    )
    return reasons


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


def test_a_model_whose_vocabulary_cannot_be_read_is_not_said_to_run(
    cache: Path, unread: list[str]
) -> None:
    unread.append("unknown tokenizer: 'klingon'")
    shown = models("show", "default").output
    assert "can run it" not in shown
    assert "tokens; cannot be read: unknown tokenizer: 'klingon'\n" in shown
    assert shown.count("cannot: its vocabulary cannot be read\n") == 2
    assert shown.endswith("served by      nothing: its vocabulary cannot be read\n")


def test_memory_is_told_where_it_is_more_than_the_file(cache: Path, tmp_path: Path) -> None:
    shown = models("show", str(write_types(tmp_path / "x.gguf", ["IQ2_XXS"]))).output
    (line,) = (each for each in shown.splitlines() if each.startswith("runner cpu"))
    assert line.endswith("; weights take 551.2 kB of memory, 345.2 kB in the file")
    shown = models("show", str(write_types(tmp_path / "x.gguf", ["Q4_K"]))).output
    assert "of memory" not in shown


def test_the_memory_of_a_token_is_told(cache: Path, tiny_gguf: Path) -> None:
    for given, words in (
        ((), "a token takes 512 bytes of KV in f16"),
        (("--kv-type", "q8_0"), "a token takes 272 bytes of KV in q8_0"),
    ):
        assert words in models("show", str(tiny_gguf), *given).output


@pytest.mark.parametrize("kv_type", ["f16", "q8_0"])
def test_the_mtp_layer_counts_where_it_drafts(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kv_type: KvType
) -> None:
    """A model has as many layers of attention as its runner allocates: the same figure as that of the KV memory."""
    file = write(tmp_path / "x.gguf", DRAFTING["glm4moe"])
    said: list[int] = []
    for draft, drafts in (("auto", True), ("none", False), ("other.gguf", False)):
        hparams = hparams_of(header(file), drafts)
        monkeypatch.setenv("SEGUE_DRAFT", draft)
        shown = models("show", str(file), "--kv-type", kv_type).output
        said.append(Kv(hparams, 32, None, 1, kv_type).stride // BLOCK)
        words = f"a token takes {decimal(said[-1])} of KV in {kv_type}"
        assert words + ", with that of the MTP layer" * drafts + "\n" in shown
    assert said[0] > said[1] == said[2]


def test_the_context_that_is_served_is_shown_where_it_is_not_the_models_own(
    cache: Path, tmp_path: Path
) -> None:
    long = tmp_path / "long.gguf"
    write_tiny_gguf(long, context_length=131_072)
    for given, words in (
        ((), "131072 tokens; 8192 are served without --context-length"),
        (("--context-length", "4096"), "131072 tokens; 4096 are served"),
        (("--context-length", "131072"), "131072 tokens"),
    ):
        (line,) = [
            x
            for x in models("show", str(long), *given).output.splitlines()
            if x.startswith("context")
        ]
        assert line.split(None, 1)[1] == words


def test_the_sampling_defaults_of_a_file_are_shown(cache: Path) -> None:
    assert "no defaults of its own" in models("show", "default").output
    file = write_tiny_gguf(cache / "own.gguf", sampling={"temp": 0.6, "top_k": "many"})
    shown = models("show", str(file)).output
    assert "temperature 0.6; left out: general.sampling.top_k must be a whole number" in shown


def test_values_of_a_file_cannot_steer_the_terminal(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = "rotations of the type \x1b[2J are not known"
    monkeypatch.setattr("segue.assembly.runners.runner_obstacle", lambda *_, **__: told)
    shown = models("show", "default").output
    assert "\x1b" not in shown
    assert "rotations of the type \\x1b[2J are" in shown


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


@pytest.fixture
def in_hub(cache: Path, tiny_gguf: Path) -> list[Path]:
    """A split model in the cache of Hugging Face, as its library keeps it."""
    repo, commit = cache / "hub" / "models--o--r", "0123456789012345678901234567890123456789"
    (repo / "refs").mkdir(parents=True)
    (repo / "refs" / "main").write_text(commit)
    blobs, files = repo / "blobs", repo / "snapshots" / commit
    blobs.mkdir()
    files.mkdir(parents=True)
    paths = split_gguf(tiny_gguf, files, [7, 7, 7], stem="Q8_0")
    for i, path in enumerate(paths):
        path.rename(blobs / f"b{i}")
        path.symlink_to(blobs / f"b{i}")
    return paths


def test_a_split_model_is_one_model(in_hub: list[Path]) -> None:
    """Each file was listed as a model of its own, those after the first as damaged."""
    num_bytes = sum(path.stat().st_size for path in in_hub)
    listed = models("list").output
    assert "hf:o/r/Q8_0-00001-of-00003.gguf" in listed
    assert "-00002-of" not in listed
    assert "damaged" not in listed
    for command in ("show", "pull"):
        for name in ("o/r:Q8_0", "hf:o/r/Q8_0-00001-of-00003.gguf"):
            result = models(command, name)
            assert f"{in_hub[0]}" in result.output, result.exception
            assert f"  {decimal(num_bytes)}" in result.output
    assert isinstance(models("show", "hf:o/r/other.gguf").exception, ModelUnavailable)
    refused = models("show", str(in_hub[1])).exception
    assert isinstance(refused, ModelUnavailable)
    assert f"name the first, {in_hub[0].name}" in refused.message


def test_a_split_model_of_which_a_file_is_gone_is_damaged(in_hub: list[Path]) -> None:
    in_hub[2].unlink()
    assert "damaged" in models("list").output


def test_of_a_repository_one_model_is_removed_and_the_others_stay(
    in_hub: list[Path], tiny_gguf: Path
) -> None:
    """Whatever was asked about, the whole repository was removed."""
    blobs = in_hub[0].resolve().parent
    for name in ("Q4_0.gguf", "F16.gguf"):
        shutil.copy(tiny_gguf, blobs / name)
        (in_hub[0].parent / name).symlink_to(blobs / name)
    size = sum(path.stat().st_size for path in in_hub)
    result = models("rm", "hf:o/r/Q8_0-00001-of-00003.gguf", "--yes")
    assert result.output == f"{decimal(size)} are free again\n"
    assert sorted(path.name for path in blobs.iterdir()) == ["F16.gguf", "Q4_0.gguf"]
    (in_hub[0].parent / "other.gguf").symlink_to(blobs / "F16.gguf")
    assert models("rm", "hf:o/r/F16.gguf", "--yes").output == "0 bytes are free again\n"
    listed = models("list").output
    assert "hf:o/r/F16.gguf" not in listed
    for name in ("Q4_0.gguf", "other.gguf"):
        assert f"hf:o/r/{name} " in listed
        assert models("rm", f"hf:o/r/{name}", "--yes").exit_code == 0
    assert not blobs.exists()


def test_why_a_model_is_damaged_is_told(cache: Path) -> None:
    """Of a long path nothing else was left."""
    (cache / "models" / SMOLLM2.file_name).write_bytes(b"GGUF")
    assert f"{SMOLLM2.file_name} is not a sound GGUF file: " in models("list").output


@pytest.mark.parametrize(
    ("word", "command"), [("remove", "rm"), ("download", "pull"), ("describe", "show")]
)
def test_the_words_of_its_help_are_answered_with_the_commands(word: str, command: str) -> None:
    assert word in CliRunner().invoke(cli, ["models", "--help"]).output.lower()
    told = CliRunner().invoke(cli, ["models", word, "default"])
    assert told.exit_code == 2
    assert f"No such command '{word}': here it is segue models {command}." in told.output


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


def test_a_name_is_whole_in_a_narrow_terminal(
    in_hub: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is what `show` and `rm` take; it ended in three dots."""
    monkeypatch.setenv("COLUMNS", "30")
    assert "hf:o/r/Q8_0-00001-of-00003.gguf " in models("list").output
