import numpy as np


def coefficient_radius(alpha: float, d: int) -> float:
    """P3's B(λ): no ridge solution on x in [0, 1]^d, |y| ≤ 1 is longer."""
    return min(1.0 / alpha**0.5, d**0.5 / alpha)


def sampling_probabilities(epsilons: np.ndarray, threshold: float) -> np.ndarray:
    """How likely each person is drawn so that a threshold-private mechanism on those drawn is ε_i-private for her."""
    return np.minimum(1.0, np.expm1(epsilons) / np.expm1(threshold))
