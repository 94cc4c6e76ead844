"""FedAvg of many runs side by side: every owner of every run is one network in a stack.

A run's draws (the orders in which owners pass their rows, the noise) come from one stream in the order of the plain loop over
rounds, owners and epochs, so that it gives what that loop gives, but for rounding; tests/reproduce/test_fedavg.py holds it
against the loop.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from commonground.datasets import OwnersData
from commonground.deep.clipped import full_precision
from commonground.deep.stacked import Parameters, Repeated, stacked_call, with_patches

RATE, BATCH = 0.1, 32
_ROWS_AT_ONCE = 2**14  # of all networks in a step on a GPU: the second convolution has 313 kB of patches a row


@dataclass(frozen=True, eq=False)
class Run:
    """One training; ``personal`` layers stay with their owner."""

    data: OwnersData
    model: nn.Module  # where everybody starts
    personal: tuple[str, ...]
    clip: float  # of an owner's whole update; infinite: none
    noise_std: float  # of each entry of the mean update
    seed: int


def fedavg(runs: Sequence[Run], epochs: int, rounds: int, device: str, at_once: int | None = None) -> list[float]:
    """Each run's test accuracy, every row answered by its owner's network. All runs have the same number of owners.

    ``at_once``: how many networks a step moves; None: one on a CPU, as many as a GPU holds.
    """
    owners = _Owners.of(runs)
    if at_once is None:
        n_stacks = math.ceil(owners.count * owners.places.shape[2] / _ROWS_AT_ONCE)
        at_once = math.ceil(owners.count / n_stacks) if device == "cuda" else 1
    model = runs[0].model.to(device)
    training = _Training(with_patches(model) if device == "cuda" else model, runs, owners, epochs, at_once, device)
    names = [name for name, _ in model.named_parameters()]
    n_owners = owners.count // len(runs)
    shared = {
        name: torch.stack([dict(run.model.named_parameters())[name].detach().to(device) for run in runs])
        for name in names
    }
    mine = {name: torch.tensor([name.split(".")[0] in run.personal for run in runs], device=device) for name in names}
    clip = torch.tensor([run.clip for run in runs], device=device)[:, None]
    streams = [torch.Generator().manual_seed(run.seed) for run in runs]
    start = {name: value.repeat_interleave(n_owners, 0) for name, value in shared.items()}
    with full_precision():
        for _ in range(rounds):
            orders = np.concatenate([owners.orders(r, epochs, stream) for r, stream in enumerate(streams)])
            found = training(start, orders)
            moved = {
                name: torch.where(_like(mine[name], value.ndim + 1), 0.0, _by_run(value - start[name], len(runs)))
                for name, value in found.items()
            }
            length = torch.sqrt(sum(((part**2).flatten(2).sum(2) for part in moved.values()), torch.zeros_like(clip)))
            shrink = torch.where(length > 0, (clip / length).clamp(max=1.0), 1.0)
            noise = _noise(runs, names, shared, streams)
            for name, part in moved.items():
                mean = (part * _like(shrink, part.ndim)).sum(1) / n_owners
                shared[name] = shared[name] + mean + noise[name].to(device)
            start = {
                name: torch.where(
                    _like(mine[name].repeat_interleave(n_owners), found[name].ndim),
                    found[name],
                    shared[name].repeat_interleave(n_owners, 0),
                )
                for name in names
            }
        return training.accuracies(start, runs)


def _by_run(values: Tensor, n_runs: int) -> Tensor:
    return values.unflatten(0, (n_runs, -1))


def _like(values: Tensor, n_axes: int) -> Tensor:
    """With further axes of length one at the end."""
    return values.reshape(*values.shape, *[1] * (n_axes - values.ndim))


def _noise(runs: Sequence[Run], names: list[str], shared: Parameters, streams: Sequence[torch.Generator]) -> Parameters:
    """Each run's draws, for what it shares; zero for what stays with owners."""
    found = {name: torch.zeros(shared[name].shape) for name in names}
    for r, (run, stream) in enumerate(zip(runs, streams, strict=True)):
        for name in names:
            if name.split(".")[0] not in run.personal:
                found[name][r] = run.noise_std * torch.randn(found[name][r].shape, generator=stream)
    return found


@dataclass(frozen=True, eq=False)
class _Owners:
    """Whose rows are where; owners of all runs one after the other, rows of all runs, too."""

    counts: np.ndarray  # (owners,) rows
    rows: np.ndarray  # (owners, longest) which; padded with 0
    places: np.ndarray  # (owners, batches, width) which of an owner's rows, in the order of an epoch, a batch holds
    weights: np.ndarray  # the same shape: one over the batch's rows, 0 for padding
    n_runs: int

    @property
    def count(self) -> int:
        return len(self.counts)

    @classmethod
    def of(cls, runs: Sequence[Run]) -> "_Owners":
        n_owners = int(runs[0].data.owners.max()) + 1
        rows = _rows(runs, "owners", n_owners)
        counts = np.array([len(mine) for mine in rows])
        n_batches = np.maximum(np.ceil(counts / BATCH), 1).astype(int)
        places = np.zeros((len(rows), n_batches.max(), int(np.ceil(counts / n_batches).max())), dtype=np.int64)
        weights = np.zeros(places.shape, dtype=np.float32)
        for j, (count, n) in enumerate(zip(counts, n_batches, strict=True)):
            for s, batch in enumerate(np.array_split(np.arange(count), n)):
                places[j, s, : len(batch)], weights[j, s, : len(batch)] = batch, 1 / max(len(batch), 1)
        return cls(counts, _padded(rows), places, weights, len(runs))

    def orders(self, run: int, epochs: int, stream: torch.Generator) -> np.ndarray:
        """(owners of the run, epochs, longest): in which order they pass their rows."""
        n_owners = self.count // self.n_runs
        found = np.zeros((n_owners, epochs, self.rows.shape[1]), dtype=np.int64)
        for j, count in enumerate(self.counts[run * n_owners : (run + 1) * n_owners]):
            for epoch in range(epochs):
                found[j, epoch, :count] = torch.randperm(int(count), generator=stream).numpy()
        return found


def _distinct(runs: Sequence[Run]) -> list[OwnersData]:
    """What the runs train on; several may train on the same."""
    return list({id(run.data): run.data for run in runs}.values())


def _together(runs: Sequence[Run], field: str, device: str) -> Tensor:
    return torch.cat([torch.as_tensor(getattr(data, field)) for data in _distinct(runs)]).to(device)


def _rows(runs: Sequence[Run], field: str, n_owners: int) -> list[np.ndarray]:
    """Every owner's rows in what ``_together`` gives, owners of all runs one after the other."""
    first, rows = 0, {}
    for data in _distinct(runs):
        owners = getattr(data, field)
        rows[id(data)] = [first + np.flatnonzero(owners == j) for j in range(n_owners)]
        first += len(owners)
    return [mine for run in runs for mine in rows[id(run.data)]]


def _padded(rows: Sequence[np.ndarray]) -> np.ndarray:
    found = np.zeros((len(rows), max(len(mine) for mine in rows)), dtype=np.int64)
    for j, mine in enumerate(rows):
        found[j, : len(mine)] = mine
    return found


class _Training:
    """Plain SGD of all owners' networks, ``at_once`` of them a step, each on batches of its own rows."""

    def __init__(
        self, model: nn.Module, runs: Sequence[Run], owners: _Owners, epochs: int, at_once: int, device: str
    ) -> None:
        self.model, self.owners, self.at_once, self.device = model, owners, at_once, device
        self.X, self.y = (_together(runs, field, device) for field in ("X", "y"))
        _, n_batches, width = owners.places.shape
        self.n_steps = epochs * n_batches
        self.learned = {
            name: torch.zeros((at_once, *value.shape), device=device, requires_grad=True)
            for name, value in model.named_parameters()
        }
        self.rows = torch.zeros((self.n_steps, at_once, width), dtype=torch.long, device=device)
        self.weights = torch.zeros((self.n_steps, at_once, width), device=device)
        self.step = torch.zeros(1, dtype=torch.long, device=device)
        self.update = Repeated(self._update, device == "cuda")

    def _update(self) -> None:
        rows, weights = self.rows[self.step].squeeze(0), self.weights[self.step].squeeze(0)
        outputs = stacked_call(self.model, {}, self.learned, self.X[rows])
        losses = F.cross_entropy(outputs.flatten(0, 1), self.y[rows].flatten(), reduction="none")
        variables = list(self.learned.values())
        slopes = torch.autograd.grad((losses * weights.flatten()).sum(), variables)
        with torch.no_grad():
            for value, slope in zip(variables, slopes, strict=True):
                value.sub_(slope, alpha=RATE)
        self.step.add_(1)

    def __call__(self, start: Parameters, orders: np.ndarray) -> Parameters:
        """Where a round's local epochs lead every owner."""
        found = {name: torch.empty_like(value) for name, value in start.items()}
        for some in self._stacks():
            n, places = some.stop - some.start, self.owners.places[some]
            taken = np.take_along_axis(orders[some][:, :, None], places[:, None], 3)  # (n, epochs, batches, width)
            rows = np.take_along_axis(self.owners.rows[some][:, None, None], taken, 3)
            weights = np.broadcast_to(self.owners.weights[some][:, None], rows.shape)
            self.weights.zero_()  # a last stack may be shorter
            for given, kept in ((rows, self.rows), (weights, self.weights)):
                by_step = given.reshape(n, self.n_steps, -1).swapaxes(0, 1).copy()
                kept[:, :n] = torch.from_numpy(by_step).to(self.device)
            with torch.no_grad():
                for name, value in self.learned.items():
                    value[:n] = start[name][some]
            self.step.zero_()
            self.update(self.n_steps)
            for name, value in self.learned.items():
                found[name][some] = value.detach()[:n]
        return found

    def _stacks(self) -> Iterator[slice]:
        for first in range(0, self.owners.count, self.at_once):
            yield slice(first, min(first + self.at_once, self.owners.count))

    @torch.no_grad()
    def accuracies(self, models: Parameters, runs: Sequence[Run]) -> list[float]:
        n_owners = self.owners.count // len(runs)
        X, y = (_together(runs, field, self.device) for field in ("test_X", "test_y"))
        rows = _rows(runs, "test_owners", n_owners)
        counts, padded = torch.tensor([len(mine) for mine in rows]).to(self.device), _padded(rows)
        right = torch.zeros(self.owners.count, dtype=torch.long, device=self.device)
        for some in self._stacks():
            for first in range(0, padded.shape[1], BATCH):
                asked = torch.from_numpy(padded[some, first : first + BATCH]).to(self.device)
                asks = torch.arange(first, first + asked.shape[1], device=self.device) < counts[some, None]
                outputs = stacked_call(self.model, {}, {name: value[some] for name, value in models.items()}, X[asked])
                right[some] += ((outputs.argmax(2) == y[asked]) & asks).sum(1)
        of_run = right.reshape(len(runs), n_owners).sum(1).cpu().numpy()
        return [int(n) / len(run.data.test_y) for run, n in zip(runs, of_run, strict=True)]
