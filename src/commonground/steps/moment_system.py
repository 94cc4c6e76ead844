"""The matrix of the embedding's least-squares problem, released once and made fit to be solved with.

Released is M = Σ_j (v_j v_jᵀ/‖v_j‖²) ⊗ X_jᵀX_j/m_j, dk × dk with noise σ in each number of its symmetric half. What follows
uses the release alone and is free. The noise has a spectral norm of σ√(2dk), so a plain inverse would amplify it wherever
features vary little. The known noise tells how much to believe, by Stein's formula, of the difference between

1. the features' own moment B, the sum of M's k diagonal blocks, and a multiple of the identity;
2. the moment A of the heads' directions, the traces of M's blocks, and a multiple of the identity;
3. M and A ⊗ B, which it is when heads do not depend on features.

Eigenvalues of each that are small against the noise are raised to half the noise's spectral norm.

Isotropic features so cost nothing (M is taken for a multiple of the identity, as in Private FedRep), while scales and
correlations that stand out of the noise are used.
"""

import math
from dataclasses import dataclass

import numpy as np

from commonground.clipping.grid import lower_edge
from commonground.clipping.sums import from_symmetric_half
from commonground.data.population import Population
from commonground.denoise.histograms import LOCATING_WIDTH, densest_window, effective_people, quantile_bin
from commonground.denoise.shrinkage import shrunk_towards
from commonground.gate import Gate
from commonground.statistics.embedding_moments import EmbeddingMoments, EmbeddingMomentSizes
from commonground.statistics.statistic import SharedModel

# Of people's sizes; moments differ little from person to person, so a clip at the median bends them little.
CLIP_QUANTILE = 0.5


@dataclass(frozen=True)
class MomentSystem:
    """Inverses of what was released, per person; public."""

    inverse: np.ndarray  # (dk, dk) of M
    inverse_of_features: np.ndarray  # (d, d) of B

    def solve(self, gradient: np.ndarray) -> np.ndarray:
        """M⁻¹ vec(G) for a (d, k) gradient."""
        d, k = gradient.shape
        return (self.inverse @ gradient.T.ravel()).reshape(k, d).T


def release_moment_system(
    users: Population, model: SharedModel, gate: Gate, mu_size: float, mu_sum: float
) -> MomentSystem:
    """The sizes of people's moments, a clip at their median, the clipped sum; two reads of the rows."""
    counts = gate.release(users.sum(EmbeddingMomentSizes(model)).bounded("moments: sizes"), mu_size)
    first = densest_window(counts.value, counts.noise_std)
    inside = counts.value[first : first + LOCATING_WIDTH]
    edge = int(np.clip(round(quantile_bin(inside, first, CLIP_QUANTILE)), first + 1, first + LOCATING_WIDTH - 1))
    sums = users.sum(EmbeddingMoments(model, lower_edge(edge)))
    released = gate.release(sums.bounded("moments: clipped sum"), mu_sum)
    # As for gradients: never fewer than a tenth of all people, whatever the noise says. How many there are is public.
    people = max(effective_people(inside, first, edge), 0.1 * users.total_weight)
    return repaired(
        from_symmetric_half(released.value, model.embedding.size) / people, released.noise_std / people, model.rank
    )


def repaired(M: np.ndarray, noise_std: float, k: int) -> MomentSystem:
    """Shrink and lift a noisy M as described above.

    >>> system = repaired(np.diag([4.0, 1.0, 4.0, 1.0]), noise_std=0.0, k=2)
    >>> system.solve(np.array([[4.0, 8.0], [1.0, 1.0]])).round(6).tolist()
    [[1.0, 2.0], [1.0, 1.0]]
    """
    size = len(M)
    d = size // k
    blocks = M.reshape(k, d, k, d)
    trace = max(float(np.trace(M)), noise_std * math.sqrt(size), 1e-300)  # the noise may hide even that
    # B adds up k independent blocks, A has sums of d independent numbers: noise of √k σ and √d σ.
    B = shrunk_towards(np.einsum("acae->ce", blocks), trace / d * np.eye(d), math.sqrt(k) * noise_std)
    A = shrunk_towards(np.einsum("acbc->ab", blocks), trace / k * np.eye(k), math.sqrt(d) * noise_std)
    M = shrunk_towards(M, np.kron(A, B) / trace, noise_std)
    return MomentSystem(np.linalg.inv(M), np.linalg.inv(B))
