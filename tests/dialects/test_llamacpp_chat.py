"""llama.cpp's `/apply-template`: messages in the model's own words."""

import asyncio
from typing import Any

import msgspec
import pytest

from segue.dialects.base import Service
from segue.dialects.llamacpp.chat import TEMPLATE_FIELDS, apply_template
from segue.errors import InvalidField, Unsupported
from tests.support.fakes import INFO
from tests.support.one_card import CHATTY, AddsBos, OneCard


def applied(service: Service | None = None, **body: Any) -> Any:
    values = TEMPLATE_FIELDS.read(body).values
    return asyncio.run(apply_template(service or OneCard(), values)).body


def test_templates_are_applied() -> None:
    messages = [
        {"role": "system", "content": "be short"},
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
    ]
    told = applied(messages=messages)
    assert told == {"prompt": "<system>be short<user>hi<assistant>"}
    told = applied(messages=messages, add_generation_prompt=False)
    assert told["prompt"].endswith("hi")
    with pytest.raises(Unsupported):
        applied(OneCard(INFO), messages=messages)


def test_parts_of_a_message_are_lines() -> None:
    parts = [{"type": "text", "text": text} for text in ("a", "b")]
    told = applied(messages=[{"role": "user", "content": parts}])
    assert told == {"prompt": "<user>a\nb<assistant>"}


def test_an_answer_that_comes_last_is_left_open() -> None:
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Sure, "}]
    asked: list[dict[str, Any]] = [
        {},
        {"add_generation_prompt": False},
        {"continue_final_message": True, "add_generation_prompt": False},
        {"continue_final_message": "content", "add_generation_prompt": False},
        {"continue_final_message": None},
    ]
    for more in asked:
        told = applied(messages=messages, **more)
        assert told == {"prompt": "<user>hi<assistant>Sure, "}
    told = applied(messages=messages, continue_final_message=False)
    assert told == {"prompt": "<user>hi<assistant>Sure, <assistant>"}
    told = applied(messages=messages[1:])
    assert told == {"prompt": "<assistant>Sure, "}
    with pytest.raises(InvalidField, match="2 or more assistant messages"):
        applied(messages=[*messages, messages[-1]])


@pytest.mark.parametrize("continued", [True, "content"])
def test_an_answer_is_begun_or_gone_on_with_not_both(continued: bool | str) -> None:
    messages = [{"role": "assistant", "content": "Sure, "}]
    with pytest.raises(InvalidField, match="Cannot set both"):
        applied(messages=messages, continue_final_message=continued)


def test_only_answers_are_gone_on_with() -> None:
    messages = [{"role": "user", "content": "hi"}]
    told = applied(
        messages=messages,
        continue_final_message=True,
        add_generation_prompt=False,
    )
    assert told == {"prompt": "<user>hi"}
    for wrong in ("reasoning_content", 1):
        with pytest.raises(InvalidField, match='true, false or "content"'):
            applied(messages=messages, continue_final_message=wrong)


def test_a_template_finds_the_variables_of_the_request() -> None:
    template = "{{ enable_thinking }}{{ more.of.that[1] }}{{ messages[0].content }}"
    service = OneCard(msgspec.structs.replace(CHATTY, chat_template=template))
    variables = {"enable_thinking": False, "more": {"of": {"that": [1, 2]}}, "messages": []}
    messages = [{"role": "user", "content": "hi"}]
    told = applied(service, messages=messages, chat_template_kwargs=variables)
    assert told == {"prompt": "False2hi"}
    with pytest.raises(InvalidField, match="chat_template_kwargs must be an object"):
        applied(messages=messages, chat_template_kwargs=5)


@pytest.mark.parametrize(("service", "expected"), [(AddsBos, "hi"), (OneCard, "<s>hi")])
def test_bos_does_not_come_twice(service: type[OneCard], expected: str) -> None:
    template = "{{ bos_token }}{{ messages[0].content }}"
    info = msgspec.structs.replace(CHATTY, chat_template=template, bos_token="<s>")
    messages = [{"role": "user", "content": "hi"}]
    told = applied(service(info), messages=messages)
    assert told == {"prompt": expected}
