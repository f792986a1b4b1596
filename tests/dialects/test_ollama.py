import asyncio
import math
from datetime import datetime
from typing import Any

import pytest

from segue.dialects.base import Call, Card, Operation, Reply, Stamp
from segue.dialects.ollama import OLLAMA, root_error_reply, text
from segue.dialects.ollama.generate import Generation
from segue.dialects.ollama.pages import SHOW_FIELDS, list_running
from segue.dialects.rendering.tally import Tally
from segue.errors import BY_CODE, InvalidField, Overloaded, UnknownModel, UnknownPath
from segue.types import (
    CUT_FIRST,
    Delta,
    Done,
    Event,
    Finished,
    Prompt,
    Prompted,
    Repetition,
    Sampling,
    Shift,
    TokenScore,
    Truncation,
    Usage,
)
from tests.support.one_card import CHATTY, OneCard

STAMP = Stamp(request_id="r", public_id="p", created=5, seed=99, fingerprint="f")
GENERATE, TEXT = OLLAMA.operations


def generate(**body: Any) -> Call:
    return GENERATE.parse({"model": "m", "prompt": "a", **body}, STAMP)


def test_defaults_are_ollamas() -> None:
    call = generate()
    assert call.stream
    assert call.request.max_tokens is None
    assert call.request.sampling == Sampling(
        seed=99,
        order=CUT_FIRST,
        temperature=0.8,
        top_k=40,
        top_p=0.9,
        penalty_window=64,
        penalize_prompt=True,
    )
    call = TEXT.parse({"model": "m", "prompt": "a"}, STAMP)
    assert not call.stream
    assert call.request.max_tokens is None
    sampling = call.request.sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k) == (1.0, 1.0, 40)


@pytest.mark.parametrize(("max_tokens", "read"), [(7, 7), (0, None), (-1, None), (-2, None)])
def test_no_bound_is_written_as_in_options(max_tokens: int, read: int | None) -> None:
    call = TEXT.parse({"model": "m", "prompt": "a", "max_tokens": max_tokens}, STAMP)
    assert call.request.max_tokens == read
    assert generate(options={"num_predict": max_tokens}).request.max_tokens == read


def test_numbers_out_of_range_are_moved_into_it() -> None:
    """On both routes alike: Ollama has no ranges."""
    numbers = {"temperature": -3, "top_p": 7, "presence_penalty": 3, "frequency_penalty": -3}
    completion = TEXT.parse({"model": "m", "prompt": "a", **numbers}, STAMP)
    for found in (completion.request.sampling, generate(options=numbers).request.sampling):
        assert (found.temperature, found.top_p) == (0.0, 1.0)
        assert (found.presence_penalty, found.frequency_penalty) == (3.0, -3.0)
    hot = TEXT.parse({"model": "m", "prompt": "a", "temperature": 3, "top_p": 0}, STAMP)
    assert (hot.request.sampling.temperature, hot.request.sampling.top_p) == (3.0, 1.0)


def test_options_that_are_whole_drop_their_fraction() -> None:
    options = {"num_predict": 1.9, "top_k": 1.5, "seed": -2.5, "repeat_last_n": 8.5}
    call = generate(options=options)
    assert call.request.max_tokens == 1
    sampling = call.request.sampling
    assert (sampling.top_k, sampling.seed, sampling.penalty_window) == (1, -2, 8)
    assert generate(options={"seed": 1e300}).request.sampling.seed == 2**63 - 1


@pytest.mark.parametrize(("value", "read"), [(0, 1.0), (0.0, 1.0), (-1, 0.0), (0.5, 0.5)])
def test_typical_p_of_zero_is_off(value: float, read: float) -> None:
    assert generate(options={"typical_p": value}).request.sampling.typical_p == read


@pytest.mark.parametrize(
    ("name", "wrong"), [("num_ctx", "x"), ("num_gpu", True), ("use_mmap", 1), ("num_thread", [])]
)
def test_the_type_of_an_option_of_loading_is_checked(name: str, wrong: Any) -> None:
    with pytest.raises(InvalidField, match=f"options.{name} must be"):
        generate(options={name: wrong})


@pytest.mark.parametrize(
    ("body", "shift", "ignored"),
    [
        ({}, Shift(num_kept=4, optional=True), ()),
        ({"shift": None}, Shift(num_kept=4, optional=True), ()),
        ({"shift": True}, Shift(num_kept=4), ()),
        ({"shift": False}, None, ()),
        ({"options": {"num_keep": 0}}, Shift(optional=True), ()),
        ({"options": {"num_keep": -9}}, Shift(num_kept=-1, optional=True), ()),
        ({"options": {"num_keep": 2**40}}, Shift(num_kept=2**31 - 1, optional=True), ()),
        ({"shift": True, "suffix": "b"}, None, ("shift",)),
        ({"suffix": "b", "template": "{{ .Prompt }} {{ .Suffix }}"}, None, ()),
        ({"shift": False, "options": {"num_keep": 9}}, None, ("options.num_keep",)),
    ],
)
def test_shift(body: dict[str, Any], shift: Shift | None, ignored: tuple[str, ...]) -> None:
    call = generate(**body)
    assert (call.request.shift, call.ignored) == (shift, ignored)


def test_the_other_route_shifts_too() -> None:
    request = TEXT.parse({"model": "m", "prompt": "a", "max_tokens": 0}, STAMP).request
    assert (request.max_tokens, request.shift) == (None, Shift(num_kept=4, optional=True))


def test_one_token_again_and_again_ends_an_answer() -> None:
    for operation in (GENERATE, TEXT):
        asked = operation.parse({"model": "m", "prompt": "a"}, STAMP).request
        assert asked.repetition == Repetition(max_size=1, min_count=32)


def test_shift_is_true_or_false() -> None:
    with pytest.raises(InvalidField, match="shift must be"):
        generate(shift=1)


@pytest.mark.parametrize("logprobs", [True, 21])
def test_logprobs_of_the_other_route_are_checked_only(logprobs: Any) -> None:
    assert TEXT.parse({"model": "m", "prompt": "a", "logprobs": 5}, STAMP).ignored == ("logprobs",)
    with pytest.raises(InvalidField, match="logprobs must be"):
        TEXT.parse({"model": "m", "prompt": "a", "logprobs": logprobs}, STAMP)


@pytest.mark.parametrize("operation", [GENERATE, TEXT])
def test_what_is_asked_for_no_completion_has_a_type(operation: Operation) -> None:
    """A text passed, where Go's decoder wants a boolean."""
    body = {"model": "m", "prompt": "a"}
    call = operation.parse({**body, "_debug_render_only": True}, STAMP)
    assert call.ignored == ("_debug_render_only",)
    with pytest.raises(InvalidField, match="_debug_render_only must be true or false"):
        operation.parse({**body, "_debug_render_only": "yes"}, STAMP)


@pytest.mark.parametrize(
    ("name", "taken", "wrong"), [("system", "s", 5), ("template", "", []), ("options", {"a": 1}, 5)]
)
def test_what_show_takes_without_effect_has_a_type(name: str, taken: Any, wrong: Any) -> None:
    assert SHOW_FIELDS.read({"model": "m", name: taken}).ignored == [name]
    with pytest.raises(InvalidField):
        SHOW_FIELDS.read({"model": "m", name: wrong})


def test_an_empty_name_is_no_model() -> None:
    for operation in (GENERATE, TEXT):
        with pytest.raises(UnknownModel):
            operation.parse({"model": "", "prompt": "a"}, STAMP)


def test_loading_is_no_stream() -> None:
    assert not generate(prompt="", stream=True).stream
    assert generate(prompt="", suffix="b", stream=True).stream


def test_options() -> None:
    options = {"num_predict": -2, "top_p": 7, "top_k": -5, "repeat_last_n": -9, "num_ctx": 9}
    call = generate(options=options)
    assert call.request.max_tokens is None
    sampling = call.request.sampling
    assert (sampling.top_p, sampling.top_k, sampling.penalty_window) == (1.0, 0, -1)
    assert call.ignored == ("options.num_ctx",)


@pytest.mark.parametrize(
    ("body", "truncation", "ignored"),
    [
        ({}, None, ()),
        ({"truncate": False}, None, ()),
        ({"truncate": True}, Truncation(num_kept=4), ()),
        ({"truncate": True, "options": {"num_keep": 9}}, Truncation(num_kept=9), ()),
        ({"truncate": True, "options": {"num_keep": -1}}, Truncation(), ()),
        (
            {"truncate": True, "shift": False, "options": {"num_keep": 9}},
            Truncation(num_kept=9),
            (),
        ),
    ],
)
def test_truncation(
    body: dict[str, Any], truncation: Truncation | None, ignored: tuple[str, ...]
) -> None:
    call = generate(**body)
    assert (call.request.truncation, call.ignored) == (truncation, ignored)


@pytest.mark.parametrize(
    ("keep_alive", "seconds"), [("5m", 300.0), (0, 0.0), (-1, math.inf), (None, None)]
)
def test_keep_alive(keep_alive: Any, seconds: float | None) -> None:
    assert generate(keep_alive=keep_alive).keep_s == seconds


def test_runners_are_not_chosen() -> None:
    """Ollama 0.40 has two of them, and a field that says which."""
    assert generate(runner="llamacpp").ignored == ("runner",)


def test_prompts() -> None:
    assert generate(prompt="").request.prompts == ()
    assert generate(prompt="", suffix="b").request.prompts == (Prompt(("",)),)
    assert generate(model="m:latest").request.model == "m:latest"
    assert OLLAMA.operations[0].plain_name("m:latest") == "m"


def test_the_end_token_has_no_log_probability() -> None:
    """Ollama leaves it out, so that the tokens make the text."""
    call = generate(logprobs=True)
    said = TokenScore(1, b"a", -1.0, 1, ())
    end = TokenScore(2, b"</s>", -2.0, 1, (), is_shown=False)
    tally = Tally(call.request)
    events: list[Event] = [
        Prompted(0, (9,), 0),
        Delta(0, "a", (1,), (said,)),
        Delta(0, "", (2,), (end,)),
        Finished(0, "stop", "eos", 2),
        Done(Usage(1, 2, 0), 1),
    ]
    streamed = Generation(call)
    lines = [line for event in events for line in streamed.push(event)]
    for event in events:
        tally.push(event)
    whole = Generation(call).fold(tally)
    assert [each["token"] for each in whole["logprobs"]] == ["a"]
    assert [line.get("logprobs") for line in lines] == [whole["logprobs"], None]


@pytest.mark.parametrize(("operation", "num_lines"), [(GENERATE, 2), (TEXT, 3)])
def test_a_token_without_text_is_no_line(operation: Operation, num_lines: int) -> None:
    """Such as the end token, or one that may begin a stop text. TEXT ends with usage."""
    usage = {"stream_options": {"include_usage": True}} if operation is TEXT else {}
    call = operation.parse({"model": "m", "prompt": "a", "stream": True, **usage}, STAMP)
    events: list[Event] = [
        Prompted(0, (9,), 0),
        Delta(0, "", (3,), None),
        Delta(0, "a", (1,), None),
        Delta(0, "", (2,), None),
        Finished(0, "stop", "eos", 3),
        Done(Usage(1, 3, 0), 1),
    ]
    answer = operation.renderer(call)
    assert len([line for event in events for line in answer.push(event)]) == num_lines


@pytest.mark.parametrize("cached", [0, 2])
@pytest.mark.parametrize(
    ("operation", "stream"), [(GENERATE, True), (GENERATE, False), (TEXT, True), (TEXT, False)]
)
def test_cached_tokens_are_told(operation: Operation, stream: bool, cached: int) -> None:
    """As Ollama 0.33.3 does; they are counted among the prompt's, too."""
    usage = {"stream_options": {"include_usage": True}} if operation is TEXT else {}
    call = operation.parse({"model": "m", "prompt": "abc", "stream": stream, **usage}, STAMP)
    tally, renderer = Tally(call.request), operation.renderer(call)
    events: list[Event] = [
        Prompted(0, (7, 8, 9), cached),
        Delta(0, "a", (1,), None),
        Finished(0, "length", "max_tokens", 1),
        Done(Usage(3, 1, cached), 1),
    ]
    for event in events:
        tally.push(event)
    last = [line for event in events for line in renderer.push(event)][-1]
    whole = last if stream else operation.renderer(call).fold(tally)
    if operation is GENERATE:
        assert (whole["prompt_eval_count"], whole["prompt_eval_cached_count"]) == (3, cached)
    else:
        assert whole["usage"]["prompt_tokens_details"] == {"cached_tokens": cached}


def test_errors() -> None:
    busy = OLLAMA.error(Overloaded("full"))
    assert (busy.status, busy.body) == (503, {"error": "full"})
    missing = text.error_reply(UnknownModel("no such", "model"))
    assert missing.body["error"]["type"] == "not_found_error"
    unknown = UnknownPath("no such path")
    assert isinstance(OLLAMA.error(unknown).body, str)
    assert root_error_reply(unknown) == Reply({"error": "no such path"}, 404)
    assert root_error_reply(Overloaded("full")) == busy
    for leaf in BY_CODE.values():
        reply = OLLAMA.error(leaf("why"))
        assert isinstance(reply.body, str) or reply.body["error"].endswith("why")


@pytest.mark.parametrize("left_s", [None, 60.0, 1e18])
def test_the_end_of_a_model_is_a_date_whatever_it_is(left_s: float | None) -> None:
    class Kept(OneCard):
        def cards(self) -> list[Card]:
            return [Card("tiny", 77, "ok", CHATTY, left_s)]

    async def listed() -> Any:
        return (await list_running(Kept(), {})).body["models"]

    (model,) = asyncio.run(listed())
    assert datetime.fromisoformat(model["expires_at"]).year >= 1970
