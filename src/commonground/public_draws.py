"""Random things that read nobody's data: candidate subspaces, projections. Public, repeatable, and no protection.

A mechanism that chooses among candidates is as private for one set of them as for any other, provided that the set is made
without looking at the data, or from values that were released (and paid for) before.
"""

import itertools
import math

import numpy as np

from commonground.errors import InputError

LARGEST_NET = 500_000

PublicGenerator = np.random.Generator


def public_generator(seed: int, purpose: str) -> PublicGenerator:
    """A stream for one purpose; the same everywhere."""
    return np.random.default_rng([seed, *purpose.encode()])


def random_subspaces(n: int, d: int, k: int, rng: PublicGenerator) -> np.ndarray:
    """(n, d, k) orthonormal matrices, spans uniformly distributed."""
    return np.linalg.qr(rng.standard_normal((n, d, k)))[0]


def subspaces_around(centre: np.ndarray, n: int, radius: tuple[float, float], rng: PublicGenerator) -> np.ndarray:
    """(n, d, k) orthonormal matrices about ``radius`` away from ``centre`` (in Frobenius norm), which is the first of them.

    Distances are spread evenly on the log scale between the two ends of ``radius``.
    """
    d, k = centre.shape
    away = rng.standard_normal((n - 1, d, k))
    away -= centre @ (centre.T @ away)  # steps within the span do not change it
    away /= np.linalg.norm(away, axis=(1, 2), keepdims=True)
    steps = np.exp(rng.uniform(math.log(radius[0]), math.log(radius[1]), n - 1))
    return np.concatenate([centre[None], np.linalg.qr(centre + steps[:, None, None] * away)[0]])


def subspace_net(d: int, k: int, width: float) -> np.ndarray:
    """Orthonormal (d, k) matrices, one within Frobenius distance ``width`` of each orthonormal matrix, up to its basis.

    Columns come from a grid on the sphere. Where the columns of P lie within w of those of an orthonormal U, ‖P − U‖ ≤ √k w;
    the orthonormal matrix nearest to P is no further from P than U is; so it is within 2√k w of U. A hyperplane
    (k = d − 1) is as near to another as their normals are, so a net of normals is enough.

    >>> subspace_net(2, 1, width=0.5).shape
    (4, 2, 1)
    """
    if k == 1 or k == d - 1:
        points = sphere_net(d, width)
        return points[:, :, None] if k == 1 else np.linalg.qr(points[:, :, None], mode="complete")[0][:, :, 1:]
    points = sphere_net(d, width / (2 * math.sqrt(k)))
    _check_net_size(math.comb(len(points), k), d, k, width)
    columns = np.array(list(itertools.combinations(range(len(points)), k)))
    left, singular, right = np.linalg.svd(points[columns].transpose(0, 2, 1), full_matrices=False)
    spread_out = singular[:, -1] > 1e-9  # a matrix of lower rank is near to no orthonormal one in particular
    return (left @ right)[spread_out]


def sphere_net(d: int, width: float) -> np.ndarray:
    """Unit vectors, one within ``width`` of each unit vector or its negative: a grid on the cube's faces, moved inwards.

    A face is a cube of d − 1 dimensions; its cells have a side h with half a diagonal h √(d − 1)/2 ≤ width, and moving points
    from the cube to the sphere inside brings them no further apart.
    """
    if not 0 < width <= 1:  # wider, and two columns could have the same nearest point
        raise InputError(f"net_width must be a number above 0 and at most 1, got {width!r}.")
    side = max(1, math.ceil(math.sqrt(d - 1) / width)) if d > 1 else 1
    _check_net_size(d * side ** (d - 1), d, 1, width)
    centres = (2 * np.arange(side) + 1) / side - 1
    face = np.array(list(itertools.product(centres, repeat=d - 1))).reshape(-1, d - 1)
    faces = np.concatenate([np.insert(face, axis, 1.0, axis=1) for axis in range(d)])
    return faces / np.linalg.norm(faces, axis=1, keepdims=True)


def sign_projection(rows: int, columns: int, rng: PublicGenerator) -> np.ndarray:
    """A Johnson-Lindenstrauss matrix: (rows, columns) entries ±1/√rows."""
    return (2.0 * rng.integers(0, 2, (rows, columns)) - 1.0) / math.sqrt(rows)


def _check_net_size(size: int, d: int, k: int, width: float) -> None:
    if size > LARGEST_NET:
        raise InputError(
            f"a net of width {width:g} for {d} features and rank {k} needs {size:,} candidates; at most {LARGEST_NET:,} are "
            "possible. Use a larger net_width, or candidates='random'."
        )
