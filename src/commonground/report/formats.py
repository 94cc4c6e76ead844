"""The same statement for machines: a model card with the metadata that hubs read, and the fields of the deployment registry."""

import html
import json
import re
from typing import Any

from commonground.report.attack import curve_of, suspicion
from commonground.report.checklist import answers
from commonground.report.guarantee import OFTEN
from commonground.report.html import percent

TO_FILL_IN = None  # what only the publisher knows


def markdown(text: str) -> str:
    r"""Text that is nothing but text in Markdown, and in the HTML that hubs make of it.

    >>> print(markdown("<b> | *x*"))
    &lt;b&gt; \| \*x\*
    """
    return re.sub(r"([\\`*_{}\[\]()#+!|~])", r"\\\1", html.escape(" ".join(text.split()), quote=False))


def card(board: Any) -> str:
    """Markdown behind a YAML block; strings are quoted as JSON, which YAML reads."""
    s = board.statement
    classes = board.log_odds or board.classes or board.answers_by_sign or "Classifier" in s.algorithm
    kind = "tabular-classification" if classes else "tabular-regression"
    metadata = {
        "library_name": "commonground",
        "pipeline_tag": kind,
        "tags": ["differential-privacy", "personalization", "tabular", kind],
        "model_name": s.algorithm,
        "differential_privacy": {
            "epsilon": _finite(s.epsilon),
            "delta": s.delta,
            "mu": _mu(s),
            "unit": s.unit,
            "neighbours": s.relation,
            "simulated": s.simulated,
        },
    }
    names = board.feature_names
    lines = [
        "---",
        *_yaml(metadata),
        "---",
        "",
        f"# {markdown(s.algorithm)}",
        "",
        markdown(str(s)),
        "",
        "## Guarantee",
        "",
        "| quantity | value |",
        "|---|---|",
    ]
    facts = [("ε declared", f"{s.epsilon:g}"), ("δ", f"{s.delta:g}"), ("unit", s.unit), ("neighbours", s.relation)]
    if s.private and s.events:
        curve = curve_of(s.events)
        facts += [("ε spent", f"{s.epsilon_spent:.4g}")]
        facts += [("μ", f"{curve.mu:.4g}")] if curve.mu is not None else []
        facts += [
            ("found at most, with 1 % false positives", percent(float(curve.power(OFTEN)))),
            ("a suspicion of 50 % becomes, after such an alarm", percent(suspicion(curve, OFTEN))),
        ]
    lines += [f"| {markdown(name)} | {markdown(value)} |" for name, value in facts]
    lines += [
        "",
        "## Use",
        "",
        (
            "A person's own model is made from this board and her own rows, on her own machine: `commonground"
            " personalize`, or the page that `commonground page` makes."
        ),
    ]
    if names:
        lines += [
            "",
            "Features: "
            + ", ".join(markdown(name) for name in names[:100])
            + ("" if len(names) <= 100 else f" and {len(names) - 100:,} more")
            + ".",
        ]
    lines += ["", "## Checklist", "", "| question | answer |", "|---|---|"]
    lines += [f"| {markdown(question)} | {markdown(answer)} |" for question, answer in answers(s, False)]
    lines += ["", f"SHA-256 of the arrays: {board.fingerprint}", ""]
    return "\n".join(lines)


def registry(board: Any) -> dict[str, Any]:
    """The fields of the public registry of deployments (arXiv 2509.13509, tier 3); null: for the publisher to fill in."""
    s = board.statement
    flavor = "Not private" if not s.private or s.simulated else "Pure DP" if not s.delta else "Approximate DP"
    owners = s.n_owners is not None
    custody = s.custody
    return {
        "deployment": {
            "short_name": TO_FILL_IN,
            "data_curator": TO_FILL_IN,
            "intended_use": TO_FILL_IN,
            "data_product_type": "Machine learning model",
            "data_product_description": str(s),
            "publication_date": s.date or TO_FILL_IN,
            "additional_information_url": TO_FILL_IN,
            "dp_flavor": {
                "name": flavor,
                "data_domain": f"tables with one {s.unit} for each set of rows, numeric features",
                "unprotected_quantities": (
                    f"the number of {_plural(s.unit)}, names of columns, settings"
                    + (", everybody's ε" if s.budgets else "")
                ),
            },
            "privacy_loss": {
                "privacy_unit": f"{s.unit}-level",
                "privacy_unit_description": f"one {s.unit}; neighbours: {s.relation}",
                "privacy_parameters": {"epsilon": _finite(s.epsilon), "delta": s.delta, "rho": None, "mu": _mu(s)},
            },
            "model": {
                "model_type": "Federated" if custody else "Central",
                "model_type_description": (
                    custody
                    or (
                        "owners learn together; personal parts stay with them"
                        if owners
                        else "one operator holds all rows"
                    )
                ),
                "release_type": "one-time",
                "release_type_description": (
                    "a ledger adds up several releases"
                    if s.ledger
                    else "no ledger was asked to add up several releases"
                ),
                "interactivity": "non-interactive",
            },
            "additional_dp_information": {
                "post_processing": "people's own models are made from what is published and their own rows",
                "composition": [
                    {"release": event.name, "cost": str(event.cost), "noise": event.noise} for event in s.events
                ],
            },
            "implementation": {
                "pre_processing_eda_hyperparameter_tuning": (
                    "inside the budget; what people chose after looking at rows is not known to the software"
                ),
                "mechanisms": sorted({event.kind for event in s.events}),
                "justification": TO_FILL_IN,
                "software": s.software,
                "noise": s.noise,
                "sha256": board.fingerprint,
            },
        }
    }


def _plural(unit: str) -> str:
    return "people" if unit == "person" else f"{unit}s"


def _finite(epsilon: float) -> float | None:
    return epsilon if epsilon < float("inf") else None


def _mu(statement: Any) -> float | None:
    if not (statement.private and statement.events and all(event.cost.mu for event in statement.events)):
        return None
    return curve_of(statement.events).mu


def _yaml(values: dict[str, Any], indent: str = "") -> list[str]:
    lines = []
    for name, value in values.items():
        if isinstance(value, dict):
            lines += [f"{indent}{name}:", *_yaml(value, indent + "  ")]
        else:
            lines.append(f"{indent}{name}: {json.dumps(value, ensure_ascii=True)}")
    return lines
