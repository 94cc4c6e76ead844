"""One round's pass over the rows on a GPU, as a multiple of one read of them; needs torch with CUDA, and CuPy.

    python benchmarks/gpu_round.py [--people 4000000] [--rows 10] [--features 50]

First the results are compared with a plain float64 computation, person by person; then the round of `engines/device.py` is timed
beside one read (``X.sum()``) and beside a plain torch round. The time is that of the sums: noise is drawn on the processor and
takes the same time for any number of people.
"""

import argparse
from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from commonground.clipping.bounded import BoundedSum
from commonground.engines.device import DeviceReader, _DeviceRows
from commonground.statistics.gradients import EmbeddingGradients
from commonground.statistics.kernels import cuda as kernels
from commonground.statistics.statistic import SharedModel


def population(n: int, rows: tuple[int, int], d: int, k: int, dtype: torch.dtype, device: str) -> tuple[Any, ...]:
    torch.manual_seed(0)
    sizes = torch.randint(rows[0], rows[1] + 1, (n,), device=device)
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64, device=device), sizes.cumsum(0)])
    X = torch.randn(int(offsets[-1]), d, dtype=dtype, device=device)
    truth, _ = torch.linalg.qr(torch.randn(d, k, dtype=torch.float64, device=device))
    embedding, _ = torch.linalg.qr(truth + 0.1 * torch.randn(d, k, dtype=torch.float64, device=device))
    heads = torch.randn(n, k, dtype=dtype, device=device)
    y = ((X @ truth.to(dtype)) * heads.repeat_interleave(sizes, 0)).sum(1) + 0.01 * torch.randn(
        len(X), dtype=dtype, device=device
    )
    return X, y, offsets, embedding


def slow_person(
    X: np.ndarray, y: np.ndarray, U: np.ndarray, w: np.ndarray | None, intercept: float, local: bool
) -> Any:
    """(X_jᵀ r_j) v_jᵀ / (dof_j ‖v_j‖²) in float64; zero where nothing is left to learn from."""
    m, k = len(y), U.shape[1]
    if m - k - local <= 0:
        return np.zeros(U.shape)
    P, own = X @ U, y - intercept - (0.0 if w is None else X @ w)
    if local:
        P, own = P - P.mean(0), own - own.mean()
    gram = P.T @ P
    v = np.linalg.solve(gram + 1e-6 * np.trace(gram) * np.eye(k), P.T @ own)
    return np.outer(X.T @ (own - P @ v), v) / ((m - k - local) * (v @ v))


def compare(device: str) -> bool:
    equal = True
    for n, rows, d, k, mean, local, dtype in (
        (300, (10, 10), 50, 2, False, False, torch.float32),
        (300, (1, 40), 13, 3, True, True, torch.float64),
        (300, (1, 90), 50, 5, True, True, torch.float32),
        (300, (1, 30), 200, 8, False, True, torch.float64),
        (300, (1, 300), 64, 2, True, False, torch.float32),
        (100, (1, 20), 1001, 12, False, False, torch.float32),
    ):
        X, y, offsets, embedding = population(n, rows, d, k, dtype, device)
        w = torch.randn(d, dtype=torch.float64, device=device) if mean else None
        W = embedding.T if w is None else torch.vstack([embedding.T, w])
        people = kernels.person_gradients(X, y, offsets, W.to(dtype), k, 0.2 if mean else 0.0, local)
        weights = (torch.rand(n, dtype=torch.float64, device=device) + 0.5) * torch.isfinite(people.squared)
        total = kernels.weighted_sum(people, weights).cpu().numpy()
        host = [t.double().cpu().numpy() for t in (X, y, embedding)]
        at = offsets.cpu().numpy()
        sent = np.array(
            [
                slow_person(
                    host[0][lo:hi], host[1][lo:hi], host[2], None if w is None else w.cpu().numpy(), 0.2 * mean, local
                )
                for lo, hi in pairwise(at)
            ]
        )
        norms = np.sqrt(np.nan_to_num(people.squared.cpu().numpy()))
        expected = np.einsum("j,jdk->kd", weights.cpu().numpy(), sent)
        off_norm = np.median(np.abs(norms - np.linalg.norm(sent, axis=(1, 2))) / np.maximum(norms, 1e-9))
        off_sum = np.abs(total - expected).max() / np.abs(expected).max()
        print(
            f"d={d} k={k} rows {rows[0]}…{rows[1]} {str(dtype)[6:]}: norms off by {off_norm:.1e}, sums by {off_sum:.1e}"
        )
        equal &= bool(off_sum < (1e-10 if dtype == torch.float64 else 1e-4))
    return equal


def milliseconds(work: Callable[[], Any], times: int = 10) -> float:
    work()
    best = float("inf")
    for _ in range(times):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        work()
        end.record()
        torch.cuda.synchronize()
        best = min(best, start.elapsed_time(end))
    return best


def plain_round(X: torch.Tensor, y: torch.Tensor, U: torch.Tensor, m: int) -> torch.Tensor:
    """The same for people with m rows each, in plain torch."""
    k = U.shape[1]
    rows, labels = X.view(-1, m, X.shape[1]), y.view(-1, m)
    P = rows @ U
    gram = P.mT @ P
    gram = gram + 1e-6 * gram.diagonal(dim1=1, dim2=2).sum(1)[:, None, None] * torch.eye(
        k, device=X.device, dtype=X.dtype
    )
    v = torch.linalg.solve(gram, (P.mT @ labels[..., None]))
    g = (rows.mT @ (labels[..., None] - P @ v)).squeeze(2)
    v = v.squeeze(2) / ((m - k) * (v * v).sum(1))
    norms = g.norm(dim=1) * v.norm(dim=1)
    clip = norms.quantile(0.3) if len(norms) < 2**24 else norms[: 2**24].quantile(0.3)
    return (v * (clip / norms).clamp(max=1)[:, None]).T @ g


def one_round(engine: DeviceReader, n: int, embedding: np.ndarray) -> BoundedSum:
    """Everybody's gradient, the histogram of sizes, the sum clipped at a quantile; noise would be added to the last two."""
    everybody = SimpleNamespace(weights=None, n_users=n)  # their rows are on the device already
    sums = engine.sum(everybody, EmbeddingGradients(SharedModel(embedding, None, 0.0, False), 113))
    counts = sums.whole_histogram("sizes").value
    return sums.clipped_at(int(np.searchsorted(np.cumsum(counts), 0.3 * n)), "clipped sum")


def time_rounds(n: int, m: int, d: int) -> None:
    X, y, offsets, _ = population(n, (m, m), d, 2, torch.float32, "cuda")
    read = milliseconds(lambda: X.sum())
    print(f"{n:,} people × {m} × {d}, float32: one read {read:.2f} ms ({X.numel() * 4 / read / 1e9:.2f} TB/s)")
    engine = DeviceReader("cuda")
    engine._rows = [_DeviceRows(X, y, offsets)]
    for k in (2, 5, 8):
        U = torch.linalg.qr(torch.randn(d, k, device="cuda"))[0]
        W, embedding = U.T.contiguous(), U.double().cpu().numpy()
        gradients = milliseconds(lambda W=W, k=k: kernels.person_gradients(X, y, offsets, W, k, 0.0, False))
        people = kernels.person_gradients(X, y, offsets, W, k, 0.0, False)
        added = milliseconds(lambda p=people: kernels.weighted_sum(p, torch.ones_like(p.squared)))
        whole = milliseconds(lambda embedding=embedding: one_round(engine, n, embedding))
        print(
            f"k={k}: gradients {gradients:.2f} ms, sum {added:.2f} ms; whole round {whole:.2f} ms: {whole / read:.2f} reads"
        )
    W = torch.linalg.qr(torch.randn(d, 2, device="cuda"))[0]
    plain = milliseconds(lambda: plain_round(X, y, W, m), times=3)
    print(f"plain torch, k=2: {plain:.2f} ms, {plain / read:.1f} reads")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=4_000_000)
    parser.add_argument("--rows", type=int, default=10)
    parser.add_argument("--features", type=int, default=50)
    given = parser.parse_args()
    equal = compare("cuda")
    print(torch.cuda.get_device_name(), torch.__version__)
    time_rounds(given.people, given.rows, given.features)
    if not equal:
        raise SystemExit("the kernels' sums are not those of the slow computation")


if __name__ == "__main__":
    main()
