"""Where protective randomness comes from: the operating system, or, for experiments only, a seed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from commonground.errors import InputError, check_count


@dataclass(frozen=True)
class Randomness:
    """``simulation`` is None for real protection (OpenDP draws from the operating system's entropy)."""

    simulation: np.random.Generator | None = field(default=None, repr=False)
    simulated_sampling: np.random.Generator | None = field(default=None, repr=False)  # a stream apart from the noise's

    @property
    def simulated(self) -> bool:
        """Whether anything that protects can be recomputed: noise, or the secret samples that the cost counts on."""
        return self.simulation is not None or self.simulated_sampling is not None

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

    @property
    def fast_description(self) -> str:
        """Of the sampler for long training runs: fast enough for deep nets."""
        if self.simulated:
            return self.description
        return (
            "Box-Muller over the operating system's entropy, value and noise both rounded to a grid of 2^-30 standard "
            "deviations before they are added (not OpenDP's sampler, which is too slow here): the radius is that of an "
            "exponential number with all of its bits in the tail, and what 64-bit floating point cannot round with certainty is "
            "computed again to 256 bits, so that noise has the probabilities of a rounded normal number up to 2^-100 each; "
            "samples are drawn from the same entropy"
        )

    def state(self) -> list[dict[str, Any]] | None:
        """Where the simulated streams stand, for a checkpoint; real entropy has no state."""
        if self.simulation is None or self.simulated_sampling is None:
            return None
        return [_plain(g.bit_generator.state) for g in (self.simulation, self.simulated_sampling)]

    def restore(self, state: list[dict[str, Any]] | None) -> None:
        """Continue simulated streams where a checkpoint left them."""
        if (state is None) == self.simulated:
            raise InputError("the checkpoint is of a simulated run and this one is not, or the other way round.")
        if state is not None and self.simulation is not None and self.simulated_sampling is not None:
            self.simulation.bit_generator.state, self.simulated_sampling.bit_generator.state = state


def randomness_from(simulation_seed: int | None) -> Randomness:
    """Real randomness for None; a repeatable stream for a seed."""
    if simulation_seed is None:
        return Randomness()
    advice = " Use None for any release that people rely on: a seeded release is not private."
    check_count("simulation_seed", simulation_seed, least=0, advice=advice)
    # The keys keep these streams apart from each other and from data simulated with the same number.
    noise, sampling = (
        np.random.Generator(np.random.Philox(np.random.SeedSequence([int(simulation_seed), key])))
        for key in (0x6A7E, 0x5A3B)
    )
    return Randomness(noise, sampling)


def _plain(state: Any) -> Any:
    """A bit generator's state in types that JSON knows."""
    if isinstance(state, Mapping):
        return {name: _plain(value) for name, value in state.items()}
    return [int(entry) for entry in state] if isinstance(state, np.ndarray) else state
