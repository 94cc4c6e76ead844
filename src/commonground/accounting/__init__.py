"""The mathematics of the guarantee: what a set of releases costs, and how much noise a budget asks for."""

from commonground.accounting import budgets, events, gaussian

__all__ = ["budgets", "events", "gaussian"]
