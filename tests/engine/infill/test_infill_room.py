from hypothesis import given
from hypothesis import strategies as st

from segue.engine.infill.infill_room import split

sizes = st.integers(0, 3000)


@given(sizes, sizes, st.lists(sizes, max_size=5), st.integers(1, 4000))
def test_what_is_kept_fits_and_nothing_is_dropped_without_need(
    prefix: int, suffix: int, snippets: list[int], room: int
) -> None:
    kept = split(prefix, suffix, snippets, room)
    last = snippets[len(snippets) - kept.snippets :]
    assert 0 <= kept.prefix <= prefix
    assert 0 <= kept.suffix <= suffix
    assert kept.prefix + kept.suffix + sum(last) <= room
    if prefix + suffix <= room:
        assert (kept.prefix, kept.suffix) == (prefix, suffix)
        more = snippets[len(snippets) - kept.snippets - 1 :]
        assert kept.snippets == len(snippets) or prefix + suffix + sum(more) > room
    else:
        assert kept.snippets == 0, "snippets go before anything of the file itself"
        assert kept.prefix + kept.suffix >= room - 2 * max(1, room // 8)
        assert kept.suffix >= min(suffix, room // 4 - max(1, room // 8))
        assert kept.prefix >= min(prefix, room - room // 4 - max(1, room // 8))


@given(st.integers(0, 6000), st.integers(0, 6000), st.integers(600, 4000))
def test_the_cut_stays_where_it_is_while_somebody_types(
    prefix: int, suffix: int, room: int
) -> None:
    """Over 200 typed tokens, the place where the kept prefix begins moves a few times only."""
    kept = [split(prefix + typed, suffix, [], room) for typed in range(200)]
    starts = {prefix + typed - k.prefix for typed, k in enumerate(kept)}
    assert len(starts) <= 200 // 64 + 2
    assert len({k.suffix for k in kept}) <= 200 // 64 + 2
