"""The page of settings is the table in config.py, and says what the sources say."""

from pathlib import Path

from segue.config import TABLE
from segue.models.context import DEFAULT_CONTEXT
from segue.runners.cpu.slots import kv
from segue.runners.llama import runner as llama_runner
from tests.support.settings_page import markdown

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"
HELP = {row.name: row.help for row in TABLE}


def test_the_page_is_written_from_the_table() -> None:
    assert PAGE.read_text(encoding="utf-8") == markdown()


def test_it_has_every_setting_once_and_every_section() -> None:
    text = markdown()
    assert all(text.count(f"| `{row.name}` |") == 1 for row in TABLE)
    num_tables = text.count("\n| flag | key |")
    assert num_tables == text.count("\n## ") - 1, "the last section has variables of others"


def test_what_auto_means_is_what_runners_do() -> None:
    assert f"at most {DEFAULT_CONTEXT}" in HELP["context_length"]
    assert f"for {kv.SEQUENCES_WORTH} sequences" in HELP["kv_memory_mib"]
    assert f"(on llama.cpp {llama_runner.SEQUENCES_WORTH})" in HELP["kv_memory_mib"]
    assert kv.MEMORY_SHARE == llama_runner.MEMORY_SHARE == 4
