"""How many answers are yes, read off two noisy shares. Post-processing, so free."""

from dataclasses import dataclass

import numpy as np

_FARTHEST = 16.0  # log-odds: one yes in ten million
_STEPS, _FINE_STEPS = 641, 801
_LEAST_LIKELY = 30.0  # nats below the likeliest share, beyond which nothing is looked for


@dataclass(frozen=True)
class YesShare:
    """The share of yes among people's answers."""

    mean: float
    doubt: float  # standard deviation of what is not known of it
    with_rows: float = 1.0  # share of people who have any

    @property
    def log_odds(self) -> float:
        return float(np.log(self.mean / (1.0 - self.mean)))


def find_yes_share(yes: float, no: float, noise_std: float) -> YesShare:
    """The share, given the people's mean shares of yes and of no, each with noise; they add up to one if everybody has rows.

    Its posterior mean, so that an answer too rare to be seen is told as often as noise would hide it, and not as never. Before,
    all shares are as likely as Jeffreys' rule has them: rare ones, too.

    >>> share = find_yes_share(0.1, 0.7, noise_std=1e-3)  # a fifth of all people have no rows
    >>> round(share.mean, 3), share.doubt < 0.002, round(share.with_rows, 2)
    (0.125, True, 0.8)
    >>> round(find_yes_share(-0.01, 1.01, noise_std=0.01).mean, 3)
    0.002
    >>> round(find_yes_share(0.4, 0.6, noise_std=100.0).mean, 3)
    0.5
    """
    seen = yes, no, max(noise_std, 1e-9)
    log_odds = np.linspace(-_FARTHEST, _FARTHEST, _STEPS)
    likelihoods, _ = _likelihoods(log_odds, *seen)
    # Of many people all weight is between two points: a finer look there.
    around = np.flatnonzero(likelihoods > likelihoods.max() - _LEAST_LIKELY)
    first, last = log_odds[max(around[0] - 1, 0)], log_odds[min(around[-1] + 1, _STEPS - 1)]
    for _ in range(4):
        log_odds = np.linspace(first, last, _FINE_STEPS)
        likelihoods, with_rows = _likelihoods(log_odds, *seen)
        around = np.flatnonzero(likelihoods > likelihoods.max() - _LEAST_LIKELY)
        first, last = log_odds[max(around[0] - 1, 0)], log_odds[min(around[-1] + 1, _FINE_STEPS - 1)]
    weights = np.exp(likelihoods - likelihoods.max())
    weights /= weights.sum()
    p = 1.0 / (1.0 + np.exp(-log_odds))
    mean = float(weights @ p)
    return YesShare(mean, float(np.sqrt(weights @ (p - mean) ** 2)), float(weights @ with_rows))


def _likelihoods(log_odds: np.ndarray, yes: float, no: float, noise_std: float) -> tuple[np.ndarray, np.ndarray]:
    """In nats, Jeffreys' prior included, on the scale of log-odds; and the likeliest share of people with rows for each."""
    p, q = 1.0 / (1.0 + np.exp(-log_odds)), 1.0 / (1.0 + np.exp(log_odds))
    with_rows = np.clip((yes * p + no * q) / (p**2 + q**2), 0.0, 1.0)
    squares = (yes - with_rows * p) ** 2 + (no - with_rows * q) ** 2
    return -0.5 * squares / noise_std**2 + 0.5 * np.log(p * q), with_rows
