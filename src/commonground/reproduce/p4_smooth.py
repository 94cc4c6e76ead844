"""P4's Algorithm 2 as written, and what its draws of whole owners cost a user (``audit/whole_owners.py``).

Nothing here is private: noise comes from a seed. The package's own learner for users' mean gradients is ``owners/winsorised.py``,
which draws users one by one.
"""

from dataclasses import dataclass

import numpy as np

from commonground.audit.whole_owners import WholeOwners, cost_of_amplified_noise, proven_epsilon, range_then_clip
from commonground.owners.descent import inside
from commonground.progress import progress_bar
from commonground.reproduce.results import Claim, Outcome, PaperResult, Row

DEPARTURES = (
    "A random rotation takes the place of Levy et al.'s Hadamard matrix with random signs, which needs a power of two.",
    "Gradients are clipped to C; printed: losses are L-Lipschitz.",
    "The radius τ of users' mean gradients is given, and told by the data in experiments; printed: from Lemma B.4, whose "
    "constants are open.",
    "θ_j = u + x_j, so that one released gradient serves both parts; the ball of x_j is √n times smaller than that of u.",
    "Steps and rate are the best of a grid, chosen by looking, as the paper leaves them open beyond T = O(n²/log(1/δ)).",
    "Noise for what whole owners cost (true), or each step at the whole (ε, δ) (printed): both are shown.",
    "One pass of the algorithm; printed for the population loss: phases with localisation, which are cited and not written out.",
)

OWNERS, FEATURES, DECLARED = (100, 1_000, 10_000, 100_000), 10, 1.0
ATTACKED = WholeOwners.as_printed(5_000, 1)
ATTACKED_EPSILON, ATTACKED_USERS, RUNS = 3.0, 400, 1_000
AMPLIFIED = (100, 400)  # owners and steps


@dataclass(frozen=True)
class SmoothSteps:
    """Settings of Algorithm 2 for least squares: T, ε' of each coordinate, τ', C, the rate, the ball of u."""

    steps: int
    per_coordinate: float
    radius_of_means: float
    clip_norm: float
    learning_rate: float
    radius: float


def algorithm_2(X: np.ndarray, y: np.ndarray, settings: SmoothSteps, rng: np.random.Generator) -> np.ndarray:
    """ū plus the mean of x̄_j, from rows (owners, users, rows of a user, d) and labels of the same shape without d.

    x_j moves by the same released gradients, so it may be published, and takes up one part in n + 1 of what is shared.
    """
    n_owners, _, n_rows, d = X.shape
    u, personal, mean = np.zeros(d), np.zeros((n_owners, d)), np.zeros(d)
    for t in range(settings.steps):
        j = int(rng.integers(n_owners))  # Alg. 2, line 4: with all of its users
        errors = X[j] @ (u + personal[j]) - y[j]
        gradients = np.einsum("kr,krd->kd", errors, X[j]) / n_rows  # line 5
        sizes = np.linalg.norm(gradients, axis=1, keepdims=True)
        gradients = gradients * np.minimum(1.0, settings.clip_norm / np.maximum(sizes, 1e-300))
        rotation = np.linalg.qr(rng.standard_normal((d, d)))[0]
        (found,) = range_then_clip(
            gradients @ rotation, settings.per_coordinate, settings.radius_of_means, settings.clip_norm, rng
        )
        step = settings.learning_rate * (rotation @ found)  # line 6, back in the features' own coordinates
        u = inside(u - step, settings.radius)  # line 7
        personal[j] = inside(personal[j] - step, settings.radius / n_owners**0.5)
        mean += (u + personal.mean(axis=0) - mean) / (t + 1)  # line 9
    return mean


def _run(fast: bool, show: bool) -> Outcome:
    owners, runs = (OWNERS[:2], 50) if fast else (OWNERS, RUNS)
    rows, least = [], {}
    with progress_bar("p4-alg2", len(owners) + 2, show) as advance:
        for n in owners:
            setting = WholeOwners.as_printed(n, FEATURES)
            each = setting.per_coordinate(DECLARED)
            least[n] = setting.at_least(each)
            note = f"{setting.steps:,} steps, {setting.steps / n:,.0f} of each owner; at most {setting.cost(each):.2f}"
            rows.append(Row({"owners": n, "noise": "as printed", "declared": DECLARED}, least[n], note=note))
            advance()
        amplified = cost_of_amplified_noise(*AMPLIFIED, DECLARED, 1e-5)
        note = f"{AMPLIFIED[1]} steps; Gaussian, made exactly for one user in {AMPLIFIED[0]}"
        rows.append(Row({"owners": AMPLIFIED[0], "noise": "amplified", "declared": DECLARED}, amplified, note=note))
        advance()
        bound = proven_epsilon(ATTACKED, ATTACKED.per_coordinate(ATTACKED_EPSILON), ATTACKED_USERS, runs)
        note = f"by {runs:,} runs with either gradient, 95 % confidence; {bound.accuracy:.1%} of guesses right"
        where: dict[str, str | float] = {
            "owners": ATTACKED.n_owners,
            "noise": "as printed, attacked",
            "declared": ATTACKED_EPSILON,
        }
        rows.append(Row(where, bound.by_definition, note=note))
        advance()
    large = [n for n in owners if n >= 1000]
    return Outcome(
        rows,
        [
            Claim(
                f"P4, Theorem B.1: Algorithm 2 is ({DECLARED:g}, 1e-5)-DP for users, with T = n²/log(1/δ) steps",
                all(least[n] <= DECLARED for n in large),
                "surely spent on the worst pair: " + ", ".join(f"n = {n:,}: ε >= {least[n]:.2f}" for n in owners),
            ),
            Claim(
                f"the same at ε = {ATTACKED_EPSILON:g}, by an attack on the estimator itself",
                bound.by_definition <= ATTACKED_EPSILON,
                f"n = {ATTACKED.n_owners:,}: ε >= {bound.by_definition:.2f}",
            ),
        ],
    )


RESULT = PaperResult(
    "p4-alg2",
    "Algorithm 2: what it spends of a user's ε when whole owners are drawn",
    "δ = 1e-5, gradients of 10 numbers (attack: of one, 400 users an owner), T = n²/log(1/δ) steps of Levy et al.'s estimator, "
    "each at the whole (ε, δ). First rows: ε surely spent on one explicit pair of data sets, without any run; in the notes what "
    "optimal composition charges at most.",
    _run,
    fast="up to 1,000 owners, 50 runs",
)
