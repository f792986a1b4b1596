"""What the documentation names must exist."""

import importlib.util
import re
from pathlib import Path

import pytest

from segue import config
from segue.dialects import DIALECTS
from segue.server.app import mounts_of, public_paths
from segue.server.playground.paths import PUBLIC_PATHS

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / "docs" / "reliability.md").read_text("utf-8")
REFERENCES = sorted(set(re.findall(r"tests/[\w/]+\.py(?:::\w+)?", TEXT)))
FLAGS = sorted(set(re.findall(r"`(--[a-z-]+)", TEXT)))


@pytest.mark.parametrize("reference", REFERENCES)
def test_every_test_that_is_named_exists(reference: str) -> None:
    path, _, name = reference.partition("::")
    source = (ROOT / path).read_text("utf-8")
    assert not name or f"def {name}(" in source


@pytest.mark.parametrize("flag", FLAGS)
def test_every_flag_that_is_named_exists(flag: str) -> None:
    assert flag in {row.flag for row in config.TABLE}


def test_every_path_that_needs_no_key_is_named() -> None:
    paths = public_paths(mounts_of(DIALECTS, "openai")) - PUBLIC_PATHS
    assert {path for path in paths if f"`{path}`" not in TEXT} == set()


def test_every_corpus_that_is_named_exists_and_none_is_forgotten() -> None:
    named = set(re.findall(r"`(\w+\.json)`", TEXT))
    assert named == {path.name for path in (ROOT / "tests" / "hostile").glob("*.json")}


PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
DOCUMENTS = [*(ROOT / name for name in PAGES), *sorted((ROOT / "docs").rglob("*.md"))]
OF_NOW = [path for path in DOCUMENTS if path.name != "CHANGELOG.md"]


def without_code(path: Path) -> str:
    return re.sub(r"```.*?```", "", path.read_text("utf-8"), flags=re.DOTALL)


def anchors(path: Path) -> set[str]:
    """Of the headings, as GitHub makes them."""
    heads = re.findall(r"^#+ (.*)$", without_code(path), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.strip().lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(document: Path) -> None:
    links = re.findall(r"\]\((?!https?://)([^)#]*)(?:#([^)]*))?\)", without_code(document))
    for file, anchor in links:
        target = document.parent / file if file else document
        assert target.exists(), file
        assert not anchor or anchor in anchors(target), f"{file}#{anchor}"


FOLDERS = [ROOT / name for name in ("segue", "tests", "deploy", "docs", "examples")]
PLACES = [*FOLDERS, *(path for folder in FOLDERS for path in folder.rglob("*"))]
OF_OTHERS = {"convert_lora_to_gguf.py"}  # llama.cpp's


def named_places(document: Path) -> set[str]:
    """What stands in backquotes and looks like a Python file, or like a folder with a slash at its end."""
    return set(re.findall(r"`((?:\w+/)+|[\w/]+\.py)`", without_code(document)))


@pytest.mark.parametrize("document", OF_NOW, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_file_and_folder_that_is_named_exists(document: Path) -> None:
    found = {path.relative_to(ROOT).as_posix() for path in PLACES}
    ends = {"/".join(name.split("/")[at:]) for name in found for at in range(name.count("/") + 1)}
    named = named_places(document) - OF_OTHERS
    assert {name for name in named if name.rstrip("/") not in ends} == set()


@pytest.mark.parametrize("document", OF_NOW, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_module_that_is_run_exists(document: Path) -> None:
    for module in re.findall(r"python -m ((?:segue|tests)[\w.]*\w)", document.read_text("utf-8")):
        assert importlib.util.find_spec(module), module
