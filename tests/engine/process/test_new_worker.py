"""A worker's process that is started before it is known what it shall load."""

import asyncio
import json
import logging
import signal
import sys

import pytest

from segue import logs
from segue.engine.process.new_worker import NewWorker
from segue.engine.process.supervisor import Supervisor
from segue.engine.seam import Loaded
from segue.errors import ModelUnavailable
from segue.runners.fake import FakeLoader
from tests.engine.harness import ask
from tests.engine.process.asking import fold
from tests.support.waiting import PATIENCE_S


def started() -> NewWorker:
    worker = NewWorker(modules=("segue.runners.fake",))
    worker.start()
    return worker


def test_one_ends_if_nobody_is_left_to_tell_it() -> None:
    worker = started()
    worker._tell.close()
    worker.process.join(PATIENCE_S)
    assert worker.process.exitcode == 0
    worker.close()


def test_the_first_model_is_loaded_by_it_and_the_next_worker_is_another() -> None:
    async def main() -> None:
        ahead = started()
        supervisor = Supervisor(FakeLoader(), chunk_rows=64, ahead=ahead)
        await supervisor.start()
        assert supervisor.pid == ahead.process.pid
        assert (await fold(supervisor, ask("a", max_tokens=2))).done is not None
        ahead.process.kill()
        async with asyncio.timeout(PATIENCE_S):
            while supervisor.pid == ahead.process.pid or not supervisor._is_ready:
                await asyncio.sleep(0.01)
        assert (await fold(supervisor, ask("a", max_tokens=2))).done is not None
        await supervisor.close()
        ahead.close()

    asyncio.run(main())


class TellingLoader(FakeLoader):
    def __call__(self) -> Loaded:
        logging.getLogger("segue.x").error("loaded")
        return super().__call__()


def test_what_it_logs_is_json_if_that_was_set_up_after_its_start(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        ahead = started()
        monkeypatch.setattr(logs, "_is_json", True)
        supervisor = Supervisor(TellingLoader(), chunk_rows=64, ahead=ahead)
        await supervisor.start()
        await supervisor.close()

    asyncio.run(main())
    (line,) = (line for line in capfd.readouterr().err.splitlines() if "loaded" in line)
    assert json.loads(line)["message"] == "loaded"


@pytest.mark.skipif(sys.platform == "win32", reason="there are no signals")
def test_one_that_died_before_it_was_told_is_a_load_that_failed() -> None:
    async def main() -> None:
        ahead = started()
        ahead.process.kill()
        ahead.process.join()
        supervisor = Supervisor(FakeLoader(), chunk_rows=64, ahead=ahead)
        with pytest.raises(ModelUnavailable, match=signal.SIGKILL.name):
            await supervisor.start()
        await supervisor.close()

    asyncio.run(main())
