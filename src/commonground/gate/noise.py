"""Every protective draw of the package, and nothing else.

Its callers are ``release.py``, ``perturb.py``, ``select.py`` and ``repeat.py``.
"""

import functools
import math
import secrets
from typing import Any

import numpy as np
from scipy.special import ndtri

from commonground.gate.randomness import Randomness
from commonground.threads import each

# Granularity 2⁻⁴⁰ of one standard deviation: four times faster than OpenDP's finest, and its own privacy map, which
# charges for the rounding, is asked below.
_GRANULARITY = -40
_PIECE = 1 << 12  # entries that a thread draws at a time
_LAPLACE_GRID = 24  # what L2-Laplace noise leaves is a multiple of 2⁻²⁴ of its scale: arithmetic's last bits are gone


def add_gaussian_noise(
    value: np.ndarray, noise_std: float, sensitivity: float, mu: float, source: Randomness
) -> np.ndarray:
    """value + N(0, noise_std²) in every entry.

    The value is brought to noise of scale one first, so that the sampler's fixed granularity is relative to the noise.
    OpenDP states the zCDP parameter ρ of its draw, rounding included; it must not exceed μ²/2.
    """
    flat = np.asarray(value, dtype=np.float64).ravel() / noise_std
    if source.simulation is not None:
        noisy = flat + source.simulation.standard_normal(flat.shape)
    else:
        measurement = _opendp_gaussian(flat.size)
        rho = measurement.map(sensitivity / noise_std)
        if not rho <= mu * mu / 2:
            raise RuntimeError(f"OpenDP states ρ = {rho!r}, above μ²/2 = {mu * mu / 2!r}: the noise is too small")
        # Every entry has noise of its own, so pieces have the noise of the whole, whose cost was asked.
        pieces = np.split(flat, range(_PIECE, flat.size, _PIECE))
        noisy = np.concatenate(each(lambda piece: _opendp_gaussian(piece.size)(piece.tolist()), pieces))
    return (noisy * noise_std).reshape(np.shape(value))


# For long training runs, where OpenDP's exact sampler would take minutes.
GRID = 2.0**-30  # of one standard deviation
LARGEST_SUM = 2.0**21  # standard deviations, in one entry; above, 64-bit floating point would round below the grid

# Floating point is trusted to this part of a grain (= one GRID): its error is at most half of it, see _whole_normals.
_DOUBT = 2.0**-13
_CENTRE = 2.0**-6  # standard deviations; a radius below has lost too many bits of E
_MORE_BITS = 128  # for a draw that floating point cannot decide


def add_rounded_gaussian_noise(value: np.ndarray, noise_std: float, source: Randomness) -> np.ndarray:
    """value + N(0, noise_std²) in every entry, both rounded to multiples of ``GRID`` standard deviations first.

    Whole multiples below 2⁵³ add up without rounding, so the result is a rounded copy of (value on the grid) + Gaussian, and
    the last bits of a floating-point sum tell nothing. The rounding of the value is the caller's to count: an entry moves by at
    most half a grain, and a quarter for the quotient's own rounding; between neighbours, 1.5 · √entries · GRID standard
    deviations. An entry beyond ``LARGEST_SUM`` is set to it: a bound that is the same for everybody moves no two neighbours
    apart, where an error would tell how large the sum was.
    """
    grains = np.rint(np.asarray(value, dtype=np.float64) / (noise_std * GRID))
    grains = np.clip(grains, -LARGEST_SUM / GRID, LARGEST_SUM / GRID)
    grains += _whole_normals(grains.size, source).reshape(grains.shape)
    return grains * (noise_std * GRID)


def _whole_normals(size: int, source: Randomness) -> np.ndarray:
    """Standard normals, each rounded to a whole number of grains, with the probabilities of the exact normal distribution.

    Box-Muller: (R cos θ, R sin θ) with R = √2E for an exponential E = −log U and θ = 2πt. U is 2^−(z+1) · (1 + f) with a
    geometric z and f and t uniform, so that U and with it R keep all bits far out: where U is one of 2⁶⁴ equally
    spaced numbers, possible radii beyond 7.2 standard deviations lie further apart than the grid, and a release that lies
    where only one of two neighbours can have put it tells them apart.

    **What remains.** f and t have infinitely many random bits. Their first 52 and 53, and double precision, give R cos θ up to
    an error which, with u = 2⁻⁵³ and library functions right to four units in the last place, is at most 8u/R + 3Ru for R and
    21Ru more for the product: in grains 2⁻¹⁴ for R = 2⁻⁶ and 2⁻¹⁵ in the tail (measured: at most 2⁻¹⁶·⁷). Only a product that
    near to the middle between two whole numbers can be rounded the wrong way. Such draws (``_DOUBT``), and those too near to
    the centre, together one pair in 1600, are computed again in 256-bit arithmetic with 128 further random bits of f and t,
    which decide all but a share below 2⁻¹⁰⁰ of them. So the total variation between this sampler and the exact one is below
    2⁻¹⁰⁰ a number: 10⁻¹⁸ for the 10¹² numbers of a long training. Nothing is charged for it.
    """
    if source.simulation is not None:
        return np.rint(source.simulation.standard_normal(size) / GRID)
    words = np.frombuffer(secrets.token_bytes(24 * ((size + 1) // 2)), dtype=np.uint64).reshape(3, -1)
    f_bits, zeros_bits, t_bits = words[0] >> np.uint64(12), words[1] >> np.uint64(12), words[2] >> np.uint64(11)
    grains, doubtful = _box_muller(f_bits, zeros_bits, t_bits)
    for at in np.flatnonzero(doubtful):
        grains[:, at] = _box_muller_exactly(int(f_bits[at]), int(zeros_bits[at]), int(t_bits[at]))
    return grains.ravel()[:size]


def _box_muller(f_bits: np.ndarray, zeros_bits: np.ndarray, t_bits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """((2, pairs) whole numbers of grains, which pairs floating point cannot decide)."""
    radius = np.sqrt(2.0 * _exponential(f_bits, zeros_bits))
    angle = (t_bits.astype(np.float64) + 0.5) * (2.0 * np.pi * 2.0**-53)
    exact = radius * np.stack([np.cos(angle), np.sin(angle)]) / GRID
    grains = np.rint(exact)
    undecided = (np.abs(exact - grains) > 0.5 - _DOUBT).any(axis=0)
    return grains, undecided | (radius < _CENTRE) | (zeros_bits == 0)


def _box_muller_exactly(f_bits: int, zeros_bits: int, t_bits: int) -> tuple[int, int]:
    """The same pair with more random bits, and arithmetic to match."""
    zeros = 52 - zeros_bits.bit_length()
    while not zeros_bits:  # fifty-two zeros, and the count goes on
        zeros_bits = secrets.randbits(52)
        zeros += 52 - zeros_bits.bit_length()
    many = _many_digits()
    f = many.ldexp((f_bits << _MORE_BITS) + secrets.randbits(_MORE_BITS), -52 - _MORE_BITS)
    t = many.ldexp((t_bits << _MORE_BITS) + secrets.randbits(_MORE_BITS), -53 - _MORE_BITS)
    radius = many.sqrt(2 * ((zeros + 1) * many.ln2 - many.log(1 + f))) / GRID
    across, up = radius * many.cospi(2 * t), radius * many.sinpi(2 * t)
    return int(many.nint(across)), int(many.nint(up))


def draw_sample(n_units: int, probability: float, source: Randomness) -> np.ndarray:
    """Which units take part: each with this probability, independently (Poisson sampling)."""
    if source.simulated_sampling is not None:
        return np.flatnonzero(source.simulated_sampling.random(n_units) < probability)
    if probability == 1.0:
        return np.arange(n_units)
    bits = np.frombuffer(secrets.token_bytes(8 * n_units), dtype=np.uint64)
    # Rounded down: never likelier than stated.
    return np.flatnonzero(bits < np.uint64(math.floor(probability * 2.0**64)))


def choose_smallest(scores: np.ndarray, scale: float, sensitivity: int, epsilon: float, source: Randomness) -> int:
    """An index i with probability ∝ exp(−scores[i] / scale): the smallest score after Gumbel noise (exponential mechanism).

    OpenDP compares exact rationals of arbitrary precision, so whole-number scores never meet floating point. It states
    the cost of a Gumbel draw as ρ = ε²/8, the zCDP parameter of an exponential mechanism that is ε-private; ρ must not
    exceed that of the ε charged. (For ``max_divergence`` it would draw exponential noise, another mechanism.)
    """
    if source.simulation is not None:
        return int(np.argmin(scores / scale - source.simulation.gumbel(size=scores.shape)))
    measurement = _opendp_noisy_min(scale)
    rho = measurement.map(sensitivity)
    if not rho <= epsilon * epsilon / 8:
        raise RuntimeError(f"OpenDP states ρ = {rho!r}, above ε²/8 = {epsilon**2 / 8!r}: the choice is too sharp")
    return int(measurement(scores.tolist()))


def draw_repetitions(stop: float, n_settings: int, source: Randomness) -> tuple[int, ...]:
    """A geometric number of settings, each any of them: after each one it ends with probability ``stop``."""
    drawn: list[int] = []
    ours = secrets.SystemRandom()
    while True:
        simulated = source.simulation
        drawn.append(ours.randrange(n_settings) if simulated is None else int(simulated.integers(n_settings)))
        if (ours.random() if simulated is None else simulated.random()) < stop:
            return tuple(drawn)


def add_l2_laplace_noise(value: np.ndarray, scale: float, source: Randomness) -> np.ndarray:
    """value + z with density ∝ exp(−‖z‖/scale): a sum of d exponentials is the radius, d normals give the direction."""
    d = value.size
    direction = ndtri((_random_bits(d, source) + 0.5) * 2.0**-52)
    radius = _exponentials(d, source).sum()
    grid = 2.0 ** (math.floor(math.log2(scale)) - _LAPLACE_GRID)
    noisy = value.ravel() + scale * radius * direction / np.linalg.norm(direction)
    return (np.round(noisy / grid) * grid).reshape(np.shape(value))


def coins(probabilities: np.ndarray, source: Randomness) -> np.ndarray:
    """True with the given probability, each on its own, rounded down to a multiple of 2⁻⁵²."""
    return _random_bits(len(probabilities), source) < np.floor(probabilities * 2.0**52)


def part(n: int, size: int, source: Randomness) -> np.ndarray:
    """(n,) bool: ``size`` of n places, all choices equally likely, unless two of n numbers of 52 bits are equal."""
    chosen = np.zeros(n, dtype=bool)
    chosen[np.argpartition(_random_bits(n, source), min(size, n - 1))[:size]] = True
    return chosen


def _exponentials(size: int, source: Randomness) -> np.ndarray:
    """Exponential numbers whose tail is not a few far-apart values."""
    return _exponential(_random_bits(size, source), _random_bits(size, source))


def _exponential(f_bits: np.ndarray, zeros_bits: np.ndarray) -> np.ndarray:
    """−log of a uniform number 2^−(z+1) · (1 + f) that has 52 bits however small it is; both are given 52 random bits."""
    f = (f_bits.astype(np.float64) + 0.5) * 2.0**-52  # between 0 and 1
    zeros = 52 - np.frexp(zeros_bits.astype(np.float64))[1]  # leading zeros: a geometric number
    return np.asarray((zeros + 1) * math.log(2.0) - np.log1p(f))


def _random_bits(size: int, source: Randomness) -> np.ndarray:
    """Whole numbers of 52 bits from the operating system's entropy."""
    octets = secrets.token_bytes(8 * size) if source.simulation is None else source.simulation.bytes(8 * size)
    return (np.frombuffer(octets, dtype=np.uint64) >> np.uint64(12)).astype(np.float64)


@functools.lru_cache(maxsize=64)
def _opendp_gaussian(size: int) -> Any:
    from opendp import domains, measurements, metrics, mod  # not its prelude, which loads half of scikit-learn

    mod.enable_features("contrib")
    domain = domains.vector_domain(domains.atom_domain(T=float, nan=False), size=size)
    return measurements.make_gaussian(domain, metrics.l2_distance(T=float), scale=1.0, k=_GRANULARITY)


@functools.lru_cache(maxsize=64)
def _opendp_noisy_min(scale: float) -> Any:
    from opendp import domains, measurements, measures, metrics, mod

    mod.enable_features("contrib")
    space = domains.vector_domain(domains.atom_domain(T="i64")), metrics.linf_distance(T="i64")
    return measurements.make_noisy_max(*space, measures.zero_concentrated_divergence(), scale=scale, negate=True)


@functools.lru_cache(maxsize=1)
def _many_digits() -> Any:
    """Arithmetic to 256 bits, in a context that no other user of mpmath changes."""
    import mpmath

    context = mpmath.MPContext()
    context.prec = 256
    return context
