"""Tokens of a stream joined to chunks: fewer of them, and the same answer."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.bounds import LARGE_ANSWER_ITEMS
from segue.dialects import DIALECTS
from segue.dialects.base import Operation, Stamp
from segue.dialects.rendering.tally import Tally
from segue.runners.fake import FakeLoader
from segue.server.coalescing import Coalescer
from segue.server.framing import encode
from segue.types import (
    Alternative,
    Delta,
    Done,
    Event,
    Failed,
    Finished,
    Sampling,
    TokenScore,
    Usage,
)
from tests.engine.harness import Bench, ask
from tests.support.live import Live

STAMP = Stamp(request_id="r", public_id="p", created=5, seed=99, fingerprint="f")
OPERATIONS = {
    f"{dialect.name}{operation.path}": operation
    for dialect in DIALECTS
    for operation in dialect.operations
    if "stream" in operation.table.known  # the others write no text
}


def stories(n: int = 3) -> list[Event]:
    """Of a request whose choices have different lengths, with scores."""
    sampling = Sampling(seed=3, logit_bias={256: 2.0})
    [story] = Bench().run(ask("so it", n=n, max_tokens=40, logprobs=2, sampling=sampling))
    return story.events


EVENTS = stories()


@settings(deadline=None)
@given(st.integers(1, 60), st.lists(st.integers(1, len(EVENTS)), max_size=30))
def test_what_is_told_is_the_same_however_events_arrive(interval: int, cuts: list[int]) -> None:
    coalescer, joined = Coalescer(interval), list[Event]()
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(EVENTS)], strict=True):
        joined += coalescer.push(EVENTS[start:end])
    request = ask("so it", n=3, logprobs=2)
    plain, told = Tally(request), Tally(request)
    for event in EVENTS:
        plain.push(event)
    for event in joined:
        told.push(event)
    for one, other in zip(plain.choices, told.choices, strict=True):
        assert (one.text, one.tokens, one.scores) == (other.text, other.tokens, other.scores)
        assert one.finished == other.finished
    for choice in range(3):
        sizes = [len(each.tokens) for each in deltas(joined, choice)]
        first = deltas(EVENTS, choice)[0]
        assert sizes[0] == len(first.tokens), "the first goes at once"
        assert all(size >= interval for size in sizes[1:-1])
        assert all(size < interval + 2 for size in sizes[1:])


def deltas(events: list[Event], choice: int) -> list[Delta]:
    return [event for event in events if isinstance(event, Delta) and event.choice == choice]


@pytest.mark.parametrize("last", [Failed("x", "y"), Done(Usage(1, 3, 0), 5)], ids=["fails", "ends"])
def test_an_end_of_all_keeps_nothing_back(last: Event) -> None:
    coalescer = Coalescer(9)
    words = [Delta(choice, word, (1,)) for word in "abc" for choice in (0, 1)]
    assert coalescer.push(words) == words[:2]
    rest = [Delta(choice, "bc", (1, 1)) for choice in (0, 1)]
    assert coalescer.push([last]) == [*rest, last]
    ended = Finished(0, "stop", "eos", 1)
    assert coalescer.push([ended]) == [ended]


def test_many_scores_are_not_held() -> None:
    top = tuple(Alternative(i, b"a", -1.0) for i in range(99))
    delta = Delta(0, "a", (1,), (TokenScore(1, b"a", -1.0, 1, top),))
    sizes = [len(each.tokens) for each in deltas(Coalescer(10**9).push([delta] * 101), 0)]
    assert sizes == [1, *[LARGE_ANSWER_ITEMS // 100] * 5]


def test_what_is_held_is_not_counted_again_for_each_token() -> None:
    """A client may ask for any interval: the work of a long answer must not grow with its square."""
    num_read = 0

    class Tokens(tuple[int, ...]):
        def __len__(self) -> int:
            nonlocal num_read
            num_read += 1
            return super().__len__()

    Coalescer(10**9).push([Delta(0, "a", Tokens((1,))) for _ in range(300)])
    assert num_read < 3 * 300


BODIES: dict[str, Any] = {
    **{"prompt": "ab", "input_prefix": "ab", "input_suffix": "c", "model": "m"},
    **{"token_ids": [1], "output_mode": "text"},
}


def text_of(operation: Operation, events: list[Event]) -> str:
    """All texts of the stream, as this operation's renderer spells them."""
    body = {row.name: BODIES[row.name] for row in operation.table.rows if row.name in BODIES}
    renderer = operation.renderer(operation.parse({**body, "stream": True}, STAMP))
    return "".join(map(str, (text for event in events for text in texts(renderer.push(event)))))


def texts(value: Any) -> list[str]:
    found: list[str] = []

    def look(part: Any) -> None:
        if isinstance(part, dict):
            for key, inner in part.items():
                if key in ("text", "content", "response") and isinstance(inner, str):
                    found.append(inner)
                else:
                    look(inner)
        elif isinstance(part, list):
            for inner in part:
                look(inner)

    look(msgspec.json.decode(encode(value)))
    return found


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_dialect_writes_the_same_text(name: str) -> None:
    events = [
        event for event in stories(n=1) if not isinstance(event, Delta) or event.scores is not None
    ]
    joined = Coalescer(7).push(events)
    assert len(joined) < len(events)
    whole = text_of(OPERATIONS[name], events)
    assert text_of(OPERATIONS[name], joined) == whole != ""


@pytest.mark.parametrize("least", [1, 6])
def test_chunks_of_a_server(least: int) -> None:
    with Live(FakeLoader(), stream_interval=least) as live:
        for path in ("/v1/completions", "/vllm/v1/completions"):
            for asked in (None, 4, 9):
                check_chunks(live, path, asked, max(least, asked or 1))


def check_chunks(live: Live, path: str, asked: int | None, interval: int) -> None:
    """What a request that asks for so many tokens to a chunk gets, where they become `interval`."""
    body = {"prompt": "ab", "seed": 1, "max_tokens": 15, "ignore_eos": True}
    body |= {"return_token_ids": True, "stream_interval": asked}
    plain = live.client.post(path, json=body)
    ignored = plain.headers.get("x-segue-ignored", "")
    assert ("stream_interval" in ignored) == (asked is not None), "it is no stream"
    lines = live.client.post(path, json={**body, "stream": True}).text.split("\n\n")
    chunks = [msgspec.json.decode(line[6:]) for line in lines if line.startswith("data: {")]
    choices = [chunk["choices"][0] for chunk in chunks]
    sizes = [len(choice["token_ids"]) for choice in choices if choice["token_ids"]]
    num_full, num_left = divmod(14, interval)
    assert sizes == [1, *[interval] * num_full, *[num_left] * (num_left > 0)]
    text = "".join(choice["text"] for choice in choices)
    assert text == plain.json()["choices"][0]["text"]
