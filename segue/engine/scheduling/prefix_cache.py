"""A radix tree over tokens that knows which slots hold which prefixes.

    match → lock → (fork, compute) → serve → insert → unlock → evict

Every entry is one slot and the tokens it holds. A node stands for a run of tokens; its `slots` are all slots whose
tokens run through it to its end, so any of them can be forked for a prefix that ends there or inside it. Locked
slots belong to running sequences and are never evicted. The tree owns no memory: the caller frees what it evicts.

The scores of an entry, where known, belong to its tokens 1, 2, … (nothing precedes token 0).
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from segue.engine.sampling.scores import Scores


class Match(NamedTuple):
    """`slot` holds the first `length` tokens asked for. `scores`: of its tokens 1 … length − 1, of a whole one also of
    the token after them.
    """

    slot: int
    length: int
    scores: Scores | None = None


class _Node:
    __slots__ = ("children", "parent", "slots", "tokens")

    def __init__(self, tokens: tuple[int, ...], parent: "_Node | None") -> None:
        self.tokens = tokens
        self.parent = parent
        self.children: dict[int, _Node] = {}
        self.slots: set[int] = set()


class _Entry:
    __slots__ = ("end", "has_served", "length", "locked", "salt", "scored", "scores", "used")

    def __init__(self, salt: str, end: _Node, length: int) -> None:
        self.salt = salt
        self.end = end
        self.length = length
        self.locked = False
        self.used = 0
        self.has_served = False
        self.scores: Scores | None = None
        self.scored: int | None = None  # the token after the entry's, if its score is known


class PrefixCache:
    def __init__(self) -> None:
        self._roots: dict[str, _Node] = {}
        self._entries: dict[int, _Entry] = {}
        self._clock = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def slots(self) -> set[int]:
        return set(self._entries)

    def slots_of(self, salts: frozenset[str]) -> list[int]:
        return [slot for slot, entry in self._entries.items() if entry.salt in salts]

    def match(
        self,
        tokens: Sequence[int],
        salt: str = "",
        num_top: int | None = None,
        whole: bool = False,
    ) -> Match | None:
        """The longest cached prefix of `tokens`.

        With `num_top`, only as much of it as has scores with that many alternatives. With `whole`, only
        entries that are a prefix of `tokens` to their last token (for runners that cannot trim).
        """
        best: Match | None = None
        for node, length in self._descend(tokens, salt):
            if best is not None and best.length >= length:
                break
            for slot in node.slots:
                found = self._usable(slot, tokens, length, num_top, whole)
                if found is not None and (best is None or found.length > best.length):
                    best = found
                    if found.length == length:
                        break
        return best

    def serve(self, slot: int) -> None:
        """A prompt begins from what was matched there. A match alone is no use: who asked may wait, and ask again."""
        self._touch(slot)
        self._entries[slot].has_served = True

    def _usable(
        self, slot: int, tokens: Sequence[int], length: int, num_top: int | None, whole: bool
    ) -> Match | None:
        entry = self._entries[slot]
        if whole and entry.length != length:
            return None
        if num_top is None:
            return Match(slot, length)
        if entry.scores is None or entry.scores.num_top < num_top:
            return None
        if whole:  # the last row is not computed again, so it must be the same token that it scored
            is_next = length < len(tokens) and tokens[length] == entry.scored
            if not is_next or len(entry.scores) < length:
                return None
            return Match(slot, length, entry.scores.first(length).narrowed(num_top))
        length = min(length, len(entry.scores) + 1)
        return Match(slot, length, entry.scores.first(length - 1).narrowed(num_top))

    def common(self, tokens: Sequence[int], salt: str) -> int:
        """How many of the first tokens any entry shares, whether it ends there or goes on."""
        path = self._descend(tokens, salt)
        return path[0][1] if path else 0

    def about(self, tokens: Sequence[int], num_shared: int, salt: str) -> set[int]:
        """Slots that hold a prefix of these tokens, or begin with their first `num_shared`."""
        return {
            slot
            for node, depth in self._descend(tokens, salt)
            for slot in node.slots
            if depth >= num_shared or self._entries[slot].length == depth
        }

    def insert(self, slot: int, tokens: Sequence[int], salt: str = "") -> None:
        """Record that the slot holds exactly `tokens`. Its lock and its scores do not change."""
        old = self._entries.get(slot)
        if old is not None:
            self._unlink(slot, old)
        node, depth = self._roots.setdefault(salt, _Node((), None)), 0
        while depth < len(tokens):
            child = node.children.get(tokens[depth])
            if child is None:
                child = _Node(tuple(tokens[depth:]), node)
                node.children[tokens[depth]] = child
            else:
                common = _common(child.tokens, tokens, depth)
                if common < len(child.tokens):
                    child = _split(child, common)
            child.slots.add(slot)
            node, depth = child, depth + len(child.tokens)
        entry = _Entry(salt, node, len(tokens))
        if old is not None:
            entry.locked, entry.scores = old.locked, old.scores
            entry.has_served = old.has_served
        self._entries[slot] = entry
        self._touch(slot)
        if old is not None and old.salt != salt:
            self._forget_empty(old.salt)

    def keep_scores(self, slot: int, scores: Scores, scored: int | None = None) -> None:
        """`scored`: the token after those of the slot, whose score is the last one."""
        entry = self._entries[slot]
        entry.scores, entry.scored = scores, scored

    def lock(self, slot: int) -> None:
        self._entries[slot].locked = True

    def unlock(self, slot: int) -> None:
        self._entries[slot].locked = False

    def remove(self, slot: int) -> None:
        """Remove the slot's entry, if it has one."""
        entry = self._entries.pop(slot, None)
        if entry is not None:
            self._unlink(slot, entry)
            self._forget_empty(entry.salt)

    def redundant(self, slot: int, whole: bool) -> list[int]:
        """Unlocked slots whose tokens are a prefix of those of `slot` and whose scores `slot` has too.

        With `whole`, only those with the same tokens: a slot that cannot be trimmed does not serve for a prefix.
        """
        mine = self._entries[slot]
        path = {mine.end}
        node = None if whole else mine.end.parent
        while node is not None:
            path.add(node)
            node = node.parent
        return [
            other
            for other, entry in self._entries.items()
            if entry.end in path
            and other != slot
            and not entry.locked
            and entry.scored in (None, mine.scored)
            and _covers(mine.scores, entry.scores)
        ]

    def evict(self) -> int | None:
        """Remove and return an unlocked slot, or None. The caller frees it.

        It is the least recently used one, of those that have served no prompt yet if these are half of all or more: so
        finished texts do not push out the beginnings that prompts share.
        """
        unlocked = [slot for slot, entry in self._entries.items() if not entry.locked]
        if not unlocked:
            return None
        fresh = [slot for slot in unlocked if not self._entries[slot].has_served]
        among = fresh if 2 * len(fresh) >= len(unlocked) else unlocked
        slot = min(among, key=lambda slot: self._entries[slot].used)
        self.remove(slot)
        return slot

    def check(self) -> None:
        """Raise if the tree and the entries disagree. Run when idle, and after every test."""
        seen: dict[int, int] = dict.fromkeys(self._entries, 0)
        for root in self._roots.values():
            for node in _walk(root):
                for token, child in node.children.items():
                    if not child.tokens or child.tokens[0] != token or child.parent is not node:
                        raise RuntimeError(f"prefix cache: edge {token} does not lead to its node")
                    if not child.slots:
                        raise RuntimeError("prefix cache: a node that no slot runs through")
                    if node is not root and not child.slots <= node.slots:
                        raise RuntimeError("prefix cache: a slot that skips its parent")
                for slot in node.slots:
                    seen[slot] += len(node.tokens)
        if self._roots.keys() != {entry.salt for entry in self._entries.values()}:
            raise RuntimeError("prefix cache: a salt that no slot has, or that has no tree")
        for slot, entry in self._entries.items():
            if seen[slot] != entry.length:
                raise RuntimeError(f"prefix cache: slot {slot} has {seen[slot]} of {entry.length}")

    def _forget_empty(self, salt: str) -> None:
        """The tree of a salt goes with its last slot."""
        if self._roots[salt].children:
            return
        if not any(entry.salt == salt for entry in self._entries.values()):
            del self._roots[salt]

    def _touch(self, slot: int) -> None:
        self._clock += 1
        self._entries[slot].used = self._clock

    def _descend(self, tokens: Sequence[int], salt: str) -> list[tuple[_Node, int]]:
        """The nodes along `tokens` with how many tokens match at each, deepest first."""
        path: list[tuple[_Node, int]] = []
        node, depth = self._roots.get(salt), 0
        while node is not None and depth < len(tokens):
            node = node.children.get(tokens[depth])
            if node is None:
                break
            common = _common(node.tokens, tokens, depth)
            depth += common
            path.append((node, depth))
            if common < len(node.tokens):
                break
        return path[::-1]

    def _unlink(self, slot: int, entry: _Entry) -> None:
        node = entry.end
        while node.parent is not None:
            node.slots.discard(slot)
            parent = node.parent
            if not node.slots:
                del parent.children[node.tokens[0]]
            node = parent


def _covers(scores: Scores | None, others: Scores | None) -> bool:
    if scores is None or others is None:
        return others is None
    return len(scores) >= len(others) and scores.num_top >= others.num_top


def _walk(root: _Node) -> Iterator[_Node]:
    """All nodes. Without recursion: a long prompt that was read in many pieces may be as many nodes deep."""
    left = [root]
    while left:
        node = left.pop()
        yield node
        left.extend(node.children.values())


def _split(node: _Node, at: int) -> _Node:
    """Cut a node in two; the new upper half is returned, the lower half keeps its identity."""
    parent = node.parent
    if parent is None:
        raise RuntimeError("prefix cache: the root has no tokens to split")
    upper = _Node(node.tokens[:at], parent)
    upper.slots = set(node.slots)
    upper.children[node.tokens[at]] = node
    parent.children[upper.tokens[0]] = upper
    node.tokens, node.parent = node.tokens[at:], upper
    return upper


def _common(run: tuple[int, ...], tokens: Sequence[int], start: int) -> int:
    return common_length(run, tokens[start : start + len(run)])


def common_length(a: Sequence[int], b: Sequence[int]) -> int:
    """How many leading tokens two sequences share; slices compare much faster than a loop."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if tuple(a[low:middle]) == tuple(b[low:middle]):
            low = middle
        else:
            high = middle - 1
    return low
