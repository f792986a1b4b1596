"""A step: every thread runs the same instructions, phase by phase.

If a phase needs the complete result of the phase before it, the threads meet at a barrier between the two.
"""

from typing import Any

from segue.runners.cpu.draws.phase import draw_phase
from segue.runners.cpu.kernel import apart, compiled
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
    shared_word,
    sleep_while,
    wake,
    word,
)
from segue.runners.cpu.step.experts import mixture_phase
from segue.runners.cpu.step.products import gated_phase, product_phase
from segue.runners.cpu.step.rows import (
    logits_phase,
    norm_phase,
    quantise_phase,
    whole_norms_phase,
)

attend_phase, heads_phase = apart("attend_phase", 4), apart("heads_phase", 3)  # of heads.py

_IDLE_SPINS = 2 * SPINS  # first spin: the next step may begin at once
# Then yield for some milliseconds, and only then sleep. Between two steps tokens are drawn and sent; waking sixteen
# sleeping threads would take longer than that, above all on virtual machines.
_IDLE_YIELDS = 8000


@compiled
def run_step(tid: Any, board: Any) -> None:
    """Run all phases of a step as thread `tid`."""
    program, num_phases = word(board + 8 * on.PROGRAM), word(board + 8 * on.NUM_PHASES)
    counters, threads = word(board + 8 * on.COUNTERS), word(board + 8 * on.THREADS)
    is_private, is_fused = word(board + 8 * on.IS_PRIVATE), word(board + 8 * on.IS_FUSED)
    goal = word(board + 8 * on.BARRIER_BASE)
    plain_floats()
    for i in range(num_phases):
        row = program + i * on.INSTRUCTION_WORDS * 8
        counter = counters + i * on.COUNTER_WORDS * 8
        kind = word(row)
        needs_all = True
        if kind == on.NORM:
            norm_phase(board, row, counter, tid)
            needs_all = is_private == 0
        elif kind == on.PRODUCT:
            product_phase(board, row, counter, tid)
        elif kind == on.HEADS:
            if is_fused:
                needs_all = False
            else:
                heads_phase(board, row, counter)
        elif kind == on.ATTEND:
            attend_phase(board, row, counter, tid)
        elif kind == on.QUANTISE:
            quantise_phase(board, row, counter)
        elif kind == on.GATED:
            gated_phase(board, row, counter, tid)
        elif kind == on.ADAPT:
            needs_all = word(board + 8 * on.ADAPTED) > 0
            if needs_all:
                adapt_phase(board, row, counter, tid)
        elif kind == on.WHOLE_NORMS:
            whole_norms_phase(board, row, counter)
        elif kind == on.LOGITS:
            logits_phase(board, row, counter)
        elif kind == on.DRAW:
            draw_phase(row, counter, tid)
        else:
            mixture_phase(board, row, counter, tid, kind)
        if needs_all and threads > 1:
            goal += threads
            fetch_add(board + 8 * on.BARRIER, 1)
            await_at_least(board + 8 * on.BARRIER, goal)


@compiled
def serve_steps(tid: Any, board: Any, seen: Any) -> Any:
    """Take part in steps until told to end; then return -1. `seen` is the number of the last step this thread ran.

    `board` has the mailboxes. It also names the board of each step, which is another one if models share a team.

    Without futexes, the thread sets the `asleep` flag of its mailbox when no step has come for a while, and returns the
    number of its last step. Thread or poster clears the flag by an atomic exchange, so no step is lost.
    """
    mailbox = board + 8 * (on.MAILBOXES + on.MAILBOX_WORDS * tid)
    spins = 0
    while True:
        step = shared_word(mailbox)
        if step < 0:
            return -1
        if step != seen:
            seen = step
            run_step(tid, shared_word(board + 8 * on.STEP_BOARD))
            spins = 0
            continue
        spins += 1
        if spins < _IDLE_SPINS:
            pause()
            continue
        if spins < _IDLE_SPINS + _IDLE_YIELDS:
            give_way()
            continue
        exchange(mailbox + 8, 1)
        if SLEEPS_HERE:
            sleep_while(mailbox, seen)
        elif shared_word(mailbox) == seen or exchange(mailbox + 8, 0) == 0:
            return seen
        spins = 0


@compiled
def post_step(board: Any, threads: Any, number: Any) -> Any:
    """Post a step to the mailboxes of all threads but the first. Returns how many of them the caller must wake.

    Those are named by the third word of their mailboxes.
    """
    num_asleep = 0
    for tid in range(1, threads):
        mailbox = board + 8 * (on.MAILBOXES + on.MAILBOX_WORDS * tid)
        exchange(mailbox, number)
        is_asleep = exchange(mailbox + 8, 0)
        if SLEEPS_HERE:
            if is_asleep:
                wake(mailbox)
        else:
            put_word(mailbox + 16, is_asleep)
            num_asleep += is_asleep
    return num_asleep
