"""A GPU for the rounds: rows travel there once and stay. What is not written for it is read on the processor as ever."""

from copy import copy
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from commonground.clipping.bounded import BoundedSum
from commonground.clipping.grid import N_BINS, SQUARED_EDGES, checked_edge
from commonground.clipping.sums import ClippedSums, SizeCounts
from commonground.data.population import Population, add_up
from commonground.data.users import Users
from commonground.errors import InputError
from commonground.statistics.coordinates import InCoordinates
from commonground.statistics.gradients import WINDOW, EmbeddingGradients
from commonground.statistics.statistic import SharedModel

if TYPE_CHECKING:
    import torch

    from commonground.statistics.kernels.cuda import PersonGradients


def on_device(users: Population, device: str) -> Population:
    """The same people; rounds read their rows on ``device``."""
    if device == "cpu":
        return users
    assert isinstance(users, Users)  # who has the rows elsewhere is refused by estimators.capabilities
    there = copy(users)
    there.reader = DeviceReader(device)
    return there


class DeviceReader:
    """Holds the rows of one fit on a GPU."""

    def __init__(self, device: str) -> None:
        try:
            import torch
        except ImportError:
            raise InputError(f"device={device!r} needs torch and CuPy: pip install 'commonground[gpu]'.") from None
        if not device.startswith("cuda") or not torch.cuda.is_available():
            raise InputError(f"device={device!r} is not there: use 'cpu', or 'cuda' on a machine with an NVIDIA GPU.")
        if find_spec("cupy") is None:
            raise InputError(f"device={device!r} needs CuPy beside torch: pip install 'commonground[gpu]'.")
        self.device = torch.device(device)
        self._rows: list[_DeviceRows] = []
        self._transform: np.ndarray | None = None  # the coordinates of these rows
        self._weights: tuple[np.ndarray | None, torch.Tensor] | None = None  # as last asked with, here and there

    def sum(self, users: Users, statistic: Any) -> Any:
        transform, asked = None, statistic
        if isinstance(asked, InCoordinates) and asked.centre is None:
            transform, asked = asked.transform, asked.statistic
        if not isinstance(asked, EmbeddingGradients):
            return add_up(statistic.of(block) for block in users.blocks())
        if not self._rows or transform is not self._transform:
            self._rows, self._transform = [], transform  # the old ones make place first
            self._rows = _sent_to(self.device, users, transform)
        return _gradient_sums(self._rows, self._weights_there(users), asked.model, asked.lowest)

    def _weights_there(self, users: Users) -> "torch.Tensor":
        """Rows stay for the whole fit, but who takes part may change from sum to sum."""
        import torch

        if self._weights is None or self._weights[0] is not users.weights:
            values = np.ones(users.n_users) if users.weights is None else users.weights
            self._weights = users.weights, torch.tensor(values, device=self.device)
        return self._weights[1]


@dataclass(frozen=True, repr=False)
class _DeviceRows:
    X: "torch.Tensor"
    y: "torch.Tensor"
    offsets: "torch.Tensor"


def _sent_to(device: "torch.device", users: Users, transform: np.ndarray | None) -> "list[_DeviceRows]":
    """Everybody's rows z = T x, whether she takes part or not."""
    import torch

    from commonground.statistics.kernels.cuda import transformed

    try:
        sent = []
        for b in users.weighted(np.ones(users.n_users)).blocks():
            X, y, offsets = (torch.tensor(v, device=device) for v in (b.X, b.y, b.offsets))
            sent.append(_DeviceRows(X if transform is None else transformed(X, transform), y, offsets))
        return sent
    except torch.OutOfMemoryError:
        raise InputError("the rows do not fit into the GPU's memory. Use device='cpu', which streams them.") from None


def _gradient_sums(rows: list[_DeviceRows], weights: "torch.Tensor", model: SharedModel, lowest: int) -> "DeviceSums":
    import torch

    from commonground.statistics.kernels.cuda import person_gradients

    columns = np.vstack([model.embedding.T] if model.coef is None else [model.embedding.T, model.coef])
    parts, first = [], 0
    for r in rows:
        W = torch.tensor(columns, dtype=r.X.dtype, device=r.X.device)
        people = person_gradients(r.X, r.y, r.offsets, W, model.rank, model.intercept, model.own_intercept)
        parts.append((people, size_bins(people.squared), weights[first : first + len(people.squared)]))
        first += len(people.squared)
    return DeviceSums(parts, lowest)


def size_bins(squared: "torch.Tensor") -> "torch.Tensor":
    """`clipping.bins_of`, where the numbers are."""
    import torch

    edges = torch.tensor(SQUARED_EDGES, device=squared.device)
    return torch.where(torch.isfinite(squared), torch.bucketize(squared, edges, right=True), 0)


class DeviceSums:
    """What `clipping.BinnedSums` can be asked for, from everybody's gradient on the device; private, like all made from it."""

    def __init__(self, parts: "list[tuple[PersonGradients, torch.Tensor, torch.Tensor]]", lowest: int) -> None:
        self._parts = parts  # gradients, bins of their sizes, weights of people
        self._lowest = lowest
        self._counts = np.zeros(N_BINS)
        for _, bins, weights in parts:  # weights are multiples of 2⁻²⁰: exact in any order
            self._counts += bins.bincount(weights, minlength=N_BINS).cpu().numpy()

    def __repr__(self) -> str:
        return "<DeviceSums: private>"

    @property
    def total_weight(self) -> float:
        """How many people in full all people together count; public, as budgets and n are."""
        return float(self._counts.sum())

    def whole_histogram(self, name: str) -> BoundedSum:
        return SizeCounts(self._counts).bounded(name)

    def histogram(self, name: str) -> BoundedSum:
        return SizeCounts(self._counts[self._lowest : self._lowest + WINDOW]).bounded(name)

    def clipped_at(self, edge: int, name: str) -> BoundedSum:
        """The sum of the contributions, each clipped to the lower edge of bin ``edge``; replacing one moves it by 2C."""
        import torch

        from commonground.statistics.kernels.cuda import weighted_sum

        clip_norm, sums, n_users = checked_edge(edge, self._lowest, WINDOW), [], 0
        for people, bins, weights in self._parts:
            above = clip_norm / torch.sqrt(people.squared)
            factors = torch.where(bins == 0, 0.0, torch.where(bins < edge, 1.0, above))
            sums.append(weighted_sum(people, weights * factors).cpu().numpy())
            n_users += len(bins)
        return ClippedSums(np.sum(sums, axis=0), clip_norm, n_users).bounded(name)
