"""The trade-off between the auditor's two errors: what is claimed, what was observed."""

from pathlib import Path

import numpy as np

from commonground.audit.bounds import definition_tradeoff, gaussian_tradeoff, observed_tradeoff
from commonground.audit.run import Report


def draw_tradeoff(report: Report, path: Path, title: str) -> None:
    """A private fit stays above the claimed curve, up to chance; the diagonal is blind guessing."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 5.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    fpr = np.linspace(0.0, 1.0, 400)
    whole, others = report.whole, report.others
    claimed = (
        definition_tradeoff(whole.claimed_epsilon, 0.0, fpr)
        if report.pure
        else gaussian_tradeoff(whole.claimed_mu, fpr)
    )
    axes.fill_between(fpr, claimed, color="C3", alpha=0.12, lw=0, label="more than claimed")
    axes.plot(fpr, claimed, color="C3", label=f"claimed: ε = {whole.claimed_epsilon:.3g} (μ = {whole.claimed_mu:.3g})")
    axes.plot(*observed_tradeoff(*report.scores), color="C0", lw=1.2, label="observed, every release (white box)")
    half = report.n_runs // 2  # the first half trained the discriminant
    unseen = [scores[half:] for scores in report.others_scores]
    axes.plot(*observed_tradeoff(*unseen), color="C2", lw=1.2, label="observed, view of all others (black box)")
    axes.plot(
        fpr, definition_tradeoff(whole.bound.epsilon, 0.0, fpr) if report.pure else gaussian_tradeoff(whole.bound.mu, fpr),
        ls="--", color="C0",
        label=f"audited at {report.confidence:.0%}: ε ≥ {whole.bound.by_curve:.3g}, others' view ≥ "
        f"{others.bound.by_curve:.3g}",
    )  # fmt: skip
    axes.plot(fpr, 1 - fpr, ls=":", color="0.5", label="blind guessing")
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="false-positive rate", ylabel="false-negative rate", title=title)
    axes.set_aspect("equal")
    axes.legend(loc="upper right", fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
