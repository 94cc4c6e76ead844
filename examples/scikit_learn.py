"""People as a column of X: searches, scorers and pipelines keep them. See docs/scikit_learn.md."""

import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import commonground as cg

rng = np.random.default_rng(0)  # made up, so that searching on it costs nobody anything
people = np.repeat(np.arange(2_000), 8)
features = rng.standard_normal((len(people), 6))
heads = rng.standard_normal((2_000, 2))
y = (heads[people] * features[:, :2]).sum(axis=1) + 0.1 * rng.standard_normal(len(people))
X = np.column_stack([people, np.exp(features)])

logs = make_column_transformer(
    (FunctionTransformer(np.log), slice(1, None)), remainder="passthrough"
)  # people come last
model = make_pipeline(logs, cg.PrivateFedRep(rank=2, epsilon=4.0, user=6, simulation_seed=0))
folds = KFold(3, shuffle=True, random_state=0)  # rows, not people: everybody keeps some to learn from
print("R² by folds:", np.round(cross_val_score(model, X, y, cv=folds), 3))
search = GridSearchCV(model, {"privatefedrep__rank": [1, 2]}, scoring="neg_mean_squared_error", cv=folds).fit(X, y)
print("best rank:", search.best_params_["privatefedrep__rank"])
