"""What a runner draws, computed by the sampler's own parts: cuts as filters, and the token that a chooser takes."""

import numpy as np

from segue.engine.sampling import filters
from segue.engine.sampling.candidates import Candidates, top
from segue.engine.sampling.choosers import AdaptiveP, ByWeight, Mirostat
from segue.engine.seam import AdaptiveState, Cut, Draw


def cut(candidates: Candidates, cut: Cut) -> None:
    match cut.kind:
        case "scale":
            filters.temperature(candidates, cut.value)
        case "dynamic_scale":
            filters.heat(candidates, cut.value, cut.reach, cut.exponent)
        case "top_k":
            filters.top_k(candidates, cut.keep)
        case "top_p":
            filters.top_p(candidates, cut.value, cut.keep)
        case "min_p":
            floor = np.float32(candidates.best + cut.value)
            likely = np.flatnonzero(candidates.logits >= floor)
            is_enough = likely.size >= cut.keep
            candidates.keep(likely if is_enough else top(candidates.logits, cut.keep))
        case "typical_p":
            filters.typical_p(candidates, cut.value, cut.keep)
        case "top_n_sigma":
            filters.top_n_sigma(candidates, cut.value)
        case "xtc":
            filters.xtc(candidates, cut.value, cut.keep)


def choose(
    candidates: Candidates, draw: Draw, vocab_size: int = 0, mu: float = 0.0
) -> tuple[int, float]:
    """The token, and mirostat's mu after it, or adaptive-p's sum. `vocab_size` and `mu`: where the draw has one."""
    if draw.feedback is None:
        return candidates.token(ByWeight().choose(candidates, draw.point)), mu
    if isinstance(draw.feedback, AdaptiveState):
        adaptive = AdaptiveP(draw.feedback.target, draw.feedback.decay)
        adaptive._sum, adaptive._total = mu, draw.feedback.total
        return candidates.token(adaptive.choose(candidates, draw.point)), adaptive._sum
    version, tau, eta, *_ = draw.feedback
    chooser = Mirostat(version, tau, eta, vocab_size)
    chooser.mu = mu
    return candidates.token(chooser.choose(candidates, draw.point)), chooser.mu
