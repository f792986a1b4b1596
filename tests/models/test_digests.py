"""The digest of a file, kept until the file changes."""

import hashlib
import os
from pathlib import Path

import pytest

from segue.errors import ModelUnavailable
from segue.models.digests import FilesDigest, known_digest


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"weights")
    return path


def test_it_is_that_of_the_file(model: Path, tmp_path: Path) -> None:
    assert FilesDigest([model], tmp_path).wait() == sha256(b"weights")


def test_an_unchanged_file_is_not_read_again(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    FilesDigest([model], tmp_path).wait()
    monkeypatch.setattr(hashlib, "file_digest", lambda *_: pytest.fail("read again"))
    assert FilesDigest([model], tmp_path).wait() == sha256(b"weights")


def test_a_changed_file_is(model: Path, tmp_path: Path) -> None:
    FilesDigest([model], tmp_path).wait()
    before = model.stat()
    model.write_bytes(b"WEIGHTS")  # of the same size
    os.utime(model, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert FilesDigest([model], tmp_path).wait() == sha256(b"WEIGHTS")


def test_a_file_of_the_same_size_and_time_in_its_place_is(model: Path, tmp_path: Path) -> None:
    """As in a new image of a container, where all files have one time, with the cache of the old one."""
    FilesDigest([model], tmp_path).wait()
    other = tmp_path / "other.gguf"
    other.write_bytes(b"WEIGHTS")
    before = model.stat()
    while other.stat().st_ctime_ns == before.st_ctime_ns:  # the clock of files is a coarse one
        other.write_bytes(b"WEIGHTS")
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(model)
    assert known_digest([model], tmp_path) == ""
    assert FilesDigest([model], tmp_path).wait() == sha256(b"WEIGHTS")


@pytest.mark.parametrize("damage", [b"", b"7 1 abc", b"\xff\xfe", b"nonsense"])
def test_a_damaged_note_is_made_again(model: Path, tmp_path: Path, damage: bytes) -> None:
    FilesDigest([model], tmp_path).wait()
    [note] = (tmp_path / "digests").iterdir()
    note.write_bytes(damage)
    assert FilesDigest([model], tmp_path).wait() == sha256(b"weights")
    assert note.read_text("utf-8").endswith(sha256(b"weights"))


def test_where_nothing_can_be_kept_it_is_found_all_the_same(model: Path) -> None:
    assert FilesDigest([model], model / "no folder").wait() == sha256(b"weights")


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        FilesDigest([tmp_path / "missing.gguf"], tmp_path).wait()


def test_a_file_that_was_changed_meanwhile_has_none(model: Path, tmp_path: Path) -> None:
    """A model's weights may be those from before, and its fingerprint was that of the file that came."""
    digest = FilesDigest([model], tmp_path)
    assert digest.wait() == sha256(b"weights")
    model.write_bytes(b"other weights")
    with pytest.raises(ModelUnavailable, match=r"model\.gguf was changed while it was read"):
        digest.wait()


def test_one_that_was_only_linked_or_touched_has(model: Path, tmp_path: Path) -> None:
    digest = FilesDigest([model], tmp_path)
    os.utime(model, ns=(0, 0))
    model.with_name("another name").hardlink_to(model)
    assert digest.wait() == sha256(b"weights")
    model.unlink()
    assert digest.wait() == sha256(b"weights")


def test_of_several_files_it_is_that_of_the_list(model: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.gguf"
    other.write_bytes(b"more weights")
    both = [model, other]
    FilesDigest([model], tmp_path).wait()
    assert known_digest(both, tmp_path) == ""
    found = FilesDigest(both, tmp_path).wait()
    assert found == sha256(f"{sha256(b'weights')}\n{sha256(b'more weights')}\n".encode())
    assert known_digest(both, tmp_path) == found
    assert FilesDigest(both[::-1], tmp_path).wait() != found
    digest = FilesDigest(both, tmp_path)
    other.write_bytes(b"no weights")
    with pytest.raises(ModelUnavailable, match=r"other\.gguf was changed while it was read"):
        digest.wait()


def test_one_that_was_computed_is_known_without_reading(model: Path, tmp_path: Path) -> None:
    assert known_digest([model], tmp_path) == ""
    FilesDigest([model], tmp_path).wait()
    assert known_digest([model], tmp_path) == sha256(b"weights")
    model.write_bytes(b"others")
    assert known_digest([model], tmp_path) == ""
    assert known_digest([tmp_path / "missing.gguf"], tmp_path) == ""
