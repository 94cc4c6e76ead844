"""Deep nets across owners (P4): shared layers private, personal layers local. Needs the extra ``deep`` (torch)."""

from commonground.deep.models import TwoBranchCNN
from commonground.deep.trainer import JointTrainer

__all__ = ["JointTrainer", "TwoBranchCNN"]
