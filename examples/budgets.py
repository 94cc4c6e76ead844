"""A budget for everyone: one ε for all must be the smallest; everybody's own is worth more. See docs/guides/budgets.md."""

import numpy as np
from sklearn.datasets import load_diabetes

import commonground as cg

X, y = load_diabetes(return_X_y=True, scaled=False)
low = [15, 1, 15, 50, 80, 30, 10, 1, 2, 40]  # public: what such measurements can be, not what they are here
high = [90, 2, 50, 150, 350, 280, 110, 10, 7, 150]
wishes = cg.datasets.segmented_budgets(len(X), seed=0)  # a third is careful, a third is not
print(f"{len(X)} people, ε from {wishes.min():g} to {wishes.max():g}; labels vary by {y.var():.0f}")
for method in ("uniform", "statistics"):
    missed = []
    for seed in range(5):
        model = cg.PersonalBudgetRidge(
            method,
            alpha=None if method == "statistics" else 50.0,
            feature_bounds=(low, high),
            label_bounds=(25, 350),
            budgets=wishes,
            simulation_seed=seed,
        )
        missed.append(np.mean((model.fit(X, y).predict(X) - y) ** 2))
    print(f"{method:10} mean squared error {np.mean(missed):10,.0f}")
print(f"spent on the first person: {model.spent(0):.3f} of {wishes[0]:.3f}")
