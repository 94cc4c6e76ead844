"""Rounds for few people: when all rounds together hardly carry more signal than noise.

How much is known before training, from public numbers alone: n people, each of whom sees a share of about 0.16 of all
directions, move a sum of contributions of length one by 0.4·n/√k towards the truth; the noise has (d − k)k coordinates of 2/μ
each. The squared ratio, over all rounds together,

    S = 0.16 n² μ² / (4 k (d − k) k),

is what the error can shrink by, as e^−S: at n = 1,000, ε = 1, d = 50, k = 2 it is 12 in all. Then

- **many small rounds** are better than few: a round with signal-to-noise s shrinks the squared error by 1/(1 + s), not e^−s;
- **the step must not believe one round.** Read off a single noisy gradient, the share of signal is off by √(2/p) for p
  numbers, as much as there is. It is the same in all rounds, so it is averaged over many;
- **everybody counts alike**: each person sends her best guess at what is missed, given all that her rows say, and her head,
  both of one length (``statistics.whitened``). Nobody is clipped, and to scale all to one length costs no signal;
- **steps are longer where people miss something.** The same release says, for nothing, along which directions their guesses lie.
  With its mean M over as many rounds as the error stays about the same, the step is (1 + 0.16 − M)⁻¹ times the gradient: M is
  0.16 along what is missed, and zero elsewhere;
- **sizes are followed, not measured**: the error shrinks by what the steps take away, so a histogram every 32 rounds is
  enough to stay on track;
- **the start is looked for in several looks** (``initial_embedding``), and nothing else is paid for: no scales, no prior. What is
  missed is measured against the person's head, a ratio of about one at first, whatever the units of features and labels.

**Guarantee.** What reads data passes the gate: eight sums of u_j u_jᵀ (√2), the later ones within a subspace that follows from
the releases so far (one, where the rank is to be found); six histograms of sizes (√2); and in each round a sum of z_j z_jᵀ
(√2), z_j a vector of length one that follows from her rows and the releases so far. All else is made of these.
"""

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import numpy as np

from commonground.accounting.budgets import Budget
from commonground.accounting.plan import Plan, Share
from commonground.clipping.grid import N_BINS, bin_of, lower_edge
from commonground.clipping.sums import from_symmetric_half
from commonground.data.population import Population
from commonground.errors import SharingWarning
from commonground.gate import Gate
from commonground.progress import progress_bar
from commonground.statistics.statistic import SharedModel
from commonground.statistics.whitened import BestGuesses, MissedSizes
from commonground.steps.initial_embedding import release_embedding_in_looks, release_initial_embedding

SHARING_PAYS_FROM = 10.0  # S; below it the embedding is mostly noise, see docs/real_data.md
MANY_PEOPLE_FROM = 60.0  # S; below it this recipe is the better one, see docs/private_fedrep.md for the experiment
N_ROUNDS = 192
SIZES_EVERY = 32
AVERAGED_ROUNDS = 1700.0  # divided by S: over so many rounds the share of signal is averaged
SEEN = 0.16  # of all directions, by one person's rows
MOST_MISSED = 0.7  # of M: noise lengthens no step by more than 1/(1 + SEEN − 0.7)
# Looks at the start: the share of their budget, and of all directions that the next one looks at.
LOOKS = ((0.36, 0.7), (0.16, 0.5), (0.12, 0.36), (0.1, 0.26), (0.08, 0.2), (0.07, 0.15), (0.06, 0.11), (0.05, None))
SPREAD = 1.0  # bins: standard deviation of people's sizes, taken to be normal on the grid
FIRST_SIZE = 1.6  # norm of what is expected to be missed in the first round, relative to the head
FIRST_MIDDLE_STD = 2.0  # bins: standard deviation of the middle size that is expected before the first histogram
MIDDLE_STD = 0.5  # bins: the same before later histograms
# Nats of likelihood that a middle far from the expected one must make up for; chosen on simulated people.
FAR_MIDDLE_COST = 4.5
SIZES = 0.02  # of μ², for all histograms


def plan_for_few(information: float) -> Plan:
    """A start that is mostly noise wastes all rounds after it, so it is worth the more the less there is.

    >>> {name: round(share, 3) for name, share in plan_for_few(12.0).fractions().items()}
    {'init': 0.165, 'sizes': 0.02, 'rounds': 0.815}
    """
    init = float(np.clip(2.0 / information, 0.08, 0.165))
    return Plan(
        (
            Share("init", init, "a first embedding, in eight looks"),
            Share("sizes", SIZES, "a histogram of sizes, every 32 rounds", N_ROUNDS / SIZES_EVERY),
            Share("rounds", 1.0 - init - SIZES, "heads and best guesses at what they miss", N_ROUNDS),
        )
    )


def information(n_people: float, d: int, k: int, mu: float) -> float:
    """S above: the logarithm by which rounds of total cost μ can shrink the squared error."""
    return 0.04 * (n_people * mu) ** 2 / (k * k * max(d - k, 1))


def sharing_pays(users: Population, rank: int, budget: Budget) -> bool:
    """Whether an embedding can be learned at all; from public numbers, and with a warning where it cannot."""
    people = users.total_weight
    known = information(people, users.n_features, rank, budget.mu)
    if known < SHARING_PAYS_FROM:
        enough = people * (SHARING_PAYS_FROM / known) ** 0.5
        warnings.warn(
            f"sharing does not pay here: {users.n_users:,} people at ε = {budget.epsilon:.3g} are too few for {rank} shared "
            f"directions of {users.n_features} features, and what is published is mostly noise. People mostly keep models of "
            f"their own rows. About {enough:,.0f} people would be enough, or a larger ε, fewer directions or fewer features.",
            SharingWarning,
            stacklevel=4,
        )
    return known >= SHARING_PAYS_FROM


def recipe_for_few(
    users: Population, rank: int | Literal["auto"], known: float, budget: Budget, gate: Gate, verbose: bool
) -> SharedModel:
    """The shared model; ``known``: S above, from public numbers."""
    model = SharedModel(np.zeros((users.n_features, 0)))
    mu = plan_for_few(known).costs(budget)
    with progress_bar("training", N_ROUNDS, verbose) as advance:
        if rank == "auto":  # a first look alone would have to tell it
            U = release_initial_embedding(users, rank, model, gate, mu["init"])
        else:
            U = release_embedding_in_looks(users, int(rank), model, gate, mu["init"], looks=LOOKS)
        return rounds_for_few(users, replace(model, embedding=U), gate, mu, advance)


def rounds_for_few(
    users: Population, model: SharedModel, gate: Gate, mu: dict[str, float], advance: Callable[[], None]
) -> SharedModel:
    """Follow the embedding down from its noisy start."""
    U = model.embedding
    d, k = U.shape
    people = users.total_weight
    numbers = (d - k) * k
    middle, doubt, highest = float(bin_of(FIRST_SIZE**2)), FIRST_MIDDLE_STD, 0.0
    present = [1.0, 1.0]  # the share of people who have something to send: everybody, unless histograms object
    # How far one round's share of signal is trusted: the less there is, the longer the memory.
    memory = float(np.clip(AVERAGED_ROUNDS / information(people, d, k, mu["rounds"] * N_ROUNDS**0.5), 40, 200))
    remembered = memory  # before the first round: its expected value
    expected = information(people, d, k, mu["rounds"])
    ratio = remembered * (1.0 + expected)
    missed = np.zeros((d, d))  # M above; the shares of signal of as many rounds as it is a mean of add up to one
    for t in range(N_ROUNDS):
        current = replace(model, embedding=U)
        if t % SIZES_EVERY == 0:
            sizes = gate.release(users.sum(MissedSizes(current)).bounded(f"round {t + 1}: sizes"), mu["sizes"])
            middle, seen = fit_sizes(sizes.value[1:], 1, sizes.noise_std, people, middle, doubt, highest)
            doubt, highest = MIDDLE_STD, middle
            present.append(seen)
        half = gate.release(users.sum(BestGuesses(current)).bounded(f"round {t + 1}: best guesses"), mu["rounds"])
        guesses = 2.0 * from_symmetric_half(half.value, d)  # heads and what is missed have length one in it
        outside = np.eye(d) - U @ U.T
        across, within = outside @ guesses @ U, outside @ guesses @ outside
        ratio = (1 - 1 / memory) * ratio + float((across**2).sum()) / (numbers * 2.0 * half.noise_std**2)
        remembered = (1 - 1 / memory) * remembered + 1
        signal = max(0.0, ratio / remembered - 1.0)  # against noise
        share = signal / (1.0 + signal)
        within -= np.trace(within) / (d - k) * outside
        missed = outside @ ((1.0 - share) * missed + share * k / people * within) @ outside
        step = longer_where_missed(across, missed)
        size = lower_edge(middle + 0.5)  # a bin's number is its lower edge's
        worth = people * float(np.clip(np.mean(present), 0.1, 1.0))
        U = np.ascontiguousarray(np.linalg.qr(U + share * k * size / worth * step)[0])
        # Two bins an octave, and the squared error falls by 1 − share. Where label noise makes up the rest of people's
        # sizes, the signal is weaker than expected by just the error's part of their squares.
        middle += float(np.log2(max(1.0 - share * min(1.0, signal / expected), 0.25)))
        middle = float(np.clip(middle, 1, N_BINS - 2))
        advance()
    return replace(model, embedding=U)


def longer_where_missed(gradient: np.ndarray, missed: np.ndarray) -> np.ndarray:
    """(1 + SEEN − M)⁻¹ times the gradient; without noise, a step as long as before along what is missed, and shorter elsewhere.

    >>> longer_where_missed(np.array([[1.16], [1.16]]), np.diag([0.16, 0.0])).round(3).ravel().tolist()
    [1.16, 1.0]
    """
    much, Q = np.linalg.eigh(missed)
    return np.asarray(Q @ (Q.T @ gradient / (1.0 + SEEN - np.minimum(much, MOST_MISSED))[:, None]))


def fit_sizes(
    counts: np.ndarray, first: int, noise_std: float, people: float, expected: float, doubt: float, highest: float = 0.0
) -> tuple[float, float]:
    """Where a bell of people's sizes lies in a noisy histogram, given where it is expected; and how many are in it.

    The most likely place: counts are a bell of known width plus normal noise, and the place is normal around ``expected``,
    or, which is a surprise, anywhere up to ``highest``: label noise may have kept sizes from falling.

    >>> bell = np.exp(-((np.arange(16) - 7.3) ** 2) / (2 * SPREAD**2))
    >>> place, share = fit_sizes(1000 * bell / bell.sum(), first=100, noise_std=1.0, people=1000.0, expected=109.0, doubt=2.0)
    >>> round(place, 1), round(share, 1)
    (107.3, 1.0)
    """
    places = np.linspace(expected - 3 * doubt, max(expected + 3 * doubt, highest), 241)
    bells = np.exp(-((first + np.arange(len(counts)) - places[:, None]) ** 2) / (2 * SPREAD**2)) / (SPREAD * 2.5066)
    precision = 1.0 / max(noise_std, 1e-9) ** 2
    log_likelihood = precision * (people * (bells @ counts) - people**2 * (bells**2).sum(axis=1) / 2)
    at = int(np.argmax(log_likelihood - np.minimum((places - expected) ** 2 / (2 * doubt**2), FAR_MIDDLE_COST)))
    place = float(np.clip(places[at], first, first + len(counts) - 1))
    return place, float(bells[at] @ counts / max((bells[at] ** 2).sum(), 1e-9) / people)
