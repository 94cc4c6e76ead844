"""Everybody's gradient for the shared part on a GPU: rows are read once, gradients stay until the clip is known.

What `kernels.embedding_gradients` does on the processor. There sums are kept for every bin of sizes, as nobody's gradient can be
kept; here memory is fast and plenty, and a gradient is as long as one row. Needs torch and CuPy, which compiles
`cuda.cu` for the numbers of features and directions asked for.
"""

from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import cupy
import numpy as np
import torch

from commonground.clipping.grid import LARGEST, SMALLEST
from commonground.errors import InputError
from commonground.statistics.kernels.person import TINY_RIDGE

# The fastest of those tried on an H200 for 2, 5 and 8 directions of 50 features, 10 rows a person.
THREADS = 128
BLOCKS = 5  # that shall share a multiprocessor's registers
ROWS, PEOPLE = 128, 16  # at most, in a block's shared memory at a time
SHARED_BYTES = 44 * 1024  # for them, where possible
PEOPLE_A_BLOCK = 96
CHUNK = 1024  # people added up together before their sum is added to the others'


class PersonGradients(NamedTuple):
    """Person j sends factors[j] g[j]ᵀ, of this squared norm; NaN where she has nothing to send."""

    g: torch.Tensor  # (n, d) as precise as the rows
    factors: torch.Tensor  # (n, k) float64: v_j / (dof_j ‖v_j‖²)
    squared: torch.Tensor  # (n,) float64


def person_gradients(
    X: torch.Tensor, y: torch.Tensor, offsets: torch.Tensor, W: torch.Tensor, k: int, intercept: float, local_intercept: bool
) -> PersonGradients:  # fmt: skip
    """(X_jᵀ r_j) v_jᵀ / (dof_j ‖v_j‖²) for each person; W holds the k columns of the embedding, then perhaps the shared mean."""
    n, d = len(offsets) - 1, X.shape[1]
    g = torch.empty((n, d), dtype=X.dtype, device=X.device)
    factors = torch.empty((n, k), dtype=torch.float64, device=X.device)
    squared = torch.empty(n, dtype=torch.float64, device=X.device)
    kernels, shared_bytes = _compiled(X.dtype, y.dtype, d, k, len(W) > k, local_intercept)
    _launch(
        kernels.get_function("person_gradients"), (-(-n // PEOPLE_A_BLOCK),), shared_bytes,
        X, y, offsets, W.contiguous(), float(intercept), n, PEOPLE_A_BLOCK, g, factors, squared,
    )  # fmt: skip
    return PersonGradients(g, factors, squared)


def weighted_sum(people: PersonGradients, weights: torch.Tensor) -> torch.Tensor:
    """Σ_j weights[j] factors[j] g[j]ᵀ, (k, d) in float64; a person of weight zero adds nothing, whatever her rows."""
    (n, k), d = people.factors.shape, people.g.shape[1]
    chunks = -(-n // CHUNK)
    parts = torch.empty((chunks, k, d), dtype=torch.float64, device=weights.device)
    kernels, _ = _compiled(people.g.dtype, people.g.dtype, d, k, False, False)
    _launch(
        kernels.get_function("weighted_sum"), (chunks, -(-d // 32)), 0,  # a line of threads takes 32 columns or more
        people.g, people.factors, weights, parts, n, CHUNK,
    )  # fmt: skip
    return parts.sum(dim=0)


def transformed(X: torch.Tensor, transform: np.ndarray) -> torch.Tensor:
    """`coordinates.InCoordinates`: rows T x, each by the same additions wherever it stands."""
    columns = torch.tensor(np.ascontiguousarray(transform.T), dtype=X.dtype, device=X.device)
    if columns.ndim == 1:
        return X * columns
    Z = torch.empty_like(X)
    kernels, _ = _compiled(X.dtype, X.dtype, X.shape[1], 1, False, False)
    _launch(kernels.get_function("transformed"), (-(-X.numel() // THREADS),), 0, X, columns, Z, X.numel())
    return Z


@lru_cache
def _compiled(rows: torch.dtype, labels: torch.dtype, d: int, k: int, has_mean: bool, centred: bool) -> tuple[Any, int]:
    """The kernels for these sizes, and the shared memory they need in bytes."""
    each_row, each_person = _bytes_of(d, k, rows.itemsize)
    people = max(min(PEOPLE, SHARED_BYTES // 4 // each_person), 1)
    in_a_piece = max(min(ROWS, (SHARED_BYTES - people * each_person) // each_row), 1)
    shared_bytes = people * each_person + in_a_piece * each_row + 8 * k + 256  # the last for gaps and ends
    if shared_bytes > cupy.cuda.Device().attributes["MaxSharedMemoryPerBlockOptin"]:
        raise InputError(f"{d} features are more than this GPU can hold for one person. Use device='cpu'.")
    given = {
        "REAL": _C_NAMES[rows], "LABEL": _C_NAMES[labels], "D": d, "K": k, "HAS_MEAN": int(has_mean), "CENTRED": int(centred),
        "BLOCKS": BLOCKS, "ROWS": in_a_piece, "PEOPLE": people, "THREADS": THREADS, "SHARED_BYTES": shared_bytes,
        "SMALLEST": SMALLEST, "LARGEST": LARGEST, "TINY_RIDGE": TINY_RIDGE,  # those of the processor's kernels
    }  # fmt: skip
    source = Path(__file__).with_suffix(".cu").read_text(encoding="utf-8")
    kernels = cupy.RawModule(
        code=source, options=("-std=c++17", *(f"-D{name}={value}" for name, value in given.items()))
    )
    kernels.get_function("person_gradients").max_dynamic_shared_size_bytes = shared_bytes
    return kernels, shared_bytes


_C_NAMES = {torch.float32: "float", torch.float64: "double"}


def _bytes_of(d: int, k: int, size: int) -> tuple[int, int]:
    """Shared memory for a row and for a person, at most: `Shared` in cuda.cu."""
    moments = k * (k + 1) // 2 + 2 * k + 1
    return (d + 16 // size + k + 1) * size + 8 + 1, d * size + (moments + k + 1) * 8 + 4


def _launch(kernel: Any, grid: tuple[int, ...], shared_bytes: int, *given: torch.Tensor | float) -> None:
    arguments = tuple(
        np.intp(a.data_ptr()) if isinstance(a, torch.Tensor) else np.int64(a) if isinstance(a, int) else np.float64(a)
        for a in given
    )
    with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
        kernel(grid, (THREADS,), arguments, shared_mem=shared_bytes)
