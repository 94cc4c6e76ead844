"""P4's Algorithm 1 for networks: DP-SGD on the shared parameters, with checkpoints that carry the accounting.

**Where it differs.** Algorithm 1 updates an owner's personal parameters in the same loop, without noise. One record then steers
them, and through them the gradients of *all* later records of that owner: the cost of a step is no longer that of one record in
mn, but of one owner in n, for which the paper's noise does not pay. Here personal parameters rest while the shared ones are
trained, a gradient depends on its record and on released values alone, and the personal part is fitted at the end (``local``).

**Guarantee.** Unit: one record, or one user with all of her records at one owner; neighbours: its contribution is there or
missing, or is replaced by any other; how many owners and units there are is public. One kind of release reads data and has the
whole budget: in each step the sum of the gradients of the units drawn by Poisson sampling, each clipped to norm C. A unit moves
it by at most C (replacement: 2C; a group of k records: k times that). All T steps are charged before they are drawn, composed
by privacy-loss distributions. The rate, the mean of iterates and what a checkpoint holds are functions of released values.
"""

import json
import math
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as save_arrays
from torch import Tensor, nn

from commonground.accounting.budgets import Budget
from commonground.accounting.sampled import ADD_OR_REMOVE, REPLACE, SampledGaussianEvent, noise_multiplier_for
from commonground.billboard.board import name_each_other
from commonground.billboard.joint import JointStatement, SharedParameters, paying
from commonground.clipping.sums import SampledSum
from commonground.deep.clipped import clipped_sum
from commonground.deep.per_sample import PerSampleGradients
from commonground.errors import BillboardError, InputError, check_count, check_parameters, check_size
from commonground.files import PRIVATE, replacing
from commonground.gate import SampledReleases, randomness_from
from commonground.ledger import Ledger, SharedLedger
from commonground.owners.units import Units
from commonground.progress import progress_bar


class Settings(Protocol):
    """What training reads of a trainer: public parameters."""

    epsilon: float
    delta: float
    unit: str
    relation: str
    sampling_probability: float
    steps: int
    clip_norm: float
    learning_rate: float | None
    momentum: float
    average: float
    microbatch: int | None
    checkpoint: str | os.PathLike[str] | None
    checkpoint_every: int
    simulation_seed: int | None
    verbose: bool


def check_settings(s: Settings) -> None:
    """Raise ``InputError`` for public parameters with which no training can be paid or made."""
    if s.relation not in (ADD_OR_REMOVE, REPLACE):
        raise InputError(f"relation must be {ADD_OR_REMOVE!r} or {REPLACE!r}, got {s.relation!r}.")
    if not 0 < s.sampling_probability <= 1 or not 0 <= s.average < 1:
        raise InputError("sampling_probability must lie in (0, 1] and average in [0, 1).")
    check_parameters(check_count, s, "steps", "checkpoint_every")
    check_size("clip_norm", s.clip_norm)
    if s.learning_rate is not None:
        check_size("learning_rate", s.learning_rate)
    Budget(s.epsilon, s.delta)


def as_tensor(values: Any) -> Tensor:
    """As a tensor; numbers with a point in 32 bits, whole ones as they are."""
    tensor = values if isinstance(values, Tensor) else torch.from_numpy(np.ascontiguousarray(values))
    return tensor.float() if tensor.dtype.is_floating_point else tensor


_NOISE_WALK = 0.24  # how far noise alone carries a parameter; chosen on images that no reported run uses
_LARGEST_STEP = 0.4  # of one clipped gradient, once noise is no longer what limits the rate


def default_learning_rate(
    noise_share: float, steps: int, momentum: float, clip_norm: float, noise_walk: float = _NOISE_WALK
) -> float:
    """The rate at which ``steps`` of noise carry a parameter by a fixed distance, whatever unit, ε and sampling.

    ``noise_share`` is the noise multiplier over the expected number of units in a step.
    """
    walk = clip_norm * noise_share * math.sqrt(steps) / (1 - momentum)
    return min(noise_walk / walk, _LARGEST_STEP / clip_norm)


class SharedTraining:
    """One run: where the descent stands, and what was paid so far. All of its state is a function of released values.

    ``gradients``: of the shared parameters; None if there are none.
    """

    algorithm = "Joint training of a network"
    noise_walk = _NOISE_WALK

    def __init__(
        self,
        settings: Settings,
        model: nn.Module,
        gradients: PerSampleGradients | None,
        n_units: int,
        group_size: int,
        gate: Callable[..., SampledReleases] = SampledReleases,
    ) -> None:
        self.settings, self.model, self.gradients = settings, model, gradients
        self.names = [] if gradients is None else gradients.names
        self.n_units, self.group_size, self.gate = n_units, group_size, gate
        self.randomness = randomness_from(settings.simulation_seed)
        self.events: tuple[SampledGaussianEvent, ...] = ()
        self.book: Ledger | None = None  # what they were charged to
        self.noise_multiplier = self.learning_rate = 0.0
        self._stands = self.randomness.state()  # after the last step made
        self.step = self.averaged = self.drawn = 0  # steps made, iterates in the mean, steps whose noise may be known

    def train(self, X: Tensor, y: Tensor, units: Units, ledger: Ledger | SharedLedger | None, resume: bool) -> None:
        s, gradients = self.settings, self.gradients
        if gradients is None:
            return  # everything is personal: nothing is published, nothing is paid
        gradients.probe(X, y)  # before anything is paid
        parameters = {name: p for name, p in self.model.named_parameters() if name in self.names}
        self.position = gradients.flatten({name: p.detach() for name, p in parameters.items()}).double().cpu().numpy()
        self.velocity, self.mean = np.zeros_like(self.position), np.zeros_like(self.position)
        self.noise_multiplier = noise_multiplier_for(
            s.epsilon, s.delta, s.sampling_probability, s.steps, s.relation, self.group_size
        )
        expected = s.sampling_probability * self.n_units * self.group_size  # a public number
        self.learning_rate = s.learning_rate or default_learning_rate(
            self.noise_multiplier / expected, s.steps, s.momentum, s.clip_norm, self.noise_walk
        )
        if resume:
            self._restore()
        else:
            self.events = (self._whole_run(),)
        with paying(ledger, Budget(s.epsilon, s.delta), self.events, resume) as book:
            paid = self.gate(self.events[0], book, self.randomness, self.drawn)
            self.book = book
        began = time.perf_counter()
        with progress_bar("shared part", s.steps, s.verbose) as advance:
            for _ in range(self.drawn):
                advance()
            try:
                while paid.remaining:
                    steps = min(s.checkpoint_every, paid.remaining)
                    self._save(self.drawn + steps)  # before their noise is drawn: a crash forgets none of them
                    for _ in range(steps):
                        self._step(X, y, units, paid, parameters, expected)
                        advance()
            finally:
                self._save(self.drawn)
        self._report(time.perf_counter() - began)
        published = self.mean if self.averaged else self.position  # a crash may have cost all steps of the mean
        for name, value in gradients.unflatten(torch.from_numpy(published)).items():
            parameters[name].data.copy_(value)

    def _step(
        self,
        X: Tensor,
        y: Tensor,
        units: Units,
        paid: SampledReleases,
        parameters: dict[str, nn.Parameter],
        expected: float,
    ) -> None:
        s, gradients = self.settings, self.gradients
        assert gradients is not None
        for name, value in gradients.unflatten(torch.from_numpy(self.position)).items():
            parameters[name].data.copy_(value)
        total = self._clipped_sum(X, y, units, paid.sample(units.n_units))
        self.drawn += 1
        slope = paid.release(total.bounded(f"step {self.drawn}: clipped sum", s.relation)) / expected
        # From here on released values only.
        self.velocity = s.momentum * self.velocity + slope
        self.position = self.position - self.learning_rate * self.velocity
        self.step += 1
        if self.drawn > min(math.floor((1 - s.average) * s.steps), s.steps - 1):  # at least the last iterate
            self.averaged += 1
            self.mean += (self.position - self.mean) / self.averaged
        self._stands = self.randomness.state()

    def _clipped_sum(self, X: Tensor, y: Tensor, units: Units, drawn: np.ndarray) -> SampledSum:
        assert self.gradients is not None
        microbatch = self.settings.microbatch or (512 if X.is_cuda else 64)
        return clipped_sum(self.gradients, X, y, units, drawn, self.settings.clip_norm, microbatch)

    def _of_this_kind(self) -> dict[str, Any]:
        """Public settings of this kind of training alone: in its statement, and the same where a run is continued."""
        return {}

    def publish(self, n_owners: int) -> SharedParameters:
        s = self.settings
        parameters = dict(self.model.named_parameters())
        statement = JointStatement(
            algorithm=self.algorithm, recipe="default",
            epsilon=float(s.epsilon) if self.names else 0.0,  # everything is personal: nothing is published
            delta=float(s.delta), unit=s.unit, relation=s.relation, n_owners=n_owners, n_units=self.n_units,
            sampling_probability=float(s.sampling_probability), noise_multiplier=self.noise_multiplier, steps=self.drawn,
            simulated=self.randomness.simulated or self.gate is not SampledReleases,
            noise=self.randomness.fast_description, events=self.events,
            parameters={
                "clip_norm": s.clip_norm, "learning_rate": self.learning_rate, "momentum": s.momentum, "average": s.average,
                **self._of_this_kind(),
            },
        )  # fmt: skip
        arrays = {name: parameters[name].detach().cpu().contiguous().numpy() for name in self.names}
        return name_each_other(SharedParameters(arrays, statement), self.book)

    # ---- what was paid -----------------------------------------------------------------------------------------------

    def _whole_run(self) -> SampledGaussianEvent:
        """All steps as one release, charged before the first of them is drawn."""
        s = self.settings
        assert self.gradients is not None
        contribution, entries = SampledSum.contribution(s.clip_norm), self.gradients.n_parameters
        run = "" if self.randomness.simulated else f", run {secrets.token_hex(8)}"  # a ledger tells runs apart by it
        noise_std = SampledReleases.noise_std(self.noise_multiplier, contribution, entries)
        name, simulated = f"shared parameters, {s.steps} steps{run}", self.randomness.simulated
        sampled = float(s.sampling_probability), self.noise_multiplier, s.steps, s.relation, self.group_size
        return SampledGaussianEvent(name, *sampled, contribution, noise_std, entries, simulated, s.unit)

    def _report(self, seconds: float) -> None:
        if self.settings.verbose:
            epochs = self.settings.steps * self.settings.sampling_probability
            print(
                f"{self.settings.steps} steps ({epochs:.1f} epochs) in {seconds:.1f} s: {epochs / seconds:.2f} epochs a second"
            )

    # ---- checkpoints -------------------------------------------------------------------------------------------------

    def _public(self) -> dict[str, Any]:
        """What must be the same for a run to be continued."""
        s = self.settings
        return {
            "names": self.names, "n_units": self.n_units, "group_size": self.group_size, "epsilon": float(s.epsilon),
            "delta": float(s.delta), "unit": s.unit, "relation": s.relation, "q": float(s.sampling_probability),
            "steps": s.steps, "clip_norm": float(s.clip_norm), "learning_rate": float(self.learning_rate),
            "momentum": float(s.momentum), "average": float(s.average), "noise_multiplier": self.noise_multiplier,
            **self._of_this_kind(),
        }  # fmt: skip

    def _save(self, drawn: int) -> None:
        """Where the descent stands, what was paid, and how many steps' noise may be known by the time this is read.

        Released values only, so a checkpoint may be read by anybody.
        """
        if self.settings.checkpoint is None:
            return
        file = Path(self.settings.checkpoint)
        note = {
            "run": self._public(),
            "step": self.step,
            "averaged": self.averaged,
            "drawn": drawn,
            "events": [event.as_dict() for event in self.events],
            "randomness": self._stands,
        }
        arrays = {"position": self.position, "velocity": self.velocity, "mean": self.mean}
        with replacing(file, PRIVATE) as written:
            written.write(save_arrays(arrays, metadata={"checkpoint": json.dumps(note)}))

    def _restore(self) -> None:
        file = self.settings.checkpoint
        if file is None or not Path(file).exists():
            raise BillboardError(f"there is no checkpoint at {file} to resume from. Fit without resume=True.")
        try:
            with safe_open(file, framework="numpy") as stored:
                note = json.loads(stored.metadata()["checkpoint"])
                self.position, self.velocity, self.mean = (
                    stored.get_tensor(n) for n in ("position", "velocity", "mean")
                )
            self.step, self.averaged, run = note["step"], note["averaged"], note["run"]
            # Steps that a process had begun when it died are gone: their noise may have been seen, so they are not drawn
            # again. Simulated noise is the same once more, and costs nobody anything.
            self.drawn = self.step if self.randomness.simulated else note["drawn"]
            self.events = tuple(SampledGaussianEvent.from_dict(e) for e in note["events"])
            self._stands = note["randomness"]
        except (SafetensorError, KeyError, TypeError, ValueError):
            raise BillboardError(
                f"{file} is damaged or no checkpoint of a training run. Start again without it."
            ) from None
        if run != (ours := json.loads(json.dumps(self._public()))):
            changed = sorted(name for name, value in ours.items() if run.get(name) != value)
            raise BillboardError(
                f"{file} belongs to another run: {', '.join(changed)} differ. Its cost would be wrong here."
            )
        self.randomness.restore(self._stands)
