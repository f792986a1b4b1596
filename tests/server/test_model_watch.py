"""Who watches models is told of each change, of silence, and of the end; and is forgotten once gone."""

import asyncio
import json
import threading

from segue.bounds import MAX_UNREAD_CHANGES
from segue.dialects.llamacpp import LLAMACPP
from segue.dialects.openai import OPENAI
from segue.server.model_watch import ModelWatch
from segue.types import ModelChange
from tests.server.conftest import Launch
from tests.support.fakes import OneModel, ScriptedEngine, speak
from tests.support.waiting import PATIENCE_S, wait_until


def one_model() -> OneModel:
    models = OneModel()
    models.load(ScriptedEngine(speak()))
    return models


def test_each_change_comes_once_and_silence_is_told() -> None:
    async def main() -> None:
        models = one_model()
        watch = ModelWatch(models, 0.01)
        assert await anext(watch) is None
        for status in ("loading", "ok"):
            models.listeners.tell(ModelChange("tiny", status))
        assert [(await anext(watch)) for _ in range(2)] == [
            ModelChange("tiny", "loading"),
            ModelChange("tiny", "ok"),
        ]
        models.listeners.tell(ModelChange("tiny", "idle"))
        models.listeners.end()
        assert [change async for change in watch] == [ModelChange("tiny", "idle")]

    asyncio.run(main())


def test_who_does_not_read_is_let_go() -> None:
    async def main() -> None:
        models = one_model()
        watch = ModelWatch(models, 0.0)
        for _ in range(MAX_UNREAD_CHANGES + 2):
            models.listeners.tell(ModelChange("tiny", "ok"))
        await anext(watch)
        models.listeners.tell(ModelChange("tiny", "idle"))  # behind one that was missed
        rest = [change async for change in watch]
        assert rest == [ModelChange("tiny", "ok")] * (MAX_UNREAD_CHANGES - 1)
        await watch.aclose()
        assert not models.listeners.are_there

    asyncio.run(main())


def test_a_client_is_told_until_it_leaves(launch: Launch) -> None:
    live = launch(dialects=(OPENAI, LLAMACPP))
    with live.client.stream("GET", "/llamacpp/models/sse") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        live.call(live.models.listeners.tell, ModelChange("tiny", "loading"))
        line = next(line for line in answer.iter_lines() if line)
        assert json.loads(line.removeprefix("data: "))["data"] == {"status": "loading"}
    wait_until(lambda: not live.models.listeners.are_there)


def test_its_head_has_an_end(launch: Launch) -> None:
    live = launch(dialects=(OPENAI, LLAMACPP))
    answer = live.client.head("/llamacpp/models/sse")
    assert (answer.status_code, answer.content) == (200, b"")
    wait_until(lambda: not live.models.listeners.are_there)


def test_it_ends_with_the_server(launch: Launch) -> None:
    live = launch(dialects=(OPENAI, LLAMACPP))
    read: list[str] = []

    def listen() -> None:
        with live.client.stream("GET", "/llamacpp/models/sse") as answer:
            read.extend(answer.iter_lines())

    listening = threading.Thread(target=listen)
    listening.start()
    wait_until(lambda: live.models.listeners.are_there)
    live.call(live.models.listeners.end)
    listening.join(PATIENCE_S)
    assert not listening.is_alive()
    assert read == []
