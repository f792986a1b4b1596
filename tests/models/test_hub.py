import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from huggingface_hub import errors

from segue.errors import ModelUnavailable
from segue.models.gguf.types import FILE_TYPES
from segue.models.hub import PREFERRED, HuggingFace, choose, fetch
from segue.models.names import parse

FILES = [
    "README.md",
    "mmproj-model-f16.gguf",
    "model-IQ2_M.gguf",
    "model-Q4_K_S.gguf",
    "model-q4_k_m.gguf",
    "model.Q8_0.gguf",
    "big/Q6_K/model-Q6_K-00001-of-00002.gguf",
    "big/Q6_K/model-Q6_K-00002-of-00002.gguf",
    "../../outside-Q5_K_M.gguf",
]
SPLIT = FILES[6:8]


@dataclass
class MemoryHub:
    """A hub held in memory, at the boundary to the network."""

    listing: Sequence[str] = ()
    on_disk: Mapping[str, Path] = field(default_factory=dict)
    failure: Exception | None = None
    downloaded: list[str] = field(default_factory=list)

    def cached(self, repo: str) -> Mapping[str, Path]:
        return self.on_disk

    def files(self, repo: str) -> Sequence[str]:
        if self.failure:
            raise self.failure
        return self.listing

    def download(self, repo: str, file: str) -> Path:
        if self.failure:
            raise self.failure
        self.downloaded.append(file)
        return Path("/hub", repo, file)


@pytest.mark.parametrize(
    ("quant", "expected"),
    [
        ("Q4_K_M", ["model-q4_k_m.gguf"]),
        ("q4_k_s", ["model-Q4_K_S.gguf"]),
        ("Q8_0", ["model.Q8_0.gguf"]),
        ("IQ2_M", ["model-IQ2_M.gguf"]),
        ("Q6_K", SPLIT),
        ("Q4_K", []),  # not the beginning of another's name
        ("Q2_M", []),  # nor its end
        ("F16", []),  # a projector is no model
        ("Q5_K_M", []),  # a listing does not lead out of the repository
    ],
)
def test_a_quantisation_is_found_whole_in_a_file_name(quant: str, expected: list[str]) -> None:
    assert choose(FILES, "", (quant,)) == expected


def test_without_one_named_the_preferred_comes_first_or_the_only_one() -> None:
    assert choose(FILES, "", PREFERRED) == ["model-q4_k_m.gguf"]
    assert choose(["weights.gguf", "README.md"], "", PREFERRED) == ["weights.gguf"]
    assert choose(["a.gguf", "b.gguf"], "", PREFERRED) == []
    few_bits = ["m-UD-IQ1_S.gguf", "m-UD-IQ2_M.gguf", "m-UD-IQ2_XXS.gguf"]
    assert choose(few_bits, "", PREFERRED) == ["m-UD-IQ2_M.gguf"]


def test_every_type_that_a_file_may_be_of_is_chosen_by_itself() -> None:
    assert {*FILE_TYPES.values()} - {"GUESSED"} <= {*PREFERRED}
    assert choose(["m-MXFP4_MOE.gguf", "m-Q2_K.gguf"], "", PREFERRED) == ["m-MXFP4_MOE.gguf"]


def test_a_split_model_needs_all_its_parts() -> None:
    assert choose(FILES, SPLIT[0], PREFERRED) == SPLIT
    assert choose(FILES, SPLIT[1], PREFERRED) == SPLIT
    assert choose(SPLIT[:1], "", ("Q6_K",)) == []
    assert choose(["x-00001-of-00002.gguf", "x-00002-of-00002.gguf"], "", PREFERRED) == [
        "x-00001-of-00002.gguf",
        "x-00002-of-00002.gguf",
    ]


def test_every_part_is_fetched_and_the_first_is_the_model() -> None:
    hub = MemoryHub(FILES)
    assert fetch(parse("o/r:Q6_K"), hub) == Path("/hub/o/r", SPLIT[0])
    assert hub.downloaded == SPLIT


def test_parts_that_are_here_are_asked_for_with_the_others() -> None:
    """After a change of the repository they are in the folder of its former state, where the others will not come."""
    hub = MemoryHub(FILES, {SPLIT[0]: Path("/disk/former", SPLIT[0])})
    assert fetch(parse("o/r:Q6_K"), hub) == Path("/hub/o/r", SPLIT[0])
    assert hub.downloaded == SPLIT


def test_a_restart_needs_no_network() -> None:
    offline = ConnectionError("no route to host")
    on_disk = {"model-q4_k_m.gguf": Path("/disk/q4"), "model.Q8_0.gguf": Path("/disk/q8")}
    hub = MemoryHub([], on_disk, offline)
    assert fetch(parse("o/r"), hub) == Path("/disk/q4")
    assert fetch(parse("o/r:Q8_0"), hub) == Path("/disk/q8")
    assert fetch(parse("hf:o/r/model.Q8_0.gguf"), hub) == Path("/disk/q8")
    second_best = MemoryHub([], {"model.Q8_0.gguf": Path("/disk/q8")}, offline)
    assert fetch(parse("o/r"), second_best) == Path("/disk/q8")


@pytest.mark.parametrize("name", ["o/r:Q3_K_L", "hf:o/r/absent.gguf"])
def test_what_is_not_there_is_answered_with_what_is(name: str) -> None:
    with pytest.raises(ModelUnavailable, match=r"o/r has no .*model\.Q8_0\.gguf"):
        fetch(parse(name), MemoryHub(FILES))


def made(kind: type[Exception], text: str) -> Exception:
    """An error of the library without the HTTP response it is built from."""
    error = kind.__new__(kind)
    error.args = (text,)
    return error


@pytest.mark.parametrize(
    ("failure", "sentence"),
    [
        (made(errors.GatedRepoError, "403"), "accept its terms"),
        (made(errors.RepositoryNotFoundError, "404"), "no such repository.*HF_TOKEN"),
        (made(errors.RemoteEntryNotFoundError, "404"), "no such file"),
        (errors.LocalEntryNotFoundError("offline"), "cannot be reached.*PATH.gguf"),
        (errors.OfflineModeIsEnabled("offline"), "HF_HUB_OFFLINE"),
        (OSError(28, "No space left on device"), "No space left"),
        (RuntimeError("name resolution"), "cannot be reached.*name resolution"),
    ],
)
def test_failures_become_one_clear_sentence(failure: Exception, sentence: str) -> None:
    with pytest.raises(ModelUnavailable, match=rf"cannot fetch o/r: .*{sentence}"):
        fetch(parse("o/r"), MemoryHub(failure=failure))


def test_a_folder_of_that_name_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "o" / "r").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    gone = errors.LocalEntryNotFoundError("offline")
    with pytest.raises(ModelUnavailable, match=r"; or is the folder \./o/r meant\?$"):
        fetch(parse("o/r"), MemoryHub(failure=gone))


def test_the_real_cache_is_read_as_the_library_lays_it_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert HuggingFace().cached("o/r") == {}
    repo, commit = tmp_path / "models--o--r", "0123456789012345678901234567890123456789"
    file = repo / "snapshots" / commit / "sub" / "m-Q8_0.gguf"
    for folder in (file.parent, repo / "refs", repo / "blobs"):
        folder.mkdir(parents=True)
    (repo / "refs" / "main").write_text(commit)
    (repo / "blobs" / "b").write_bytes(b"GGUF")
    file.symlink_to(repo / "blobs" / "b")
    assert HuggingFace().cached("o/other") == {}
    assert HuggingFace().cached("o/r") == {"sub/m-Q8_0.gguf": file}


def test_what_the_library_warns_of_is_in_our_log_alone(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It has a handler of its own besides: each line was there twice, and once not as JSON."""

    def list_repo_files(repo: str) -> list[str]:
        logging.getLogger("huggingface_hub.utils._http").warning("Retrying in 1s")
        return [repo]

    monkeypatch.setattr(logging.getLogger("huggingface_hub"), "handlers", [logging.StreamHandler()])
    monkeypatch.setattr("huggingface_hub.list_repo_files", list_repo_files)
    monkeypatch.setattr("segue.models.hub.check_reachable", lambda client, url: None)
    assert HuggingFace().files("owner/repo") == ["owner/repo"]
    assert caplog.messages == ["Retrying in 1s"]
    assert capsys.readouterr().err == ""
