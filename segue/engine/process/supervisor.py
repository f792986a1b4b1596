"""The parent's side of a worker process: an Engine that starts it, watches it and starts it again.

When the worker dies, every open request ends with EngineDied at once, and new ones are refused with Unavailable
until the next worker is ready. Requests are never replayed: how far they got is unknown.

A worker that hangs is killed: pings ask for the age of the work its threads do, and a limit bounds that age.
"""

import asyncio
import contextlib
import logging
import socket
import time
from multiprocessing.process import BaseProcess

from segue import logs
from segue.engine.process import messages
from segue.engine.process.client import READ_LIMIT, Client
from segue.engine.process.new_worker import NewWorker, Task
from segue.engine.process.spawning import beside, ending, reap
from segue.engine.seam import Loader
from segue.engine.slots.folder import SlotFolder
from segue.errors import BY_CODE, Incompatible, ModelUnavailable, shortage

log = logging.getLogger("segue.supervisor")

FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 4.0  # between workers that load the model and die later
LONGEST_LOADING_PAUSE_S = 60.0  # between workers that die while loading
_STEADY_S = 30.0  # a worker that ran this long is not part of a crash loop
DEFAULT_STEP_TIMEOUT_S = 120.0


class Supervisor(Client):
    def __init__(
        self,
        loader: Loader,
        chunk_rows: int,
        step_timeout_s: float | None = None,
        listener: socket.socket | None = None,
        ahead: NewWorker | None = None,
        *,
        slot_folder: SlotFolder | None = None,
        has_priorities: bool = False,
    ) -> None:
        """`step_timeout_s`: a step that takes longer hangs; None: DEFAULT_STEP_TIMEOUT_S. `listener`: a listening
        socket, where other server processes connect to the worker. `ahead`: the first worker, if its process was
        started already. `slot_folder`: where clients' slots are saved.
        `has_priorities`: whether requests may have one."""
        super().__init__()
        self._loader = loader
        self._chunk_rows = chunk_rows
        self._step_timeout_s = step_timeout_s or DEFAULT_STEP_TIMEOUT_S
        self._listener = listener
        self._ahead = ahead
        self._slot_folder = slot_folder
        self._has_priorities = has_priorities
        self._process: BaseProcess | None = None
        self._supervision: asyncio.Task[None] | None = None
        self._has_loaded = False  # the current worker, even if it has died since
        self._is_closed = asyncio.Event()
        self._num_unanswered = 0  # pings since the last message of the worker

    async def start(self) -> None:
        """Start the worker and wait until its model is loaded. Raises the error of a failed load."""
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._supervision = asyncio.create_task(self._supervise(ready))
        try:
            await ready
        except BaseException:
            await self.close()
            raise

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    async def close(self, drain_s: float = 0.0) -> None:
        """End the worker, after at most `drain_s` for open requests. A second call may shorten the drain."""
        await self._drain(drain_s)
        self._is_closed.set()
        if self._writer is not None:
            self._writer.close()  # the worker ends when its socket closes
        if self._supervision is not None:
            await asyncio.wait([self._supervision])

    # --- one worker after another -----------------------------------------------------------------

    async def _supervise(self, ready: asyncio.Future[None]) -> None:
        pause_s = 0.0
        while not self._is_closed.is_set():
            begun, self._has_loaded = time.monotonic(), False
            try:
                await self._run_worker(ready)
            except Exception as error:
                if not ready.done():  # the first start failed: the caller of start() gets the error
                    short = shortage(error)
                    ready.set_exception(Incompatible(short) if short else error)
                    return
                log.error("the worker could not be started: %s", error)
            if self._is_closed.is_set():
                return
            pause_s = next_pause(pause_s, time.monotonic() - begun, self._has_loaded)
            self._num_restarts += 1
            self._retry_at = time.monotonic() + pause_s
            log.info("starting the worker again in %.1f s", pause_s)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._is_closed.wait(), pause_s)

    async def _run_worker(self, ready: asyncio.Future[None]) -> None:
        worker, self._ahead = self._ahead or NewWorker(self._listener), None
        self._process = process = worker.process
        reader, self._writer = await asyncio.open_connection(sock=worker.sock, limit=READ_LIMIT)
        if self._is_closed.is_set():
            self._writer.close()  # close() came when there was none yet: nobody else would
        watching = asyncio.create_task(self._watch(process))
        try:
            task = Task(
                loader=self._loader,
                chunk_rows=self._chunk_rows,
                log_level=log.getEffectiveLevel(),
                logs_json=logs.are_json(),
                num_restarts=self._num_restarts,
                slot_folder=self._slot_folder,
                has_priorities=self._has_priorities,
            )
            await beside(lambda: worker.begin(task))
            while (report := await messages.read(reader, messages.reports)) is not None:
                self._num_unanswered = 0
                self._take_report(report, ready)
            if not ready.done():
                await beside(lambda: reap(process))
                how = ending(process.exitcode)
                raise ModelUnavailable(f"loading the model {how}")
        finally:
            watching.cancel()
            self._writer.close()
            self._lost()
            await beside(lambda: reap(process))
        # Not where an error says more: why the model cannot be loaded, or that its process did not start.
        if not self._is_closing:
            log.error("the worker %s", ending(process.exitcode))

    async def _watch(self, process: BaseProcess) -> None:
        """Ping the worker, and kill it if it does not answer in time. Loading has no time limit."""
        interval_s = min(max(self._step_timeout_s / 4, 0.05), 1.0)
        while True:
            await asyncio.sleep(interval_s)
            if not self._is_ready:
                continue
            # Counted, not timed: if our own event loop was blocked, only one ping is missing.
            if self._num_unanswered * interval_s > self._step_timeout_s:
                log.error("the worker does not answer for %.1f s: ended", self._step_timeout_s)
                process.kill()
                return
            self._num_unanswered += 1
            self._send(messages.Ping())

    def _check_pulse(self, pong: messages.Pong) -> None:
        busy_s = max(pong.step_s, pong.inbox_s)
        if busy_s > self._step_timeout_s and self._is_ready and self._process is not None:
            what = "a step" if pong.step_s >= pong.inbox_s else "passing on a request"
            log.error("%s has taken %.1f s: the worker is ended", what, busy_s)
            self._is_ready = False
            self._process.kill()

    def _take_report(self, report: messages.Report, ready: asyncio.Future[None]) -> None:
        """A message, with what it says of the worker itself."""
        self._take(report)
        match report:
            case messages.Pong():
                self._check_pulse(report)
            case messages.Ready():
                self._has_loaded = True
                if not ready.done():
                    ready.set_result(None)
            case messages.LoadFailed(code, message):
                raise BY_CODE.get(code, ModelUnavailable)(message)


def next_pause(last_s: float, lived_s: float, has_loaded: bool) -> float:
    """Seconds to wait before the next worker: doubled each time, so that a crash loop uses little of the machine."""
    if lived_s > _STEADY_S:
        return FIRST_PAUSE_S
    longest = LONGEST_PAUSE_S if has_loaded else LONGEST_LOADING_PAUSE_S
    return min(max(last_s * 2, FIRST_PAUSE_S), longest)
