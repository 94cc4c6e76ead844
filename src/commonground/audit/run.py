"""Run an estimator many times on two neighbouring populations, and bound ε from what can be told apart."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from commonground.accounting.events import Event, epsilon_spent
from commonground.accounting.gaussian import compose
from commonground.audit.bounds import Bound, lower_bound
from commonground.audit.neighbours import TARGET, Neighbours
from commonground.audit.recipes import Claim, Fit
from commonground.audit.replay import evidence, record
from commonground.data.users import Users
from commonground.errors import InputError

WHOLE_FIT = "whole fit, white box"  # every release, the billboard and all other heads: exact likelihood ratio
OTHERS_VIEW = "whole fit, others' view"  # the billboard and all other heads alone: trained discriminant


@dataclass(frozen=True)
class Line:
    """One audited view, beside what is claimed for it."""

    what: str
    claimed_epsilon: float
    claimed_mu: float
    bound: Bound
    # The ε that half of the noise would have shown in the same runs: above the claim, or it is weak.
    power: float | None = None
    reach: float | None = None  # root mean square move of the sum, in units of its sensitivity; 1: the worst case
    moved_too_far: bool = False  # once at least, further than its sensitivity: no statistics needed

    @property
    def refuted(self) -> bool:
        # Bounds for δ = 0 are exact likelihood ratios and may equal the claim, up to their rounding.
        return self.bound.epsilon > self.claimed_epsilon * (1 + 1e-6) or self.moved_too_far


@dataclass(frozen=True)
class Report:
    """All bounds hold together with probability ``confidence``."""

    pair: str
    claim: Claim
    n_runs: int  # on each of the two populations
    confidence: float
    simulated_noise: bool
    whole: Line
    others: Line
    releases: tuple[Line, ...]
    scores: tuple[np.ndarray, np.ndarray]  # of the whole fit, for the figure
    others_scores: tuple[np.ndarray, np.ndarray]
    pure: bool  # δ = 0
    differing: tuple[str, ...]  # what others see beside the releases and was not the same to the last bit

    @property
    def telling(self) -> Line:
        """The line that says most: that of everything together; of choices and others with δ = 0, of the one that shows most."""
        if not self.pure:
            return self.whole
        return max(self.releases, key=lambda line: line.bound.epsilon / line.claimed_epsilon)

    @property
    def refuted(self) -> bool:
        return any(line.refuted for line in (self.whole, self.others, *self.releases)) or bool(self.differing)


@dataclass(frozen=True, repr=False)
class Side:
    """What the runs on one population gave. Scores speak for ``with_target``."""

    whole: np.ndarray  # (runs,)
    claims: list[list[Event]]  # (runs, releases): which releases there are may follow from earlier ones
    by_release: list[np.ndarray]  # (runs, releases)
    views: list[np.ndarray]  # (runs, numbers that others see)
    moved: list[np.ndarray]  # (runs, releases)
    halved: np.ndarray  # (runs,) of the whole, had the noise been half as large
    worst_halved: list[np.ndarray]  # (runs, releases) where δ = 0
    differing: frozenset[str]

    def of_release(self, name: str, values: list[np.ndarray]) -> np.ndarray:
        """(runs,) the values of one release; zero in runs that do not have it, as there it told nothing."""
        found = np.zeros(len(values))
        for run, (claims, of_run) in enumerate(zip(self.claims, values, strict=True)):
            for event, value in zip(claims, of_run, strict=True):
                if event.name == name:
                    found[run] = value
        return found


def audit(
    fit: Fit,
    claim: Claim,
    pair: Neighbours,
    n_runs: int = 1000,
    confidence: float = 0.95,
    seed: int | None = 0,
    advance: Callable[[], None] = lambda: None,
) -> Report:
    """Audit one estimator on one pair of populations; ``seed=None`` audits the real noise instead of the simulated one.

    Of the allowed error, half goes to the whole fit, a quarter to the view of the others, a quarter to the releases.
    """
    if n_runs < 20:
        raise InputError(f"runs must be at least 20 on each population, got {n_runs!r}; 1000 say more.")
    if not 0.8 <= confidence < 1:
        raise InputError(f"confidence must lie between 0.8 and 1, got {confidence!r}.")
    seeds = [None if seed is None else seed * 10**7 + i for i in range(2 * n_runs)]
    if not record(fit, pair.with_target, seeds[0], TARGET).claims:
        raise InputError("this estimator released nothing that depends on data, so there is nothing to audit.")
    sides = [
        _side(fit, ours, theirs, some_seeds, sign, np.random.default_rng([seed or 0, int(sign > 0)]), advance)
        for ours, theirs, some_seeds, sign in (
            (pair.with_target, pair.without, seeds[:n_runs], 1.0),
            (pair.without, pair.with_target, seeds[n_runs:], -1.0),
        )
    ]
    error, delta = 1.0 - confidence, claim.delta
    claims = [of_run for side in sides for of_run in side.claims]
    if not all(event.cost.covering_mu for of_run in claims for event in of_run):
        raise InputError(
            "only what a Gaussian release covers is audited so. Poisson-sampled training adds or removes a unit; audit it by "
            "commonground.audit.sampled."
        )
    events = max(claims, key=_mu_of)
    by_name = {event.name: event for of_run in claims for event in of_run}
    spent, pure = _mu_of(events), all(event.cost.pure for event in events)
    claimed = min(epsilon_spent(events, 0.0 if pure else delta), claim.epsilon), spent
    scores, halved = (sides[0].whole, sides[1].whole), (sides[0].halved, sides[1].halved)
    whole_bound = _exact_too(lower_bound(*scores, delta, error / 2, threshold=0.0, pure=pure), scores, pure)
    power = _exact_too(lower_bound(*halved, delta, error / 2, threshold=0.0, pure=pure), halved, pure).epsilon
    whole = Line(WHOLE_FIT, *claimed, whole_bound, power)
    views = _side_by_side(sides[0].views + sides[1].views)
    others_scores = _discriminant(views[:n_runs], views[n_runs:])
    others = Line(OTHERS_VIEW, *claimed, lower_bound(*others_scores, delta, error / 4, pure=pure))
    releases = []
    for name, event in by_name.items():
        with_target, without = (side.of_release(name, side.by_release) for side in sides)
        moved = np.concatenate([side.of_release(name, side.moved) for side in sides])
        one_pure = event.cost.pure
        bound = lower_bound(with_target, without, delta, error / 4 / len(by_name), threshold=0.0, pure=one_pure)
        power_of_one: float | None = None
        if one_pure:  # any outcome counts, drawn or not
            bound = replace(bound, epsilon=max(bound.epsilon, event.cost.epsilon * float(moved.max())))
            power_of_one = max(float(side.of_release(name, side.worst_halved).max()) for side in sides)
        reach, too_far = float(np.sqrt((moved**2).mean())), bool(moved.max() > 1.0 + 1e-9)
        releases.append(Line(name, epsilon_spent([event], delta), _mu_of([event]), bound, power_of_one, reach, too_far))
    simulated, differing = all(event.simulated for event in events), sides[0].differing | sides[1].differing
    asked, lines = (pair.name, claim, n_runs, confidence, simulated), (whole, others, tuple(releases))
    return Report(*asked, *lines, scores, others_scores, pure, tuple(sorted(differing)))


def _mu_of(events: list[Event]) -> float:
    """μ of a Gaussian release that costs as much as all of these together, or more."""
    return compose(event.cost.covering_mu or 0.0 for event in events)


def _exact_too(bound: Bound, scores: tuple[np.ndarray, np.ndarray], pure: bool) -> Bound:
    """With δ = 0 not one transcript may be more than e^ε times as likely on one side: scores are exact, no chance involved."""
    if not pure:
        return bound
    return replace(bound, epsilon=max(bound.epsilon, float(np.abs(np.concatenate(scores)).max())))


def _side(
    fit: Fit,
    ours: Users,
    theirs: Users,
    seeds: list[int | None],
    sign: float,
    rng: np.random.Generator,
    advance: Callable[[], None],
) -> Side:
    whole, claims, by_release, views, moved, halved, worst = [], [], [], [], [], [], []
    differing: set[str] = set()
    for seed in seeds:
        transcript = record(fit, ours, seed, TARGET)
        found = evidence(fit, transcript, theirs, TARGET, rng)
        whole.append(sign * (np.inf if found.certain else found.log_ratios.sum()))
        claims.append(transcript.claims)
        by_release.append(sign * found.log_ratios)
        views.append(transcript.view)
        moved.append(found.moved)
        worst.append(found.worst_halved)
        halved.append(sign * (np.inf if found.certain else found.halved.sum()))
        differing.update(found.differing)
        advance()
    return Side(
        np.array(whole),
        claims,
        by_release,
        views,
        moved,
        np.array(halved),
        worst,
        frozenset(differing),
    )


def _side_by_side(views: list[np.ndarray]) -> np.ndarray:
    """(runs, numbers); a run that released fewer values has zeros behind its own."""
    matrix = np.zeros((len(views), max(map(len, views))))
    for row, view in zip(matrix, views, strict=True):
        row[: len(view)] = view
    return matrix


def _discriminant(views_with: np.ndarray, views_without: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Score what others see by a linear discriminant, learned from the first half of the runs.

    Black box: it knows nothing of gate, noise or algorithm, so it finds what was published by mistake anywhere in the view.
    """
    half = len(views_with) // 2
    training = np.concatenate([views_with[:half], views_without[:half]])
    centre = np.median(training, axis=0)
    scale = np.quantile(np.abs(training - centre), 0.75, axis=0)
    spread = np.where(scale > 0, scale, np.maximum(np.abs(training - centre).max(axis=0), 1e-300))

    def bounded(views: np.ndarray) -> np.ndarray:  # noise has no heavy tails, but steps of a noisy fit do
        return np.arcsinh((views - centre) / spread)

    one, other = bounded(views_with[:half]), bounded(views_without[:half])
    gap = one.mean(axis=0) - other.mean(axis=0)
    within = np.concatenate([one - one.mean(axis=0), other - other.mean(axis=0)])
    covariance = within.T @ within / len(within)
    ridge = 1e-3 * max(float(np.trace(covariance)) / len(gap), 1e-12)
    weights = np.linalg.solve(covariance + ridge * np.eye(len(gap)), gap)
    return bounded(views_with) @ weights, bounded(views_without) @ weights


@dataclass(frozen=True)
class Exact:
    """What can be said without any statistics, by replaying a few runs."""

    moved: float  # the furthest that a sum moved, in units of its sensitivity; a choice, of its ε
    differing: tuple[str, ...]  # what others see beside the releases and was not the same to the last bit

    @property
    def refuted(self) -> bool:
        return self.moved > 1.0 + 1e-9 or bool(self.differing)


def audit_exactly(fit: Fit, pair: Neighbours, seeds: tuple[int, ...] = (0,)) -> Exact:
    """Does a person move anything further than stated, or anything at all that is not noised? Each seed, in both directions."""
    moved, differing = 0.0, set[str]()
    for seed in seeds:
        for ours, theirs in ((pair.with_target, pair.without), (pair.without, pair.with_target)):
            found = evidence(fit, record(fit, ours, seed, TARGET), theirs, TARGET)
            moved = max(moved, float(found.moved.max(initial=0.0)))
            differing.update(found.differing)
    return Exact(moved, tuple(sorted(differing)))
