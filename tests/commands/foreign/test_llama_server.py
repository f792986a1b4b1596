"""That each flag of llama.cpp's server has an answer, and that the defaults it names are some."""

import pytest
from click.testing import CliRunner

from segue.cli import cli
from segue.commands.foreign.llama_server import LLAMA_SERVER, SAMPLING
from segue.dialects import DIALECTS
from segue.dialects.fields.defaults import read_defaults

TABLES = [operation.table for dialect in DIALECTS for operation in dialect.operations]
VALUES = {
    "adaptive_decay": "0.5",
    "samplers": '["top_k"]',
    "stop": "x",
    "logit_bias": '{"5": 1}',
} | {
    "dry_sequence_breakers": '["x"]',
    "ignore_eos": "true",
    "cache_prompt": "false",
}


@pytest.mark.parametrize("field", sorted(set(SAMPLING.values())))
def test_a_default_that_is_named_there_is(field: str) -> None:
    assert len(read_defaults([f"{field}={VALUES.get(field, '1')}"], TABLES)) == 1


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (["--mirostat-lr", "0.2"], "--default mirostat_eta=VALUE"),
        (["-r", "END"], "--default stop=VALUE"),
        (["--spec-ngram-map-k4v-min-hits", "2"], "--draft none"),
        (["--cache-ram", "1024"], "--kv-memory-mib N"),
        (["--lora-init-without-apply"], "--lora FILE@0"),
        (["--cors-origins", "*"], "--cors-origin ORIGIN"),
        (["--chat-template-kwargs", "{}"], "there is no chat here"),
        (["--version"], "segue --version"),
        (["--no-log-jsonl"], "--log-format json"),
        (["--kv-unified-per-slot", "4096"], "--context-length N"),
    ],
)
def test_flags_that_few_use_are_answered_too(arguments: list[str], advice: str) -> None:
    result = CliRunner().invoke(cli, ["serve", *arguments])
    assert result.exit_code == 2
    assert advice in result.output


def test_the_manual_of_llama_cpp_has_as_many() -> None:
    """Of b11549, with those of one letter; -h and what is called as here are left out."""
    assert len(LLAMA_SERVER) > 260
