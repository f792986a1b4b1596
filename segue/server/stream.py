"""One streamed answer: the events of its request in, what is written to the client out."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

from segue.bounds import LARGE_ANSWER_CHARS, LARGE_ANSWER_ITEMS
from segue.dialects.base import TOLD, Call, Renderer
from segue.server.feed import FAULT, num_repeated, num_scores
from segue.server.framing import Frame
from segue.server.transport.chunk_writer import ChunkWriter
from segue.types import LAST, Event, Failed, Finished, Prompted, Searching

log = logging.getLogger(__name__)

KEEP_ALIVE = "keep-alive"  # not "ping": an editor's client drops what it reads together with that


class Stream:
    def __init__(
        self, call: Call, frame: Frame, renderer: Renderer, broken: Callable[[Failed], Any]
    ) -> None:
        """`broken`: the last object of a stream that failed."""
        self._frame = frame
        self._renderer = renderer
        self._broken = broken
        self._request = call.request
        self._may_search = call.request.infill is not None  # beam search is not streamed
        has_scores = (call.request.logprobs, call.request.prompt_logprobs) != (None, None)
        self._num_told = call.shape.get(TOLD, 0)
        self._may_be_long = (
            has_scores or call.request.tells_ids or call.request.echo or self._num_told > 0
        )

    def write(self, writer: ChunkWriter, events: Sequence[Event]) -> bool:
        """Write these events now, without waking a task; False if that must wait. None of them ends the stream."""
        if not writer.is_open or self.is_long(events):
            return False
        objects: list[Any] = []
        for event in events:
            objects += self._renderer.push(event)
        for body in self._writes(events, objects, False):
            writer.write(body)
        return True

    def render(self, events: Sequence[Event]) -> tuple[list[bytes], bool]:
        """What to write for these events, and whether the stream is over then. No events: a comment."""
        objects: list[Any] = []
        is_over = False
        try:
            for event in events:
                if isinstance(event, Failed):
                    objects.append(self._broken(event))
                else:
                    objects += self._renderer.push(event)
                if isinstance(event, LAST):
                    is_over = True
                    break
        except Exception:
            log.exception("an answer could not be rendered")
            objects.append(self._broken(FAULT))
            is_over = True
        return self._writes(events, objects, is_over), is_over

    def is_long(self, events: Sequence[Event]) -> bool:
        """Whether rendering takes long enough for a thread. What is told of prompts is rendered once per choice, and so
        are a request's settings, at its end."""
        if not self._may_be_long:
            return False
        num_chars = sum(num_repeated(event, self._request) for event in events)
        num_chars += sum(self._num_told for event in events if isinstance(event, Finished))
        if num_chars > LARGE_ANSWER_CHARS:
            return True
        copies = (self._request.n if isinstance(event, Prompted) else 1 for event in events)
        sizes = (copy * num_scores(event) for copy, event in zip(copies, events, strict=True))
        return sum(sizes) > LARGE_ANSWER_ITEMS

    def _writes(self, events: Sequence[Event], objects: list[Any], is_over: bool) -> list[bytes]:
        writes = self._frame.wrap(objects, is_over)
        if not events:
            return self._frame.note(KEEP_ALIVE) + writes
        if self._may_search and Searching in map(type, events):
            last = [event for event in events if isinstance(event, Searching)][-1]
            so_far = f"infill: {last.num_drawn} tokens drawn, {last.num_scored} places tried"
            return self._frame.note(so_far) + writes
        return writes
