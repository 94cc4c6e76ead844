"""How many answers are yes, read off two noisy shares. Post-processing, so free."""

from dataclasses import dataclass

import numpy as np

_LOG_ODDS = np.linspace(-9.0, 9.0, 721)  # one yes in 8,000 is not told from none at all
_CHANCES = 1.0 / (1.0 + np.exp(-_LOG_ODDS))


@dataclass(frozen=True)
class YesShare:
    """The share of yes among people's answers."""

    mean: float
    doubt: float  # standard deviation of what is not known of it

    @property
    def log_odds(self) -> float:
        return float(np.log(self.mean / (1.0 - self.mean)))


def find_yes_share(yes: float, no: float, noise_std: float) -> YesShare:
    """The share, given the people's mean shares of yes and of no, each with noise; they add up to one if everybody has rows.

    Its posterior mean, so that an answer too rare to be seen is told as often as noise would hide it, and not as never. Before,
    all shares are as likely as Jeffreys' rule has them: rare ones, too.

    >>> share = find_yes_share(0.1, 0.7, noise_std=1e-3)  # a fifth of all people have no rows
    >>> round(share.mean, 3), share.doubt < 0.002
    (0.125, True)
    >>> round(find_yes_share(-0.01, 1.01, noise_std=0.01).mean, 3)
    0.002
    >>> round(find_yes_share(0.4, 0.6, noise_std=100.0).mean, 3)
    0.5
    """
    p, noise_std = _CHANCES, max(noise_std, 1e-9)
    with_rows = np.clip((yes * p + no * (1.0 - p)) / (p**2 + (1.0 - p) ** 2), 0.0, 1.0)
    squares = (yes - with_rows * p) ** 2 + (no - with_rows * (1.0 - p)) ** 2
    likelihoods = -0.5 * squares / noise_std**2 + 0.5 * np.log(
        p * (1.0 - p)
    )  # Jeffreys' prior, on the scale of log-odds
    weights = np.exp(likelihoods - likelihoods.max())
    weights /= weights.sum()
    mean = float(weights @ p)
    return YesShare(mean, float(np.sqrt(weights @ (p - mean) ** 2)))
