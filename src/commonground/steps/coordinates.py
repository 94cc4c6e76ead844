"""Coordinates in which features vary alike: what gradient steps and directions of a shared embedding need.

Two things are released, both scale-free. **Scales**: the mean over people of log₂ of each feature's energy, against the person's
own median; in a few rounds, each about the last estimate, so that the clip and its noise shrink from what scales differ by
(units: age and income) to what people differ by. **Correlations**: the sum of everybody's X_jᵀX_j of Frobenius norm one, twice.
The first look evens out what stands out of its noise; in the coordinates found so far, directions in which features vary little
are no longer small, and the second look sees them. The rest uses releases and their known noise only, and is free.

Where releases show nothing, rows stay as they are, and no round is slowed down. Where noise would hide correlations anyway, which
public numbers tell, nothing is spent on them.
"""

from functools import partial

import numpy as np

from commonground.clipping.grid import bin_of
from commonground.clipping.sums import BinnedSums, from_symmetric_half
from commonground.data.population import Population
from commonground.denoise.shrinkage import beyond_noise, signal_share
from commonground.denoise.spectra import differ, true_variances
from commonground.gate import Gate
from commonground.statistics.coordinates import FeatureMoments, InCoordinates, ScaleProfiles
from commonground.steps.rounds import release_clipped

SCALE_ROUNDS, MOMENT_ROUNDS = 3, 2
FAR_FROM_ZERO = 0.5  # of a feature's energy: where its mean makes up more, it is its spread that tells its scale
SIZES_OF_SCALES = 0.2  # of what scales cost: the histograms of sizes
_OCTAVES = 1.0  # of energy, by which some feature must differ from the middle one for scales to matter
_CONDITION = 1.5  # of the moment, from which on correlations matter
# n μ/d^1.5, the eigenvalues of n moments against the noise: enough for condition numbers up to 100, and the least of use
SEES_CONDITION_100, LEAST_OF_USE = 4.0, 0.9


def seen_in_coordinates(
    users: Population, transform: np.ndarray | None, centre: np.ndarray | None = None
) -> Population:
    """The same people; what is summed over them sees their rows in the new coordinates, T (x − centre)."""
    if transform is None and centre is None:
        return users
    T = np.ones(users.n_features) if transform is None else transform
    return users.seen_through(partial(InCoordinates, T, centre=centre))


def coefficients_for_features(transform: np.ndarray | None, coefficients: np.ndarray) -> np.ndarray:
    """Coefficients, (d,) or (d, k), for x from those for z = T x."""
    if transform is None:
        return coefficients
    return transform.T @ coefficients if transform.ndim == 2 else (transform * coefficients.T).T


def features_for_coefficients(transform: np.ndarray | None, coefficients: np.ndarray) -> np.ndarray:
    """The way back: coefficients, (d,) or (d, k), for z = T x from those for x."""
    if transform is None:
        return coefficients
    return np.linalg.solve(transform.T, coefficients) if transform.ndim == 2 else (coefficients.T / transform).T


def share_of_correlations(n_people: float, d: int, mu: float, most: float) -> float:
    """What is enough to see correlations, if that is less than ``most``; nothing where that would not show any.

    >>> [round(share_of_correlations(n, 50, 0.2367, most=0.08), 3) for n in (2_000, 5_000, 20_000, 100_000)]
    [0.0, 0.08, 0.08, 0.004]
    """
    seen = n_people * mu / d**1.5
    share = min(most, (SEES_CONDITION_100 / seen) ** 2)
    return share if share**0.5 * seen > LEAST_OF_USE else 0.0


def release_coordinates(
    users: Population, own_intercept: bool, gate: Gate, mu_scales: float, mu_correlations: float
) -> np.ndarray | None:
    """T of the coordinates z = T x, a (d, d) matrix or a (d,) vector of scales; None where rows are fine as they are."""
    transform = release_scales(users, own_intercept, gate, mu_scales)
    return release_correlations(users, transform, None, own_intercept, gate, mu_correlations)


def release_correlations(
    users: Population,
    transform: np.ndarray | None,
    centre: np.ndarray | None,
    own_intercept: bool,
    gate: Gate,
    mu: float,
) -> np.ndarray | None:
    """T of coordinates in which features are uncorrelated, too; ``transform`` itself where nothing is spent on that."""
    for t in range(MOMENT_ROUNDS if mu > 0.0 else 0):
        seen, each = seen_in_coordinates(users, transform, centre), mu / MOMENT_ROUNDS**0.5
        even = release_evening(seen, own_intercept, gate, each, f"feature moment {t + 1}")
        if even is not None:
            before = np.eye(users.n_features) if transform is None else transform
            transform = even * before if before.ndim == 1 else even @ before
    return transform


def release_scales(
    users: Population,
    own_intercept: bool,
    gate: Gate,
    mu: float,
    rounds: range = range(SCALE_ROUNDS),
    before: np.ndarray | None = None,
    centre: np.ndarray | None = None,
) -> np.ndarray | None:
    """(d,) factors that bring features to one scale; None if they have one. ``mu`` pays for all ``rounds``.

    Some rounds may be left for when more is known: factors from ``before``, and a ``centre`` about which features vary.
    """
    d = users.n_features
    octaves = np.zeros(d)
    one_round = {"mu_size": mu * (SIZES_OF_SCALES / len(rounds)) ** 0.5}
    one_round["mu_sum"] = mu * ((1 - SIZES_OF_SCALES) / len(rounds)) ** 0.5
    edge = bin_of(32.0 * d)  # the window around it: from √d/4, sampling error alone, to 45√d, factors of 10⁶ either way
    for t in rounds:
        sums_from = partial(_profiles, seen_in_coordinates(users, before, centre), octaves, own_intercept)
        profile = release_clipped(sums_from, edge, gate, name=f"feature scales {t + 1}", **one_round)
        # A step by chance would stay where features are rare: later rounds undo it only as far as people have them.
        seen = beyond_noise(profile.value, d, profile.noise_std)
        share = signal_share(profile.value, profile.noise_std, d) if seen else 0.0
        octaves = octaves + share / profile.people * profile.value[0]
        edge = profile.edge
    octaves -= np.median(octaves)
    if np.abs(octaves).max() <= _OCTAVES:
        return before
    return 2.0 ** (-octaves / 2) * (1.0 if before is None else before)


def release_evening(users: Population, own_intercept: bool, gate: Gate, mu: float, name: str) -> np.ndarray | None:
    """(d, d) inverse root of everybody's moment; None if its directions cannot be told apart."""
    half = gate.release(users.sum(FeatureMoments(own_intercept)).bounded(name), mu)
    eigenvalues, Q = np.linalg.eigh(from_symmetric_half(half.value, users.n_features))
    variances = true_variances(eigenvalues, half.noise_std)
    if not differ(eigenvalues, half.noise_std) or variances[-1] < _CONDITION * variances[0]:
        return None
    return np.asarray((Q * np.sqrt(variances.mean() / variances)) @ Q.T)


def _profiles(users: Population, octaves: np.ndarray, own_intercept: bool, lowest: int) -> BinnedSums:
    return users.sum(ScaleProfiles(octaves, own_intercept, lowest))
