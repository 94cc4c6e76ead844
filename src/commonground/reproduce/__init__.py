"""The papers' tables and figures, computed again and put beside the printed numbers.

Nothing here protects anybody: data are scaled by their own range as the papers do it, and noise comes from seeds.
"""

import importlib

from commonground.errors import InputError
from commonground.reproduce.results import Claim, Outcome, PaperResult, Row

PAPERS: tuple[str, ...] = ("p1", "p2", "p3", "p4")  # one module each


def paper_results() -> dict[str, PaperResult]:
    """All results by name, in the order of the papers."""
    modules = (importlib.import_module(f"commonground.reproduce.{paper}") for paper in PAPERS)
    return {result.name: result for module in modules for result in module.RESULTS}


def chosen(names: list[str]) -> list[PaperResult]:
    """Results whose name is given, or begins with what is given: "p3" means all of P3.

    >>> chosen(["p9"])
    Traceback (most recent call last):
    commonground.errors.InputError: no result of a paper is called 'p9'. ...
    """
    known = paper_results()
    found: dict[str, PaperResult] = {}
    for wanted in names:
        matching = {name: r for name, r in known.items() if name == wanted or name.startswith(f"{wanted}-")}
        if not matching:
            raise InputError(f"no result of a paper is called {wanted!r}. Known are: {', '.join(known)}.")
        found |= matching
    return list(found.values())


__all__ = ["Claim", "Outcome", "PaperResult", "Row", "chosen", "paper_results"]
