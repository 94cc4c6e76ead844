"""Deep nets across owners (P4) and for people (P1): shared layers private, personal ones local. Needs torch."""

from commonground.deep.models import TwoBranchCNN
from commonground.deep.people import PeopleTrainer
from commonground.deep.trainer import JointTrainer

__all__ = ["JointTrainer", "PeopleTrainer", "TwoBranchCNN"]
