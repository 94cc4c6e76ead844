"""A GPU for the rounds: rows travel there once and stay. What is not written for it is read on the processor as ever."""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from commonground.clipping import LOWEST_EXPONENT, N_BINS, BoundedSum, ClippedSums, SizeCounts, lower_edge
from commonground.contributions.gradients import WINDOW, embedding_gradient_sums
from commonground.engines.local import sum_over_blocks
from commonground.errors import InputError
from commonground.users import Users

if TYPE_CHECKING:
    import torch

    from commonground.contributions.device_gradients import PersonGradients


def on_device(users: Users, device: str) -> Users:
    """The same people; rounds read their rows on ``device``."""
    if device == "cpu":
        return users
    if users.engine is not None:
        raise InputError(f"these people's rows are elsewhere, where device={device!r} cannot be asked for.")
    there = copy(users)
    there.engine = DeviceEngine(device)
    return there


class DeviceEngine:
    """Holds the rows of one fit on a GPU."""

    def __init__(self, device: str) -> None:
        try:
            import torch
        except ImportError:
            raise InputError(f"device={device!r} needs torch: pip install 'commonground[deep]'.") from None
        if not device.startswith("cuda") or not torch.cuda.is_available():
            raise InputError(f"device={device!r} is not there: use 'cpu', or 'cuda' on a machine with an NVIDIA GPU.")
        self.device = torch.device(device)
        self._blocks: list[_DeviceBlock] = []

    def sum_over_people(self, users: Users, block_sum: Callable[..., Any], *public: Any) -> Any:
        if block_sum is not embedding_gradient_sums:
            return sum_over_blocks(users, block_sum, *public)
        if not self._blocks:
            self._blocks = _sent_to(self.device, users)
        return _gradient_sums(self._blocks, *public)


@dataclass(frozen=True, repr=False)
class _DeviceBlock:
    X: "torch.Tensor"
    y: "torch.Tensor"
    offsets: "torch.Tensor"
    weights: "torch.Tensor"
    most_rows: int


def _sent_to(device: "torch.device", users: Users) -> "list[_DeviceBlock]":
    import torch

    try:
        blocks = []
        for b in users.blocks():
            X, y, offsets, weights = (torch.tensor(v, device=device) for v in (b.X, b.y, b.offsets, b.person_weights))
            blocks.append(_DeviceBlock(X, y, offsets, weights, int(np.diff(b.offsets).max())))
        return blocks
    except torch.OutOfMemoryError:
        raise InputError("the rows do not fit into the GPU's memory. Use device='cpu', which streams them.") from None


def _gradient_sums(
    blocks: list[_DeviceBlock],
    embedding: np.ndarray,
    mean: np.ndarray | None,
    intercept: float,
    local_intercept: bool,
    lowest: int,
) -> "DeviceSums":
    import torch

    from commonground.contributions.device_gradients import person_gradients

    columns = np.vstack([embedding.T] if mean is None else [embedding.T, mean])
    parts = []
    for b in blocks:
        W = torch.tensor(columns, dtype=b.X.dtype, device=b.X.device)
        k = embedding.shape[1]
        people = person_gradients(b.X, b.y, b.offsets, b.most_rows, W, k, intercept, local_intercept)
        parts.append((people, size_bins(people.squared), b.weights))
    return DeviceSums(parts, lowest)


def size_bins(squared: "torch.Tensor") -> "torch.Tensor":
    """`clipping.bins_of`, where the numbers are."""
    import torch

    proper = (squared > 0.0) & torch.isfinite(squared)
    exponent = torch.frexp(torch.where(proper, squared, 1.0)).exponent - 1
    return torch.where(proper, (exponent - LOWEST_EXPONENT).clamp(0, N_BINS - 2) + 1, 0)


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

        from commonground.contributions.device_gradients import weighted_sum

        clip_norm, sums, n_users = lower_edge(edge), [], 0
        for people, bins, weights in self._parts:
            above = clip_norm / torch.sqrt(people.squared)
            factors = torch.where(bins == 0, 0.0, torch.where(bins < edge, 1.0, above))
            sums.append(weighted_sum(people, weights * factors).cpu().numpy())
            n_users += len(bins)
        return ClippedSums(np.sum(sums, axis=0), clip_norm, n_users).bounded(name)
