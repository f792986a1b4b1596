"""Those who are told what becomes of models."""

import pytest

from segue.bounds import MAX_WATCHES
from segue.engine.process.fleet import Listeners
from segue.errors import Unavailable
from segue.types import ModelChange

CHANGE = ModelChange("a", "ok")


def test_who_left_hears_no_more() -> None:
    listeners = Listeners()
    one: list[ModelChange | None] = []
    two: list[ModelChange | None] = []
    leave = listeners.add(one.append)
    listeners.add(two.append)
    listeners.tell(CHANGE)
    leave()
    leave()
    listeners.tell(CHANGE)
    listeners.end()
    assert (one, two) == ([CHANGE], [CHANGE, CHANGE, None])


def test_after_the_end_nothing_comes() -> None:
    listeners = Listeners()
    listeners.end()
    heard: list[ModelChange | None] = []
    listeners.add(heard.append)()
    assert heard == [None]


def test_as_many_listen_as_may() -> None:
    listeners = Listeners()
    heard: list[ModelChange | None] = []
    leave = [listeners.add(heard.append) for _ in range(MAX_WATCHES)]
    with pytest.raises(Unavailable, match="64 clients"):
        listeners.add(heard.append)
    leave[0]()
    listeners.add(heard.append)
