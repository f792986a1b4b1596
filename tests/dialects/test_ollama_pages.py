"""What Ollama's clients read about models."""

import asyncio
import hashlib
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from segue.dialects.base import Answer, Card
from segue.dialects.ollama.pages import list_models, list_running, list_tags, show, show_model
from segue.dialects.ollama.show import modelfile
from segue.dialects.templates import go_template
from segue.errors import InvalidField
from segue.server.framing import encode
from segue.types import Origin
from tests.support.one_card import CHATTY, OneCard

MODIFIED = datetime(2025, 3, 1, tzinfo=UTC)
CODER = replace(
    CHATTY,
    has_fim=True,
    num_params=134_515_008,
    size_bytes=90,
    origin=Origin(
        num_bytes=100,
        digest="ab" * 32,
        modified=MODIFIED.timestamp(),
        metadata={
            "general.architecture": "llama",
            "general.name": "Tiny",
            "general.basename": "tiny",
            "general.license": "apache-2.0",
            "llama.context_length": 131072,
            "llama.embedding_length": 576,
            "tokenizer.ggml.tokens": None,
        },
    ),
)


def ask(page: Answer, service: OneCard, **values: Any) -> Any:
    async def reply() -> Any:
        return (await page(service, values)).body

    return asyncio.run(reply())


def shown(info: Any = CODER, **more: Any) -> Any:
    return ask(show, OneCard(info), **{"model": "tiny", "verbose": False, **more})


def test_the_files_metadata_is_shown() -> None:
    """But for its name, which Ollama leaves out; and the context is the one that is served."""
    assert shown()["model_info"] == {
        "general.architecture": "llama",
        "general.basename": "tiny",
        "general.license": "apache-2.0",
        "general.parameter_count": 134_515_008,
        "llama.context_length": 2048,
        "llama.embedding_length": 576,
        "llama.vocab_size": 256,
        "tokenizer.ggml.tokens": None,
    }
    assert shown()["license"] == "apache-2.0"
    assert "license" not in shown(CHATTY)


def test_a_model_that_is_not_up_has_every_key() -> None:
    class Idle(OneCard):
        def card(self, model: str) -> Card:
            return Card("tiny", 77, "idle", None)

    answer = ask(show, Idle(), model="tiny", verbose=False)
    assert answer["model_info"] == {}
    assert answer["details"]["parameter_size"] == ""
    assert all(isinstance(answer[name], str) for name in ("modelfile", "parameters", "template"))


# Continue's own expression; its "stop" is read as JSON.
LINE = re.compile(r"^(\S+)\s+((?:\".*\")|\S+)$")


def test_parameters_are_lines_that_editors_read() -> None:
    class Set(OneCard):
        defaults: Mapping[str, Any] = {
            "sampling.temperature": 0.2,
            "stop": ("\n\n", "a b"),
            "max_tokens": None,
            "sampling.dry_base": 2.0,  # no option of Ollama's
        }

    lines = ask(show, Set(), model="tiny", verbose=False)["parameters"].split("\n")
    read = [found.groups() for line in lines if (found := LINE.match(line))]
    assert read == [
        ("num_ctx", "2048"),
        ("stop", '"\\n\\n"'),
        ("stop", '"a b"'),
        ("temperature", "0.2"),
    ]


def test_a_template_tells_editors_of_gaps() -> None:
    """Continue looks for the word. It is a comment, in the language of the template."""
    assert ".Suffix" not in shown(CHATTY)["template"]
    assert shown(CHATTY)["template"] == CHATTY.chat_template
    with_chat = shown()["template"]
    assert ".Suffix" in with_chat
    assert with_chat.startswith("{#")
    assert with_chat.endswith(f"#}}{CHATTY.chat_template}")
    without = shown(replace(CODER, chat_template=None))["template"]
    assert ".Suffix" in without
    assert go_template.render(without, {".Prompt": "hello"}) == "hello"


def test_it_is_told_where_a_template_is_from() -> None:
    assert shown(CHATTY)["template_source"] == "gguf_chat_template"
    assert shown(replace(CODER, chat_template=None))["template_source"] == "none"


def test_a_digest_is_that_of_the_file_under_every_name() -> None:
    class Two(OneCard):
        def cards(self) -> list[Card]:
            return [Card("tiny", 77, "ok", CODER), Card("t", 77, "ok", CODER, is_alias=True)]

    first, second = ask(list_tags, Two())["models"]
    assert first["digest"] == second["digest"] == "ab" * 32
    assert first["size"] == 100
    assert datetime.fromisoformat(first["modified_at"]) == MODIFIED
    (listed, _) = ask(list_models, Two())["data"]
    assert listed["created"] == int(MODIFIED.timestamp())


def test_without_a_digest_models_differ_all_the_same() -> None:
    class Two(OneCard):
        def cards(self) -> list[Card]:
            return [Card("a", 77, "ok", CHATTY), Card("b", 77, "idle", None)]

    digests = {model["digest"] for model in ask(list_tags, Two())["models"]}
    assert len(digests) == 2
    assert all(len(each) == hashlib.sha256().digest_size * 2 for each in digests)


@pytest.mark.parametrize("on_gpu", [False, True])
def test_a_loaded_model_is_listed_once(on_gpu: bool) -> None:
    info = replace(CODER, on_gpu=on_gpu)

    class Many(OneCard):
        def cards(self) -> list[Card]:
            return [
                Card("tiny", 77, "ok", info),
                Card("alias", 77, "ok", info, is_alias=True),
                Card("adapter", 77, "ok", info, parent="tiny"),
                Card("other", 77, "idle", None),
            ]

    (model,) = ask(list_running, Many())["models"]
    assert (model["name"], model["size"], model["size_vram"]) == ("tiny:latest", 90, 90 * on_gpu)
    tags = ask(list_tags, Many())["models"]
    assert [tag["details"]["parent_model"] for tag in tags] == ["", "", "tiny", ""]


@pytest.mark.parametrize(
    ("name", "listed"),
    [("tiny", "tiny:latest"), ("tiny:q4", "tiny:q4"), ("me/tiny", "me/tiny:latest")],
)
def test_names_are_listed_with_a_tag(name: str, listed: str) -> None:
    """Clients look for `tiny:latest` where a user wrote `tiny`. The page of one model has the name that was sent."""

    class Named(OneCard):
        def cards(self) -> list[Card]:
            return [Card(name, 77, "ok", CODER)]

        def card(self, model: str) -> Card:
            assert model == name
            return self.cards()[0]

    (tag,) = ask(list_tags, Named())["models"]
    (running,) = ask(list_running, Named())["models"]
    (model,) = ask(list_models, Named())["data"]
    assert {tag["name"], tag["model"], running["name"], running["model"], model["id"]} == {listed}
    assert [ask(show_model, Named(), model=each)["id"] for each in (name, listed)] == [name, listed]


def test_only_the_list_of_models_has_lengths_among_the_details() -> None:
    (tag, *_) = ask(list_tags, OneCard(CODER))["models"]
    (running,) = ask(list_running, OneCard(CODER))["models"]
    assert shown()["details"] == running["details"]
    assert tag["details"] == {
        **running["details"],
        "context_length": 2048,
        "embedding_length": 576,
    }


def test_a_model_is_shown_by_its_name() -> None:
    with pytest.raises(InvalidField, match="model is required"):
        shown(model="")


def test_a_model_that_is_not_up_is_known_by_its_file() -> None:
    class Idle(OneCard):
        def cards(self) -> list[Card]:
            return [Card("tiny", 77, "idle", None, remembered=CODER)]

        def card(self, model: str) -> Card:
            return self.cards()[0]

    (tag,) = ask(list_tags, Idle())["models"]
    assert (tag["size"], tag["details"]["parameter_size"]) == (100, "134.52M")
    assert tag["capabilities"] == ["completion", "insert"]
    assert ask(show, Idle(), model="tiny", verbose=False) == shown()
    assert ask(list_running, Idle())["models"] == []


def test_everything_is_told_if_it_is_asked_for() -> None:
    brief, verbose = shown(), shown(verbose=True)
    assert "tensors" not in brief
    info = verbose.pop("model_info")
    assert json.loads(encode(verbose.pop("tensors"))) == [{"name": "x"}]
    assert json.loads(encode(info)) == {
        **brief["model_info"],
        "tokenizer.ggml.tokens": ["a", "b"],
    }
    assert verbose == {key: value for key, value in brief.items() if key != "model_info"}


def test_a_modelfile_has_a_licence_if_there_is_one() -> None:
    lines = [("top_k", "5")]
    bare = 'FROM m\nTEMPLATE """t"""\nPARAMETER top_k 5\n'
    assert modelfile("m", "t", lines, "") == bare
    assert modelfile("m", "t", lines, "mit") == bare + 'LICENSE """mit"""\n'
