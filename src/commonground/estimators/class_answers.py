"""Estimators that answer with classes: by the sign, or the largest, of what their heads say."""

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin

from commonground.errors import InputError
from commonground.estimators.answers import require_labels


class ClassAnswers(ClassifierMixin):
    """The part of an estimator that makes classes of its heads' numbers; stands before ``PersonalModel`` among the bases."""

    classes_: np.ndarray

    def decision_function(self, X: Any, users: Any = None, *, strict: bool = False) -> np.ndarray:
        """What each row's own head says: above zero, the second class; of several classes, the logarithm of each probability.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
        users : array of shape (n_rows,), default=None
            One id for each row.
        strict : bool, default=False
            Raise ``UnknownUserError`` for a person who was not in training.

        Returns
        -------
        array of shape (n_rows,), or (n_rows, n_classes)
        """
        return np.asarray(super().predict(X, users, strict=strict))

    def predict(self, X: Any, users: Any = None, *, strict: bool = False) -> np.ndarray:
        """The likeliest class of each row, by its person's own head; the first one of two where there is nothing to go by.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
        users : array of shape (n_rows,), default=None
            One id for each row.
        strict : bool, default=False
            Raise ``UnknownUserError`` for a person who was not in training.

        Returns
        -------
        array of shape (n_rows,)
            Of ``classes_``.
        """
        found = self.decision_function(X, users, strict=strict)
        return self.classes_[found.argmax(axis=1) if found.ndim == 2 else (found > 0.0).astype(int)]

    def score(self, X: Any, y: Any = None, users: Any = None, sample_weight: Any = None) -> float:
        """The share of rows whose class is right.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
        y : array of shape (n_rows,), default=None
            Of each row; to be given.
        users : array of shape (n_rows,), default=None
            One id for each row.
        sample_weight : array of shape (n_rows,), default=None
            How much each row counts.

        Returns
        -------
        float
        """
        answers = self.predict(X, users=users)
        require_labels(y)
        right, known = np.asarray(y).ravel(), set(self.classes_.tolist())
        if not known & set(right.tolist()):  # in words that a schema knows, or in none that anybody does
            schema = self.billboard_.schema
            if schema is None or schema.label.kind != "yes/no":
                raise InputError(f"no label is one of the classes {self.classes_.tolist()}. Write them as in training.")
            right = self.classes_[schema.encode_labels(right).astype(int)]
        return float(np.average(answers == right, weights=sample_weight))
