"""P4's Theorem 3.1 under attack: Algorithm 1 as printed does not keep its ε for records (``audit/attack_on_p4.py``)."""

from commonground.audit.attack_on_p4 import OWNER, PRINTED, RESTING, Attack, proven_epsilon
from commonground.progress import progress_bar
from commonground.reproduce.results import Claim, Outcome, PaperResult, Row

RECORDS, RUNS = (5, 10, 20), 1000


def _run(fast: bool, show: bool) -> Outcome:
    records, runs = ((5,), 100) if fast else (RECORDS, RUNS)
    proven: dict[tuple[int, str], float] = {}
    rows = []
    with progress_bar("p4-flaw", len(records) * 3, show) as advance:
        for m in records:
            attack = Attack(n_records=m)
            for how in (PRINTED, OWNER, RESTING):
                bound = proven_epsilon(attack, how, runs if m < 20 else runs // 4)
                proven[m, how] = bound.by_definition
                note = f"{bound.accuracy:.1%} of guesses right; noise {attack.noise(how):.1f} L a step"
                if how != OWNER:
                    note += f"; ε would be {attack.epsilon_if_at_rest(how):.2f} if x rested"
                rows.append(Row({"records of an owner": m, "algorithm": how}, bound.by_definition, note=note))
                advance()
    declared = Attack().epsilon
    return Outcome(
        rows,
        [
            Claim(
                f"P4, Theorem 3.1: Algorithm 1 as printed is ({declared:g}, 1e-5)-DP at the level of records",
                all(proven[m, PRINTED] <= declared for m in records),
                "proven with 95 % confidence: " + ", ".join(f"m = {m}: ε >= {proven[m, PRINTED]:.2f}" for m in records),
            ),
            Claim(
                "the same attack proves nothing against the two repairs (noise for whole owners; x at rest)",
                all(proven[m, how] <= declared for m in records for how in (OWNER, RESTING)),
                f"at most ε >= {max(proven[m, how] for m in records for how in (OWNER, RESTING)):.2f}",
            ),
        ],
    )


RESULT = PaperResult(
    "p4-flaw",
    "An attack on Algorithm 1 as printed: ε at the level of records, proven from ū alone",
    "50 owners, T = (mn)² steps, ε = 1, δ = 1e-5, |u| at most 5 ηL; losses ±Lx, L|αx + βu| and 0; 1,000 runs with either record "
    "(250 for m = 20), Clopper-Pearson, half of the runs to choose the threshold and half to judge.",
    _run,
    fast="5 records, 100 runs",
)
