"""P1, Differentially Private Model Personalization: its Figure 2. The text prints claims about it, no plotted numbers."""

import math

import numpy as np

from commonground.accounting.budgets import Budget
from commonground.data.users import Users
from commonground.datasets.synthetic import Truth
from commonground.estimators.altmin import PrivateAltMin
from commonground.estimators.altmin.paper import AltMinSettings, printed_costs
from commonground.estimators.fedrep import PrivateFedRep
from commonground.estimators.nonprivate_fedrep import NonPrivateFedRep
from commonground.estimators.own_data import OwnDataOnly
from commonground.estimators.single_model import SingleModel
from commonground.reproduce.results import Claim, Outcome, PaperResult, Row
from commonground.reproduce.subspace import Curve, drawing, error, errors_of, fitted, mse_of, our_default, rows_of

DELTA = 1e-6
EPSILONS = (1.0, 2.0, 5.0, 10.0)
PRINTED_ZCDP = {1.0: 0.009, 2.0: 0.04, 5.0: 0.23, 10.0: 0.90}
EPOCHS = (1, 2, 5, 10)
RANDOM, OWN, SINGLE, NON_PRIVATE = "random model", "own data", "single private model", "without privacy"
PAPER = "Priv-AltMin, paper's recipe, 5 epochs, noise of Algorithms 2 and 3"
PRINTED_RHO = "Priv-AltMin, paper's recipe, 5 epochs, the printed ρ"
BEST_EPOCHS = "Priv-AltMin, paper's recipe, the printed ρ, best epochs (NOT private)"
ALTMIN, FEDREP = "PrivateAltMin, default", "PrivateFedRep, default"


def _paper(epsilon: float, seed: int, epochs: int, noise: str) -> PrivateAltMin:
    settings = AltMinSettings(epochs, noise=noise)
    return PrivateAltMin(2, epsilon, DELTA, recipe="paper", simulation_seed=seed, paper_settings=settings)


def _best_epochs(users: Users, truth: Truth, epsilon: float, seed: int) -> float:
    """The paper's choice of the number of epochs, by looking at the result; nothing pays for the look."""
    return min(mse_of(_paper(epsilon, seed, epochs, "zcdp"), users, truth) for epochs in EPOCHS)


def random_model(users: Users, truth: Truth, epsilon: float, seed: int) -> float:
    """Somebody else's embedding and heads, drawn like the true ones."""
    rng = np.random.default_rng([seed, 0x5EED])
    embedding = np.linalg.qr(rng.standard_normal(truth.embedding.shape))[0]
    return error(rng.standard_normal(truth.heads.shape) @ embedding.T, truth)


CURVES = (
    Curve(RANDOM, random_model, flat=True, style=":"),
    Curve(OWN, fitted(lambda epsilon, seed: OwnDataOnly(fit_intercept=False)), flat=True, style="-."),
    Curve(
        SINGLE,
        fitted(lambda epsilon, seed: SingleModel(epsilon, DELTA, fit_intercept=False, simulation_seed=seed)),
        style="s-",
    ),
    Curve(PAPER, fitted(lambda epsilon, seed: _paper(epsilon, seed, 5, "algorithm"))),
    Curve(PRINTED_RHO, fitted(lambda epsilon, seed: _paper(epsilon, seed, 5, "zcdp")), style="D-"),
    Curve(BEST_EPOCHS, _best_epochs, style="o--"),
    Curve(ALTMIN, our_default(PrivateAltMin, DELTA), style="^-"),
    Curve(FEDREP, our_default(PrivateFedRep, DELTA), style="v-"),
    Curve(
        NON_PRIVATE,
        fitted(lambda epsilon, seed: NonPrivateFedRep(2, fit_intercept=False, shared_mean=False)),
        flat=True,
        style="--",
    ),
)


def _zcdp_rows() -> list[Row]:
    """The printed pairs of ε and ρ, and what an exact account of Gaussian noise allows at the same (ε, δ)."""
    rows = []
    for epsilon, printed in PRINTED_ZCDP.items():
        ours = epsilon**2 / (8 * math.log(1 / DELTA))
        last_digit = 10.0 ** -len(f"{printed:g}".split(".")[1])
        rows.append(
            Row({"curve": "zCDP ρ = ε²/(8 log 1/δ)", "epsilon": epsilon}, ours, printed, 0.5 * last_digit / printed)
        )
    return rows + [
        Row({"curve": "zCDP ρ = μ²/2, exact", "epsilon": epsilon}, Budget(epsilon, DELTA).mu ** 2 / 2, note="allowed")
        for epsilon in PRINTED_ZCDP
    ]


def _spent_rows() -> list[Row]:
    """ρ that the two curves of the paper's recipe spend: start and rounds together."""
    rows = []
    for noise, label in (("algorithm", PAPER), ("zcdp", PRINTED_RHO)):
        for epsilon, printed in PRINTED_ZCDP.items():
            settings = AltMinSettings(5, noise=noise)
            mu = printed_costs(Budget(epsilon, DELTA), settings)
            spent = (mu["start"] ** 2 + settings.n_rounds * (mu["matrix"] ** 2 + mu["vector"] ** 2)) / 2
            rows.append(Row({"curve": f"zCDP ρ spent by: {label}", "epsilon": epsilon}, spent, printed, note="spent"))
    return rows


def _claims(errors: dict[tuple[str, float], np.ndarray], epsilons: tuple[float, ...]) -> list[Claim]:
    mean = {key: float(values.mean()) for key, values in errors.items()}
    at_five = 5.0
    random, non_private = mean[RANDOM, at_five], mean[NON_PRIVATE, at_five]
    single = [mean[SINGLE, epsilon] for epsilon in epsilons]
    ours = mean[ALTMIN, at_five]
    private_baselines = min(min(single), mean[OWN, at_five])

    def listed(label: str) -> str:
        return ", ".join(f"ε = {epsilon:g}: {mean[label, epsilon]:.3g}" for epsilon in epsilons)

    return [
        Claim("a purely random model has an error of about 4", abs(random - 4) < 0.2, f"{random:.3f}"),
        Claim(
            "the single model's error stays very high at every ε (at least half of what no model at all has)",
            min(single) >= 1.0,
            f"{min(single):.3f} to {max(single):.3f}; predicting zero has 2",
        ),
        Claim(
            "Priv-AltMin (the printed ρ) beats own data and the single model by a wide margin (a tenth or less) at every ε",
            max(mean[PRINTED_RHO, epsilon] for epsilon in epsilons) <= private_baselines / 10,
            f"{listed(PRINTED_RHO)} against {private_baselines:.3g}; with the noise of Algorithms 2 and 3: {listed(PAPER)}",
        ),
        Claim(
            "at ε = 5 Priv-AltMin (the printed ρ) is near the error without privacy on the figure's scale (within 0.1, the "
            "axis ends at 4)",
            mean[PRINTED_RHO, at_five] - non_private <= 0.1,
            f"{mean[PRINTED_RHO, at_five]:.3g} against {non_private:.3g}",
        ),
        Claim(
            "at ε = 5 Priv-AltMin (the printed ρ) is comparable to the error without privacy: at most twice it",
            mean[PRINTED_RHO, at_five] <= 2 * non_private,
            f"{mean[PRINTED_RHO, at_five] / non_private:.3g} times; {mean[PAPER, at_five] / non_private:.3g} times with the "
            "noise of Algorithms 2 and 3; the start is paid for in both",
        ),
        Claim(
            "the same with our default recipe",
            ours <= 2 * non_private,
            f"{ours / non_private:.4f} times at ε = 5, {mean[ALTMIN, epsilons[0]] / non_private:.4f} at ε = {epsilons[0]:g}",
        ),
    ]


def _figure_2(fast: bool, show: bool) -> Outcome:
    n_users, n_seeds, epsilons = (20_000, 1, (1.0, 5.0)) if fast else (50_000, 3, EPSILONS)
    curves = tuple(curve for curve in CURVES if not (fast and curve.label == BEST_EPOCHS))
    errors = errors_of(curves, n_users, epsilons, n_seeds, show)
    notes = {BEST_EPOCHS: "the choice among 1, 2, 5, 10 epochs is not paid for", NON_PRIVATE: "not private"}
    return Outcome(
        rows_of(curves, errors, notes) + _zcdp_rows() + _spent_rows(),
        _claims(errors, epsilons),
        drawing(curves, errors, epsilons, f"P1 Figure 2 again: {n_users:,} people, 10 rows, d = 50, k = 2"),
    )


RESULTS = (
    PaperResult(
        "p1-fig2",
        "Population MSE against ε",
        "n = 50,000 people, m = 10, d = 50, k = 2, label noise 0.01, δ = 1e-6; orthonormal embedding and "
        "standard normal heads (so that a random model has 4, as stated); clipping norm 1e-4 for rows and labels; 3 seeds. "
        "The paper does not say how its experiment is initialised: Algorithm 3 here, paid for. Heads of the paper's recipe "
        "come from the second half of a person's rows. Algorithms 2 and 3 with the noise of Theorem 4.2 spend ρ = 0.0040 at "
        "ε = 1, less than half of the 0.009 that is printed with the figure: both are shown.",
        _figure_2,
        fast="20,000 people, one seed, ε = 1 and 5, without the choice of epochs",
    ),
)
