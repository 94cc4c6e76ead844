"""People who come, go and change: a shared model whose directions turn in the course of a year."""

from dataclasses import dataclass, field

import numpy as np

from commonground.data.users import Users


@dataclass(frozen=True)
class DriftingPeople:
    """A population of which any number can be drawn at any time: y = <w₀ + U(t) v_j, x> + c + b_j + e, (b_j, v_j) ~ N(0, S).

    Features are independent, of variance one. The directions turn from U towards others, at right angles to them.

    Parameters
    ----------
    embedding : array of shape (d, k)
        U at the time 0, orthonormal.
    spread : array of shape (q, q)
        S, intercepts first where people have one.
    noise : float
        Variance of e.
    mean : array of shape (d,) or None, default=None
        w₀.
    intercept : float, default=0.0
        c.
    drift : float, default=0.0
        Radians a year.
    seed : int, default=0
        Where the directions turn to.
    """

    embedding: np.ndarray
    spread: np.ndarray
    noise: float
    mean: np.ndarray | None = None
    intercept: float = 0.0
    drift: float = 0.0
    seed: int = 0
    _towards: np.ndarray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        d, k = self.embedding.shape
        other = np.random.default_rng([self.seed, 0xD21F]).standard_normal((d, k))
        other -= self.embedding @ (self.embedding.T @ other)
        object.__setattr__(self, "_towards", np.linalg.qr(other)[0] if k else other)

    def embedding_at(self, time: float) -> np.ndarray:
        """U(t).

        Parameters
        ----------
        time : float
            In years.

        Returns
        -------
        array of shape (d, k)
        """
        angle = self.drift * time
        return np.asarray(self.embedding * np.cos(angle) + self._towards * np.sin(angle))

    def own_parts(self, n: int, seed: int) -> np.ndarray:
        """(b_j, v_j) of people.

        Parameters
        ----------
        n : int
            How many.
        seed : int
            Who.

        Returns
        -------
        array of shape (n, q)
        """
        rng = np.random.default_rng([seed, 0x0DDE])
        values, Q = np.linalg.eigh(self.spread)
        return np.asarray((rng.standard_normal((n, len(values))) * np.sqrt(np.maximum(values, 0.0))) @ Q.T)

    def coefficients(self, parts: np.ndarray, time: float) -> tuple[np.ndarray, np.ndarray]:
        """Everybody's θ_j and intercept at a time.

        Parameters
        ----------
        parts : array of shape (n, q)
            Own ones.
        time : float
            In years.

        Returns
        -------
        coefficients : array of shape (n, d)
        intercepts : array of shape (n,)
        """
        own = parts.shape[1] - self.embedding.shape[1]
        theta = parts[:, own:] @ self.embedding_at(time).T + (0.0 if self.mean is None else self.mean)
        return theta, self.intercept + parts[:, :own].sum(axis=1)

    def rows(self, parts: np.ndarray, time: float, rows_per_user: int, seed: int) -> Users:
        """Rows of these people, as they answer at a time.

        Parameters
        ----------
        parts : array of shape (n, q)
            Own ones.
        time : float
            In years.
        rows_per_user : int
            How many each.
        seed : int
            Which rows.

        Returns
        -------
        Users
        """
        rng, (theta, intercepts) = np.random.default_rng([seed, 0x2035]), self.coefficients(parts, time)
        person = np.repeat(np.arange(len(parts)), rows_per_user)
        X = rng.standard_normal((len(person), theta.shape[1]), dtype=np.float32)
        y = np.einsum("ij,ij->i", X, theta[person]) + intercepts[person]
        return Users.from_arrays(X, y + self.noise**0.5 * rng.standard_normal(len(y)), person)
