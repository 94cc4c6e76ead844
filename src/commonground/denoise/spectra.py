"""What noise does to the eigenvalues of a released moment, and what was there before."""

import numpy as np

from commonground.denoise.shrinkage import beyond_noise

_OF_NOISE = 0.5  # standard deviations of the noise's eigenvalues, up to which variances are raised
LARGEST_RANK = 20  # that is ever chosen
_WORTH = 0.1  # of the strongest direction's eigenvalue: what features that are not quite alike make up stays below
_SURE_OF_A_DIRECTION = 2.0  # widths of the fluctuation of the largest eigenvalue of noise


def differ(eigenvalues: np.ndarray, noise_std: float) -> bool:
    """Whether they differ by more than noise explains."""
    p = len(eigenvalues) * (len(eigenvalues) + 1) / 2
    return beyond_noise(eigenvalues - eigenvalues.mean(), p, noise_std)


def true_variances(eigenvalues: np.ndarray, noise_std: float) -> np.ndarray:
    """How much features vary along the eigenvectors of a noisy moment, from its eigenvalues alone.

    Noise pushes eigenvalues apart. What is left along their directions, λ − 2s² Re g(λ) with g the Stieltjes transform of the
    spectrum and s² = d σ²/2, is exact for many features (J. Bun, R. Allez, J.-P. Bouchaud and M. Potters, "Rotational invariant
    estimator for general noisy matrices", IEEE Trans. Inf. Theory 62, 2016). Off-diagonals have half the noise's variance.

    >>> true_variances(np.array([1.0, 2.0, 8.0]), noise_std=1e-6).round(6).tolist()
    [1.0, 2.0, 8.0]
    """
    d = len(eigenvalues)
    spread = noise_std * (d / 2) ** 0.5
    gaps = eigenvalues[:, None] - eigenvalues
    pull = (gaps / (gaps**2 + spread**2 / d)).mean(axis=1)
    variances = np.maximum.accumulate(eigenvalues - 2 * spread**2 * pull)
    return np.maximum(variances, max(_OF_NOISE * spread, 1e-3 * abs(float(eigenvalues.mean())), 1e-300))


def log_likelihood(moment: np.ndarray, rank: int, noise_std: float, n_people: float) -> np.ndarray:
    """The matrix L for which an embedding U has the log-likelihood tr(Uᵀ L U)/2, given a noisy Σ u uᵀ ≈ λ U Uᵀ + c I.

    L = λ/s² times the moment, s² the variance of its entries. λ is read off the largest eigenvalues, which noise has raised by
    d s²/λ.
    """
    d = len(moment)
    variance = noise_std**2 / 2 + n_people / d**2
    eigenvalues = np.linalg.eigvalsh(moment)
    middle = float(np.median(eigenvalues))
    above = float(eigenvalues[-rank:].mean()) - middle
    strength = (above + max(above**2 - 4 * d * variance, 0.0) ** 0.5) / 2
    return strength / variance * (moment - middle * np.eye(d))


def visible_rank(eigenvalues: np.ndarray, noise_std: float, n_people: float) -> int:
    """How many eigenvalues of Σ u uᵀ, in rising order, no noise explains; none, where noise explains them all.

    Noise of σ on the symmetric half, and n random directions, whose entries have a variance of n/d², spread the others over a
    semicircle of radius 2s around their middle, s² = d σ²/2 + n/d. Its edge fluctuates by s d^(−2/3).

    >>> visible_rank(np.array([1.0, 2.0, 3.0, 90.0, 95.0]), noise_std=1.0, n_people=5.0)
    2
    """
    d = len(eigenvalues)
    spread = float(np.sqrt(d * noise_std**2 / 2 + n_people / d))
    above = eigenvalues - np.median(eigenvalues)
    edge = spread * (2 + _SURE_OF_A_DIRECTION * d ** (-2 / 3))
    return int(np.clip((above > max(edge, _WORTH * above[-1])).sum(), 0, min(LARGEST_RANK, d - 1)))


def without_single_features(moment: np.ndarray, rank: int, noise_std: float) -> np.ndarray:
    """The moment without the part of its diagonal that says how often people have which feature.

    A row with one feature, a joke and its rating, adds its own noise to that feature's entry and tells nothing of how features go
    together; features that more people have would pass for shared directions. What ``rank`` of them have more than all others
    stays: a direction may be a single feature. Nothing is taken off where the other entries are alike up to noise.

    >>> without_single_features(np.array([[9.0, 1.0, 0.0], [1.0, 3.0, 2.0], [0.0, 2.0, 5.0]]), rank=1, noise_std=0.1).tolist()
    [[4.0, 1.0, 0.0], [1.0, 0.0, 2.0], [0.0, 2.0, 0.0]]
    """
    diagonal = np.diag(moment)
    others = np.sort(diagonal)[:-rank]
    if not beyond_noise(others - others.mean(), len(others), noise_std):
        return moment
    return np.asarray(moment - np.diag(np.minimum(diagonal, others[-1])))
