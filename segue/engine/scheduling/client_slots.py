"""Slots as clients of llama.cpp's server know them: a number, and what the last request with that number has left.

Here a number is a label. What is computed is in the prefix cache, where it serves any request of the same API key; so
a label has the tokens of the text that ended last under it, and its KV is there as long as the cache has that. Slot 0
has those of requests without a number too, as long as none has named it: who has one client has one slot.

    save: hold → (bytes are written) → let_go
    restore: take → (bytes are read) → enter, or drop
"""

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from segue.engine.request.job import Job
from segue.engine.scheduling.memory import Memory
from segue.engine.scheduling.prefix_cache import Match
from segue.engine.seam import Mix
from segue.errors import InvalidField, Unavailable
from segue.types import HeldText

_FIELD = "id_slot"
_UNNAMED = -1  # the number of what requests without one leave


class SlotKey(NamedTuple):
    tenant: str
    number: int


class SlotText(NamedTuple):
    tokens: list[int]
    num_prompt: int
    adapters: Mix
    salt: str  # of the prefix cache


class Held(NamedTuple):
    """What of a text is in memory: the first tokens of a runner's slot."""

    slot: int
    tokens: Sequence[int]
    adapters: Mix


class ClientSlots:
    def __init__(self, memory: Memory, num_slots: int) -> None:
        self._memory = memory
        self._num_slots = num_slots
        self._texts: OrderedDict[SlotKey, SlotText] = OrderedDict()  # the one used last is last
        # Tenants that have named slot 0, whatever is left of its text.
        self._named_first: set[str] = set()
        self._busy: Counter[SlotKey] = Counter()
        self._waiting: defaultdict[SlotKey, list[Callable[[], None]]] = defaultdict(list)
        self._due: list[Callable[[], None]] = []
        self._are_kept = False

    def keep(self) -> None:
        """From now on, remember what requests leave: before that nobody could have it saved. Called before the first
        request."""
        self._are_kept = True

    def key(self, tenant: str, number: int) -> SlotKey:
        """As llama.cpp's server counts: beyond the last slot comes the first."""
        return SlotKey(tenant, number % self._num_slots)

    # --- requests --------------------------------------------------------------------------------

    def began(self, job: Job) -> None:
        if self._are_kept and (key := self._key_of(job)) is not None:
            self._busy[key] += 1

    def ended(self, job: Job) -> None:
        """Remember what the first of its sequences leaves in the cache."""
        if not self._are_kept:
            return
        key = self._key_of(job)
        self._name(key)
        first, label = job.sequences[0], key or SlotKey(job.request.tenant, _UNNAMED)
        if first.salt is None or job.private_salts:
            self._texts.pop(label, None)  # it leaves nothing
        elif first.computed:
            computed = first.tokens[: first.computed]
            self._remember(label, SlotText(computed, first.num_prompt, first.adapters, first.salt))
        if key is None:
            return
        self._busy[key] -= 1
        if not self._busy[key]:
            del self._busy[key]
            self._due += self._waiting.pop(key, ())

    def _key_of(self, job: Job) -> SlotKey | None:
        number = job.request.client_slot
        return None if number is None else self.key(job.request.tenant, number)

    def _name(self, key: SlotKey | None) -> None:
        if key is not None and key.number == 0:
            self._named_first.add(key.tenant)

    def _remember(self, key: SlotKey, text: SlotText) -> None:
        self._texts[key] = text
        self._texts.move_to_end(key)
        if len(self._texts) > self._num_slots:  # of several keys: the cache has no more texts
            self._texts.popitem(last=False)

    # --- when: an action waits for the requests of its slot ----------------------------------------

    def when_idle(self, key: SlotKey, act: Callable[[], None]) -> None:
        """Call it now if no request has that slot, else once none has: see `act_due`."""
        if key in self._busy:
            self._waiting[key].append(act)
        else:
            act()

    @property
    def is_due(self) -> bool:
        """Whether an action has waited, and its slot is idle now. Asked for after every step."""
        return bool(self._due)

    def act_due(self) -> None:
        """While no step is open."""
        due, self._due = self._due, []
        for act in due:
            act()

    # --- what: called while no step is open --------------------------------------------------------

    def hold(self, key: SlotKey) -> Held:
        """As much of the slot's text as is in memory: its prompt at least. It stays there until `let_go`. Raises
        InvalidField."""
        text = self._texts.get(self._filled(key))
        if text is None:
            raise InvalidField(
                f"slot {key.number} holds nothing: it holds the prompt and answer of the last request with "
                f'"{_FIELD}": {key.number} that used the cache',
                _FIELD,
            )
        match = self._left(text)
        if match is None:
            raise InvalidField(
                f"slot {key.number} holds nothing any more: its place was needed, so send its prompt again",
                _FIELD,
            )
        slot = self._memory.hold(match)
        if slot is None:
            raise _full()
        return Held(slot, text.tokens[: match.length], text.adapters)

    def held(self, tenant: str) -> Iterator[HeldText]:
        """What that tenant's slots hold, of those that hold something."""
        for number in range(self._num_slots):
            text = self._texts.get(self._filled(SlotKey(tenant, number)))
            if text is not None:
                match = self._left(text)
                yield HeldText(number, text.num_prompt, 0 if match is None else match.length)

    def _left(self, text: SlotText) -> Match | None:
        """What of it is in memory: its prompt at least. All prompts may begin alike: that is no reason to write a token
        over a file that has thousands."""
        match = self._memory.left_of(text.tokens, text.salt)
        is_whole = match is not None and match.length >= min(text.num_prompt, len(text.tokens))
        return match if is_whole else None

    def _filled(self, key: SlotKey) -> SlotKey:
        """Whose text that slot has."""
        is_named = key.number != 0 or key.tenant in self._named_first
        return key if is_named else SlotKey(key.tenant, _UNNAMED)

    def let_go(self, slot: int) -> None:
        self._memory.let_go(slot)

    def take(self, num_tokens: int) -> int:
        """An empty slot of the runner's, with room for so many tokens."""
        slot = self._memory.take(num_tokens)
        if slot is None:
            raise _full()
        return slot

    def enter(self, key: SlotKey, slot: int, text: SlotText) -> None:
        """It holds that text now."""
        self._memory.enter(slot, text.tokens, text.salt)
        self._name(key)
        self._remember(key, text)

    def drop(self, slot: int) -> None:
        """It was not filled."""
        self._memory.drop(slot)

    def erase(self, key: SlotKey) -> int:
        """Forget the text, and what is cached of its prompt and not in use. How many tokens it had."""
        text = self._texts.pop(self._filled(key), None)
        if key.number == 0:  # else it would have another text now
            self._texts.pop(SlotKey(key.tenant, _UNNAMED), None)
            self._named_first.discard(key.tenant)
        if text is None:
            return 0
        self._memory.forget_text(text.tokens, text.num_prompt, text.salt)
        return len(text.tokens)


def _full() -> Unavailable:
    return Unavailable("running requests need all of the KV memory now; try again soon")
