"""What changes a fingerprint, and what must not."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from segue import fingerprint


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package of a few sources in the place of ours."""
    names = ("engine/sampler.py", "dialects/base.py", "models/vocabulary/tokens.py")
    for name in (*names, "exact_math.py", "types/events.py", "unicode_categories.py", "other.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {name}\n")
    monkeypatch.setattr(fingerprint, "_ROOT", tmp_path)
    yield tmp_path
    fingerprint.sources.cache_clear()


def shown(kernels: str = "k", digest: str = "d", kv_type: str = "f16") -> str:
    fingerprint.sources.cache_clear()
    return fingerprint.promised(kernels, digest, kv_type)


def test_it_looks_as_openai_made_it() -> None:
    assert re.fullmatch("fp_[0-9a-f]{16}", fingerprint.promised("kernels", "digest", kv_type="f16"))


def test_it_comes_again() -> None:
    assert shown() == shown()


def test_the_kernels_the_file_the_type_of_kv_and_the_sampler_change_it(package: Path) -> None:
    seen = {shown(), shown(kernels="K"), shown(digest="D"), shown(kv_type="q8_0")}
    (package / "engine" / "sampler.py").write_text("changed\n")
    seen.add(shown())
    (package / "engine" / "sampler.py").rename(package / "engine" / "chooser.py")
    seen.add(shown())
    assert len(seen) == 6


def test_line_ends_and_other_sources_do_not(package: Path) -> None:
    before = shown()
    (package / "exact_math.py").write_bytes(b"# exact_math.py\r\n")
    (package / "other.py").write_text("changed\n")
    assert shown() == before


def test_a_runner_that_cannot_promise_says_so() -> None:
    assert fingerprint.unpromised("llama") == "fp_varies_llama"


def test_our_own_sources_are_found() -> None:
    fingerprint.sources.cache_clear()
    assert fingerprint.sources("runners/cpu") != fingerprint.sources("engine")
