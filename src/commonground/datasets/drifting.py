"""People who come, go and change: a shared model whose directions turn in the course of a year."""

from dataclasses import dataclass, field

import numpy as np

from commonground.data.users import Users


@dataclass(frozen=True)
class DriftingPeople:
    """A population of which any number can be drawn at any time: y = <w₀ + U(t) v_j, x> + c + b_j + e, (b_j, v_j) ~ N(0, S).

    Features are independent, of variance one. The directions turn from U towards others, at right angles to them.
    """

    embedding: np.ndarray  # (d, k): U at the time 0, orthonormal
    spread: np.ndarray  # (q, q): S, intercepts first where people have one
    noise: float  # variance of e
    mean: np.ndarray | None = None  # (d,): w₀
    intercept: float = 0.0  # c
    drift: float = 0.0  # radians a year
    seed: int = 0  # where the directions turn to
    _towards: np.ndarray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        d, k = self.embedding.shape
        other = np.random.default_rng([self.seed, 0xD21F]).standard_normal((d, k))
        other -= self.embedding @ (self.embedding.T @ other)
        object.__setattr__(self, "_towards", np.linalg.qr(other)[0] if k else other)

    def embedding_at(self, time: float) -> np.ndarray:
        """U(t), (d, k), at a time in years."""
        angle = self.drift * time
        return np.asarray(self.embedding * np.cos(angle) + self._towards * np.sin(angle))

    def own_parts(self, n: int, seed: int) -> np.ndarray:
        """(b_j, v_j) of n people, (n, q); the seed says who they are."""
        rng = np.random.default_rng([seed, 0x0DDE])
        values, Q = np.linalg.eigh(self.spread)
        return np.asarray((rng.standard_normal((n, len(values))) * np.sqrt(np.maximum(values, 0.0))) @ Q.T)

    def coefficients(self, parts: np.ndarray, time: float) -> tuple[np.ndarray, np.ndarray]:
        """Everybody's θ_j, (n, d), and intercept, (n,), at a time in years."""
        own = parts.shape[1] - self.embedding.shape[1]
        theta = parts[:, own:] @ self.embedding_at(time).T + (0.0 if self.mean is None else self.mean)
        return theta, self.intercept + parts[:, :own].sum(axis=1)

    def rows(self, parts: np.ndarray, time: float, rows_per_user: int, seed: int) -> Users:
        """Rows of these people, as they answer at a time in years; the seed says which rows."""
        rng, (theta, intercepts) = np.random.default_rng([seed, 0x2035]), self.coefficients(parts, time)
        person = np.repeat(np.arange(len(parts)), rows_per_user)
        X = rng.standard_normal((len(person), theta.shape[1]), dtype=np.float32)
        y = np.einsum("ij,ij->i", X, theta[person]) + intercepts[person]
        return Users.from_arrays(X, y + self.noise**0.5 * rng.standard_normal(len(y)), person)
