"""How the rates of docs/joint_learning.md were chosen: on training images 40,000 to 60,000 alone, half of them to validate.

python benchmarks/joint_tuning.py rates | users | ridge | blend | paper | layers        (on a GPU, a minute or two each)
"""

import sys
import time
from typing import Any

import torch

from commonground.datasets import OwnersData, across_owners, load
from commonground.deep import JointTrainer, TwoBranchCNN
from commonground.deep.local import LocalSettings
from commonground.reproduce.p4_cells import CANDIDATES, PAPER

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def data(name: str, n_owners: int, seed: int, records_per_user: int = 1) -> OwnersData:
    images = load(name)
    train, validate = slice(40_000, 50_000), slice(50_000, 60_000)
    return across_owners(
        images.X[train], images.y[train], images.X[validate], images.y[validate], n_owners=n_owners, n_records=10_000,
        records_per_user=records_per_user, seed=seed,
    )  # fmt: skip


def report(
    name: str,
    n: int,
    seed: int = 0,
    k: int = 1,
    personal: tuple[str, ...] = ("fc1",),
    keep: tuple[str, ...] = ("personal",),
    **settings: Any,
) -> None:
    found, began = data(name, n, seed, k), time.perf_counter()
    trainer = JointTrainer(
        TwoBranchCNN(seed=seed), personal, 1.0, 1e-4, device=DEVICE, simulation_seed=seed, keep=keep, **settings
    ).fit(found.X, found.y, owners=found.owners, users=found.users)
    scores = {
        str(one or "kept"): round(trainer.score(found.test_X, found.test_y, found.test_owners, keep=one), 4)
        for one in ("shared", *keep, None)
    }
    words = {"n": n, "seed": seed, "k": k, "personal": personal, **settings}
    print(name, words, scores, f"{time.perf_counter() - began:.1f} s", flush=True)


def main() -> None:
    for what in sys.argv[1:]:
        for name in ("mnist", "fashion-mnist"):
            if what == "rates":
                for q, steps in ((0.2, 150), (0.1, 300), (0.05, 600), (0.02, 1500)):
                    for rate in (0.5, 1.0, 1.4, 2.0, 4.0):
                        report(name, 256, sampling_probability=q, steps=steps, learning_rate=rate)
            if what == "ridge":
                for n in (16, 512):
                    for ridge in (200.0, 2_000.0, 20_000.0):  # over an owner's rows
                        report(name, n, local=LocalSettings(personal_ridge=ridge))
            if what == "blend":
                for n in (4, 16, 64, 256, 512):
                    for rows in (200.0, 500.0, 1_000.0, 2_000.0):
                        report(name, n, keep=CANDIDATES, local=LocalSettings(blend_rows=rows))
        if what == "users":
            for k in (5, 20):
                for rate in (0.1, 0.25, 0.5, 1.0):
                    report("mnist", 256, k=k, unit="user", sampling_probability=0.2, steps=150, learning_rate=rate)
        if what == "paper":
            for rate in (0.03, 0.1, 0.3, 1.0):
                report("mnist", 256, **{**PAPER, "learning_rate": rate})
        if what == "layers":
            for personal in (("fc1",), ("conv1",), ("conv1", "conv2"), ("conv1", "conv2", "fc1")):
                report("mnist", 256, personal=personal)


if __name__ == "__main__":
    main()
