"""What the documentation names must exist."""

import re
from pathlib import Path

import pytest

from segue import config

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "reliability.md").read_text()
REFERENCES = sorted(set(re.findall(r"tests/[\w/]+\.py(?:::\w+)?", TEXT)))
FLAGS = sorted(set(re.findall(r"`(--[a-z-]+)", TEXT)))


@pytest.mark.parametrize("reference", REFERENCES)
def test_every_test_that_is_named_exists(reference: str) -> None:
    path, _, name = reference.partition("::")
    source = (ROOT / path).read_text()
    assert not name or f"def {name}(" in source


@pytest.mark.parametrize("flag", FLAGS)
def test_every_flag_that_is_named_exists(flag: str) -> None:
    assert flag in {row.flag for row in config.TABLE}


def test_every_corpus_that_is_named_exists_and_none_is_forgotten() -> None:
    named = set(re.findall(r"`(\w+\.json)`", TEXT))
    assert named == {path.name for path in (ROOT / "tests" / "hostile").glob("*.json")}
