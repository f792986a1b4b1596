"""The order in which requests are prepared: small ones on their own thread, large ones round robin over tenants.

Only one large request per tenant is prepared at a time. So a long prompt does not delay short ones, and delays
another tenant's request by one turn at the most.
"""

import threading
from collections import OrderedDict, deque
from collections.abc import Callable

from segue.bounds import SMALL_PREPARATION
from segue.engine.process import messages
from segue.types import CompletionRequest

NUM_SMALL, NUM_LARGE = 1, 2  # threads

Work = Callable[[], None]


class PreparationQueue:
    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._small: deque[Work] = deque()
        # By tenant; the next one is first.
        self._large: OrderedDict[str, deque[Work]] = OrderedDict()
        self._busy: set[str] = set()  # tenants whose large request is being prepared

    def put(self, tenant: str, size: int, work: Work) -> None:
        """Queue the work. `size`: how many characters and token ids the preparation reads."""
        with self._changed:
            if size <= SMALL_PREPARATION:
                self._small.append(work)
            else:
                self._large.setdefault(tenant, deque()).append(work)
            self._changed.notify_all()

    def serve_small(self) -> None:
        """Prepare small requests, without end: the body of a thread."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._small))
                work = self._small.popleft()
            work()

    def serve_large(self) -> None:
        """Prepare large requests, without end: the body of a thread."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._next_tenant() is not None)
                tenant = self._next_tenant()
                if tenant is None:
                    continue
                line = self._large[tenant]
                work = line.popleft()
                self._large.move_to_end(tenant)
                if not line:
                    del self._large[tenant]
                self._busy.add(tenant)
            try:
                work()
            finally:
                with self._changed:
                    self._busy.discard(tenant)
                    self._changed.notify_all()

    def _next_tenant(self) -> str | None:
        return next((tenant for tenant in self._large if tenant not in self._busy), None)


def request_size(request: CompletionRequest) -> int:
    """How many characters and token ids the preparation of the request reads."""
    prompts, size = [*request.prompts], 0
    if request.infill is not None:
        prompts.append(request.infill.suffix)
        repo = len(request.infill.repo)  # may stand before the name of each
        size = sum(len(each.text) + len(each.filename) + repo for each in request.infill.snippets)
    size += sum(len(part) for prompt in prompts for part in prompt.parts)
    sampling = request.sampling
    texts = (*request.preserved, *(text for text, _ in sampling.text_bias), *sampling.bad_words)
    size += sum(map(len, texts))
    if sampling.dry_multiplier:  # what is left of a breaker is read from each of its places
        size += sum(len(text) * len(text) for text in sampling.dry_sequence_breakers)
    return size + len(sampling.allowed_token_ids or ()) + len(sampling.stop_token_ids)


def call_size(message: messages.Call) -> int:
    """The same of a call."""
    match message:
        case messages.Tokenize(text=text):
            return len(text)
        case messages.GetPieces(tokens=tokens):
            return len(tokens)
        case _:
            return SMALL_PREPARATION + 1  # the whole vocabulary is read
