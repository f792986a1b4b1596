from hypothesis import given
from hypothesis import strategies as st

from segue.runners.llama.cell_ledger import CellLedger

SLOTS, CELLS, CONTEXT = 3, 20, 12

OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["append", "fork", "trim"]),
        st.integers(0, SLOTS - 1),
        st.integers(0, SLOTS - 1),
        st.integers(0, CONTEXT),
    )
)


@given(OPERATIONS)
def test_counts_distinct_cells(operations: list[tuple[str, int, int, int]]) -> None:
    """Against the obvious model: a cell is an object, and slots are lists of them."""
    ledger = CellLedger(SLOTS, CELLS, CONTEXT)
    slots: list[list[object]] = [[] for _ in range(SLOTS)]
    for name, slot, other, amount in operations:
        fits = len(slots[slot]) + amount <= CONTEXT and amount <= ledger.cells_free
        length = min(amount, len(slots[slot]))
        if name == "append" and fits:
            ledger.append(slot, amount)
            slots[slot] += [object() for _ in range(amount)]
        elif name == "fork" and not slots[other]:
            ledger.fork(slot, other, length)
            slots[other] = slots[slot][:length]
        elif name == "trim":
            ledger.trim(slot, length)
            del slots[slot][length:]
        assert ledger.cells_free == CELLS - len({cell for cells in slots for cell in cells})
        for held in ((0,), (0, 1), range(SLOTS)):
            assert ledger.cells_held(held) == len({cell for slot in held for cell in slots[slot]})
        assert [ledger.length(slot) for slot in range(SLOTS)] == list(map(len, slots))
