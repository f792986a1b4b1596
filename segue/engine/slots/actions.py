"""Saves, restores and erases clients' slots.

Files are read and written by a thread of its own, the rest is done by the step thread between two steps. So no stream
waits for a disk, and nothing changes while it is read: what is written is held, what is read is nobody's yet.

    save      step thread: hold → files: write → step thread: let go
    restore   files: check → step thread: take → files: fill → step thread: enter
"""

import contextlib
import logging
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue

from segue.engine.request.sequence import salt_of
from segue.engine.scheduling.client_slots import ClientSlots, Held, SlotKey, SlotText
from segue.engine.seam import Capabilities, Mix, SlotBytes
from segue.engine.slots import slot_file
from segue.engine.slots.folder import SlotFolder
from segue.engine.slots.names import check_name
from segue.engine.slots.slot_file import SlotHeader, SlotReader
from segue.errors import EngineFault, InvalidField, Overloaded, SegueError, Unsupported
from segue.types import SlotAction, SlotResult

log = logging.getLogger("segue.slots")

_STALE_S = 3600.0  # after which a file that is being written belongs to a process that has ended
_MOST_ASKED = 32  # actions of one API key: each may have a file open, and a slot of the runner's

Act = Callable[[], None]
Tell = Callable[[SlotResult | Exception], None]


@dataclass(frozen=True)
class _Asked:
    action: SlotAction
    key: SlotKey
    path: Path
    tell: Tell


@dataclass(frozen=True)
class _Restored:
    """A slot that is being restored, and the file that it comes from."""

    reader: SlotReader
    text: SlotText
    seconds: float  # that checking the file took


class SlotActions:
    def __init__(
        self,
        folder: SlotFolder | None,
        slots: ClientSlots,
        access: SlotBytes | None,
        limits: Capabilities,
        adapter_digests: Mapping[str, str],
        post: Callable[[Act], None],
    ) -> None:
        """`folder`: where files are; None: nowhere. `post`: hands the step thread something to do while no step is
        open."""
        self._folder = folder
        self._slots = slots
        self._access = access
        self._limits = limits
        self._digests = [adapter_digests.get(name, name) for name in limits.adapters]
        self._post = post
        self._to_files: SimpleQueue[Act] = SimpleQueue()
        self._num_asked: Counter[str] = Counter()  # by tenant: actions that are not answered
        self._looks: defaultdict[str, list[_Asked]] = defaultdict(list)  # by tenant: not answered
        self._counting = threading.Lock()
        if folder is not None and access is not None:
            slots.keep()

    def ask(self, action: SlotAction, tell: Tell) -> None:
        """From any thread. `tell` is called once, from another."""
        try:
            folder, access = self._checked(action)
            tell = self._counted(action.tenant, tell)
        except SegueError as error:
            return tell(error)
        key, path = self._slots.key(action.tenant, action.slot), folder / action.filename
        asked = _Asked(action, key, path, tell)
        match action.verb:
            case "save":
                self._when_idle(asked, partial(self._hold, asked, access))
            case "erase":
                self._when_idle(asked, partial(self._erase, asked))
            case "look":
                self._look_once(asked)
            case "restore":
                self._on_files(asked, partial(self._check, asked, access))

    def _checked(self, action: SlotAction) -> tuple[Path, SlotBytes]:
        if self._folder is None:
            raise Unsupported(
                "This server does not support slots action. Start it with `--slot-save-path`"
            )
        if self._access is None:
            raise Unsupported(
                "Slots of this model can be neither saved nor restored: only Segue's own kernels write out what they "
                "hold, and another runner computes it"
            )
        if action.verb in ("save", "restore"):
            check_name(action.filename)
        return Path(self._folder.path), self._access

    def _counted(self, tenant: str, tell: Tell) -> Tell:
        """A client that is gone is answered too: until then its actions wait, and count."""
        with self._counting:
            if self._num_asked[tenant] >= _MOST_ASKED:
                raise Overloaded(
                    f"{_MOST_ASKED} actions on slots of this API key are under way: wait until one has ended"
                )
            self._num_asked[tenant] += 1

        def told(result: SlotResult | Exception) -> None:
            with self._counting:
                self._num_asked[tenant] -= 1
                self._num_asked += Counter()  # without those that have none
            tell(result)

        return told

    # --- the files' thread -----------------------------------------------------------------------

    @property
    def threads(self) -> Sequence[Act]:
        """The body of that thread, if there are to be files."""
        return () if self._folder is None else (self._serve,)

    def _serve(self) -> None:
        self._remove_stale()
        while True:
            self._to_files.get()()

    def _remove_stale(self) -> None:
        """Files that were being written when a process was killed. They take what --slot-save-mib allows."""
        if self._folder is None:
            return
        for part in Path(self._folder.path).glob(slot_file.PART):
            with contextlib.suppress(OSError):
                if time.time() - part.stat().st_mtime > _STALE_S:
                    part.unlink()

    def _write(
        self, asked: _Asked, held: Held, header: SlotHeader, contents: Sequence[memoryview]
    ) -> None:
        began_s = time.perf_counter()
        self._remove_stale()
        check_room = None if self._folder is None else self._folder.check_room
        try:
            size = slot_file.write(asked.path, header, contents, check_room)
        except OSError as error:
            log.error("slot %d could not be saved: %s", asked.action.slot, error)
            why = error.strerror or "the file could not be written"
            raise EngineFault(f"Unable to save slot: {why}") from None
        finally:
            self._post(partial(self._slots.let_go, held.slot))
        seconds = time.perf_counter() - began_s
        asked.tell(SlotResult(num_tokens=len(held.tokens), num_bytes=size, seconds=seconds))

    def _check(self, asked: _Asked, access: SlotBytes) -> None:
        began_s = time.perf_counter()
        reader = SlotReader(asked.path)
        try:
            text = self._text_of(reader.header, asked.action, access)
            reader.check()
        except BaseException:
            reader.close()
            raise
        restored = _Restored(reader, text, time.perf_counter() - began_s)
        self._when_idle(asked, partial(self._take, asked, access, restored))

    def _fill(
        self,
        asked: _Asked,
        access: SlotBytes,
        restored: _Restored,
        slot: int,
        places: Sequence[memoryview],
    ) -> None:
        began_s = time.perf_counter()
        try:
            with restored.reader as reader:
                reader.fill(places)
        except BaseException:
            self._post(partial(self._slots.drop, slot))
            raise
        seconds = restored.seconds + time.perf_counter() - began_s
        self._on_steps(asked, partial(self._enter, asked, access, restored, slot, seconds))

    # --- the step thread ---------------------------------------------------------------------------

    def _hold(self, asked: _Asked, access: SlotBytes) -> None:
        held = self._slots.hold(asked.key)
        count = len(held.tokens)
        header = SlotHeader(
            kind=access.kind,
            owner=slot_file.owner_of(asked.action.tenant),
            adapters=tuple((self._digests[place], scale) for place, scale in held.adapters),
            tokens=slot_file.packed_tokens(held.tokens),
            num_bytes=access.num_bytes(count),
        )
        contents = access.contents(held.slot, count)
        self._on_files(asked, partial(self._write, asked, held, header, contents))

    def _take(self, asked: _Asked, access: SlotBytes, restored: _Restored) -> None:
        count = len(restored.text.tokens)
        try:
            slot = self._slots.take(count)
        except SegueError:
            restored.reader.close()
            raise
        places = access.receive(slot, count)
        self._on_files(asked, partial(self._fill, asked, access, restored, slot, places))

    def _enter(
        self, asked: _Asked, access: SlotBytes, restored: _Restored, slot: int, seconds: float
    ) -> None:
        try:
            access.received(slot)
        except ValueError as error:
            self._slots.drop(slot)
            raise InvalidField(f"filename: no slot holds what that file has: {error}") from None
        self._slots.enter(asked.key, slot, restored.text)
        count, size = len(restored.text.tokens), restored.reader.size
        asked.tell(SlotResult(num_tokens=count, num_bytes=size, seconds=seconds))

    def _erase(self, asked: _Asked) -> None:
        asked.tell(SlotResult(num_tokens=self._slots.erase(asked.key)))

    def _look_once(self, asked: _Asked) -> None:
        """All that one key asks for between two steps get one answer: it takes as long as many texts are compared."""
        with self._counting:
            looks = self._looks[asked.key.tenant]
            looks.append(asked)
            is_first = len(looks) == 1
        if is_first:
            self._on_steps(asked, partial(self._look, asked.key.tenant))

    def _look(self, tenant: str) -> None:
        with self._counting:
            looks = self._looks.pop(tenant)
        found = SlotResult(held=tuple(self._slots.held(tenant)))
        for asked in looks:
            asked.tell(found)

    # --- what a file may be restored for ---------------------------------------------------------

    def _text_of(self, header: SlotHeader, action: SlotAction, access: SlotBytes) -> SlotText:
        """Raises InvalidField unless it is of this model, these kernels, this key and a context that fits."""
        if header.owner != slot_file.owner_of(action.tenant):
            raise _refused("it was saved with another API key")
        ours = access.kind
        if header.kind.model != ours.model:
            raise _refused("it was saved of another model")
        if header.kind.kernels != ours.kernels:
            raise _refused("it was saved by another version of the kernels")
        if header.kind.layout != ours.layout:
            raise _refused("it was saved with another type of KV cache, or drafts")
        limits = self._limits
        if not 0 < header.num_tokens < limits.context_length:
            raise _refused(
                f"it has {header.num_tokens} tokens, and the context holds {limits.context_length}, one for an answer"
            )
        tokens = header.token_ids
        if max(tokens) >= limits.vocab_size or header.num_bytes != access.num_bytes(len(tokens)):
            raise _refused("it is damaged")
        adapters = self._adapters_of(header)
        return SlotText(tokens, len(tokens), adapters, salt_of(adapters, action.cache_salt))

    def _adapters_of(self, header: SlotHeader) -> Mix:
        try:
            return tuple((self._digests.index(digest), scale) for digest, scale in header.adapters)
        except ValueError:
            raise _refused(
                "it was saved with a LoRA adapter that this server does not have"
            ) from None

    # --- who does what: an error is told to who asked ------------------------------------------------

    def _when_idle(self, asked: _Asked, act: Act) -> None:
        self._post(partial(self._slots.when_idle, asked.key, partial(_tried, asked, act)))

    def _on_steps(self, asked: _Asked, act: Act) -> None:
        self._post(partial(_tried, asked, act))

    def _on_files(self, asked: _Asked, act: Act) -> None:
        self._to_files.put(partial(_tried_whatever, asked, act))


def _tried(asked: _Asked, act: Act) -> None:
    """Errors that nobody foresaw end the process, as those of a step do: what slots hold is not known then."""
    try:
        act()
    except SegueError as error:
        asked.tell(error)


def _tried_whatever(asked: _Asked, act: Act) -> None:
    try:
        act()
    except Exception as error:
        asked.tell(error)


def _refused(why: str) -> InvalidField:
    return InvalidField(f"Unable to restore slot: {why}", "filename")
