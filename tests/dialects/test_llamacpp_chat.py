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
    with pytest.raises(InvalidField, match="enable_thinking must be true or false"):
        applied(messages=messages, chat_template_kwargs={"enable_thinking": "false"})


REFUSES = (
    "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    "{% for message in messages %}<{{ message.role }}>{{ message.content }}{% endfor %}"
)


def test_a_system_that_a_template_refuses_comes_before_the_next_message() -> None:
    service = OneCard(msgspec.structs.replace(CHATTY, chat_template=REFUSES))
    messages = [{"role": "system", "content": "be short"}, {"role": "user", "content": "hi"}]
    assert applied(service, messages=messages)["prompt"] == "<user>be short\nhi"
    with pytest.raises(InvalidField, match="no system"):
        applied(service, messages=messages[:1])
    with pytest.raises(InvalidField, match="no system"):
        applied(service, messages=[messages[0], *messages])


@pytest.mark.parametrize(("more", "role"), [("", "system"), ("{# <|channel|> #}", "developer")])
def test_developers_are_the_system_but_where_templates_know_them(more: str, role: str) -> None:
    template = more + "{{ messages[0].role }}"
    service = OneCard(msgspec.structs.replace(CHATTY, chat_template=template))
    assert applied(service, messages=[{"role": "developer", "content": "hi"}])["prompt"] == role


def test_templates_are_told_the_date_and_to_think() -> None:
    template = "{{ enable_thinking }}, {{ datetime }}, {{ date_string }}"
    service = OneCard(msgspec.structs.replace(CHATTY, chat_template=template))
    messages = [{"role": "user", "content": "hi"}]
    assert applied(service, messages=messages)["prompt"] == "True, Jan 01 1970, 01 Jan 1970"
    told = applied(service, messages=messages, chat_template_kwargs={"date_string": "today"})
    assert told["prompt"] == "True, Jan 01 1970, today"


@pytest.mark.parametrize(("service", "expected"), [(AddsBos, "hi"), (OneCard, "<s>hi")])
def test_bos_does_not_come_twice(service: type[OneCard], expected: str) -> None:
    template = "{{ bos_token }}{{ messages[0].content }}"
    info = msgspec.structs.replace(CHATTY, chat_template=template, bos_token="<s>")
    messages = [{"role": "user", "content": "hi"}]
    told = applied(service(info), messages=messages)
    assert told == {"prompt": expected}
