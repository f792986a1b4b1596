"""Whether this machine's kernels keep the promise: a token's logits are the same bits however it is scheduled."""

import numpy as np

from segue.engine.seam import Logits, Runner, Span

LONG, SHORT, DRAWN = 45, 5, 3  # tokens; LONG reaches into a second block


def is_deterministic(runner: Runner) -> bool:
    """Computes two random sequences in different company and pieces. Needs two empty slots."""
    limits = runner.capabilities
    if limits.context_length < LONG + DRAWN or limits.max_rows < 2 * (LONG + DRAWN):
        return False
    random = np.random.default_rng(0)
    tokens = [int(token) for token in random.integers(0, limits.vocab_size, LONG + DRAWN)]
    others = [int(token) for token in random.integers(0, limits.vocab_size, SHORT + DRAWN)]
    together = _together(runner, tokens, others)
    in_pieces = _in_pieces(runner, tokens)
    at_once = _compute(runner, tokens, [len(tokens)])
    return bool((together == in_pieces).all() and (together == at_once).all())


def _together(runner: Runner, tokens: list[int], others: list[int]) -> Logits:
    """Beside another sequence, the prompt at once and the rest one by one."""
    rows = []
    for step in range(DRAWN + 1):
        spans = []
        for slot, (all_tokens, prompt) in enumerate(((tokens, LONG), (others, SHORT))):
            start, end = (0, prompt) if step == 0 else (prompt + step - 1, prompt + step)
            spans.append(Span(slot, all_tokens[start:end], start, 1))
        rows.append(runner.decode(spans)[0].copy())
    for slot in range(2):
        runner.free(slot)
    return np.stack(rows)


def _in_pieces(runner: Runner, tokens: list[int]) -> Logits:
    """Alone, the prompt cut up with a lone last token, and the rest as a draft would bring it."""
    return _compute(runner, tokens, [LONG // 2, LONG - 1, LONG, LONG + 1, len(tokens)])


def _compute(runner: Runner, tokens: list[int], ends: list[int]) -> Logits:
    rows, start = [], 0
    for end in ends:
        num_logits = max(0, end - max(start, LONG - 1))
        span = Span(0, tokens[start:end], start, num_logits)
        rows.append(runner.decode([span]).copy())
        start = end
    runner.free(0)
    return np.concatenate(rows)
