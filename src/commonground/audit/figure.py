"""The trade-off between the auditor's two errors: what is claimed, what was observed."""

from pathlib import Path

import numpy as np

from commonground import plots
from commonground.audit.bounds import definition_tradeoff, gaussian_tradeoff, observed_tradeoff
from commonground.audit.run import Report


def draw_tradeoff(report: Report, path: Path, title: str) -> None:
    """A private fit stays above the claimed curve, up to chance; the diagonal is blind guessing."""
    fpr = np.linspace(0.0, 1.0, 400)
    whole, others = report.whole, report.others
    claimed = (
        definition_tradeoff(whole.claimed_epsilon, 0.0, fpr)
        if report.pure
        else gaussian_tradeoff(whole.claimed_mu, fpr)
    )
    audited = (
        definition_tradeoff(whole.bound.epsilon, 0.0, fpr) if report.pure else gaussian_tradeoff(whole.bound.mu, fpr)
    )
    half = report.n_runs // 2  # the first half trained the discriminant
    unseen = [scores[half:] for scores in report.others_scores]
    blue, red, green = plots.COLOURS[:3]
    claim = f"claimed: ε = {whole.claimed_epsilon:.3g} (μ = {whole.claimed_mu:.3g}); shaded: more than claimed"
    bounds = f"ε ≥ {whole.bound.by_curve:.3g}, others' view ≥ {others.bound.by_curve:.3g}"
    lines = [
        plots.Line(claim, fpr, claimed, red, dots=False, shaded=True),
        plots.Line("observed, every release (white box)", *observed_tradeoff(*report.scores), blue, dots=False),
        plots.Line("observed, view of all others (black box)", *observed_tradeoff(*unseen), green, dots=False),
        plots.Line(f"audited at {report.confidence:.0%}: {bounds}", fpr, audited, blue, "7 4", dots=False),
        plots.Line("blind guessing", fpr, 1 - fpr, "#7f7f7f", "2 3", dots=False),
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    panel = plots.Panel(
        lines, "false-positive rate", "false-negative rate", title, x_range=(0.0, 1.0), y_range=(0.0, 1.0)
    )
    plots.write_as([panel], path)
