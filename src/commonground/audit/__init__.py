"""Does a claim survive somebody who tries to refute it? Lower bounds on ε, from the outside. See docs/audit.md.

- What is attacked: ``recipes.py``; training on samples, ``joint.py``; one person more or less, ``neighbours.py``.
- How: a whole fit many times, ``run.py``, by way of ``replay.py`` and ``gates.py``; one fit of many canaries, ``one_run.py``;
  steps on samples, ``sampled.py``; all cheap ones, ``survey.py``. What guesses prove: ``bounds.py``; the figure: ``figure.py``.
- Whether the auditor would notice: ``broken.py``. What papers claim: ``attack_on_p4.py``, ``whole_owners.py``. Nodes without a
  network: ``federation.py``.
"""

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
