"""The owner of each slot: a running sequence, the prefix cache, or none.

Prefixes of running sequences can be shared at once; the slot of a finished sequence goes to the prefix cache.
When slots or cells run out, cached slots are evicted, least recently used first; what served a prompt stays longer.

A slot that cannot be trimmed (recurrent models) serves only prompts that begin with all it holds. So where a prompt
parts from another one, a checkpoint is left: a copy of the slot, for further prompts that begin alike.
"""

from collections.abc import Callable
from functools import partial

from segue.engine.request.sequence import Sequence
from segue.engine.scheduling.prefix_cache import Match, PrefixCache
from segue.engine.seam import Runner

MIN_SHARED = 32  # tokens that are worth a checkpoint, or waiting for
_SPARE = 32  # cells for each running sequence, besides those of blocks: drafts have as many tokens
_MOST_SPARE = 1 / 8  # of all cells


class Memory:
    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._limits = runner.capabilities
        self._cache = PrefixCache()
        self._free = list(range(self._limits.num_slots))[::-1]
        self._owned: set[int] = set()
        self._held: set[int] = set()  # of these, those that files are written of, or read into
        self.num_evictions = 0
        self._defers = False
        self._deferred: list[Callable[[], None]] = []

    def match(self, sequence: Sequence) -> Match | None:
        """The longest cached prefix that the sequence can use, with scores if it needs them."""
        if sequence.salt is None:
            return None
        num_top = sequence.num_top if sequence.is_scoring_all else None
        return self._cache.match(
            sequence.tokens, sequence.salt, num_top, whole=not self._limits.can_trim
        )

    def start(self, sequence: Sequence, match: Match | None, num_reserved: int, must: bool) -> bool:
        """Give the sequence a slot, filled from the prefix cache as far as it matches.

        False: not enough memory is free beside the `num_reserved` cells of this step. `must`: nothing else runs
        that could free memory, so cached slots are evicted until the sequence fits.
        """
        reuse = self._reusable(sequence, match)
        if match is not None and reuse:
            was_owned = match.slot in self._owned
            self._cache.lock(match.slot)
            started = self._take_slot(sequence, match, reuse, num_reserved, must=False)
            if not was_owned:
                self._cache.unlock(match.slot)
            if not started and not was_owned and not self._free:
                started = self._adopt(sequence, match, reuse, num_reserved, must)
            if started or not must:
                return started
        return self._take_slot(sequence, None, 0, num_reserved, must)

    def _reusable(self, sequence: Sequence, match: Match | None) -> int:
        """How many cached tokens to keep: the last token is always computed, for its logits."""
        if match is None:
            return 0
        limit = self.most_reused(sequence)
        if sequence.is_scoring_all:
            # To score a token, the row before it is computed: again, if only the tokens before were scored.
            limit = 0 if match.scores is None else len(match.scores)
        reuse = min(match.length, limit)
        return reuse if self._limits.can_trim or reuse == match.length else 0

    def most_reused(self, sequence: Sequence) -> int:
        """How long a prefix without scores may be that the sequence can use."""
        return sequence.score_from - 1 if sequence.is_scoring else len(sequence.tokens) - 1

    def _take_slot(
        self, sequence: Sequence, match: Match | None, reuse: int, num_reserved: int, must: bool
    ) -> bool:
        if not self.make_room(self._needed(sequence, reuse, num_reserved)) and not must:
            return False
        if not self._free and not self._evict():
            return False
        slot = self._free.pop()
        if match is not None:
            self._runner.fork(match.slot, slot, reuse)
            self._cache.serve(match.slot)
        self._own(sequence, slot, match, reuse)
        return True

    def _adopt(
        self, sequence: Sequence, match: Match, reuse: int, num_reserved: int, must: bool
    ) -> bool:
        """Continue in the matched slot itself: no slot is free to fork into, and no other one can be evicted."""
        self._cache.lock(match.slot)
        has_room = self.make_room(self._needed(sequence, reuse, num_reserved))
        self._cache.unlock(match.slot)
        if not has_room and not must:
            return False
        self._cache.remove(match.slot)
        if reuse < match.length or self._limits.can_trim:
            self._runner.trim(match.slot, reuse)
        self._own(sequence, match.slot, match, reuse)
        return True

    def _own(self, sequence: Sequence, slot: int, match: Match | None, reuse: int) -> None:
        self._owned.add(slot)
        sequence.slot, sequence.computed = slot, reuse
        sequence.checkpoint_at = self._parting(sequence)
        if match is not None and sequence.is_scoring and match.scores is not None:
            sequence.scores = match.scores.first(reuse)
        self.remember(sequence)

    def _parting(self, sequence: Sequence) -> int:
        """Where it parts from what is cached and cannot be trimmed; 0: that is not worth a checkpoint."""
        if self._limits.can_trim or sequence.salt is None:
            return 0
        common = self._cache.common(sequence.tokens, sequence.salt)
        common = self.most_shared(sequence, common)
        return common if common >= sequence.computed + MIN_SHARED else 0

    def most_shared(self, sequence: Sequence, common: int) -> int:
        """Where to leave a checkpoint for the sequence, which begins with `common` tokens of another.

        If all are scored, the last common token is left out: its score is kept, so the row before it is not needed.
        """
        if sequence.is_scoring_all:
            return common - 1
        return min(common, self.most_reused(sequence))

    def _needed(self, sequence: Sequence, reuse: int, num_reserved: int) -> int:
        return num_reserved + len(sequence.tokens) - reuse + 2 * self._limits.cells_per_block

    def make_room(self, num_cells: int) -> bool:
        while self._runner.cells_free < num_cells:
            if not self._evict():
                return False
        return True

    def keep_spare(self, num_decoding: int) -> None:
        """Evict cached prefixes for the next tokens of so many sequences: drafts, and steps that are begun ahead, take
        only cells that are free, and evict nothing."""
        blocks = 2 * self._limits.cells_per_block
        wanted = num_decoding * (blocks + _SPARE) + blocks
        self.make_room(min(wanted, int(self._limits.num_cells * _MOST_SPARE)))

    def remember(self, sequence: Sequence) -> None:
        """Enter into the prefix cache what this running sequence has computed so far."""
        slot = sequence.slot
        if slot is None or sequence.salt is None:
            return
        self._cache.insert(slot, sequence.tokens[: sequence.computed], sequence.salt)
        self._cache.lock(slot)
        if sequence.scores is not None and sequence.score_from == 1:
            self._cache.keep_scores(slot, sequence.scores)

    def keep_checkpoint(self, sequence: Sequence) -> None:
        """Let a copy of its slot stay as it is now. A slot may be evicted for it, but no sequence waits for it."""
        if self._defers:
            self._deferred.append(partial(self.keep_checkpoint, sequence))
            return
        if sequence.slot is None or sequence.salt is None:
            return
        has_cells = self.make_room(self._limits.cells_per_block)
        if not has_cells or not (self._free or self._evict()):
            return
        slot = self._free.pop()
        self._runner.fork(sequence.slot, slot, sequence.computed)
        end = sequence.computed
        self._cache.insert(slot, sequence.tokens[:end], sequence.salt)
        if sequence.scores is not None and sequence.score_from == 1:
            self._cache.keep_scores(slot, sequence.scores, sequence.tokens[end])

    def shift(self, sequence: Sequence) -> None:
        """The sequence drops tokens. What it keeps at the start stays in its slot, if that can be trimmed: in whole
        blocks, since a part of one that others hold too would take another."""
        slot, window = sequence.slot, sequence.window
        if slot is None or window is None:
            raise RuntimeError("memory: only a running sequence that has a window drops tokens")
        can_keep = window.kept - window.kept % self._limits.cells_per_block
        sequence.shift(can_keep if self._limits.can_trim else 0)
        self._cache.remove(slot)  # with scores that are those of other tokens now
        self.remember(sequence)
        self.trim(sequence)

    def outgrow(self, sequence: Sequence) -> None:
        """The sequence starts to draw tokens, and its slot cannot be trimmed: others can no longer share it."""
        if sequence.slot is not None:
            self._cache.remove(sequence.slot)

    def retire(self, sequence: Sequence, keep: bool) -> None:
        """The sequence stops running: its slot becomes a cached prefix (`keep`) or free."""
        slot, sequence.slot = sequence.slot, None
        if slot is None:
            return
        if self._defers:
            self._deferred.append(partial(self._retire, slot, sequence, keep))
        else:
            self._retire(slot, sequence, keep)

    def _retire(self, slot: int, sequence: Sequence, keep: bool) -> None:
        self._owned.discard(slot)
        if not keep or sequence.salt is None or not sequence.computed:
            self._release(slot)
            return
        limits = self._limits
        if limits.can_trim or limits.can_give_back:  # a row of a step begun before it ended
            self._runner.trim(slot, sequence.computed)
        self._cache.insert(slot, sequence.tokens[: sequence.computed], sequence.salt)
        self._cache.unlock(slot)
        for redundant in self._cache.redundant(slot, whole=not limits.can_trim):
            self._release(redundant)

    def trim(self, sequence: Sequence) -> None:
        """Let its slot hold no more than it has computed: rejected drafts and void rows go."""
        if self._defers:
            self._deferred.append(partial(self.trim, sequence))
        elif sequence.slot is not None:
            self._runner.trim(sequence.slot, sequence.computed)

    def forget(self, salts: frozenset[str]) -> None:
        """Free all slots cached under these salts."""
        if self._defers:
            self._deferred.append(partial(self.forget, salts))
            return
        for slot in self._cache.slots_of(salts):
            if slot not in self._owned:
                self._release(slot)

    # --- what clients save and restore (client_slots.py) -------------------------------------------

    @property
    def is_holding(self) -> bool:
        """Whether memory is held for files: it will be free, though no sequence ends."""
        return bool(self._held)

    def _hold(self, slot: int) -> None:
        self._owned.add(slot)
        self._held.add(slot)

    def _unhold(self, slot: int) -> None:
        self._owned.discard(slot)
        self._held.discard(slot)

    def left_of(self, tokens: list[int], salt: str) -> Match | None:
        """The longest cached prefix of a text."""
        return self._cache.match(tokens, salt, whole=not self._limits.can_trim)

    def hold(self, match: Match) -> int | None:
        """A slot with what was matched, which stays as it is until `let_go`. None: there is no place for a copy.

        What a sequence goes on in would change: of that it is a copy.
        """
        if match.slot not in self._owned:
            self._cache.lock(match.slot)
            self._hold(match.slot)
            return match.slot
        slot = self.take(0)
        if slot is not None:
            self._runner.fork(match.slot, slot, match.length)
        return slot

    def let_go(self, slot: int) -> None:
        self._unhold(slot)
        if slot in self._cache.slots:
            self._cache.unlock(slot)
        else:
            self._release(slot)

    def take(self, num_tokens: int) -> int | None:
        """An empty slot, and room for so many tokens in it. None: running sequences have too much."""
        if not self._free and not self._evict():
            return None
        slot = self._free.pop()
        if not self.make_room(num_tokens + self._limits.cells_per_block):
            self._free.append(slot)
            return None
        self._hold(slot)
        return slot

    def enter(self, slot: int, tokens: list[int], salt: str) -> None:
        """A slot that was taken holds these tokens: a cached prefix from now on."""
        self._unhold(slot)
        self._cache.insert(slot, tokens, salt)
        for redundant in self._cache.redundant(slot, whole=not self._limits.can_trim):
            self._release(redundant)

    def drop(self, slot: int) -> None:
        """A slot that was taken is not needed."""
        self._unhold(slot)
        self._release(slot)

    def forget_text(self, tokens: list[int], num_shared: int, salt: str) -> None:
        """Free what is cached of these tokens: their beginnings, and all that has the first `num_shared` of them."""
        for slot in self._cache.about(tokens, num_shared, salt):
            if slot not in self._owned:
                self._release(slot)

    @property
    def has_deferred(self) -> bool:
        return bool(self._deferred)

    def defer(self) -> None:
        """Keep what `retire`, `trim` and `forget` would do until `settle`: a step is open, or being committed."""
        self._defers = True

    def settle(self) -> None:
        """No step is open any more: do what was deferred."""
        self._defers = False
        deferred, self._deferred = self._deferred, []
        for act in deferred:
            act()

    def check(self) -> None:
        """Raise unless every slot has exactly one owner."""
        self._cache.check()
        free = set(self._free)
        if len(free) != len(self._free) or free & self._cache.slots or free & self._owned:
            raise RuntimeError("memory: a slot is both free and in use")
        if free | self._cache.slots | self._owned != set(range(self._limits.num_slots)):
            raise RuntimeError("memory: a slot was lost")

    def _evict(self) -> bool:
        slot = self._cache.evict()
        if slot is None:
            return False
        self._release(slot)
        self.num_evictions += 1
        return True

    def _release(self, slot: int) -> None:
        self._cache.remove(slot)
        self._runner.free(slot)
        self._free.append(slot)
