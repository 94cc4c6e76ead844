"""P4's experiments as its text tells of them: FedAvg with Table 3's local epochs and rounds, clip 15, central noise.

What the text leaves out is chosen here: plain SGD at rate 0.1 on batches of at most 32 rows; an owner's whole update is clipped,
and the noise is that of T Gaussian releases, everybody in each, for *owners* (there or missing), at the exact cost. So its
guarantee holds, for a stronger unit than the paper claims.
"""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from commonground.accounting.budgets import Budget
from commonground.datasets import OwnersData
from commonground.reproduce.p4_cells import DELTA, Cell, Study

CLIP, RATE, BATCH = 15.0, 0.1, 32
TABLE_3 = {4: (20, 10), 16: (10, 10), 64: (10, 10), 128: (5, 20), 256: (5, 20), 512: (5, 20)}  # n → (E, T)
WAYS: dict[str, tuple[bool, tuple[str, ...]]] = {  # method → (noise, layers that stay with their owner)
    "fedavg_without_dp": (False, ()), "fedavg_full_dp": (True, ()), "fedavg_joint_dp": (True, ("fc1",)),
}  # fmt: skip


def noise_of_mean(n_owners: int, rounds: int, epsilon: float, delta: float, clip: float = CLIP) -> float:
    """Standard deviation of the noise on the mean update: sum moved by ``clip``, T releases that together cost (ε, δ).

    >>> noise_of_mean(10, 4, 1.0, 1e-4) == 2 * noise_of_mean(10, 1, 1.0, 1e-4)
    True
    """
    return clip * math.sqrt(rounds) / Budget(epsilon, delta).mu / n_owners


def fedavg(model: Any, data: OwnersData, method: str, epochs: int, rounds: int, epsilon: float, seed: int) -> float:
    """Test accuracy, each row by its owner's model."""
    import torch
    from torch.nn import functional as F

    noisy, personal = WAYS[method]
    rng, names = torch.Generator().manual_seed(seed), [name for name, _ in model.named_parameters()]
    own = [name for name in names if name.split(".")[0] in personal]
    shared = {name: value.detach().clone() for name, value in model.named_parameters()}
    owners = np.unique(data.owners)
    rows = {j: np.flatnonzero(data.owners == j) for j in owners}
    X, y = torch.as_tensor(data.X), torch.as_tensor(data.y)
    kept = {j: {name: shared[name].clone() for name in own} for j in owners}
    std = noise_of_mean(len(owners), rounds, epsilon, DELTA) if noisy else 0.0

    def load(j: Any) -> None:
        with torch.no_grad():
            for name, value in model.named_parameters():
                value.copy_(kept[j].get(name, shared[name]))

    for _ in range(rounds):
        total = {name: torch.zeros_like(shared[name]) for name in names if name not in own}
        for j in owners:
            load(j)
            optimiser = torch.optim.SGD(model.parameters(), lr=RATE)
            for _ in range(epochs):
                order = rows[j][torch.randperm(len(rows[j]), generator=rng).numpy()]
                for batch in np.array_split(order, max(math.ceil(len(order) / BATCH), 1)):
                    optimiser.zero_grad()
                    F.cross_entropy(model(X[batch]), y[batch]).backward()
                    optimiser.step()
            found = {name: value.detach() for name, value in model.named_parameters()}
            kept[j] = {name: found[name].clone() for name in own}
            update = {name: found[name] - shared[name] for name in total}
            length = math.sqrt(sum(float((part**2).sum()) for part in update.values()))
            shrink = min(1.0, CLIP / length) if noisy and length > 0 else 1.0
            for name, part in update.items():
                total[name] += shrink * part
        for name, part in total.items():
            noise = std * torch.randn(part.shape, generator=rng)
            shared[name] = shared[name] + part / len(owners) + noise
    correct = 0
    for j in owners:
        load(j)
        of_owner = np.flatnonzero(data.test_owners == j)
        with torch.no_grad():
            correct += int(
                (model(torch.as_tensor(data.test_X[of_owner])).argmax(dim=1).numpy() == data.test_y[of_owner]).sum()
            )
    return correct / len(data.test_y)


def table1_fedavg_cells(study: Study, dataset: str, seed: int, owners: tuple[int, ...] | None = None) -> Iterable[Cell]:
    """Three columns of Table 1, for every number of owners (the fast version: two rounds)."""
    from commonground.deep import TwoBranchCNN

    for n in owners or study.owners:
        data, (epochs, rounds) = study.data(dataset, n, seed), TABLE_3[n]
        if study.fast:
            epochs, rounds = 1, 2
        for method in WAYS:
            model = TwoBranchCNN(side=8, channels=(4, 8), seed=seed) if study.fast else TwoBranchCNN(seed=seed)
            accuracy = fedavg(model, data, method, epochs, rounds, 1.0, seed)
            yield {"dataset": dataset, "seed": seed, "n": n, "method": method, "accuracy": accuracy}
