import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.engine.sampling.scores import score
from segue.engine.scheduling.prefix_cache import PrefixCache, common_length

runs = st.lists(st.integers(0, 2), max_size=12)


@given(runs, runs)
def test_common_length(a: list[int], b: list[int]) -> None:
    expected = next(
        (i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b))
    )
    assert common_length(a, b) == expected


operations = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), st.integers(0, 5), runs, st.sampled_from(["", "s"])),
        st.tuples(st.just("remove"), st.integers(0, 5)),
        st.tuples(st.just("lock"), st.integers(0, 5)),
        st.tuples(st.just("unlock"), st.integers(0, 5)),
        st.tuples(st.just("match"), runs, st.sampled_from(["", "s"])),
        st.tuples(st.just("serve"), st.integers(0, 5)),
        st.tuples(st.just("evict")),
    ),
    max_size=40,
)


@given(operations)
def test_agrees_with_a_plain_table(ops: list[tuple[object, ...]]) -> None:
    """Random operations against a dict of slot → tokens; the tree must say the same, and check()."""
    cache = PrefixCache()
    held: dict[int, tuple[list[int], str]] = {}
    locked: set[int] = set()
    served: set[int] = set()
    used: list[int] = []  # least recently used first

    def touch(slot: int) -> None:
        if slot in used:
            used.remove(slot)
        used.append(slot)

    for op in ops:
        match op:
            case ("insert", int(slot), list(tokens), str(salt)):
                cache.insert(slot, tokens, salt)
                held[slot] = (tokens, salt)
                touch(slot)
            case ("remove", int(slot)):
                cache.remove(slot)
                if held.pop(slot, None) is not None:
                    used.remove(slot)
                    locked.discard(slot)
                    served.discard(slot)
            case ("lock", int(slot)) if slot in held:
                cache.lock(slot)
                locked.add(slot)
            case ("unlock", int(slot)) if slot in held:
                cache.unlock(slot)
                locked.discard(slot)
            case ("match", list(tokens), str(salt)):
                found = cache.match(tokens, salt)
                best = max(
                    (common_length(t, tokens) for t, s in held.values() if s == salt), default=0
                )
                assert (found.length if found else 0) == best
                if found:
                    assert held[found.slot][0][:best] == tokens[:best]
                    assert held[found.slot][1] == salt
            case ("serve", int(slot)) if slot in held:
                cache.serve(slot)
                touch(slot)
                served.add(slot)
            case ("evict",):
                unlocked = [slot for slot in used if slot not in locked]
                fresh = [slot for slot in unlocked if slot not in served]
                expected = next(iter(fresh if 2 * len(fresh) >= len(unlocked) else unlocked), None)
                assert cache.evict() == expected
                if expected is not None:
                    del held[expected]
                    used.remove(expected)
                    served.discard(expected)
        cache.check()
    assert cache.slots == set(held)


@pytest.mark.parametrize("tokens", [[], [1, 2]])
def test_a_slot_that_gets_another_salt_leaves_no_tree_behind(tokens: list[int]) -> None:
    cache = PrefixCache()
    cache.insert(0, tokens, "a")
    cache.insert(0, tokens, "b")
    cache.check()
    assert cache.match([1, 2], "a") is None


def test_a_slot_whose_tokens_another_contains_is_redundant() -> None:
    cache = PrefixCache()
    cache.insert(0, [1, 2])
    cache.insert(1, [1, 2, 3])
    cache.insert(2, [1, 9])
    cache.insert(3, [1])
    cache.lock(3)
    assert cache.redundant(1, whole=False) == [0]


def test_whole_matches_only_entries_that_end_inside() -> None:
    cache = PrefixCache()
    cache.insert(0, [1, 2, 3, 4])
    assert cache.match([1, 2, 3, 9], whole=True) is None
    cache.insert(1, [1, 2])
    found = cache.match([1, 2, 3, 9], whole=True)
    assert found is not None
    assert (found.slot, found.length) == (1, 2)


@pytest.mark.parametrize(("num_top", "is_redundant"), [(1, True), (2, True), (3, False)])
def test_a_slot_with_scores_the_other_lacks_is_not_redundant(
    num_top: int, is_redundant: bool
) -> None:
    cache = PrefixCache()
    logits = np.zeros((2, 100), np.float32)
    cache.insert(0, [1, 2, 3])
    cache.keep_scores(0, score(logits, [2, 3], num_top))
    cache.insert(1, [1, 2, 3, 4])
    cache.keep_scores(1, score(logits, [2, 3], 2))
    assert cache.redundant(1, whole=False) == ([0] if is_redundant else [])


def test_what_has_served_outlives_what_has_not_unless_it_is_more_than_half() -> None:
    """Finished texts push out none of the beginnings that prompts share, and these do not stay for ever."""
    cache = PrefixCache()
    for slot in range(5):
        cache.insert(slot, [slot, 7])
        if slot < 2:
            cache.serve(slot)
    assert [cache.evict() for _ in range(6)] == [2, 3, 0, 4, 1, None]


def test_a_match_alone_is_no_use() -> None:
    """A prompt that waited asked in every step: what it found became the last to be evicted, used or not."""
    cache = PrefixCache()
    for slot in range(3):
        cache.insert(slot, [slot, 7])
    assert cache.match([0, 7, 8]) == (0, 2, None)
    assert [cache.evict() for _ in range(3)] == [0, 1, 2]


def test_a_prompt_that_was_read_in_very_many_pieces_can_be_checked() -> None:
    """Beside one with the same tokens, each piece is a node below another: once it was checked by recursion."""
    cache, tokens = PrefixCache(), list(range(1500))
    cache.insert(0, tokens)
    for length in range(len(tokens) - 1, 0, -1):
        cache.insert(1, tokens[:length])
    cache.check()
    cache._entries[0].end.tokens = (1499, 0)
    with pytest.raises(RuntimeError, match="slot 0 has 1501 of 1500"):
        cache.check()
