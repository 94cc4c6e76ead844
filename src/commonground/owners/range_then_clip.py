"""P4's Algorithm 2 nearly as written: the users of one drawn owner a step, a private range first, then a mean clipped to it.

Levy et al.'s estimator turns users' mean gradients by a rotation, finds for each coordinate a short interval in which they lie,
privately, and averages what is clipped to it: noise is as small as the interval. Here both come from *one* release: each user
adds, in each coordinate, a count and her offset to the bin of width 2w in which she lies, so that one sample of owners is paid
for once. Which bins hold the users is then read off the noisy counts, and their mean off the counts and offsets of those bins.

**Guarantee.** Unit: a user with all of her records at one owner; neighbours: she is there or missing, or is replaced by any
other; how many owners and users there are, and ``records_per_user``, are public. One kind of release reads data and has the
whole budget: in each step the binned counts and offsets of all users of the owners drawn, each owner with probability 1/n. A
user's part has norm at most √(2ℓ) and is scaled to one. x_j moves, but by what was released alone, so no record steers a later
gradient except through the gate; Algorithm 1 lacks this. Which owner was drawn is known to that owner only, and tells nothing
about others. All steps are charged before the first is drawn.
"""

import math

import numpy as np
from scipy.fft import dct

from commonground.accounting.sampled import noise_multiplier_for
from commonground.clipping.sums import SampledSum
from commonground.errors import InputError
from commonground.owners.descent import Descent, Trained, inside
from commonground.owners.gradients import unit_means
from commonground.owners.units import ProtectedUnits

DEPARTURES = (
    "Owners are drawn by Poisson sampling with probability 1/n, so a step has one of them on average; printed: exactly one. A "
    "step whose counts do not stand out from their noise by three standard deviations does not move anything.",
    "Range and mean come from one Gaussian release of binned counts and offsets, so that one draw of owners is paid exactly "
    "once; Levy et al. use an exponential mechanism and Laplace noise for each coordinate. Users outside the range are left out, "
    "not moved to its ends.",
    "The rotation is a fixed one (a cosine transform), not a random one.",
    "The half-width of a bin is 3C/√(records per user · ℓ), the order of Lemma B.4 without its logarithms.",
    "Gradients longer than C are clipped to it, which takes the place of a known Lipschitz constant.",
    "θ_j = u + x_j, so one gradient serves both; the ball of x_j is √n times smaller than that of u, or x_j would take up most "
    "of what is shared; at the end a ridge fit on the owner's own rows takes the place of the average of x_j.",
)
_HALF_WIDTH = 3.0  # of a bin, in standard deviations of a coordinate of a user's mean gradient at Lipschitz constant C
_MOST_BINS = 64
_SEEN = 3.0  # standard deviations of the noise above which people are taken to be there
_NEIGHBOURS = np.array([1.0, 1.0, 1.0])  # users are looked for in three bins: their own may be cut by an edge


def range_then_clip(
    d: Descent,
    X: np.ndarray,
    y: np.ndarray,
    protected: ProtectedUnits,
    owner_of_row: np.ndarray,
    n_owners: int,
    rows: int,
) -> Trained:
    """u from all owners' rows; ``rows`` is the public number of records per user."""
    size, users = d.n_outputs * X.shape[1], protected.drawn
    width = max(_HALF_WIDTH * d.clip_norm / math.sqrt(rows * size), 2 * d.clip_norm / _MOST_BINS)
    bins = max(math.ceil(d.clip_norm / width), 1)
    middles = width * (2 * np.arange(bins) + 1 - bins)
    rotation = dct(np.eye(size), norm="ortho", axis=0)
    multiplier = noise_multiplier_for(d.budget.epsilon, d.budget.delta, 1 / n_owners, d.steps, d.relation)
    planned = [d.event("binned gradients", multiplier, 1.0, 2 * size * bins)]
    (paid,), book = d.pay(planned)
    expected, norm = protected.count / n_owners, math.sqrt(2 * size)  # users of an owner, and the length of one's part
    owner_of_user = owner_of_row[users.rows[users.offsets[:-1]]]  # everybody has a row
    personal = np.zeros((n_owners, size))
    rate = d.rate(size, multiplier * norm * width / (expected * d.clip_norm))

    def slope_at(t: int, u: np.ndarray) -> np.ndarray:
        drawn = paid.sample(n_owners)  # Alg. 2, line 4
        total = np.zeros((2, size, bins))
        for j in drawn:
            at = np.flatnonzero(owner_of_user == j)
            its, place = users.rows_of(at)
            means = unit_means(d.errors_at(u + personal[j], X[its], y[its]), X[its], place, len(at))  # line 5
            with np.errstate(over="ignore", invalid="ignore"):  # what is not finite counts at zero
                turned = means @ rotation.T
            total += binned(turned, d.clip_norm, width, bins)
        one = SampledSum(total.ravel() / norm, 1.0)
        released = norm * paid.release(one.bounded(f"step {t + 1}: binned gradients", d.relation)).reshape(
            2, size, bins
        )
        noise_std = norm * paid.event.noise_std
        slope = rotation.T @ mean_in_range(released[0], released[1], middles, width, noise_std)  # line 6
        for j in drawn:
            personal[j] = inside(personal[j] - rate * slope, d.radius / math.sqrt(n_owners))  # line 7
        return slope

    return Trained(d.averaged(size, rate, slope_at), multiplier, tuple(planned), book)


def binned(values: np.ndarray, clip_norm: float, width: float, bins: int) -> np.ndarray:
    """(2, coordinates, bins): Σ over users of counts, and of offsets from middles in half-widths; each user's norm is ≤ √(2ℓ)."""
    if not (width > 0 and bins >= 1):
        raise InputError(f"bins need a width, got {width!r} and {bins!r}.")
    with np.errstate(all="ignore"):
        lengths = np.linalg.norm(values, axis=1, keepdims=True)
        values = np.where(np.isfinite(lengths), values * np.minimum(1.0, clip_norm / np.maximum(lengths, 1e-300)), 0.0)
    at = np.clip(np.floor(values / (2 * width) + bins / 2).astype(np.int64), 0, bins - 1)
    offsets = np.clip((values - width * (2 * at + 1 - bins)) / width, -1.0, 1.0)
    total = np.zeros((2, values.shape[1], bins))
    coordinate = np.broadcast_to(np.arange(values.shape[1]), at.shape)
    np.add.at(total[0], (coordinate, at), 1.0)
    np.add.at(total[1], (coordinate, at), offsets)
    return total


def mean_in_range(
    counts: np.ndarray, offsets: np.ndarray, middles: np.ndarray, width: float, noise_std: float
) -> np.ndarray:
    """For each coordinate the mean of those in the three neighbouring bins that hold most; zero if noise hides who is there."""
    if counts.sum() <= _SEEN * noise_std * math.sqrt(counts.size):
        return np.zeros(len(counts))
    found, fewest = np.zeros(len(counts)), _SEEN * noise_std * math.sqrt(len(_NEIGHBOURS))
    for c in range(len(counts)):
        held = np.convolve(counts[c], _NEIGHBOURS, mode="same")
        best = int(held.argmax())
        near = slice(max(best - 1, 0), best + 2)
        people = max(float(counts[c, near].sum()), fewest, 1.0)
        away = (middles[near] - middles[best]) @ counts[c, near] + width * offsets[c, near].sum()
        found[c] = middles[best] + np.clip(away / people, -3 * width, 3 * width)
    return found
