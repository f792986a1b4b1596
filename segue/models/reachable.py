"""Whether a host answers, found out in a few seconds.

The library of the hub asks up to six times with growing pauses, and waits for a silent host without end.
"""

from collections.abc import Callable
from threading import Event, Thread
from typing import Protocol

CONNECT_S = 5.0  # name, address and connection; it takes a third of a second around the world
ANSWER_S = 10.0  # a connection that is there may be slow

Patience = tuple[float, float, float, float]  # connect, read, write, a place in the pool


class Client(Protocol):
    """As much as is needed of the library's HTTP client, which knows proxies and certificates."""

    def head(self, url: str, *, timeout: Patience, extensions: dict[str, object]) -> object: ...


class Unanswered(Exception):
    """Nobody answered in time."""


def check_reachable(client: Client, url: str) -> None:
    """Returns once the host has answered, whatever it says. Raises Unanswered, or what the client raises."""
    connected, ended, failures = Event(), Event(), list[Exception]()

    def trace(event: str, _: object) -> None:
        if not event.endswith("connect_tcp.started"):
            connected.set()

    def ask() -> None:
        try:
            _head(client, url, trace)
        except Exception as error:
            failures.append(error)
        ended.set()
        connected.set()

    # A thread, because nothing else puts a limit to the resolving of names.
    Thread(target=ask, name="segue-reachable", daemon=True).start()
    if not connected.wait(CONNECT_S):
        raise Unanswered(f"no connection within {CONNECT_S:.0f} s")
    ended.wait()
    if failures:
        raise failures[0]


def _head(client: Client, url: str, trace: Callable[[str, object], None]) -> None:
    patience = (CONNECT_S, ANSWER_S, ANSWER_S, ANSWER_S)
    client.head(url, timeout=patience, extensions={"trace": trace})
