"""How long one training run of P4's network takes, and per-sample gradients a second beside Opacus, in the same process.

python benchmarks/joint_speed.py [--rows 512] [--seconds 3]          (Opacus: pip install opacus, for this benchmark only)
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
from torch.nn import functional as F

from commonground.deep import JointTrainer, TwoBranchCNN
from commonground.deep.per_sample import PerSampleGradients
from commonground.deep.trainer import cross_entropy


def rate(step: Callable[[], object], rows: int, seconds: float, device: str) -> float:
    """Rows a second, the best of three spells after a warm-up."""
    best = 0.0
    for spell in range(4):
        done, began = 0, time.perf_counter()
        while time.perf_counter() - began < seconds / 4:
            step()
            done += rows
        if device == "cuda":
            torch.cuda.synchronize()
        if spell:
            best = max(best, done / (time.perf_counter() - began))
    return best


def throughput(rows: int, seconds: float, device: str) -> None:
    X, y = torch.rand(rows, 1, 28, 28, device=device), torch.arange(rows, device=device) % 10
    model = TwoBranchCNN().to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    names = [name for name, _ in model.named_parameters() if not name.startswith("fc1")]
    ours = PerSampleGradients(model, names, cross_entropy)
    found = {"ours": rate(lambda: ours(X, y), rows, seconds, device)}
    found["torch.func"] = rate(lambda: ours._by_vmap(X, y), rows, seconds, device)
    try:
        from opacus import GradSampleModule
    except ImportError:
        print("Opacus is not installed; only our own numbers follow")
    else:
        plain = TwoBranchCNN().to(device)  # with channels last, Opacus 1.6.0 finds zeros for conv2
        plain.fc1.requires_grad_(False)
        wrapped = GradSampleModule(plain, loss_reduction="sum")

        def opacus_step() -> None:
            wrapped.zero_grad()
            F.cross_entropy(wrapped(X), y, reduction="sum").backward()

        opacus_step()
        theirs = torch.cat([p.grad_sample.flatten(1) for _, p in plain.named_parameters() if p.requires_grad], dim=1)
        worst = float((theirs - ours(X, y)).abs().max() / theirs.abs().max())  # the same start, so the same gradients
        assert worst < 5e-3, worst  # a GPU multiplies convolutions in TF32
        found["Opacus"] = rate(opacus_step, rows, seconds, device)
    for name, value in found.items():
        print(f"{device}, {rows} rows: {name:26s} {value:12,.0f} records a second")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[64, 512])
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--no-run", action="store_true")
    arguments = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    for rows in arguments.rows:
        throughput(rows, arguments.seconds, device)
    if arguments.no_run:
        return
    rng = np.random.default_rng(0)
    X, y = rng.random((10_000, 1, 28, 28), dtype=np.float32), rng.integers(0, 10, 10_000)
    owners = np.arange(10_000) % 256
    for seed in (0, None):  # the first warms up; the second draws real noise
        trainer = JointTrainer(TwoBranchCNN(), ["fc1"], 1.0, 1e-5, device=device, simulation_seed=seed, verbose=True)
        began = time.perf_counter()
        trainer.fit(X, y, owners=owners)
        print(f"{device}: one training run, local fits of 256 owners included: {time.perf_counter() - began:.2f} s")


if __name__ == "__main__":
    main()
