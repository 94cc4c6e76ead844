"""P4's experiments as its text tells of them: FedAvg with Table 3's local epochs and rounds, clip 15, central noise.

What the text leaves out is chosen here: plain SGD at rate 0.1 on batches of at most 32 rows; an owner's whole update is clipped,
and the noise is that of T Gaussian releases, everybody in each, for *owners* (there or missing), at the exact cost. So its
guarantee holds, for a stronger unit than the paper claims. How it is computed stands in ``p4_side_by_side``.
"""

import math
from collections.abc import Iterable, Sequence

from commonground.accounting.budgets import Budget
from commonground.reproduce.p4_cells import DELTA, Cell, Study

CLIP = 15.0
TABLE_3 = {4: (20, 10), 16: (10, 10), 64: (10, 10), 128: (5, 20), 256: (5, 20), 512: (5, 20)}  # n → (E, T)
WAYS: dict[str, tuple[bool, tuple[str, ...]]] = {  # method → (noise, layers that stay with their owner)
    "fedavg_without_dp": (False, ()),
    "fedavg_full_dp": (True, ()),
    "fedavg_joint_dp": (True, ("fc1",)),
}


def noise_of_mean(n_owners: int, rounds: int, epsilon: float, delta: float, clip: float = CLIP) -> float:
    """Standard deviation of the noise on the mean update: sum moved by ``clip``, T releases that together cost (ε, δ).

    >>> noise_of_mean(10, 4, 1.0, 1e-4) == 2 * noise_of_mean(10, 1, 1.0, 1e-4)
    True
    """
    return clip * math.sqrt(rounds) / Budget(epsilon, delta).mu / n_owners


def table1_fedavg_cells(study: Study, n: int, datasets: Sequence[str], seeds: Sequence[int]) -> Iterable[Cell]:
    """Three columns of Table 1 for one number of owners, all of it side by side (the fast version: two rounds)."""
    import torch

    from commonground.deep import TwoBranchCNN
    from commonground.reproduce.p4_side_by_side import Run, fedavg

    epochs, rounds = (1, 2) if study.fast else TABLE_3[n]
    runs, cells = [], []
    for dataset in datasets:
        for seed in seeds:
            data = study.data(dataset, n, seed)
            for method, (noisy, personal) in WAYS.items():
                model = TwoBranchCNN(side=8, channels=(4, 8), seed=seed) if study.fast else TwoBranchCNN(seed=seed)
                noise_std = noise_of_mean(n, rounds, 1.0, DELTA) if noisy else 0.0
                runs.append(Run(data, model, personal, CLIP if noisy else math.inf, noise_std, seed))
                cells.append({"dataset": dataset, "seed": seed, "n": n, "method": method})
    accuracies = fedavg(runs, epochs, rounds, "cuda" if torch.cuda.is_available() else "cpu")
    for cell, accuracy in zip(cells, accuracies, strict=True):
        yield {**cell, "accuracy": accuracy}
