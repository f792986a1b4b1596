"""A step: every thread runs the same instructions, phase by phase.

The work of a phase is taken piece by piece, and the next phase begins when all pieces are done. So a thread may come
late, or not at all. A step can be posted while the one before it runs: its threads begin when that one has ended.
"""

from typing import Any

from segue.runners.cpu.draws.phase import draw_phase
from segue.runners.cpu.kernel import compiled
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.adapters import adapt_phase
from segue.runners.cpu.step.atomics import (
    SLEEPS_HERE,
    SPINS,
    await_at_least,
    exchange,
    fetch_add,
    give_way,
    pause,
    plain_floats,
    put_word,
    replace_word,
    shared_word,
    sleep_while,
    wake,
    word,
)
from segue.runners.cpu.step.heads import attend_phase, heads_phase
from segue.runners.cpu.step.latent import latent_phase
from segue.runners.cpu.step.layer_embeddings import layer_gate_phase, layer_inputs_phase
from segue.runners.cpu.step.mixture.experts import mixture_phase
from segue.runners.cpu.step.products import gated_phase, product_phase
from segue.runners.cpu.step.rare.phase import rare_phase
from segue.runners.cpu.step.recurrent.convolution import convolve_phase
from segue.runners.cpu.step.recurrent.delta import delta_phase
from segue.runners.cpu.step.recurrent.mamba import mamba_gate_phase, scan_phase
from segue.runners.cpu.step.recurrent.selective import narrow_phase, part_phase, select_phase
from segue.runners.cpu.step.recurrent.shift import bend_phase, gate_rows_phase, shift_phase
from segue.runners.cpu.step.recurrent.wkv import wkv_phase
from segue.runners.cpu.step.recurrent.wkv6 import wkv6_phase
from segue.runners.cpu.step.rows import (
    clamp_phase,
    logits_phase,
    norm_phase,
    quantise_phase,
    whole_norms_phase,
)

_IDLE_SPINS = 2 * SPINS  # first spin: the next step may begin at once
# Then yield for some milliseconds, and only then sleep. Between two steps tokens are drawn and sent; waking sixteen
# sleeping threads would take longer than that, above all on virtual machines.
_IDLE_YIELDS = 8000


@compiled
def run_step(tid: Any, board: Any) -> None:
    """Take part in all phases of a step as thread `tid`, once the step before it has ended."""
    team, number = word(board + 8 * on.TEAM), word(board + 8 * on.NUMBER)
    await_at_least(team + 8 * on.DONE, number - 1)
    plain_floats()
    _run_phases(tid, board)
    replace_word(team + 8 * on.DONE, number - 1, number)


@compiled
def _run_phases(tid: Any, board: Any) -> None:
    program, num_phases = word(board + 8 * on.PROGRAM), word(board + 8 * on.NUM_PHASES)
    counters, is_fused = word(board + 8 * on.COUNTERS), word(board + 8 * on.IS_FUSED)
    is_adapted = word(board + 8 * on.ADAPTED)
    for i in range(num_phases):
        row = program + i * on.INSTRUCTION_WORDS * 8
        counter = counters + i * on.COUNTER_WORDS * 8
        kind = word(row)
        if (kind == on.HEADS and is_fused) or (kind == on.ADAPT and not is_adapted):
            continue
        _run_phase(kind, board, row, counter, tid)


@compiled
def _run_phase(kind: Any, board: Any, row: Any, counter: Any, tid: Any) -> None:
    if kind == on.NORM:
        norm_phase(board, row, counter)
    elif kind == on.PRODUCT:
        product_phase(board, row, counter)
    elif kind == on.HEADS or kind == on.STORE:
        heads_phase(board, row, counter)
    elif kind == on.ATTEND:
        attend_phase(board, row, counter, tid)
    elif kind == on.QUANTISE:
        quantise_phase(board, row, counter)
    elif kind == on.GATED:
        gated_phase(board, row, counter, tid)
    elif kind == on.ADAPT:
        adapt_phase(board, row, counter)
    elif kind == on.WHOLE_NORMS:
        whole_norms_phase(board, row, counter)
    elif kind == on.CLAMP:
        clamp_phase(board, row, counter)
    elif kind == on.LOGITS:
        logits_phase(board, row, counter)
    elif kind == on.LAYER_INPUTS:
        layer_inputs_phase(board, row, counter, tid)
    elif kind == on.LAYER_GATE:
        layer_gate_phase(board, row, counter)
    elif kind == on.CONVOLVE:
        convolve_phase(board, row, counter, tid)
    elif kind == on.DELTA:
        delta_phase(board, row, counter, tid)
    elif kind == on.SCAN:
        scan_phase(board, row, counter, tid)
    elif kind == on.MAMBA_GATE:
        mamba_gate_phase(board, row, counter)
    elif kind == on.NARROW:
        narrow_phase(board, row, counter)
    elif kind == on.PART:
        part_phase(board, row, counter)
    elif kind == on.SELECT:
        select_phase(board, row, counter, tid)
    elif kind == on.SHIFT:
        shift_phase(board, row, counter, tid)
    elif kind == on.BEND:
        bend_phase(board, row, counter)
    elif kind == on.WKV:
        wkv_phase(board, row, counter, tid)
    elif kind == on.WKV6:
        wkv6_phase(board, row, counter, tid)
    elif kind == on.GATE_ROWS:
        gate_rows_phase(board, row, counter)
    elif kind >= on.LATENT_KEYS and kind <= on.LATENT_ATTEND:
        latent_phase(board, row, counter, tid, kind)
    elif kind >= on.FIRST_RARE:
        rare_phase(board, row, counter, tid)
    elif kind == on.DRAW:
        draw_phase(board, row, counter, tid)
    else:
        mixture_phase(board, row, counter, tid, kind)


@compiled
def serve_steps(tid: Any, team: Any, seen: Any) -> Any:
    """Take part in steps until told to end; then return -1. `seen`: how many steps this thread has taken part in.

    A mailbox holds two steps. The next but one is posted only after this thread has ended the first of them.

    When no step has come for a while, the thread sets the `asleep` flag of its mailbox. With futexes only the thread
    clears it: a poster that is late must not clear the flag of the next sleep. Without them, the thread returns `seen`;
    thread or poster clears the flag by an atomic exchange, so no step is lost.
    """
    mailbox = team + 8 * (on.MAILBOXES + on.MAILBOX_WORDS * tid)
    asleep = mailbox + 8 * on.ASLEEP
    spins = 0
    while True:
        if shared_word(mailbox) != seen:
            seen += 1
            board = word(mailbox + 8 * (on.BOARDS + (seen & 1)))
            if board == 0:
                return -1
            run_step(tid, board)
            fetch_add(board + 8 * on.LEFT, 1)
            spins = 0
            continue
        spins += 1
        if spins < _IDLE_SPINS:
            pause()
            continue
        if spins < _IDLE_SPINS + _IDLE_YIELDS:
            give_way()
            continue
        exchange(asleep, 1)
        if SLEEPS_HERE:
            sleep_while(mailbox, seen)
            exchange(asleep, 0)
        elif shared_word(mailbox) == seen or exchange(asleep, 0) == 0:
            return seen
        spins = 0


@compiled
def post_step(team: Any, first: Any, end: Any, board: Any) -> Any:
    """Post a step to the mailboxes of threads first … end - 1. Returns how many of them the caller must wake.

    Those are named by a word of their mailboxes.
    """
    num_asleep = 0
    for tid in range(first, end):
        mailbox = team + 8 * (on.MAILBOXES + on.MAILBOX_WORDS * tid)
        number = word(mailbox) + 1
        put_word(mailbox + 8 * (on.BOARDS + (number & 1)), board)
        exchange(mailbox, number)
        asleep = mailbox + 8 * on.ASLEEP
        if SLEEPS_HERE:
            if shared_word(asleep):
                wake(mailbox)
        else:
            is_asleep = exchange(asleep, 0)
            put_word(mailbox + 8 * on.TO_WAKE, is_asleep)
            num_asleep += is_asleep
    return num_asleep


@compiled
def tell_word(address: Any, value: Any) -> None:
    """Write a word that threads of a step may wait for; whoever reads it sees what was written before."""
    exchange(address, value)


@compiled
def await_left(board: Any) -> None:
    """Wait until all threads that were sent the step have left it."""
    await_at_least(board + 8 * on.LEFT, word(board + 8 * on.POSTED_TO))
