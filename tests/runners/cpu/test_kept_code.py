import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import segue
from segue.runners.cpu import kept_code
from segue.runners.cpu.kept_code import KeptCode
from tests.support.waiting import PATIENCE_S


class Maker:
    """Counts how often code is made."""

    def __init__(self, code: bytes = b"machine code") -> None:
        self.code, self.count = code, 0

    def __call__(self) -> bytes:
        self.count += 1
        return self.code


def entry(folder: Path, key: str) -> Path:
    return folder / "cpu" / f"{key}.code"


def test_code_is_made_once(tmp_path: Path) -> None:
    make = Maker()
    assert [KeptCode(tmp_path)("key", make) for _ in range(3)] == [b"machine code"] * 3
    assert make.count == 1
    assert KeptCode(tmp_path)("other", make) == b"machine code"
    assert make.count == 2


@pytest.mark.parametrize("damage", [b"", b"short", b"x" * 100])
def test_a_damaged_entry_is_made_again(tmp_path: Path, damage: bytes) -> None:
    make = Maker()
    KeptCode(tmp_path)("key", make)
    entry(tmp_path, "key").write_bytes(damage)
    assert KeptCode(tmp_path)("key", make) == b"machine code"
    assert make.count == 2
    assert KeptCode(tmp_path)("key", make) == b"machine code"
    assert make.count == 2, "it was kept again"


def test_a_flipped_bit_is_noticed(tmp_path: Path) -> None:
    make = Maker()
    KeptCode(tmp_path)("key", make)
    content = bytearray(entry(tmp_path, "key").read_bytes())
    content[-1] ^= 1
    entry(tmp_path, "key").write_bytes(bytes(content))
    assert KeptCode(tmp_path)("key", make) == b"machine code"
    assert make.count == 2


def test_code_under_another_name_is_not_taken(tmp_path: Path) -> None:
    KeptCode(tmp_path)("old", Maker(b"old code"))
    shutil.copy(entry(tmp_path, "old"), entry(tmp_path, "new"))
    assert KeptCode(tmp_path)("new", Maker(b"new code")) == b"new code"


def test_a_folder_that_cannot_be_made_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    make = Maker()
    assert KeptCode(tmp_path / "file")("key", make) == b"machine code"


def test_code_that_cannot_be_written_is_made_once_and_handed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A server compiled it, and its worker compiled it again, with a warning for each piece."""
    monkeypatch.setattr(kept_code, "_unwritten", {})
    folder = tmp_path / "file"
    folder.write_text("not a folder")
    step, make = f"{kept_code.sources_digest()}-x", Maker()
    for key in (step, step, "other"):
        assert KeptCode(folder)(key, make) == b"machine code"
    assert make.count == 2

    handed = kept_code.unwritten()
    monkeypatch.setattr(kept_code, "_unwritten", {})  # as in another process
    kept_code.take_unwritten(handed)
    assert KeptCode(folder)(step, make) == b"machine code"
    assert make.count == 2
    assert len(caplog.records) == 1


def test_what_is_missing_is_told_before_it_is_made(tmp_path: Path) -> None:
    told: list[str] = []
    make = Maker()
    kept = KeptCode(tmp_path, lambda: told.append(f"{make.count} made"))
    for key in ("one", "two", "one"):
        kept(key, make)
    assert told == ["0 made", "1 made"]


@pytest.mark.parametrize("loss", [b"damaged", None])
@pytest.mark.parametrize("lost", ["one", "two", "all"])
def test_a_note_holds_while_all_that_was_used_is_there(
    tmp_path: Path, lost: str, loss: bytes | None
) -> None:
    kept = KeptCode(tmp_path)
    assert not kept.has_all("all")
    for key in ("one", "two"):
        kept(key, Maker())
    kept.note("all")
    KeptCode(tmp_path)("other", Maker())
    assert KeptCode(tmp_path).has_all("all")
    entry(tmp_path, "other").unlink()
    assert KeptCode(tmp_path).has_all("all")
    if loss is None:
        entry(tmp_path, lost).unlink()
    else:
        entry(tmp_path, lost).write_bytes(loss)
    assert not KeptCode(tmp_path).has_all("all")


def test_a_note_that_cannot_be_written_is_nothing_to_warn_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """All code may be there, in a folder that is read-only."""
    (tmp_path / "file").write_text("not a folder")
    KeptCode(tmp_path / "file").note("all")
    assert caplog.records == []


def test_a_full_disk_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("segue.runners.cpu.kept_code.os.replace", full)
    assert KeptCode(tmp_path)("key", Maker()) == b"machine code"
    assert [path for path in (tmp_path / "cpu").iterdir() if path.suffix != ".lock"] == []


def test_a_file_that_another_process_takes_away_is_no_obstacle(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As it renames what it has written, just when old entries are looked for."""
    KeptCode(tmp_path)("key", Maker())
    (tmp_path / "cpu" / ".making-gone").symlink_to(tmp_path / "nowhere")  # listed, but not there
    assert KeptCode(tmp_path)("other", Maker()) == b"machine code"
    assert caplog.records == []


def test_two_that_start_together_make_it_once(tmp_path: Path) -> None:
    begun, go_on = threading.Event(), threading.Event()
    second = Maker()

    def slow() -> bytes:
        begun.set()
        assert go_on.wait(PATIENCE_S)
        return b"machine code"

    found: list[bytes] = []
    first = threading.Thread(target=lambda: found.append(KeptCode(tmp_path)("key", slow)))
    other = threading.Thread(target=lambda: found.append(KeptCode(tmp_path)("key", second)))
    first.start()
    assert begun.wait(PATIENCE_S)
    other.start()
    go_on.set()
    first.join()
    other.join()
    assert found == [b"machine code"] * 2
    assert second.count == 0


def test_the_key_depends_on_every_module_of_the_step() -> None:
    """A module that the compiling process loads but the key leaves out would be changed without effect."""
    modules = "compile", "step.run", "translation.functions"
    loading = "import sys, " + ", ".join(f"segue.runners.cpu.{name}" for name in modules)
    listing = f"{loading}; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", listing], capture_output=True, check=True)
    root = Path(segue.__file__).parent
    ours = {
        name.removeprefix("segue.").replace(".", "/")
        for name in found.stdout.decode().split()
        if name.startswith("segue.")
    }
    loaded = {f"{name}.py" for name in ours if (root / f"{name}.py").exists()}
    in_key = {path.relative_to(root).as_posix() for path in kept_code.sources()}
    assert loaded - in_key == {
        "errors.py",
        "fingerprint.py",
        "runners/cpu/kept_code.py",
        "runners/cpu/native.py",
    }, "which keep, link and name what is made, and make nothing"
