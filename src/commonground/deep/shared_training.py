"""DP-SGD on the shared parameters: sample → clip → gate → step, with checkpoints that carry the accounting."""

import json
import math
import os
import time
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file
from torch import Tensor, nn

from commonground.accounting.budgets import Budget
from commonground.accounting.sampled import SampledGaussianEvent, noise_multiplier_for
from commonground.clipping import SampledSum
from commonground.deep.clipped import Units, clipped_sum
from commonground.deep.per_sample import Loss, PerSampleGradients
from commonground.errors import BillboardError
from commonground.gate import SampledReleases, randomness_from
from commonground.joint_board import JointStatement, SharedParameters
from commonground.ledger import InMemoryLedger, Ledger
from commonground.progress import progress_bar


class Settings(Protocol):
    """What training reads of a JointTrainer: public parameters."""

    epsilon: float
    delta: float
    unit: str
    relation: str
    collaboration: str
    sampling_probability: float
    steps: int
    clip_norm: float
    learning_rate: float | None
    momentum: float
    average: float
    loss: Loss
    microbatch: int | None
    checkpoint: str | os.PathLike[str] | None
    checkpoint_every: int
    simulation_seed: int | None
    verbose: bool


_NOISE_WALK = 0.24  # how far noise alone carries a parameter; chosen on images that no reported run uses
_LARGEST_STEP = 0.4  # of one clipped gradient, once noise is no longer what limits the rate


def default_learning_rate(noise_share: float, steps: int, momentum: float, clip_norm: float) -> float:
    """The rate at which ``steps`` of noise carry a parameter by a fixed distance, whatever unit, ε and sampling.

    ``noise_share`` is the noise multiplier over the expected number of units in a step.
    """
    walk = clip_norm * noise_share * math.sqrt(steps) / (1 - momentum)
    return min(_NOISE_WALK / walk, _LARGEST_STEP / clip_norm)


class SharedTraining:
    """One run: where the descent stands, and what was paid so far. All of its state is a function of released values."""

    def __init__(self, settings: Settings, model: nn.Module, names: list[str], n_units: int, group_size: int) -> None:
        self.settings, self.model, self.names = settings, model, names
        self.n_units, self.group_size = n_units, group_size
        self.randomness = randomness_from(settings.simulation_seed)
        self.events: list[SampledGaussianEvent] = []
        self.noise_multiplier = self.learning_rate = 0.0
        self.gradients = PerSampleGradients(model, names, settings.loss) if names else None
        self.step = 0

    def train(self, X: Tensor, y: Tensor, units: Units, ledger: Ledger | None, resume: bool) -> None:
        s, gradients = self.settings, self.gradients
        if gradients is None:
            return  # everything is personal: nothing is published, nothing is paid
        parameters = {name: p for name, p in self.model.named_parameters() if name in self.names}
        self.position = gradients.flatten({name: p.detach() for name, p in parameters.items()}).double().cpu().numpy()
        self.velocity, self.mean = np.zeros_like(self.position), np.zeros_like(self.position)
        self.noise_multiplier = noise_multiplier_for(
            s.epsilon, s.delta, s.sampling_probability, s.steps, s.relation, self.group_size
        )
        expected = s.sampling_probability * self.n_units * self.group_size  # a public number
        self.learning_rate = s.learning_rate or default_learning_rate(
            self.noise_multiplier / expected, s.steps, s.momentum, s.clip_norm
        )
        book = InMemoryLedger(Budget(s.epsilon, s.delta)) if ledger is None else ledger
        if resume:
            self._restore()
            if ledger is None:
                for event in self.events:
                    book.charge(event)
        first_averaged = min(math.floor((1 - s.average) * s.steps), s.steps - 1)  # at least the last iterate
        microbatch = s.microbatch or (512 if X.is_cuda else 64)
        began = time.perf_counter()
        with progress_bar("shared part", s.steps, s.verbose) as advance:
            for _ in range(self.step):
                advance()
            while self.step < s.steps:
                paid = self._pay(book)
                while paid.remaining:
                    for name, value in gradients.unflatten(torch.from_numpy(self.position)).items():
                        parameters[name].data.copy_(value)
                    drawn = paid.sample(units.n_units)
                    total = clipped_sum(gradients, X, y, units, drawn, s.clip_norm, microbatch)
                    slope = paid.release(total.bounded(f"step {self.step + 1}: clipped sum", s.relation)) / expected
                    # From here on released values only.
                    self.velocity = s.momentum * self.velocity + slope
                    self.position = self.position - self.learning_rate * self.velocity
                    self.step += 1
                    if self.step > first_averaged:
                        self.mean += (self.position - self.mean) / (self.step - first_averaged)
                    advance()
                if s.checkpoint is not None:
                    self._save()
        self._report(time.perf_counter() - began)
        for name, value in gradients.unflatten(torch.from_numpy(self.mean)).items():
            parameters[name].data.copy_(value)

    def without_protection(self, fitted: dict[str, Tensor]) -> None:
        for name, p in self.model.named_parameters():
            p.data.copy_(fitted[name])

    def publish(self, n_owners: int) -> SharedParameters:
        s = self.settings
        open_ = s.collaboration == "without-dp"
        silent = s.collaboration == "per-silo" or not self.names
        parameters = dict(self.model.named_parameters())
        statement = JointStatement(
            algorithm="Joint training of a network" if s.collaboration == "joint-dp" else f"Network, {s.collaboration}",
            recipe="default",
            epsilon=math.inf if open_ else 0.0 if silent else float(s.epsilon),
            delta=float(s.delta),
            unit=s.unit,
            relation=s.relation,
            n_owners=n_owners,
            n_units=self.n_units,
            sampling_probability=float(s.sampling_probability),
            noise_multiplier=self.noise_multiplier,
            steps=self.step,
            simulated=self.randomness.simulated,
            noise=self.randomness.fast_description,
            events=tuple(self.events),
            parameters={
                "clip_norm": s.clip_norm, "learning_rate": self.learning_rate, "momentum": s.momentum, "average": s.average,
            },
        )  # fmt: skip
        arrays = {} if silent else {name: parameters[name].detach().cpu().contiguous().numpy() for name in self.names}
        return SharedParameters(arrays, statement)

    # ---- what was paid -----------------------------------------------------------------------------------------------

    def _pay(self, book: Ledger) -> SampledReleases:
        """The next steps, until a checkpoint or the end, charged before the first of them is drawn."""
        s = self.settings
        assert self.gradients is not None
        steps = s.steps - self.step if s.checkpoint is None else min(s.checkpoint_every, s.steps - self.step)
        contribution = SampledSum.contribution(s.clip_norm)
        entries = self.gradients.n_parameters
        event = SampledGaussianEvent(
            name=f"shared parameters, steps {self.step + 1} to {self.step + steps}",
            sampling_probability=float(s.sampling_probability),
            noise_multiplier=self.noise_multiplier,
            steps=steps,
            relation=s.relation,
            group_size=self.group_size,
            contribution=contribution,
            noise_std=SampledReleases.noise_std(self.noise_multiplier, contribution, entries),
            entries=entries,
            simulated=self.randomness.simulated,
            unit=s.unit,
        )
        paid = SampledReleases(event, book, self.randomness)
        self.events.append(event)
        return paid

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
        }  # fmt: skip

    def _save(self) -> None:
        """Where the descent stands and what was paid; released values only, so a checkpoint may be read by anybody."""
        assert self.settings.checkpoint is not None
        file = Path(self.settings.checkpoint)
        note = {
            "run": self._public(),
            "step": self.step,
            "events": [event.as_dict() for event in self.events],
            "randomness": self.randomness.state(),
        }
        draft = file.with_name(f".{file.name}.draft")
        arrays = {"position": self.position, "velocity": self.velocity, "mean": self.mean}
        save_file(arrays, draft, metadata={"checkpoint": json.dumps(note)})
        os.replace(draft, file)

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
        except (SafetensorError, KeyError, TypeError, ValueError):
            raise BillboardError(
                f"{file} is damaged or no checkpoint of a training run. Start again without it."
            ) from None
        if note["run"] != json.loads(json.dumps(self._public())):
            changed = sorted(k for k, v in json.loads(json.dumps(self._public())).items() if note["run"].get(k) != v)
            raise BillboardError(
                f"{file} belongs to another run: {', '.join(changed)} differ. Its cost would be wrong here."
            )
        self.step = note["step"]
        self.events = [SampledGaussianEvent.from_dict({"unit": self.settings.unit, **e}) for e in note["events"]]
        self.randomness.restore(note["randomness"])
