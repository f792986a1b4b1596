"""What `/api/generate` makes of a prompt: its template, system text, context and suffix."""

from typing import Any

import pytest
from msgspec.structs import replace

from segue.dialects.base import Stamp
from segue.dialects.ollama import OLLAMA
from segue.dialects.ollama.generate import word_prompt
from segue.errors import InvalidField
from segue.types import ModelInfo, Prompt
from tests.support.one_card import CHATTY

STAMP = Stamp(request_id="r", public_id="p", created=5, seed=99, fingerprint="f")
GENERATE = OLLAMA.operations[0]

CHATML = replace(
    CHATTY,
    bos_token="<|im_start|>",
    chat_template="{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
    "{% endfor %}<|im_start|>assistant",
)
ASKED = "<|im_start|>user\nb<|im_end|>\n<|im_start|>assistant"
INST = replace(
    CHATTY,
    bos_token="<s>",
    chat_template="{{ bos_token }}[INST] {{ messages[-1].content }} [/INST]",
)
STRICT = replace(
    CHATTY,
    chat_template="{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}"
    "{% endif %}<user>{{ messages[0].content }}",
)


def worded(info: ModelInfo, **body: Any) -> Prompt:
    call = GENERATE.parse({"model": "m", "prompt": "b", **body}, STAMP)
    (prompt,) = word_prompt(call, info).prompts
    return prompt


@pytest.mark.parametrize(
    ("info", "text"), [(CHATML, ASKED), (INST, "[INST] b [/INST]"), (CHATTY, "<user>b<assistant>")]
)
def test_a_context_goes_on_without_a_second_beginning(info: ModelInfo, text: str) -> None:
    """A BOS that begins each message is part of the next one; the embedded model has such a one."""
    assert worded(info, context=[7, 8]).parts == ((7, 8), text)


@pytest.mark.parametrize(("info", "has_bos"), [(CHATML, True), (INST, True), (CHATTY, False)])
def test_a_template_that_begins_with_bos_gets_no_other(info: ModelInfo, has_bos: bool) -> None:
    assert worded(info).add_special is not has_bos


def test_a_context_of_another_model_is_refused_by_its_name() -> None:
    with pytest.raises(InvalidField, match=r"context holds token id 256, .* 0 to 255") as error:
        worded(CHATTY, context=[7, 256])
    assert error.value.param == "context"


@pytest.mark.parametrize(
    ("info", "text"),
    [
        (CHATTY, "<system> s <user>b<assistant>"),
        (STRICT, "<user> s \n\nb"),  # Gemma's and Mistral's first templates refuse one
        (INST, "<s>[INST]  s \n\nb [/INST]"),  # others leave it out
        (replace(CHATTY, chat_template=None), " s \n\nb"),
    ],
)
def test_a_system_text_is_asked_whatever_the_template(info: ModelInfo, text: str) -> None:
    assert worded(info, system=" s ").parts == (text,)


def test_what_a_template_refuses_is_refused() -> None:
    broken = replace(CHATTY, chat_template="{{ raise_exception('never') }}")
    for system in ("", "s"):
        with pytest.raises(InvalidField, match="never"):
            worded(broken, system=system)


def test_a_template_is_told_to_leave_thinking_out() -> None:
    template = "{% if enable_thinking is defined %}{{ enable_thinking }}{% else %}-{% endif %}"
    thinker = replace(CHATTY, chat_template=template)
    assert worded(thinker, think=False).parts == ("False",)
    assert worded(thinker).parts == ("-",)


@pytest.mark.parametrize(
    "template", ["{{ range .Messages }}{{ end }}", "{{ .Prompt", "{{ if .System }}"]
)
def test_a_template_is_refused_before_a_model_is_loaded_for_it(template: str) -> None:
    """After a load of some seconds it was an error in a stream that had begun."""
    with pytest.raises(InvalidField, match="template has"):
        GENERATE.parse({"model": "m", "prompt": "b", "template": template}, STAMP)


# --- gaps ----------------------------------------------------------------------------------------

LAYOUT = "<PRE>{{ .Prompt }}<SUF>{{ .Suffix }}<MID>"


def test_a_template_with_a_place_for_the_suffix_is_the_layout() -> None:
    call = GENERATE.parse({"model": "m", "prompt": "b", "suffix": "c", "template": LAYOUT}, STAMP)
    assert (call.request.infill, call.ignored) == (None, ())
    assert worded(CHATTY, suffix="c", template=LAYOUT).parts == ("<PRE>b<SUF>c<MID>",)
    assert worded(CHATTY, suffix="c", template=LAYOUT, prompt="").parts == ("<PRE><SUF>c<MID>",)
    assert worded(CHATTY, template="{{ if .Suffix }}x{{ else }}y{{ end }}").parts == ("y",)


@pytest.mark.parametrize(
    ("body", "ignored"),
    [
        ({"suffix": "c", "system": "s"}, ("system",)),
        ({"suffix": "c", "template": "{{ .Prompt }}", "context": [1]}, ("template", "context")),
        ({"suffix": "c", "template": LAYOUT, "system": "s"}, ("system",)),
        ({"template": "{{ .Prompt }}", "system": "s"}, ("system",)),
        ({"template": "{{ .System }}{{ .Prompt }}", "system": "s"}, ()),
        ({"suffix": "", "system": "s", "context": [1]}, ()),
        ({"suffix": "c", "system": "", "template": "", "context": []}, ()),
    ],
)
def test_what_has_no_place_is_named(body: dict[str, Any], ignored: tuple[str, ...]) -> None:
    assert GENERATE.parse({"model": "m", "prompt": "b", **body}, STAMP).ignored == ignored
