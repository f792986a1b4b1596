"""Which requests were running when the worker died, twice in a row.

A client that repeats a request gets a new id, so a repeated request is recognised by a digest of its content. Only ids
are logged: the log must not contain prompts.
"""

import hashlib
import logging
from collections.abc import Iterable, Mapping

import msgspec

from segue.types import CompletionRequest

_encode = msgspec.msgpack.Encoder().encode


log = logging.getLogger("segue.supervisor")


class Suspects:
    def __init__(self) -> None:
        self._worker = -1
        self._last: set[bytes] = set()
        self._now: set[bytes] = set()

    def crashed(self, worker: int, running: Mapping[str, bytes]) -> list[str]:
        """The ids of the requests in `running` that were running at the previous crash too; they are logged.

        `worker`: the number of the worker that crashed. Several server processes may report the same crash.
        """
        if worker != self._worker:
            self._last = self._now if worker == self._worker + 1 else set()
            self._now, self._worker = set(), worker
        self._now |= set(running.values())
        again = [request_id for request_id, digest in running.items() if digest in self._last]
        for request_id in again:
            log.error("request %s was running at two crashes in a row", request_id)
        return again


def digests(requests: Iterable[CompletionRequest]) -> dict[str, bytes]:
    """Digests of requests by their ids."""
    return {request.request_id: _digest(request) for request in requests}


def _digest(request: CompletionRequest) -> bytes:
    """A digest without the id and the seed: the seed differs each time if the client gives none."""
    sampling = msgspec.structs.replace(request.sampling, seed=None)
    bare = msgspec.structs.replace(request, request_id="", sampling=sampling)
    return hashlib.sha256(_encode(bare)).digest()
