"""Ratings: who likes what, from some 30 ratings each, sparse from the table to the prediction. See docs/guides/ratings.md."""

import numpy as np

import commonground as cg

ratings = cg.datasets.make_ratings(n_users=4_000, n_items=150, rank=2, seed=0)
model = cg.PrivateFedRep(rank=2, epsilon=4.0, delta=1e-6).fit(ratings.users)

own = model.predict(ratings.test_X, users=ratings.test_ids)
shared = model.billboard_.predict(ratings.test_X)
for name, answer in (("item means, shared by all", shared), ("people's own heads", own)):
    print(f"{name:27} mean squared error {np.mean((answer - ratings.test_y) ** 2):.3f}")
print(model.billboard_.statement)
