"""Audit with a single training run: many canary people, each one of two alternatives by a fair coin.

For populations too large to train on thousands of times. Every canary is a pair of worst-case people in directions of their
own; the auditor sees the transcript, guesses the coins she is surest of, and abstains on the others. Two bounds say how many
may be right, each with half of the allowed error: one for any (ε, δ)-DP fit (Steinke, Nasr and Jagielski 2023), and a much
closer one for a fit that is μ-Gaussian-DP, as every sum released here claims (Mahloujifar, Melis and Chaudhuri 2024). One run
proves less than many: canaries share the few dimensions of a release. It is for gross failures at full size.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from commonground.accounting.gaussian import gaussian_epsilon
from commonground.audit.bounds import one_run_epsilon, one_run_mu
from commonground.audit.gates import ImpossibleError
from commonground.audit.neighbours import PAIRS, Person, replace_people
from commonground.audit.recipes import Claim, Recipe
from commonground.audit.replay import record, replay
from commonground.data.users import Users
from commonground.datasets import make_shared_subspace
from commonground.errors import InputError
from commonground.gate import Release


@dataclass(frozen=True)
class OneRun:
    n_users: int
    canaries: int
    guesses: int
    correct: int
    claimed_epsilon: float
    by_gaussian_curve: float  # lower bound on ε at the claim's δ, for a fit that is Gaussian-DP as claimed
    by_definition: float  # lower bound on ε, whatever the mechanism
    confidence: float

    @property
    def epsilon(self) -> float:
        return max(self.by_gaussian_curve, self.by_definition)

    @property
    def refuted(self) -> bool:
        return self.epsilon > self.claimed_epsilon


def one_run_audit(
    recipe: Recipe,
    claim: Claim,
    n_users: int = 1000,
    canaries: int = 50,
    pair: str | None = None,
    guesses: int | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    real_noise: bool = False,
    advance: Callable[[], None] = lambda: None,
) -> OneRun:
    """One fit on ``n_users`` simulated people of whom the first ``canaries`` are canaries; guesses half of them by default.

    How many guesses are made is fixed beforehand: choosing it by the outcome would void the confidence.
    """
    guesses = canaries // 2 if guesses is None else guesses
    if not 1 <= guesses <= canaries <= n_users:
        raise InputError(
            f"one run needs 1 <= guesses <= canaries <= people, got {guesses} guesses, {canaries} canaries, {n_users} people."
        )
    if (pair or recipe.worst_pair) not in PAIRS:
        raise InputError(f"person must be one of {', '.join(PAIRS)}, got {pair!r}.")
    base, alternatives = _canaries(pair or recipe.worst_pair, claim, n_users, canaries, seed)
    coins = fair_coins(canaries, seed)
    users = replace_people(base, {i: alternatives[i][int(coin)] for i, coin in enumerate(coins)})
    fit = recipe.at(claim)
    transcript = record(fit, users, None if real_noise else seed, target=None)
    released = [passage.public for passage in transcript.passages if isinstance(passage.public, Release)]
    if len(released) < len(transcript.passages):
        raise InputError(
            f"{recipe.name} chooses among candidates, or has δ = 0; one run can be audited only where sums get Gaussian noise."
        )

    def standardised(users: Users) -> np.ndarray:
        """The private sums of a population at the released state, in units of the noise."""
        sums, seen = replay(fit, users, transcript, target=None)
        if len(sums) < len(transcript.passages) or seen != transcript.seen:
            raise ImpossibleError
        pairs = zip(sums, released, strict=True)
        return np.concatenate([(s.value / public.noise_std).ravel() for s, public in pairs])

    # A canary's two alternatives differ by the same amount whatever the others' coins: sums add up over people.
    all_first = {i: alternatives[i][0] for i in range(canaries)}
    try:
        origin = standardised(replace_people(base, all_first))
        shifts = np.empty((canaries, len(origin)))
        for i in range(canaries):
            shifts[i] = standardised(replace_people(base, {**all_first, i: alternatives[i][1]})) - origin
            advance()
    except ImpossibleError:  # the billboard or a noise level follows the data other than through releases
        return OneRun(n_users, canaries, 0, 0, claim.epsilon, math.inf, math.inf, confidence)
    seen = np.concatenate([(public.value / public.noise_std).ravel() for public in released])
    surprise = seen - origin - shifts.sum(axis=0) / 2
    # Best linear estimate of the coins ±1: surprise = Σ ± shift/2 + noise of variance one.
    belief = np.linalg.solve(shifts @ shifts.T / 4 + np.eye(canaries), shifts @ surprise / 2)
    surest = np.argsort(-np.abs(belief), kind="stable")[:guesses]
    correct = int(((belief > 0) == coins)[surest].sum())
    error = (1.0 - confidence) / 2
    by_curve = gaussian_epsilon(one_run_mu(canaries, guesses, correct, error), claim.delta)
    by_definition = one_run_epsilon(canaries, guesses, correct, claim.delta, error)
    return OneRun(n_users, canaries, guesses, correct, claim.epsilon, by_curve, by_definition, confidence)


def fair_coins(n: int, seed: int) -> np.ndarray:
    """The auditor's own coins. They protect nobody, so they need no entropy, only independence from data and noise."""
    return np.random.default_rng([seed, 0xC019]).integers(0, 2, n).astype(bool)


def _canaries(
    pair: str, claim: Claim, n_users: int, canaries: int, seed: int
) -> tuple[Users, list[tuple[Person, Person]]]:
    """Canary i has two feature directions to herself, so that canaries hide each other as little as possible."""
    d = 2 * canaries
    users, _ = make_shared_subspace(n_users, 6, d, claim.rank, noise=0.1, seed=seed)
    axes = np.eye(d)
    pairs = [PAIRS[pair](axes[2 * i], axes[2 * i + 1], users.rows_of(i)) for i in range(canaries)]
    return users, pairs
