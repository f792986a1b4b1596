"""What holds for every operation of every dialect, whatever is sent to it."""

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.dialects import DIALECTS
from segue.dialects.base import Call, Operation, Stamp
from segue.dialects.tally import Tally
from segue.errors import RequestError
from segue.types import Delta, Done, Event, Finished, Prompted, TokenScore, Usage

STAMP = Stamp(request_id="r", public_id="p", created=5, seed=99, fingerprint="f")

OPERATIONS = {
    f"{dialect.name}{operation.path}": operation
    for dialect in DIALECTS
    for operation in dialect.operations
}

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([2**31, 2**53, -(2**63), 10**30, 1.5, -0.0, math.inf, 1e308]),
    st.sampled_from(["", "x", "5", "json", "\0", "🙂", "<|im_end|>", "{{ .Prompt }}", "(a+)+$"]),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["type", "value", "json", "5", "a"]), inner, max_size=3),
    ),
    max_leaves=6,
)


@st.composite
def bodies(draw: st.DrawFn) -> tuple[Operation, dict[str, Any]]:
    operation = OPERATIONS[draw(st.sampled_from(sorted(OPERATIONS)))]
    names = [name for row in operation.table.rows for name in row.spellings]
    body: dict[str, Any] = {"prompt": "x", "model": "m", "input_prefix": "", "input_suffix": ""}
    for name in draw(st.lists(st.sampled_from([*names, "unknown"]), max_size=4)):
        group, _, inner = name.partition(".")
        if inner and type(body.setdefault(group, {})) is dict:
            body[group][inner] = draw(values)
        else:
            body[group] = draw(values)
    return operation, body


@given(bodies())
def test_anything_is_understood_or_refused(sent: tuple[Operation, dict[str, Any]]) -> None:
    operation, body = sent
    try:
        call = operation.parse(body, STAMP)
    except RequestError:
        return
    # What is understood can be sent to the engine, and answered.
    msgspec.msgpack.decode(msgspec.msgpack.encode(call.request), type=type(call.request))
    operation.renderer(call)


def story(call: Call) -> list[Event]:
    """Every choice says two words of two tokens each; all that was asked for is scored."""
    request = call.request
    events: list[Event] = []
    for prompt in range(len(request.prompts)):
        first = (TokenScore(1, b"x", None, 0, ()),)
        is_scored = request.prompt_logprobs is not None
        events.append(Prompted(prompt, (1,), 0, "x", first if is_scored else None))
    choices = range(len(request.prompts) * request.n)
    for word in ("one ", "two"):
        halves = (word[:2].encode(), word[2:].encode())
        scored = tuple(TokenScore(7, piece, -1.0, 1, ()) for piece in halves)
        scores = scored if request.logprobs is not None else None
        events += [Delta(choice, word, (7, 8), scores) for choice in choices]
    events += [Finished(choice, "stop", "eos", 4, None, 0.5, 0.5) for choice in choices]
    return [*events, Done(Usage(len(request.prompts), 4 * len(choices), 0), 1)]


def texts(part: Any) -> str:
    """All the text in a piece of an answer, by any name."""
    if isinstance(part, list):
        return "".join(map(texts, part))
    if "choices" in part:
        return texts(part["choices"])
    return str(part.get("text", part.get("response", part.get("content", ""))))


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("scores", [False, True])
def test_a_stream_says_what_the_whole_answer_says(name: str, scores: bool) -> None:
    operation = OPERATIONS[name]
    known = {spelling for row in operation.table.rows for spelling in row.spellings}
    asked = {"model": "m", "prompt": "x", "input_prefix": "x", "input_suffix": "", "raw": True}
    body = {key: value for key, value in asked.items() if key in known}
    if scores:
        body |= {key: True for key in ("logprobs",) if key in known}
    call = operation.parse(body, STAMP)
    streamed, tally, parts = operation.renderer(call), Tally(call.request), list[Any]()
    for event in story(call):
        parts += streamed.push(event)
        tally.push(event)
    whole = operation.renderer(call).fold(tally)
    assert texts(parts).strip() == texts(whole).strip() == "one two"
