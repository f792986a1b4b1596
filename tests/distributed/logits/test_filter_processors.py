"""Both of vLLM's model runners cut the rows that ask for it, and no others."""

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("vllm", reason="vllm is not installed: `make vllm-test` has it")

import torch
from vllm import SamplingParams
from vllm.v1.sample.logits_processor import BatchUpdate

from segue.distributed.logits.draw_processors import DrawRows, DrawSlots
from segue.distributed.logits.filter_processors import CutRows, CutSlots
from segue.distributed.logits.own_draws import Draw
from segue.distributed.request.mapping import CUTS_KEY, DRAW_KEY
from segue.types import Sampling

STEPS = [("top_p", 0.6), ("temperature", 2.0)]
CUTTING = SamplingParams(temperature=2.0, extra_args={CUTS_KEY: STEPS})
PLAIN = SamplingParams(temperature=2.0)
LOGITS = torch.log(torch.tensor([[0.5, 0.3, 0.2]] * 3))
CUT = [True, True, False]  # half and three tenths hold six tenths


def is_kept(logits: Any) -> list[list[bool]]:
    kept: list[list[bool]] = (logits > -torch.inf).tolist()
    return kept


def test_rows_of_the_first_runner() -> None:
    """Its logits are scaled already: the cut is of what they were before."""
    processor = CutRows(None, None, False)
    added: Any = [(0, PLAIN, None, []), (1, CUTTING, None, []), (2, PLAIN, None, [])]
    processor.update_state(BatchUpdate(batch_size=3, removed=[], added=added, moved=[]))
    result = processor.apply(LOGITS / 2)
    assert is_kept(result) == [[True] * 3, CUT, [True] * 3]
    assert torch.allclose(result[1, :2], LOGITS[1, :2] / 2)
    processor.update_state(BatchUpdate(batch_size=2, removed=[1], added=[], moved=[]))
    assert is_kept(processor.apply(LOGITS / 2)) == [[True] * 3] * 3


def test_slots_of_the_second_runner() -> None:
    processor = CutSlots(None, None)
    assert processor.add_request(7, CUTTING)
    assert not processor.add_request(4, PLAIN)
    order = SimpleNamespace(idx_mapping_np=[4, 7, 4])
    assert is_kept(processor.apply(LOGITS.clone(), order)) == [[True] * 3, CUT, [True] * 3]
    assert not processor.add_request(7, PLAIN), "a slot has another request now"
    assert is_kept(processor.apply(LOGITS.clone(), order)) == [[True] * 3] * 3


def test_nothing_of_a_step_is_read_where_no_request_is_cut_or_drawn() -> None:
    """Reading what is on the device would make every step wait for it."""
    order = SimpleNamespace(idx_mapping_np=[4, 5])  # and nothing else
    config = SimpleNamespace(model_config=SimpleNamespace(get_vocab_size=lambda: 3))
    for processor in (CutSlots(None, None), DrawSlots(config, None)):
        processor.add_request(7, CUTTING)  # has left the batch
        processor.add_request(4, PLAIN)
        logits = LOGITS.clone()
        assert processor.apply(logits, order) is logits
        assert torch.equal(logits, LOGITS)


def test_speculated_rows_of_the_second_runner() -> None:
    processor = CutSlots(None, None)
    processor.add_request(7, CUTTING)
    order = SimpleNamespace(idx_mapping_np=[4, 7], expanded_idx_mapping=torch.tensor([4, 7, 7]))
    assert is_kept(processor.apply(LOGITS.clone(), order)) == [[True] * 3, CUT, CUT]


def test_own_draws_leave_one_token() -> None:
    """Rows of the first runner and slots of the second: the drawn token stays alone, other rows stay whole."""
    config = SimpleNamespace(model_config=SimpleNamespace(get_vocab_size=lambda: 3))
    draw = Draw(key="a", sampling=Sampling(typical_p=0.1), num_prompt=2, forced=(2,))
    drawing = SamplingParams(temperature=0.0, extra_args={DRAW_KEY: draw.packed()})
    output: list[int] = []
    rows = DrawRows(config, None, False)
    added: Any = [(0, PLAIN, None, []), (1, drawing, None, output)]
    rows.update_state(BatchUpdate(batch_size=2, removed=[], added=added, moved=[]))
    assert is_kept(rows.apply(LOGITS[:2].clone())) == [[True] * 3, [False, False, True]]
    output.append(2)
    [whole, drawn] = is_kept(rows.apply(LOGITS[:2].clone()))
    assert (whole, sum(drawn)) == ([True] * 3, 1)

    slots = DrawSlots(config, None)
    assert slots.add_request(5, drawing)
    assert not slots.add_request(6, PLAIN)
    lengths = {"idx_mapping_np": [6, 5], "seq_lens_upper_bound_np": [9, 1]}
    reading = slots.apply(LOGITS[:2].clone(), SimpleNamespace(**lengths))
    assert is_kept(reading) == [[True] * 3] * 2, "a part of its prompt: nothing is drawn"
    lengths["seq_lens_upper_bound_np"] = [9, 2]
    result = slots.apply(LOGITS[:2].clone(), SimpleNamespace(**lengths))
    assert is_kept(result) == [[True] * 3, [False, False, True]]
