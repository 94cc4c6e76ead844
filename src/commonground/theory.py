"""The papers' bounds, computable. Rates hide constants and logarithms: each function says which."""

from commonground.estimators.personal_ridge import coefficient_error_bound

__all__ = ["coefficient_error_bound"]
