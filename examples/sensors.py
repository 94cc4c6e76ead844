"""Sensors: train on many people, publish, and give a newcomer a head from her own rows. See docs/guides/sensors.md."""

import tempfile

import numpy as np

import commonground as cg

users, truth = cg.datasets.make_shared_subspace(
    n_users=5_000, rows_per_user=10, n_features=20, rank=2, noise=0.1, seed=0
)
model = cg.PrivateFedRep(rank=2, epsilon=1.0, delta=1e-6).fit(users)

with tempfile.TemporaryDirectory() as folder:
    board = cg.Billboard.load(model.billboard_.save(f"{folder}/board"))  # all that leaves the operator's machine

rng = np.random.default_rng(1)
taste = truth.embedding @ rng.standard_normal(2)  # a newcomer, who was not in training
X = rng.standard_normal((14, 20))
y = X @ taste + 0.1 * rng.standard_normal(14)
head = board.personalize(X[:8], y[:8])  # on her own device, from the board and eight rows of hers
print(f"spread of her labels     {np.var(y):.3f}")
print(f"missed by the shared part {np.mean((board.predict(X[8:]) - y[8:]) ** 2):.3f}")
print(f"missed by her own head    {np.mean((head.predict(X[8:]) - y[8:]) ** 2):.3f}")
