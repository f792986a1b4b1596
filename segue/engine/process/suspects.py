"""Which requests were running when the worker died, twice in a row.

A client that repeats a request gets a new id, so a repeated request is recognised by a digest of its content. Only ids
are logged: the log must not contain prompts.
"""

import hashlib
from collections.abc import Iterable

import msgspec

from segue.types import CompletionRequest

_encode = msgspec.msgpack.Encoder().encode


class Suspects:
    def __init__(self) -> None:
        self._last: set[bytes] = set()

    def crashed(self, running: Iterable[CompletionRequest]) -> list[str]:
        """The ids of the requests in `running` that were running at the previous crash too."""
        now = {request.request_id: _digest(request) for request in running}
        again = [request_id for request_id, digest in now.items() if digest in self._last]
        self._last = set(now.values())
        return again


def _digest(request: CompletionRequest) -> bytes:
    """A digest without the id and the seed: the seed differs each time if the client gives none."""
    sampling = msgspec.structs.replace(request.sampling, seed=None)
    bare = msgspec.structs.replace(request, request_id="", sampling=sampling)
    return hashlib.sha256(_encode(bare)).digest()
