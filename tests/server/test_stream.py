"""Events of a stream as writes: the same bytes, written at once or by the endpoint."""

import threading
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from segue.bounds import CHARS_OF_ID, LARGE_ANSWER_CHARS, LARGE_ANSWER_ITEMS
from segue.dialects.base import Operation, Stamp
from segue.dialects.llamacpp import COMPLETION
from segue.dialects.llamacpp.fields import CHARS_OF_ENTRY
from segue.dialects.openai import OPENAI, error_reply
from segue.errors import EngineFault
from segue.server import feed
from segue.server.framing import FRAMES
from segue.server.stream import Stream
from segue.server.transport.chunk_writer import ChunkWriter, chunk_writer, offer_chunks
from segue.types import (
    Alternative,
    CompletionRequest,
    Delta,
    Done,
    Event,
    Failed,
    Finished,
    Prompted,
    Searching,
    TokenScore,
    Usage,
)
from tests.server.conftest import Launch
from tests.server.transport.test_chunk_writer import Cycle
from tests.support.fakes import Pause, speak
from tests.support.prompt_scores import columns
from tests.support.waiting import PATIENCE_S

STAMP = Stamp(request_id="r", public_id="p", created=5, seed=1, fingerprint="f")


def stream(operation: Operation = OPENAI.operations[0], **body: Any) -> Stream:
    call = operation.parse({"prompt": "ab", "model": "m", "stream": True, **body}, STAMP)
    return Stream(
        call,
        FRAMES["sse"],
        operation.renderer(call),
        lambda failed: error_reply(EngineFault(failed.message)).body,
    )


def writer_of(cycle: Any) -> ChunkWriter:
    offer_chunks(cycle)
    writer = chunk_writer(cycle.scope)
    assert writer is not None
    return writer


EVENTS = st.lists(
    st.one_of(
        st.builds(Delta, st.integers(0, 1), st.text(max_size=3), st.just((1,))),
        st.builds(Searching, st.just(0), st.integers(0, 9), st.integers(0, 9)),
    ),
    min_size=1,
    max_size=5,
)


@given(EVENTS)
def test_written_at_once_or_rendered_the_bytes_are_the_same(events: list[Event]) -> None:
    cycle = Cycle()
    assert stream(n=2, suffix="z").write(writer_of(cycle), events)
    writes, is_over = stream(n=2, suffix="z").render(events)
    assert not is_over
    assert cycle.written == [b"%x\r\n%b\r\n" % (len(each), each) for each in writes if each]


def test_a_search_says_how_far_it_is() -> None:
    comment = b": infill: 9 tokens drawn, 3 places tried\n\n"
    events = [Searching(0, 5, 1), Searching(0, 9, 3)]
    assert stream(suffix="z").render(events) == ([comment], False)


def test_a_client_that_falls_behind_is_left_to_the_endpoint() -> None:
    cycle = Cycle(flow=SimpleNamespace(write_paused=True))
    assert not stream().write(writer_of(cycle), [Delta(0, "a", (1,))])
    assert cycle.written == []


def test_many_scores_are_left_to_a_thread() -> None:
    score = TokenScore(1, b"a", -1.0, 1, ())
    many = [Delta(0, "a", (1,), (score,) * (LARGE_ANSWER_ITEMS + 1))]
    few = [Delta(0, "a", (1,), (score,))]
    cycle = Cycle()
    assert not stream(logprobs=1).write(writer_of(cycle), many)
    assert cycle.written == []
    assert not stream(logprobs=1).is_long(few)


def test_a_prompt_that_is_told_by_many_choices_is_left_to_a_thread() -> None:
    """Megabytes of ids and texts were encoded where all streams wait."""
    num_ids = LARGE_ANSWER_CHARS // CHARS_OF_ID // 16
    ids, longer = (Prompted(0, (7,) * num, 0, "p") for num in (num_ids, num_ids + 1))
    text = Prompted(0, (7,), 0, "p" * LARGE_ANSWER_CHARS)
    assert not stream(n=16, return_token_ids=True).is_long([ids, Delta(0, "a", (1,))])
    assert stream(n=16, return_token_ids=True).is_long([longer])
    assert not stream(n=16, logprobs=1).is_long([longer])
    assert not stream(echo=True).is_long([text])
    assert stream(n=2, echo=True).is_long([text])
    assert not stream(n=2, logprobs=1).is_long([text])


@pytest.mark.parametrize(
    ("rest", "is_long"), [({}, True), ({"response_fields": ["content"]}, False)]
)
def test_long_settings_are_told_by_a_thread(rest: dict[str, Any], is_long: bool) -> None:
    """A hundred thousand biases were encoded at the end of each choice, where all streams wait."""
    biases = {str(i): 1 for i in range(LARGE_ANSWER_CHARS // CHARS_OF_ENTRY // 2 + 1)}
    end = Finished(0, "stop", "eos", 1)
    told = stream(COMPLETION, prompt=["a", "b"], logit_bias=biases, **rest)
    assert not told.is_long([Delta(0, "a", (1,)), end])
    assert told.is_long([end, replace(end, choice=1)]) == is_long


@pytest.mark.parametrize("last", [Done(Usage(1, 1, 0), 5), Failed("engine_fault", "it broke")])
def test_nothing_is_rendered_after_the_end(last: Event) -> None:
    [body], is_over = stream().render([Delta(0, "a", (1,)), last, Delta(0, "b", (1,))])
    assert is_over
    assert body.endswith(b"data: [DONE]\n\n")
    assert b'"text":"a"' in body
    assert b'"text":"b"' not in body
    assert (b"it broke" in body) == isinstance(last, Failed)


def test_what_cannot_be_rendered_ends_the_stream(caplog: pytest.LogCaptureFixture) -> None:
    [body], is_over = stream().render([Delta(0, "a", (1,)), Delta(0, object(), (1,))])  # type: ignore[arg-type]
    assert is_over
    assert b'"text":"a"' in body
    assert b'"error"' in body
    assert "could not be rendered" in caplog.text


def test_no_events_are_a_sign_of_life() -> None:
    assert stream().render([]) == ([b": keep-alive\n\n"], False)


def test_what_arrives_while_an_answer_is_rendered_is_no_backlog(
    launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client was told that it does not read, when there was nothing to read yet."""
    monkeypatch.setattr(feed, "MAX_BACKLOG", 1000)
    pause, have_arrived = Pause(), threading.Event()

    def script(request: CompletionRequest) -> Iterator[Event | Pause | Exception]:
        score = TokenScore(97, b"a", -1.0, 1, (Alternative(98, b"b", -2.0),) * 100)
        *rest, done = list(speak()(request))[1:]
        yield Prompted(0, (97,) * 50, 0, "a" * 50, columns([score] * 50))
        yield from (pause, *[Delta(0, "a", (97,), (score,))] * 20, *rest)
        have_arrived.set()
        yield done

    live = launch(script)
    render = Stream.render

    def rendering(self: Stream, events: Sequence[Event]) -> tuple[list[bytes], bool]:
        live.release(pause)
        have_arrived.wait(PATIENCE_S)
        return render(self, events)

    monkeypatch.setattr(Stream, "render", rendering)
    answer = live.complete(echo=True, logprobs=100, stream=True)
    assert answer.text.count('"b":-2.0') == 70
