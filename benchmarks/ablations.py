"""Why the defaults of Private FedRep are what they are: change one thing at a time.

    python benchmarks/ablations.py --seeds 5          # the ordinary rounds
    python benchmarks/ablations.py --few --seeds 10   # the rounds for few people

MSE ÷ floor for three populations (d = 50, k = 2, 10 rows, label noise 0.01, δ = 1e-6), simulated noise, median and worst
over seeds. The first row is the default.
"""

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from unittest.mock import patch

import numpy as np
from rich.console import Console
from rich.table import Table

import commonground as cg
from commonground.estimators.fedrep import few_people, private_fedrep
from commonground.estimators.fedrep import many_people as fedrep
from commonground.progress import progress_bar
from commonground.steps import initial_embedding, rounds

POPULATIONS = ((20_000, 0.1), (5_000, 1.0), (2_000, 1.0))
FEW_POPULATIONS = ((2_000, 1.0), (1_500, 1.0), (1_000, 1.0))


@contextmanager
def shares(**changed: float) -> Iterator[None]:
    """Move a share of the budget to or from the rounds."""
    parts = {share.name: share.part for share in fedrep.PLAN}
    plan = fedrep.PLAN.where("rounds", part=parts["rounds"] - sum(changed[name] - parts[name] for name in changed))
    for name, part in changed.items():
        plan = plan.where(name, part=part)
    with patch.object(fedrep, "PLAN", plan):
        yield


def constant_step(length: float) -> Callable[..., float]:
    return lambda gradient, noise_std, dimension: length


VARIANTS = {
    "default": lambda: patch.object(fedrep, "N_ROUNDS", fedrep.N_ROUNDS),
    "constant step 1 instead of Stein's": lambda: patch.object(fedrep, "signal_share", constant_step(1.0)),
    "constant step 0.6": lambda: patch.object(fedrep, "signal_share", constant_step(0.6)),
    "constant step 0.3": lambda: patch.object(fedrep, "signal_share", constant_step(0.3)),
    "clip at the 10 % quantile": lambda: patch.object(rounds, "CLIP_QUANTILE", 0.1),
    "clip at the 50 % quantile": lambda: patch.object(rounds, "CLIP_QUANTILE", 0.5),
    "clip at the 80 % quantile": lambda: patch.object(rounds, "CLIP_QUANTILE", 0.8),
    "8 rounds": lambda: patch.object(fedrep, "N_ROUNDS", 8),
    "24 rounds": lambda: patch.object(fedrep, "N_ROUNDS", 24),
    "init share 0.05": lambda: shares(init=0.05),
    "init share 0.20": lambda: shares(init=0.20),
    "sizes share 0.02": lambda: shares(sizes=0.02),
    "sizes share 0.12": lambda: shares(sizes=0.12),
}


few_with = partial(patch.multiple, few_people)
FEW_VARIANTS = {
    "default": lambda: few_with(N_ROUNDS=few_people.N_ROUNDS),
    "ordinary rounds instead": lambda: patch.object(private_fedrep, "MANY_PEOPLE_FROM", 0.0),
    "one look instead of eight": lambda: few_with(LOOKS=((1.0, None),)),
    "three looks": lambda: few_with(LOOKS=initial_embedding.LOOKS),
    "steps of one length in all directions": lambda: few_with(longer_where_missed=lambda gradient, missed: gradient),
    "96 rounds": lambda: few_with(N_ROUNDS=96, SIZES_EVERY=16, AVERAGED_ROUNDS=few_people.AVERAGED_ROUNDS / 2),
    "short memory of the share of signal": lambda: few_with(AVERAGED_ROUNDS=1.0),
    "sizes measured twice as often": lambda: few_with(SIZES_EVERY=few_people.SIZES_EVERY // 2),
}


def ratio(n: int, epsilon: float, seed: int) -> float:
    users, truth = cg.datasets.make_shared_subspace(n, seed=1000 + seed)
    model = cg.PrivateFedRep(2, epsilon, fit_intercept=False, shared_mean=False, keep_heads=False, simulation_seed=seed)
    board = model.fit(users).billboard_
    return cg.metrics.population_mse(board, users, truth) / cg.metrics.population_mse(truth.embedding, users, truth)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--few", action="store_true", help="the rounds for few people")
    arguments = parser.parse_args()
    seeds = arguments.seeds
    if arguments.few:
        variants, populations, always = (
            FEW_VARIANTS,
            FEW_POPULATIONS,
            partial(patch.object, private_fedrep, "MANY_PEOPLE_FROM", 60.0),
        )
    else:
        variants, populations, always = (
            VARIANTS,
            POPULATIONS,
            partial(patch.object, private_fedrep, "MANY_PEOPLE_FROM", 0.0),
        )
    table = Table(title=f"MSE ÷ floor, median (worst) of {seeds} seeds")
    table.add_column("what is changed")
    for n, epsilon in populations:
        table.add_column(f"n = {n:,}, ε = {epsilon:g}", justify="right")
    with progress_bar("ablations", len(variants) * len(populations) * seeds, enabled=True) as advance:
        for name, variant in variants.items():
            cells = []
            for n, epsilon in populations:
                ratios = []
                for seed in range(seeds):
                    with always(), variant():
                        ratios.append(ratio(n, epsilon, seed))
                    advance()
                cells.append(f"{np.median(ratios):.3f} ({max(ratios):.3f})")
            table.add_row(name, *cells)
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
