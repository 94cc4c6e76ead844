"""Private FedRep (P2, Algorithms 1 and 2) and its recipes: the default, few people, sparse rows, the paper's."""

from commonground.estimators.fedrep.paper import PaperSettings
from commonground.estimators.fedrep.private_fedrep import PrivateFedRep

__all__ = ["PaperSettings", "PrivateFedRep"]
