"""The choice of a subspace in stages: among given candidates, then among those around the choice, and so on."""

import math
from collections.abc import Callable

import numpy as np

from commonground.accounting.budgets import PureBudget
from commonground.clipping.sums import ScoreSums
from commonground.gate import Gate
from commonground.progress import progress_bar
from commonground.public_draws import PublicGenerator, subspaces_around
from commonground.statistics.subspace_scores import SMALLEST_SHARE

# Each stage looks for a subspace this much nearer than the last: the distance to the nearest of N random points in
# D = k(d − k) dimensions falls as N^(-1/D); a third more, since the best is not always chosen; and never below 0.3.
_SLOWER, _FASTEST = 1.3, 0.3
_FINEST = 0.004  # distance at which the zoom ends
_SPREAD = 1.5  # candidates of a stage lie between the stage's distance ÷ and × this
_MOST_STAGES = 40


def choose_subspace(
    scores_of: Callable[[np.ndarray], ScoreSums],
    candidates: np.ndarray,
    budget: PureBudget,
    gate: Gate,
    rng: PublicGenerator,
    n_stages: int | None,
    n_candidates: int | None = None,
    *,
    reach: float | None = None,
    finest: float = _FINEST,
    people: int | None = None,
    verbose: bool,
) -> tuple[np.ndarray, int]:
    """Choose one of ``candidates``, then one of those around it, and so on; the last choice, and the number of stages.

    Only the first candidates are given; all others are made from earlier choices, so the budget is all that it costs.
    ``n_stages=None`` takes as many as it needs to come down to ``finest``. Given the number of ``people`` who score by
    logarithms, it takes no more than can be told apart: a stage that comes nearer by ``shrink`` lowers everybody's score by
    2 log(shrink) / log(SMALLEST_SHARE), and all of them together must outweigh the noise of the choice, 2 log(n)/ε_stage.
    """
    _, d, k = candidates.shape
    n = len(candidates) if n_candidates is None else n_candidates
    shrink = max(_FASTEST, _SLOWER * n ** (-1 / max(k * (d - k), 1)))
    if n_stages is None:
        needed = 1 + math.ceil(math.log(finest) / math.log(shrink)) if shrink < 1 else _MOST_STAGES
        n_stages = min(needed, _MOST_STAGES) if d > k else 1
        if people is not None and shrink < 1:
            signal = people * 2 * math.log(shrink) / math.log(SMALLEST_SHARE)
            n_stages = max(1, min(n_stages, int(signal * budget.epsilon / (2 * math.log(n)))))
    reach = shrink if reach is None else reach
    shares, chosen = budget.split({str(stage): 1 / n_stages for stage in range(n_stages)}), candidates[0]
    with progress_bar("choosing", n_stages, verbose) as advance:
        for stage, share in enumerate(shares.values()):
            if stage:
                candidates = subspaces_around(chosen, n, (reach / _SPREAD, reach * _SPREAD), rng)
                reach *= shrink
            sums = scores_of(candidates)
            chosen = candidates[gate.select(sums.bounded(f"stage {stage + 1}: subspace"), share).index]
            advance()
    return chosen, n_stages
