"""Owners who may not pool: each has images of some classes only, and learns from the others. See docs/guides/owners.md."""

import numpy as np

import commonground as cg

data = cg.datasets.digits_across_owners(n_owners=8, seed=0)  # scikit-learn's digits
X, X_test = (images.reshape(len(images), -1).astype(float) / 16 for images in (data.X, data.test_X))

alone = cg.JointSGDClassifier(classes=range(10), epsilon=1e-3, steps=1).fit(X, data.y, owners=data.owners)
together = cg.JointSGDClassifier(classes=range(10), epsilon=4.0).fit(X, data.y, owners=data.owners)
for name, model in (("next to nothing shared", alone), ("shared at ε = 4", together)):
    right = np.mean(model.predict(X_test, owners=data.test_owners) == data.test_y)
    print(f"{name:23} right {right:.0%}")
print(together.billboard_.statement)
