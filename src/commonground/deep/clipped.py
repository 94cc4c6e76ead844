"""Per-sample gradients to one clipped sum over the sampled units; torch in, a private ``SampledSum`` out."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from commonground.clipping.sums import SampledSum
from commonground.deep.per_sample import PerSampleGradients
from commonground.owners.units import Units


def clipped_sum(
    gradients: PerSampleGradients,
    X: Tensor,
    y: Tensor,
    units: Units,
    drawn: np.ndarray,
    clip_norm: float,
    microbatch: int,
) -> SampledSum:
    """Σ over drawn units of clip(mean gradient of the unit's rows; clip_norm), added up in float64.

    The clip is computed from the very numbers that are added, so how a gradient was rounded does not matter for its bound.
    """
    total = torch.zeros(gradients.n_parameters, dtype=torch.float64, device=X.device)
    for rows, place in units.batches(drawn, microbatch):
        n_here = int(place[-1]) + 1
        at = torch.from_numpy(rows).to(X.device)
        means = None
        for piece in range(0, len(rows), microbatch):  # more than one piece only for a unit larger than a microbatch
            here = at[piece : piece + microbatch]
            values = _same_shape(gradients, X[here], y[here], microbatch)
            if n_here == len(rows):
                means = values.double()
            else:
                means = values.new_zeros((n_here, values.shape[1]), dtype=torch.float64) if means is None else means
                to = torch.from_numpy(place[piece : piece + microbatch]).to(X.device)
                means.index_add_(0, to, values.double())
        assert means is not None
        if n_here < len(rows):
            means /= torch.from_numpy(np.bincount(place)).to(X.device)[:, None]
        total += clip_factors(means, clip_norm) @ means
    return SampledSum(total.cpu().numpy(), clip_norm)


def _same_shape(gradients: PerSampleGradients, X: Tensor, y: Tensor, microbatch: int) -> Tensor:
    """Gradients in batches of one shape, filled up with the first row: libraries choose their algorithm by shape, and with
    another one the last bits of *everybody's* gradient would tell whether one more record is there.
    """
    missing = microbatch - len(X)
    if missing > 0:
        X = torch.cat([X, X[:1].expand(missing, *X.shape[1:])])
        y = torch.cat([y, y[:1].expand(missing, *y.shape[1:])])
    with full_precision():
        return gradients(X, y)[: len(X) - max(missing, 0)]


@contextmanager
def full_precision() -> Iterator[None]:
    """Products and convolutions in 32 bits, whatever the program around allows (TF32, bfloat16), and always the same way."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False):
            yield
    finally:
        torch.set_float32_matmul_precision(before)


def clip_factors(contributions: Tensor, clip_norm: float) -> Tensor:
    """What each row is multiplied by so that its norm is at most ``clip_norm``. A row that is not finite becomes zero, here."""
    norms = torch.linalg.vector_norm(contributions, dim=1)
    finite = torch.isfinite(norms)
    contributions.masked_fill_(~finite[:, None], 0.0)
    return torch.where(finite, torch.clamp(clip_norm / norms, max=1.0), 0.0)
