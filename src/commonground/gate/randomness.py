"""Where protective randomness comes from: the operating system, or, for experiments only, a seed."""

from dataclasses import dataclass, field

import numpy as np

from commonground.errors import InputError


@dataclass(frozen=True)
class Randomness:
    """``simulation`` is None for real protection (OpenDP draws from the operating system's entropy)."""

    simulation: np.random.Generator | None = field(default=None, repr=False)

    @property
    def simulated(self) -> bool:
        return self.simulation is not None

    @property
    def description(self) -> str:
        if self.simulated:
            return "seeded NumPy generator (simulation; protects nobody)"
        return "OpenDP's float-safe samplers over the operating system's entropy"

    @property
    def floating_point_description(self) -> str:
        """For the draws that OpenDP has no sampler for."""
        if self.simulated:
            return self.description
        return (
            "floating-point L2-Laplace sampler over the operating system's entropy, its result rounded to a coarse grid"
        )


def randomness_from(simulation_seed: int | None) -> Randomness:
    """Real randomness for None; a repeatable stream for a seed."""
    if simulation_seed is None:
        return Randomness()
    if isinstance(simulation_seed, bool) or not isinstance(simulation_seed, (int, np.integer)) or simulation_seed < 0:
        raise InputError(
            f"simulation_seed must be None or an integer >= 0, got {simulation_seed!r}. "
            "Use None for any release that people rely on: a seeded release is not private."
        )
    # The key keeps this stream apart from data simulated with the same number.
    return Randomness(np.random.Generator(np.random.Philox(np.random.SeedSequence([int(simulation_seed), 0x6A7E]))))
