"""How long one training run of P4's network takes, and per-sample gradients a second beside Opacus, in the same process.

python benchmarks/joint_speed.py [--rows 512] [--seconds 3]          (Opacus: pip install opacus, for this benchmark only)
"""

import argparse
import time
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch.nn import functional as F

from commonground.deep import JointTrainer, TwoBranchCNN
from commonground.deep.clipped import full_precision
from commonground.deep.per_sample import PerSampleGradients
from commonground.deep.trainer import cross_entropy


def device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def spell(step: Callable[[], object], rows: int, seconds: float) -> float:
    """Rows a second."""
    done, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        step()
        done += rows
    if device() == "cuda":
        torch.cuda.synchronize()
    return done / (time.perf_counter() - began)


@full_precision()
def throughput(rows: int, seconds: float) -> dict[str, float]:
    """Records a second of ours, torch.func and Opacus where it is installed, all in full precision, as training does it.

    Each in turn, four times, so that what else the machine does meets all of them; the best spell after the first.
    """
    X, y = torch.rand(rows, 1, 28, 28, device=device()), torch.arange(rows, device=device()) % 10
    model = TwoBranchCNN().to(device()).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    names = [name for name, _ in model.named_parameters() if not name.startswith("fc1")]
    ours = PerSampleGradients(model, names, cross_entropy)
    steps: dict[str, Callable[[], object]] = {
        "ours": lambda: ours(X, y),
        "torch.func": lambda: ours._by_vmap(X, y),
    }
    try:
        from opacus import GradSampleModule
    except ImportError:
        print("Opacus is not installed; only our own numbers follow")
    else:
        plain = TwoBranchCNN().to(device())  # with channels last, Opacus 1.6.0 finds zeros for conv2
        plain.fc1.requires_grad_(False)
        wrapped = GradSampleModule(plain, loss_reduction="sum")

        def opacus_step() -> None:
            wrapped.zero_grad()
            F.cross_entropy(wrapped(X), y, reduction="sum").backward()

        opacus_step()
        theirs = torch.cat([p.grad_sample.flatten(1) for _, p in plain.named_parameters() if p.requires_grad], dim=1)
        # The same start, so the same gradients, but for single pixels where pooling meets a tie.
        apart = float((theirs - ours(X, y)).norm() / theirs.norm())
        assert apart < 5e-3, apart
        steps["Opacus"] = opacus_step
    found: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(4):
        for name, step in steps.items():
            found[name].append(spell(step, rows, seconds / 4))
    return {name: max(rates[1:]) for name, rates in found.items()}


def training_runs(times: int) -> Iterator[float]:
    """Seconds of one training run, noise from real entropy and local fits of 256 owners included; a GPU's first warms up."""
    rng = np.random.default_rng(0)
    X, y = rng.random((10_000, 1, 28, 28), dtype=np.float32), rng.integers(0, 10, 10_000)
    owners = np.arange(10_000) % 256
    for _ in range(times):
        trainer = JointTrainer(TwoBranchCNN(), ["fc1"], 1.0, 1e-4, device=device())
        began = time.perf_counter()
        trainer.fit(X, y, owners=owners)
        yield time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[64, 512])
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--no-run", action="store_true")
    arguments = parser.parse_args()
    for rows in arguments.rows:
        for name, value in throughput(rows, arguments.seconds).items():
            print(f"{device()}, {rows} rows: {name:26s} {value:12,.0f} records a second", flush=True)
    if not arguments.no_run:
        for seconds in training_runs(2 if device() == "cuda" else 1):
            print(f"{device()}: one training run, local fits of 256 owners included: {seconds:.2f} s", flush=True)


if __name__ == "__main__":
    main()
