from pathlib import Path

import pytest

from segue.errors import ModelUnavailable
from segue.models import hub
from segue.models.embedded import SMOLLM2
from segue.models.gguf import header
from segue.models.names import parse
from segue.models.sources import fetch, present


def test_a_path_is_taken_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in (str(tmp_path / "m.gguf"), "~/m.gguf"):
        assert fetch(parse(name), tmp_path / "cache") == tmp_path / "m.gguf"
    assert not (tmp_path / "cache").exists()


def test_paths_that_cannot_be_served(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"GGML")
    for path, reason in [
        (tmp_path / "m.gguf", "not a GGUF file"),
        (tmp_path / "absent.gguf", "there is no file"),
        (tmp_path, r"is a folder; name one of its files: m\.gguf"),
    ]:
        with pytest.raises(ModelUnavailable, match=reason):
            fetch(parse(f"name={path}"), tmp_path / "cache")


def test_a_name_that_is_too_long_is_one_sentence() -> None:
    with pytest.raises(ModelUnavailable, match=r"cannot read .*: File name too long|no file"):
        fetch(parse(f"/{'a' * 300}.gguf"), Path("unused"))


def test_of_a_split_model_a_folder_names_the_first_file(tmp_path: Path) -> None:
    for name in ("b-00001-of-00002.gguf", "b-00002-of-00002.gguf", "a.gguf"):
        (tmp_path / name).write_bytes(b"GGUF")
    with pytest.raises(ModelUnavailable, match=r"files: a\.gguf, b-00001-of-00002\.gguf$"):
        fetch(parse(f"name={tmp_path}"), tmp_path / "cache")


def test_a_folder_of_hugging_face_is_sent_to_vllm(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(
        ModelUnavailable, match=r"name a \.gguf file, or serve it on vLLM: .*--engine vllm"
    ):
        fetch(parse(f"name={tmp_path}"), tmp_path / "cache")


def test_what_the_hub_brings_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "page.gguf").write_bytes(b"<html>")
    monkeypatch.setattr(hub, "fetch", lambda ref, _: tmp_path / "page.gguf")
    with pytest.raises(ModelUnavailable, match="not a GGUF file"):
        fetch(parse("o/r"), tmp_path / "cache")


@pytest.mark.model
def test_the_embedded_model_is_the_one_promised(embedded_gguf: Path) -> None:
    head = header(embedded_gguf)
    assert (head.architecture, head.n_vocab, head.train_context) == ("llama", 49152, 8192)
    assert head.quantization == "Q4_1"


def test_what_is_here_is_found_and_nothing_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    file = tmp_path / "m.gguf"
    file.write_bytes(b"GGUF")
    monkeypatch.setattr(hub.HuggingFace, "cached", lambda self, repo: {"m-Q4_K_M.gguf": file})
    assert present(parse(str(file)), cache) == file
    assert present(parse("o/r"), cache) == file
    assert present(parse("o/r:Q8_0"), cache) is None
    assert present(parse(f"name={tmp_path}/absent.gguf"), cache) is None
    assert present(parse("default"), cache) is None
    embedded = cache / "models" / SMOLLM2.file_name
    embedded.parent.mkdir(parents=True)
    embedded.write_bytes(b"GGUF")
    assert present(parse("default"), cache) == embedded
