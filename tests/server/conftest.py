"""A real server on a real socket, with a scripted engine behind it."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import httpx2
import pytest

from segue.dialects.base import Dialect
from segue.dialects.openai import OPENAI
from segue.server.app import create_app
from segue.server.listen import Server, address, bind, run
from tests.fakes import OneModel, Pause, Script, ScriptedEngine, speak


class Live:
    """One running server. `models` and `engine` are the doubles behind it."""

    def __init__(self, script: Script, dialects: Sequence[Dialect] = (OPENAI,), **settings: Any):
        self.models = OneModel()
        self.follow(script)
        self._listener = bind("127.0.0.1", 0)
        self.host, self.port = self._listener.getsockname()[:2]
        self.url = address(self._listener)
        app = create_app(self.models, dialects, **settings)
        self.on_stop = self.models.close
        self._server = Server(app, on_stop=lambda: self.on_stop())
        self._thread = threading.Thread(target=run, args=(self._main(),))
        self._thread.start()
        self.client = httpx2.Client(base_url=self.url, timeout=10)

    def follow(self, script: Script) -> None:
        """A new engine with this script, as if the server had just started."""
        self.engine = ScriptedEngine(script)
        self.models.load(self.engine)

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self._server.serve([self._listener])

    def release(self, pause: Pause) -> None:
        self._loop.call_soon_threadsafe(pause.go.set)

    def complete(self, **body: Any) -> httpx2.Response:
        return self.client.post("/v1/completions", json={"prompt": "ab", **body})

    def ask_to_stop(self) -> None:
        self._server.should_exit = True

    def stop(self) -> None:
        self.client.close()
        self.ask_to_stop()
        self._thread.join(10)


TWO_WORDS = speak("one", " two")
Launch = Callable[..., Live]


@pytest.fixture(scope="session")
def shared() -> Iterator[Live]:
    live = Live(TWO_WORDS)
    yield live
    live.stop()


@pytest.fixture
def launch(shared: Live) -> Iterator[Launch]:
    """Servers with a script and settings; all without settings are one, to save its start."""
    own: list[Live] = []

    def start(script: Script = TWO_WORDS, **settings: Any) -> Live:
        if not settings:
            shared.follow(script)
            return shared
        own.append(Live(script, **settings))
        return own[-1]

    yield start
    for live in own:
        live.stop()


@pytest.fixture
def live(launch: Launch) -> Live:
    return launch()
