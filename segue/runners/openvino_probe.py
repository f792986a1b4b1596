"""Whether this machine's kernels keep the promise: a token's logits are the same bits however it is scheduled."""

import numpy as np

from segue.engine.seam import Logits, Runner, Span

PROMPT, OTHER, DRAWN = 45, 96, 3  # tokens: more than a block of KV, more than a block of rows


def is_deterministic(runner: Runner) -> bool:
    """Computes two random sequences in different company and pieces. Where there is no room for them: no."""
    limits = runner.capabilities
    needed = PROMPT + OTHER + 2 * (DRAWN + limits.cells_per_block)
    is_too_small = limits.context_length < OTHER + DRAWN or limits.max_rows < PROMPT + OTHER
    if is_too_small or limits.num_cells < needed or limits.num_slots < 2:
        return False
    random = np.random.default_rng(0)
    tokens = [int(token) for token in random.integers(0, limits.vocab_size, PROMPT + DRAWN)]
    others = [int(token) for token in random.integers(0, limits.vocab_size, OTHER + DRAWN)]
    together = _together(runner, tokens, others)
    in_pieces = _in_pieces(runner, tokens)
    at_once = _compute(runner, tokens, [len(tokens)])
    return bool((together == in_pieces).all() and (together == at_once).all())


def _together(runner: Runner, tokens: list[int], others: list[int]) -> Logits:
    """Beside another sequence, the prompt at once and the rest one by one."""
    rows = []
    for step in range(DRAWN + 1):
        spans = []
        for slot, (all_tokens, prompt) in enumerate(((tokens, PROMPT), (others, OTHER))):
            start, end = (0, prompt) if step == 0 else (prompt + step - 1, prompt + step)
            spans.append(Span(slot, all_tokens[start:end], start, 1))
        rows.append(runner.decode(spans)[0].copy())
    for slot in range(2):
        runner.free(slot)
    return np.stack(rows)


def _in_pieces(runner: Runner, tokens: list[int]) -> Logits:
    """Alone, the prompt cut up with a lone last token, and the rest as a draft would bring it."""
    return _compute(runner, tokens, [PROMPT // 2, PROMPT - 1, PROMPT, PROMPT + 1, len(tokens)])


def _compute(runner: Runner, tokens: list[int], ends: list[int]) -> Logits:
    rows, start = [], 0
    for end in ends:
        num_logits = max(0, end - max(start, PROMPT - 1))
        span = Span(0, tokens[start:end], start, num_logits)
        rows.append(runner.decode([span]).copy())
        start = end
    runner.free(0)
    return np.concatenate(rows)
