"""Private AltMin (P1, Algorithms 1 to 3): the default recipe, and the paper's."""

from commonground.estimators.altmin.paper import AltMinSettings
from commonground.estimators.altmin.private_altmin import PrivateAltMin

__all__ = ["AltMinSettings", "PrivateAltMin"]
