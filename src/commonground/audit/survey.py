"""The cheap audits, all of them, in under a minute: what is claimed, what was measured, what half of the noise would have shown.

Three kinds. People: every recipe on its worst pair, and on every strange pair in more dimensions without statistics. Owners: one
record or user there or missing. Bystanders: what other owners get while one owner's records change.
"""

import multiprocessing
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from commonground.audit.joint import JOINT_RECIPES, OWNERS_RECIPES
from commonground.audit.neighbours import neighbours
from commonground.audit.recipes import RECIPES, Claim, Recipe
from commonground.audit.run import audit, audit_exactly
from commonground.audit.sampled import audit_owners, audit_sampled
from commonground.errors import InputError, PrivacyWarning, RecipeWarning, SharingWarning
from commonground.threads import get_num_threads

CLAIM = Claim(epsilon=8.0, n_rounds=2)  # where few runs tell most
OWNERS_CLAIM = Claim(epsilon=8.0, delta=1e-3)
NOT_CHEAP = ("fedrep-few",)  # hundreds of releases a fit
RUNS, SAMPLED_RUNS = 40, 80  # on each of the two populations
# Choices have exact likelihood ratios for every outcome, so a few runs show as much; federations are slow. Each has enough for
# half of the noise to be seen, but for the sampling ridge, whose likelihood ratios stay at the claim whatever the noise.
RUNS_OF = {"exponential": 20, "exponential-paper": 20, "margin": 20,
           "federation-server": 32, "federation-nodes": 40, "logistic": 60}  # fmt: skip
STRANGE = ("subnormal", "tiny", "enormous", "one-row", "more-rows")
CONFIDENCE = 0.95
SAMPLED_CONFIDENCE = 0.999  # their noise is real, so they differ from day to day


@dataclass(frozen=True)
class Line:
    """``claim``, ``measured`` and ``power`` are ε, or where ``unit`` says so the share of right guesses."""

    name: str
    claim: float | None
    measured: float | None
    power: float | None
    wrong: tuple[str, ...]  # what refutes it; empty: nothing does
    unit: str = "ε"
    left_out: str = ""  # why nothing was audited; empty: it was

    @property
    def weak(self) -> bool:
        """Half of the noise would not have been noticed by these few runs."""
        return self.claim is not None and self.power is not None and self.power <= self.claim

    def __str__(self) -> str:
        if self.left_out:
            return f"{self.name:18} LEFT OUT: {self.left_out}"
        if self.claim is None or self.measured is None or self.power is None:
            numbers = "claim: the same to the last bit"
        elif self.unit == "ε":
            numbers = f"claim ε = {self.claim:7.3f}   measured ε ≥ {self.measured:7.3f}   power {self.power:7.3f}"
        else:
            numbers = f"claim {self.claim:7.1%} right   measured ≥ {self.measured:7.1%}   power {self.power:7.1%}"
        verdict = f"REFUTED: {'; '.join(self.wrong)}" if self.wrong else "ok, weak" if self.weak else "ok"
        return f"{self.name:18} {numbers:67} {verdict}"


def names() -> tuple[str, ...]:
    """Which audits there are, in the order of their lines."""
    people = (name for name in RECIPES if name not in NOT_CHEAP)
    return (*people, *JOINT_RECIPES, *OWNERS_RECIPES)


def survey(seed: int = 0) -> Iterator[Line]:
    """One line for each, in order, as soon as it is known; on several cores, several at a time."""
    of_seed, processes = partial(_line, seed), get_num_threads()
    if processes == 1:
        yield from map(of_seed, names())
        return
    # Fresh processes: a fork would inherit threads' locks. An interrupt is the parent's to answer; leaving ends the others.
    with multiprocessing.get_context("spawn").Pool(processes, signal.signal, (signal.SIGINT, signal.SIG_IGN)) as others:
        yield from others.imap(of_seed, names())


def _line(seed: int, name: str) -> Line:
    try:
        if name in JOINT_RECIPES:
            return _owners(name)
        return _bystanders(name) if name in OWNERS_RECIPES else _people(RECIPES[name], seed)
    except InputError as missing:  # an extra that is not installed
        return Line(name, None, None, None, (), left_out=str(missing))


def _owners(name: str) -> Line:
    with _quietly():
        recipe = JOINT_RECIPES[name]
        found = audit_sampled(recipe.at(OWNERS_CLAIM), recipe.direction, SAMPLED_RUNS, SAMPLED_CONFIDENCE)
    wrong = ("right more often than claimed",) if found.refuted else ()
    return Line(name, found.claimed, found.at_least, found.power, wrong, unit="right")


def _bystanders(name: str) -> Line:
    with _quietly():
        differing = audit_owners(OWNERS_RECIPES[name])
    return Line(name, None, None, None, differing)


def _people(recipe: Recipe, seed: int) -> Line:
    wrong: list[str] = []
    with _quietly():
        runs = RUNS_OF.get(recipe.name, RUNS)
        report = audit(recipe.at(CLAIM), CLAIM, neighbours(recipe.worst_pair), runs, CONFIDENCE, seed)
        for line in (report.whole, report.others, *report.releases):
            wrong += (
                [f"{line.what}: ε ≥ {line.bound.epsilon:.3g}, claimed {line.claimed_epsilon:.3g}"]
                if line.refuted
                else []
            )
        wrong += [f"{what} differ, {recipe.worst_pair}" for what in report.differing]
        wide = Claim(CLAIM.epsilon, CLAIM.delta, rank=2, n_rounds=2)
        for strange in STRANGE:
            exact = audit_exactly(recipe.at(wide), neighbours(strange, 40, 9, wide.rank, seed), (seed,))
            wrong += [f"moved {exact.moved:.3g} of its sensitivity, {strange}"] if exact.moved > 1 + 1e-9 else []
            wrong += [f"{what} differ, {strange}" for what in exact.differing]
    most = report.telling
    return Line(recipe.name, most.claimed_epsilon, most.bound.epsilon, most.power, tuple(wrong))


@contextmanager
def _quietly() -> Iterator[None]:
    """Populations of an audit are too small for its claims, and everything warns of that."""
    with warnings.catch_warnings():
        for kind in (PrivacyWarning, RecipeWarning, SharingWarning):
            warnings.simplefilter("ignore", kind)
        yield
