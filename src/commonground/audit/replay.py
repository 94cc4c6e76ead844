"""Record what passes the gate on one population; replay it on the neighbour.

Every contribution is a function of a person's rows and of what was released before. So the same released values can be fed
to a fit on the *other* population, release by release, and the gate sees what that population's sums would have been at
that point. With both sums and the noise known, the log-likelihood ratio of the whole transcript is exact: no attack on
the releases has more power.

The replay also ends in a billboard, a statement, and other people's heads, choices and predictions. All of these are functions
of the releases and of their own rows, so they must be the same **to the last bit**. If they differ, something was published
that is not a function of the releases; if the replay asks the gate for another release than the one recorded (another
noise level, say), something steered it that was not released. Either tells the populations apart for certain.
"""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from scipy import sparse
from scipy.special import log_softmax

from commonground.accounting.events import Event
from commonground.audit.gates import Coins, ImpossibleError, Passage, Private, Recorder, Replayer
from commonground.audit.recipes import Fit
from commonground.data.users import Users
from commonground.estimators.base import PersonalModel
from commonground.gate import Perturbed, Release, Selection
from commonground.threads import get_num_threads, set_num_threads


@dataclass(frozen=True, repr=False)
class Transcript:
    users: Users
    passages: list[Passage]
    coins: Coins | None
    shares: list[float]  # of what each release costs, what it costs the target: 1 but for personal budgets
    view: np.ndarray  # what others see, as numbers
    seen: dict[str, bytes]  # what others see, to the last bit
    chosen: list[np.ndarray] = field(default_factory=list)  # who took part in looks

    @property
    def events(self) -> list[Event]:
        """What was paid, by the person who pays most."""
        return [passage.public.event for passage in self.passages]

    @property
    def claims(self) -> list[Event]:
        """What the target pays."""
        return [event.for_share(share) for event, share in zip(self.events, self.shares, strict=True)]


@dataclass(frozen=True)
class Evidence:
    """How much one transcript speaks for the population it was made on, against the neighbour."""

    log_ratios: np.ndarray  # (releases,)
    # (releases,) distance between the two sums, in units of the sensitivity that is stated for this person; of a choice, the
    # largest exact log-likelihood ratio of any candidate, chosen or not, in units of its ε
    moved: np.ndarray
    halved: np.ndarray  # (releases,) the log-likelihood ratios, had the noise been half as large
    worst_halved: np.ndarray  # (releases,) the largest of any outcome then, where δ = 0
    certain: bool  # the neighbour could not have published this
    differing: tuple[str, ...] = ()  # what others see beside the releases and is not the same to the last bit


def whole_models(model: PersonalModel) -> np.ndarray:
    """(n, d + 1) everybody's own coefficients, the intercept last."""
    assert model.heads_ is not None
    board, heads = model.billboard_, model.heads_
    if board.class_scores is not None:
        return np.asarray(heads.weights + board.class_scores[-1])
    shared = np.append(np.zeros(board.n_features) if board.mean is None else board.mean, board.intercept)
    models = shared + np.column_stack([heads.weights @ board.embedding.T, heads.intercepts])
    models[heads.own.people] = heads.own.coef
    return models


def others_view(model: PersonalModel, target: int | None) -> np.ndarray:
    """All that the other people together see, as one vector: the billboard, its noise levels, and their own models.

    Without a target: what the public sees, which is the billboard alone.
    """
    board = model.billboard_
    mean = np.zeros(board.n_features) if board.mean is None else board.mean
    parts = [
        board.embedding,
        board.embedding @ board.embedding.T,  # the span, whatever the signs of its columns
        mean,
        [board.intercept],
        np.zeros(0) if board.class_scores is None else board.class_scores,
    ]
    if target is not None and model.heads_ is not None:
        others = np.arange(len(model.heads_)) != target
        parts += [whole_models(model)[others]]
    parts += [np.log([event.noise_scale for event in board.statement.events])]  # last: how many follows from releases
    return np.concatenate([np.ravel(part) for part in parts])


def seen_by_others(model: PersonalModel, users: Users, target: int | None) -> dict[str, bytes]:
    """The same to the last bit, by name, with what is said about it and what others are answered.

    Answers are asked for in one batch with the target's own rows, as an operator would.
    """
    board = model.billboard_
    arrays = {"embedding": board.embedding, "mean": board.mean, "prior": board.prior, "spread": board.spread}
    arrays["class scores"] = board.class_scores
    seen = {name: b"" if array is None else array.tobytes() for name, array in arrays.items()}
    seen["intercept"] = np.float64(board.intercept).tobytes()
    seen["noise"] = b"" if board.noise is None else np.float64(board.noise).tobytes()
    seen["statement"] = json.dumps([str(board.statement), board.statement.to_json()], default=str).encode()
    seen["kind of heads"] = json.dumps(board.head_kind.to_json()).encode()
    heads = model.heads_
    if target is None or heads is None:
        return seen
    others = np.arange(users.n_users) != target
    alone = heads.own.people != target
    seen["heads of others"] = heads.weights[others].tobytes() + heads.intercepts[others].tobytes()
    if heads.doubts is not None:
        seen["doubts of others"] = heads.doubts.covariances[others].tobytes() + heads.doubts.noises[others].tobytes()
    seen["choices of others"] = heads.own.people[alone].tobytes()
    seen["own models of others"] = heads.own.coef[alone].tobytes()
    ids = users.ids.tolist()
    rows = [users.rows_of(one)[0] for one in ids]
    of_person = np.repeat(np.arange(len(ids)), [X.shape[0] for X in rows])
    batch = sparse.vstack(rows, format="csr") if users.sparse else np.concatenate(rows)
    answers = np.asarray(model.predict(batch, users=[ids[j] for j in of_person]))
    seen["predictions for others"] = answers[of_person != target].tobytes()
    return seen


def record(fit: Fit, users: Users, seed: int | None, target: int | None) -> Transcript:
    """Train once, and keep what passed."""
    watch = Recorder()
    with _one_thread():
        model = fit(users, seed, watch)
        view, seen = others_view(model, target), seen_by_others(model, users, target)
    shares = [share_of_target(model, target, watch.coins, passage.public.event) for passage in watch.passages]
    return Transcript(users, watch.passages, watch.coins, shares, view, seen, watch.chosen)


def share_of_target(model: PersonalModel, target: int | None, coins: Coins | None, event: Event) -> float:
    """What part of a release's cost is claimed for the target: all of it, unless she has a budget of her own."""
    budgets = model._personal
    if budgets is None or target is None:
        return 1.0
    if coins is not None:  # drawn with a probability that makes her ε of the sample's
        assert event.cost.epsilon
        return min(1.0, float(budgets.epsilons[target]) / event.cost.epsilon)
    return min(1.0, float(budgets.weights[target]) + budgets.rounding_room + event.sampler_room)


def replay(
    fit: Fit, users: Users, transcript: Transcript, target: int | None, drawn: np.ndarray | None = None
) -> tuple[list[Private], dict[str, bytes]]:
    """Train on ``users`` with the recorded releases in place of new ones; their private sums, and what others would see.

    ``drawn``: who is in the sample, in place of those who were.
    """
    if drawn is None and transcript.coins is not None:
        drawn = transcript.coins.drawn
    watch = Replayer(transcript.passages, drawn, transcript.chosen)
    seed = 0 if all(event.simulated for event in transcript.events) else None
    try:
        with _one_thread():
            model = fit(users, seed, watch)
            return watch.sums, seen_by_others(model, users, target)
    except ImpossibleError:
        return watch.sums, {}


def evidence(
    fit: Fit, transcript: Transcript, neighbour: Users, target: int, rng: np.random.Generator | None = None
) -> Evidence:
    """The exact log-likelihood ratio of a transcript, release by release.

    ``rng`` draws the choices that would have been made at half of the noise; without it these count as nothing.
    """
    sums, seen = replay(fit, neighbour, transcript, target)
    size = len(transcript.passages)
    log_ratios, moved, halved, worst = np.zeros((4, size))
    for t, (passage, theirs) in enumerate(zip(transcript.passages, sums, strict=False)):
        ours, public = passage.private.value, passage.public
        sensitivity = passage.private.sensitivity
        match public:
            case Selection():
                log_ratios[t], moved[t], halved[t], worst[t] = _of_choice(ours, theirs.value, public, rng)
            case Perturbed():
                log_ratios[t], moved[t], halved[t], worst[t] = _of_laplace(ours, theirs.value, public, sensitivity)
            case Release():
                log_ratios[t], moved[t], halved[t] = _of_gaussian(ours, theirs.value, public, sensitivity)
        moved[t] /= transcript.shares[t]
    if transcript.coins is not None and len(sums) == size:
        log_ratios[:], moved[:], halved[:], worst[:] = _of_sample(fit, transcript, neighbour, target)
    if len(sums) < size:
        log_ratios[len(sums)] = halved[len(sums)] = math.inf  # what it asked for there, noise level included, is public
        return Evidence(log_ratios, moved, halved, worst, certain=True, differing=(f"release {len(sums) + 1}",))
    differing = tuple(sorted(name for name in transcript.seen if seen.get(name) != transcript.seen[name]))
    return Evidence(log_ratios, moved, halved, worst, bool(differing), differing)


def _of_gaussian(
    ours: np.ndarray, theirs: np.ndarray, public: Release, sensitivity: float
) -> tuple[float, float, float]:
    """(log-likelihood ratio, distance in sensitivities, the ratio at half of the noise) of a Gaussian release."""
    difference, noise_std = (ours - theirs) / public.noise_std, public.noise_std
    drawn = (public.value - ours) / noise_std
    # log N(r; ours, σ²) − log N(r; theirs, σ²), written so that large sums do not cancel
    apart, along = float((difference**2).sum()), float((difference * drawn).sum())
    distance = math.sqrt(apart) * noise_std / sensitivity
    return apart / 2 + along, distance, 4 * (apart / 2 + along / 2)


def _of_laplace(
    ours: np.ndarray, theirs: np.ndarray, public: Perturbed, sensitivity: float
) -> tuple[float, float, float, float]:
    """The same where the noise has the density ∝ exp(−‖z‖/scale); and the largest ratio of any outcome at half of it."""
    scale, drawn, difference = public.event.scale, public.value - ours, ours - theirs
    ratio = float(np.linalg.norm(drawn + difference) - np.linalg.norm(drawn)) / scale
    halved = float(np.linalg.norm(drawn / 2 + difference) - np.linalg.norm(drawn / 2)) / (scale / 2)
    apart = float(np.linalg.norm(difference))
    return ratio, apart / sensitivity, halved, 2 * apart / scale


def _of_choice(
    ours: np.ndarray, theirs: np.ndarray, public: Selection, rng: np.random.Generator | None
) -> tuple[float, float, float, float]:
    """The same for a candidate chosen with probability ∝ exp(−score/scale)."""
    scale = public.event.scale
    likelihoods = log_softmax(-ours / scale) - log_softmax(-theirs / scale)
    twice = log_softmax(-2 * ours / scale)
    halved = twice - log_softmax(-2 * theirs / scale)
    drawn = 0.0 if rng is None else float(halved[rng.choice(len(ours), p=np.exp(twice))])
    largest = float(np.abs(likelihoods).max()) / public.event.epsilon
    return float(likelihoods[public.index]), largest, drawn, float(np.abs(halved).max())


def _of_sample(fit: Fit, transcript: Transcript, neighbour: Users, target: int) -> tuple[float, float, float, float]:
    """L2-Laplace noise on a function of a secret sample, towards somebody who knows everybody else's coin but not hers.

    The likelihood is a mixture: with her probability of being drawn, that of the value with her; else of the value without. As
    for a choice, the distance is the largest log-likelihood ratio of the outcomes looked at, in units of her ε.
    """
    assert transcript.coins is not None
    (passage,), chance = transcript.passages, float(transcript.coins.probabilities[target])
    public = passage.public
    assert isinstance(public, Perturbed)

    def value(users: Users, takes_part: bool) -> np.ndarray:
        assert transcript.coins is not None
        drawn = transcript.coins.drawn.copy()
        drawn[target] = takes_part
        sums, _ = replay(fit, users, transcript, target, drawn)
        if not sums:
            raise ImpossibleError("the noise depends on who was drawn")
        return np.asarray(sums[0].value)

    try:
        without, ours, theirs = (value(transcript.users, False), value(transcript.users, True), value(neighbour, True))
    except ImpossibleError:
        return math.inf, math.inf, math.inf, math.inf

    def ratio(seen: np.ndarray, scale: float) -> float:
        def log_likelihood(with_her: np.ndarray) -> float:
            out, into = (-float(np.linalg.norm(seen - centre)) / scale for centre in (without, with_her))
            return float(np.logaddexp(np.log1p(-chance) + out, np.log(chance) + into)) if chance < 1 else into

        return log_likelihood(ours) - log_likelihood(theirs)

    drawn_noise = public.value - passage.private.value
    scale, claimed = public.event.scale, public.event.epsilon * transcript.shares[0]
    largest, largest_halved = (max(abs(ratio(at, s)) for at in (ours, theirs, without)) for s in (scale, scale / 2))
    halved = ratio(passage.private.value + drawn_noise / 2, scale / 2)
    pairs = ((ours, theirs), (ours, without), (theirs, without))
    apart = max(float(np.linalg.norm(one - other)) for one, other in pairs)
    within = apart <= passage.private.sensitivity * (1 + 1e-9)  # else the ratio is unbounded as people's budgets grow
    return ratio(public.value, scale), largest / claimed if within else math.inf, halved, largest_halved


@contextmanager
def _one_thread() -> Iterator[None]:
    """For a few dozen people more of them only wait. Sums do not depend on it: chunks of people are fixed."""
    threads = get_num_threads()
    set_num_threads(1)
    try:
        yield
    finally:
        set_num_threads(threads)
