import numpy as np

from segue.engine.seam import Span
from segue.runners.openvino_rows import Rows, SteadyWidth

SCRATCH = 99


def rows_of(*spans: tuple[Span, list[int]], threads: int = 2, is_exact: bool = True) -> Rows:
    rows = Rows(block_size=4, scratch=SCRATCH, is_exact=is_exact)
    for span, blocks in spans:
        rows.add(span, blocks)
    rows.pad(threads, SteadyWidth(num_weights=10**12))
    return rows


def test_every_token_is_a_subsequence_of_its_own() -> None:
    rows = rows_of((Span(0, [1, 2, 3, 4, 5], 2, 3), [10, 11]))
    assert rows.begins == [0, 1, 2, 3, 4, 5]
    assert rows.pasts == rows.positions == [2, 3, 4, 5, 6]
    assert rows.blocks == [10, 10, 10, 11, 10, 11, 10, 11]
    assert rows.wanted == [2, 3, 4]


def test_without_a_promise_a_span_stays_whole() -> None:
    rows = rows_of((Span(0, [1, 2, 3, 4, 5], 2, 3), [10, 11]), is_exact=False)
    assert rows.begins == [0, 5]
    assert rows.positions == [2, 3, 4, 5, 6]
    assert rows.blocks == [10, 11]
    assert rows.wanted == [2, 3, 4]


def test_few_rows_are_padded_to_what_takes_the_common_kernels() -> None:
    single = Span(0, [7], 3, 1)
    assert rows_of((single, [10])).begins == [0, 1, 2]
    assert rows_of((single, [10]), threads=8).begins == [0, 1, 3]
    two = ((single, [10]), (single._replace(slot=1), [11]))
    assert rows_of(*two, threads=2).begins == [0, 1, 2]
    assert rows_of(*two, threads=8).begins == [0, 1, 2, 4], "eight threads want eight, or a pair"
    pair = Span(2, [1, 2], 0, 0)
    assert rows_of(*two, (pair, [12]), threads=8, is_exact=False).begins == [0, 1, 2, 4]


def test_the_output_projection_never_sees_a_single_row() -> None:
    assert len(rows_of((Span(0, [1, 2, 3], 0, 1), [10])).wanted) == 2
    assert len(rows_of((Span(0, [1, 2, 3], 0, 0), [10])).wanted) == 2


def test_inputs_are_what_the_graph_takes() -> None:
    inputs = rows_of((Span(0, [1, 2], 0, 0), [10]), (Span(1, [4], 6, 1), [11, 12])).inputs()
    assert inputs["subsequence_begins"].tolist() == [0, 1, 2, 3]
    assert inputs["block_indices_begins"].tolist() == [0, 1, 2, 4]
    assert inputs["block_indices"].tolist() == [10, 10, 11, 12]
    assert inputs["max_context_len"] == np.int32(7)
    assert inputs["logit_rows"].tolist()[:1] == [2]


def test_a_width_is_kept_while_that_costs_less_than_the_change() -> None:
    width = SteadyWidth(num_weights=200_000_000)  # a change costs five rows
    assert [width.of(n) for n in (8, 10, 8, 9, 10, 8, 8, 8)] == [8, 10, 10, 10, 10, 10, 8, 8]
    assert width.of(200) == 200
    assert width.of(8) == 8


def test_large_models_waste_no_row() -> None:
    width = SteadyWidth(num_weights=7_000_000_000)
    assert [width.of(n) for n in (3, 2, 3, 1)] == [3, 2, 3, 1]


def test_rows_for_nothing_ask_for_nothing() -> None:
    width = SteadyWidth(num_weights=200_000_000)
    width.of(4)
    rows = Rows(block_size=4, scratch=SCRATCH)
    rows.add(Span(0, [7, 8], 3, 2), [10, 11])
    rows.pad(2, width)
    assert rows.begins == [0, 1, 2, 3, 4]
    assert rows.blocks[-2:] == [SCRATCH, SCRATCH]
    assert rows.wanted == [0, 1]
