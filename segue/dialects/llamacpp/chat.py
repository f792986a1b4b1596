"""`/apply-template`: the prompt that the model's own chat template makes of messages."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from segue.bounds import MAX_MESSAGES
from segue.dialects.base import Reply, Service
from segue.dialects.fields.kinds import AnyObject, Boolean, Mismatch, Text
from segue.dialects.fields.table import Field, Table
from segue.dialects.templates import chat_template
from segue.errors import InvalidField, Unavailable, Unsupported
from segue.types import ModelInfo


@dataclass(frozen=True)
class Messages:
    """Roles with their texts. A text may also be a list of {"type": "text", "text": ...}, each a line."""

    def read(self, value: Any) -> tuple[dict[str, str], ...]:
        if type(value) is not list or not 0 < len(value) <= MAX_MESSAGES:
            raise Mismatch(f"a list of 1 to {MAX_MESSAGES} messages", value)
        return tuple(_message(message, f"[{i}]") for i, message in enumerate(value))

    def schema(self) -> dict[str, Any]:
        text = {"type": "string"}
        properties = {"role": text, "content": {"anyOf": [text, {"type": "array"}]}}
        message = {"type": "object", "properties": properties, "required": ["role", "content"]}
        return {"type": "array", "items": message, "minItems": 1, "maxItems": MAX_MESSAGES}


def _message(message: Any, at: str) -> dict[str, str]:
    if type(message) is not dict or type(message.get("role")) is not str:
        raise Mismatch("an object with role and content", message, at)
    content = message.get("content")
    parts = [{"type": "text", "text": content}] if type(content) is str else content
    if type(parts) is not list or not all(map(_is_text, parts)):
        raise Mismatch("a text, or a list of parts of type text", content, f"{at}.content")
    return {"role": message["role"], "content": "\n".join(part["text"] for part in parts)}


def _is_text(part: Any) -> bool:
    return type(part) is dict and part.get("type") == "text" and type(part.get("text")) is str


@dataclass(frozen=True)
class Continuation:
    """Whether to go on with the last message; "content" names what of it, and nothing else is here."""

    def read(self, value: Any) -> bool:
        if type(value) is bool:
            return value
        if value == "content":
            return True
        raise Mismatch('true, false or "content"', value)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [{"type": "boolean"}, {"const": "content"}]}


TEMPLATE_FIELDS = Table(
    (
        Field("messages", Messages(), "The conversation.", "messages", required=True),
        Field(
            "add_generation_prompt",
            Boolean(),
            "End with what comes before the model's answer.",
            "add_generation_prompt",
            default=True,
        ),
        Field(
            "continue_final_message",
            Continuation(),
            "Leave an assistant's message that comes last open, for the model to go on with, as is done without it.",
            "continue_last",
            default=None,
        ),
        Field(
            "chat_template_kwargs",
            AnyObject(),
            'Variables for the template, such as {"enable_thinking": false}.',
            "variables",
            default={},
        ),
        Field("model", Text(256), "A served name or alias.", "model", default=""),
    )
)


_Messages = tuple[dict[str, str], ...]
_ROLES = {"developer": "system"}
_KNOWS_DEVELOPERS = "<|channel|>"  # in the templates of gpt-oss


async def apply_template(service: Service, values: Mapping[str, Any]) -> Reply:
    await service.open(values["model"])
    info = service.meant(values["model"]).info
    if info is None:
        raise Unavailable("Loading model")
    if info.chat_template is None:
        raise Unsupported("This model has no chat template.")
    messages, begun = values["messages"], None
    if values["continue_last"] and values["add_generation_prompt"]:
        raise InvalidField(
            "Cannot set both add_generation_prompt and continue_final_message to true.",
            "continue_final_message",
        )
    if values["continue_last"] is not False:
        messages, begun = _split_begun(messages)
    # A template is a program: it may take a second, which others shall not wait for.
    prompt = await asyncio.to_thread(
        _rendered,
        info,
        messages,
        service.now,
        begun is not None or values["add_generation_prompt"],
        _variables(values["variables"], service.now()),
    )
    if await _comes_twice(service, values["model"], info.bos_token, prompt):
        prompt = prompt.removeprefix(info.bos_token)
    return Reply({"prompt": prompt + (begun or "")})


def _variables(asked: Mapping[str, Any], now: float) -> dict[str, Any]:
    """What the server tells every template, with what the request says instead. Models think unless told not to."""
    if isinstance(asked.get("enable_thinking"), str):
        raise InvalidField(
            "chat_template_kwargs.enable_thinking must be true or false, not a text",
            "chat_template_kwargs.enable_thinking",
        )
    today = datetime.fromtimestamp(now, UTC)
    told = {"datetime": f"{today:%b %d %Y}", "date_string": f"{today:%d %b %Y}"}
    return {"enable_thinking": True, **told, **asked}


def _rendered(
    info: ModelInfo,
    messages: _Messages,
    now: Callable[[], float],
    is_to_answer: bool,
    variables: dict[str, Any],
) -> str:
    """As the server does: a developer is the system, and what a system says that a template refuses comes before the
    next message."""
    if _KNOWS_DEVELOPERS not in (info.chat_template or ""):
        messages = tuple(
            each | {"role": _ROLES.get(each["role"], each["role"])} for each in messages
        )
    try:
        return chat_template.render(info, messages, now, is_to_answer, variables=variables)
    except InvalidField:
        if messages[0]["role"] != "system" or not messages[1:]:
            raise
        joined = _without_system(messages)
        try:
            return chat_template.render(info, joined, now, is_to_answer, variables=variables)
        except InvalidField:
            pass  # it was not the system
        raise


def _without_system(messages: _Messages) -> _Messages:
    first, second, *others = messages
    return (second | {"content": f"{first['content']}\n{second['content']}"}, *others)


def _split_begun(messages: _Messages) -> tuple[_Messages, str | None]:
    """The messages before an answer that comes last and is to be continued, and its text; None if there is none."""
    *before, last = messages
    if last["role"] != "assistant":
        return messages, None
    if before and before[-1]["role"] == "assistant":
        raise InvalidField(
            "Cannot have 2 or more assistant messages at the end of the list.", "messages"
        )
    return tuple(before), last["content"]


async def _comes_twice(service: Service, model: str, bos: str, prompt: str) -> bool:
    """Whether BOS begins the prompt and is put in front of every text besides, as `/completion` does."""
    if not bos or not prompt.startswith(bos):
        return False
    return bool(await service.tokenize(model, "", add_special=True, parse_special=True))
