"""What was spent: one frozen record for each passage through the gate."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from commonground.accounting.gaussian import compose, gaussian_epsilon
from commonground.accounting.sampled import SampledGaussianEvent, epsilon_of_sampled
from commonground.errors import BudgetError


@dataclass(frozen=True)
class GaussianEvent:
    """One Gaussian release; its meaning never changes once written."""

    name: str
    mu: float  # an upper bound on sensitivity / noise_std
    sensitivity: float  # L2, when one person is replaced by any other
    noise_std: float
    entries: int  # numbers released
    simulated: bool  # the noise can be recomputed from a seed: no protection

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def epsilon_spent(events: Iterable[GaussianEvent | SampledGaussianEvent], delta: float) -> float:
    """The exact ε of all these releases together, rounded up."""
    events = tuple(events)
    sampled = [event for event in events if isinstance(event, SampledGaussianEvent)]
    if sampled:
        if len(sampled) < len(events):
            raise BudgetError("sampled and other releases do not add up in one ledger: give each its own.")
        return epsilon_of_sampled(sampled, delta)
    return gaussian_epsilon(compose(event.mu for event in events), delta)


def epsilon_by_pld(events: Iterable[GaussianEvent], delta: float) -> float:
    """The same by dp-accounting's privacy-loss-distribution accountant: slower, and independent of our formula.

    μ is already the sensitivity under *replacement* over σ, so the events are composed under the accountant's default
    relation: under REPLACE_ONE it would double the sensitivity a second time.
    """
    import dp_accounting

    accountant = dp_accounting.pld.PLDAccountant()
    for event in events:
        accountant.compose(dp_accounting.GaussianDpEvent(noise_multiplier=1.0 / event.mu))
    return float(accountant.get_epsilon(delta))
