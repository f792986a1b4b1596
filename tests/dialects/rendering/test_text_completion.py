"""Random requests and events: a stream put together again is the answer that is not streamed."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from segue.dialects.base import Call, Stamp
from segue.dialects.openai import OPENAI
from segue.dialects.rendering.tally import Tally
from segue.types import (
    Alternative,
    CompletionRequest,
    Delta,
    Done,
    Event,
    Finished,
    Prompted,
    TokenScore,
    Usage,
)
from tests.support.prompt_scores import columns

STAMP = Stamp(request_id="r", public_id="p", created=5, seed=1, fingerprint="f")
OPERATION = OPENAI.operations[0]


def call_of(**body: Any) -> Call:
    return OPERATION.parse({"prompt": "ab", "model": "m", **body}, STAMP)


def text_score(text: str, logprob: float | None = -1.0) -> TokenScore:
    piece = text.encode()
    top = (Alternative(8, b"alt", -0.5),) if logprob is not None else ()
    return TokenScore(7, piece, logprob, 3, top)


@st.composite
def exchanges(draw: st.DrawFn) -> tuple[Call, list[Event]]:
    top = st.one_of(st.none(), st.integers(0, 3))
    call = call_of(
        prompt=draw(st.lists(st.text(min_size=1, max_size=4), min_size=1, max_size=3)),
        n=draw(st.integers(1, 3)),
        echo=draw(st.booleans()),
        logprobs=draw(top),
        prompt_logprobs=draw(top),
        stream=True,
        stream_options={"include_usage": True, "continuous_usage_stats": draw(st.booleans())},
    )
    request = call.request
    num_choices = len(request.prompts) * request.n
    tracks = [draw(tracks_of(request, choice)) for choice in range(num_choices)]
    events = [draw_prompted(request, index) for index in range(len(request.prompts))]
    while any(tracks):  # choices advance in any order
        track = draw(st.sampled_from([track for track in tracks if track]))
        events.append(track.pop(0))
    num_prompt = sum(len(event.tokens) for event in events if isinstance(event, Prompted))
    num_generated = sum(len(event.tokens) for event in events if isinstance(event, Delta))
    return call, [*events, Done(Usage(num_prompt, num_generated, len(request.prompts)), 1)]


def draw_prompted(request: CompletionRequest, index: int) -> Event:
    text = request.prompts[index].parts[0]
    scores = None
    if request.prompt_logprobs is not None:
        scores = columns(text_score(c, -2.0 if i else None) for i, c in enumerate(str(text)))
    is_wanted = request.echo or request.logprobs is not None
    return Prompted(index, (1, 2), 1, str(text) if is_wanted else None, scores)


@st.composite
def tracks_of(draw: st.DrawFn, request: CompletionRequest, choice: int) -> list[Event]:
    words = draw(st.lists(st.text(max_size=3), max_size=4))
    track: list[Event] = []
    for word in words:
        scores = None if request.logprobs is None else tuple(text_score(c) for c in word)
        track.append(Delta(choice, word, tuple(range(len(word))), scores))
    stop = draw(st.sampled_from([None, "END", 2]))
    return [*track, Finished(choice, "stop", "eos", 1, stop)]


def put_together(chunks: list[dict[str, Any]], num_choices: int) -> dict[str, Any]:
    """What a client that folds a stream ends up with."""
    choices: list[dict[str, Any]] = [
        {"index": index, "text": "", "logprobs": None} for index in range(num_choices)
    ]
    for chunk in chunks:
        for part in chunk["choices"]:
            whole = choices[part["index"]]
            whole["text"] += part.pop("text")
            if columns := part.pop("logprobs"):
                old = whole["logprobs"] or {key: [] for key in columns}
                whole["logprobs"] = {key: old[key] + columns[key] for key in columns}
            whole |= part
    return {**chunks[-1], "choices": choices}


@given(exchanges())
def test_stream_folds_to_the_plain_answer(exchange: tuple[Call, list[Event]]) -> None:
    call, events = exchange
    streamed, plain, tally = OPERATION.renderer(call), OPERATION.renderer(call), Tally(call.request)
    chunks: list[dict[str, Any]] = []
    for event in events:
        chunks += msgspec.json.decode(msgspec.json.encode(streamed.push(event)))
        tally.push(event)
    answer = plain.fold(tally)
    if call.request.logprobs is not None:
        for choice in answer["choices"]:  # a stream in which nothing was scored cannot say so
            choice["logprobs"] = choice["logprobs"] if choice["logprobs"]["tokens"] else None
    for chunk in chunks:
        assert chunk["id"] == "cmpl-p"
        assert all(isinstance(choice["text"], str) for choice in chunk["choices"])
    assert put_together(chunks, len(tally.choices)) == answer
    if call.shape["continuous_usage"]:
        counted = chunks[-2]["usage"]
        assert counted["total_tokens"] == answer["usage"]["total_tokens"]
        assert counted["prompt_tokens_details"] == answer["usage"]["prompt_tokens_details"]


def test_offsets_count_from_the_start_of_the_prompt() -> None:
    """OpenAI counts characters from the prompt's first, with echo or without."""
    for echo in (True, False):
        call = call_of(prompt="åb", echo=echo, logprobs=0)
        scores = columns([text_score("å", None), text_score("b")]) if echo else None
        tally = Tally(call.request)
        tally.push(Prompted(0, (1, 2), 0, "åb", scores))
        tally.push(Delta(0, "cd", (3,), (text_score("cd"),)))
        tally.push(Delta(0, "e", (4,), (text_score("e"),)))
        tally.push(Finished(0, "length", "max_tokens", 2))
        tally.push(Done(Usage(2, 2, 0), 1))
        (choice,) = OPERATION.renderer(call).fold(tally)["choices"]
        assert choice["text"] == ("åbcde" if echo else "cde")
        assert choice["logprobs"]["text_offset"] == ([0, 1, 2, 4] if echo else [2, 4])
        assert choice["logprobs"]["token_logprobs"] == ([None, -1, -1, -1] if echo else [-1, -1])


def test_every_chunk_of_a_choice_has_a_list_of_token_ids_if_asked() -> None:
    renderer = OPERATION.renderer(call_of(stream=True, return_token_ids=True))
    events: list[Event] = [
        Prompted(0, (1,), 0),
        Delta(0, "a", (7,)),
        Finished(0, "length", "max_tokens", 1),
    ]
    chunks = [msgspec.json.decode(msgspec.json.encode(c)) for e in events for c in renderer.push(e)]
    assert [chunk["choices"][0]["token_ids"] for chunk in chunks] == [[], [7], []]
