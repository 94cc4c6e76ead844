"""Does a claim survive somebody who tries to refute it? Lower bounds on ε, from the outside. See docs/audit.md."""

from commonground.audit.bounds import Bound, lower_bound, one_run_epsilon, one_run_mu
from commonground.audit.neighbours import Neighbours, neighbours
from commonground.audit.one_run import OneRun, one_run_audit
from commonground.audit.recipes import RECIPES, Claim, Recipe
from commonground.audit.run import Report, audit

__all__ = [
    "RECIPES",
    "Bound",
    "Claim",
    "Neighbours",
    "OneRun",
    "Recipe",
    "Report",
    "audit",
    "lower_bound",
    "neighbours",
    "one_run_audit",
    "one_run_epsilon",
    "one_run_mu",
]
