"""Rules of the house that a reader can rely on: one door, one source of protective noise, rooms in order."""

import ast
import re
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "commonground"
FILES = {str(path.relative_to(SOURCE)): path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")}


def imports(text: str) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def users_of(module: str) -> set[str]:
    return {
        name for name, text in FILES.items() if any(i == module or i.startswith(module + ".") for i in imports(text))
    }


def test_every_kind_of_noise_has_one_caller() -> None:
    assert users_of("commonground.gate.noise") == {
        "gate/release.py",
        "gate/perturb.py",
        "gate/select.py",
        "gate/repeat.py",
    }
    assert users_of("commonground.gate.noise.add_gaussian_noise") == {"gate/release.py"}
    assert users_of("commonground.gate.noise.choose_smallest") == {"gate/select.py"}
    assert users_of("commonground.gate.noise.add_l2_laplace_noise") == {"gate/perturb.py"}


def test_the_verbs_of_the_gate_are_called_by_the_gate_alone() -> None:
    for verb in (
        "release.release",
        "scattered.release_scattered",
        "perturb.perturb",
        "perturb.sample_people",
        "select.select",
        "repeat.repetitions",
    ):
        assert users_of(f"commonground.gate.{verb}") == {"gate/gate.py"}, verb


def test_who_makes_a_gate() -> None:
    """One for each fit, by the base of estimators, for each evaluation, the choices of a search and each node; a second
    gate would pass by ledger and statement."""
    made = {name for name, text in FILES.items() if re.search(r"\bGate\(|\bgate\(\*|= gate\(|else gate\(", text)}
    assert made - {"gate/gate.py"} == {
        "estimators/base.py",
        "evaluation/evaluate.py",
        "federated/node.py",
        "reproduce/lemmas.py",
        "reproduce/p2.py",
        "tuning/repeat.py",
        "tuning/split.py",
    }
    others = {name for name, text in FILES.items() if re.search(r"replace\(self\.gate", text)}
    assert others == {"estimators/altmin/disjoint_groups.py"}  # what the first group has paid for


def test_shipped_code_needs_no_mock() -> None:
    """An audit passes a gate that watches; what is broken on purpose puts back what it took."""
    assert users_of("unittest") == set()
    assert {name for name, text in FILES.items() if re.search(r"\bsetattr\(owner", text)} == {"audit/broken.py"}


def test_only_the_gate_draws() -> None:
    """OpenDP and generators appear in the gate; simulated data and the coins of a one-run audit have their own."""
    assert users_of("opendp") == {"gate/noise.py"}
    drawing = {
        name
        for name, text in FILES.items()
        if re.search(
            r"np\.random|default_rng|standard_normal|random\.|torch\.(rand|Generator|manual_seed|bernoulli)", text
        )
        and not name.startswith("reproduce/")
    }
    # public_draws.py: candidates and projections, made without data; they protect nobody and must not seem to
    # audit/joint.py makes people up; audit/run.py, replay.py, attack_on_p4.py, whole_owners.py draw what attackers may see
    # audit/one_run.py: which canary is which is the auditor's secret, not protection; it must not share the noise's stream
    # deep/models.py: where training starts is public; deep/local.py: in which order an owner passes its own rows
    # deep/probe.py: made-up records, on which a model is seen to mix or not
    assert drawing == {
        "gate/noise.py", "gate/randomness.py", "datasets/synthetic.py", "datasets/ratings.py", "datasets/owners.py",
        "audit/one_run.py", "audit/run.py", "audit/replay.py", "audit/joint.py", "audit/attack_on_p4.py",
        "audit/whole_owners.py", "datasets/drifting.py", "public_draws.py", "deep/models.py", "deep/local.py", "deep/probe.py",
    }  # fmt: skip
    assert not any(re.search(r"np\.random\.(seed|rand|randn|normal)\b", text) for text in FILES.values())


def test_contributions_know_neither_noise_nor_budget() -> None:
    for name in FILES:
        if name.startswith(("statistics/", "engines/", "heads/")):
            forbidden = {i for i in imports(FILES[name]) if re.match(r"commonground\.(gate|ledger|estimators)", i)}
            assert not forbidden, f"{name} imports {forbidden}"


def rooms_needed(name: str) -> set[str]:
    """At run time, that is, not for the type checker alone."""
    tree = ast.parse(FILES[name])
    tree.body = [n for n in tree.body if not (isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING")]
    return {i.split(".")[1] for i in imports(ast.unparse(tree)) if i.startswith("commonground.")}


def test_boards_know_heads_and_heads_know_statistics_never_the_other_way() -> None:
    for name in FILES:
        if name.startswith("heads/"):
            assert rooms_needed(name) <= {"heads", "statistics", "data", "errors", "losses", "compiled", "threads"}, (
                name
            )
        if name.startswith("statistics/"):
            assert not rooms_needed(name) & {"heads", "billboard", "estimators"}, name


def test_no_estimator_has_its_own_way_to_fit_heads() -> None:
    """A board names the kind of its heads, so that it fits the same ones after it was saved and loaded."""
    assert users_of("commonground.heads.table.HeadTable") & {n for n in FILES if n.startswith("estimators/")} == {
        "estimators/answers.py",  # which asks them
        "estimators/base.py",
    }
    assert not any(re.search(r"def _?(fit|block)_heads", text) for name, text in FILES.items() if "estimators/" in name)


def test_what_is_free_reads_releases_only_and_steps_know_no_estimator() -> None:
    for name in FILES:
        if name.startswith("denoise/"):
            needed = {i for i in imports(FILES[name]) if i.startswith("commonground.")}
            assert all(i.startswith(("commonground.denoise", "commonground.clipping")) for i in needed), (name, needed)
        if name.startswith("steps/"):
            assert not any(i.startswith("commonground.estimators") for i in imports(FILES[name])), name


def test_accounting_is_arithmetic_and_the_ledger_needs_nothing_else() -> None:
    """What knows both boards and ledgers is with the boards; who people are is known to neither room."""
    allowed = {"accounting": {"accounting", "errors"}, "ledger": {"ledger", "accounting", "errors"}}
    for name, text in FILES.items():
        room = name.split("/")[0]
        if room in allowed:
            needed = {i.split(".")[1] for i in imports(text) if i.startswith("commonground.")}
            assert needed <= allowed[room], f"{name} imports {needed - allowed[room]}"


def test_sensitivities_are_made_in_clipping_only() -> None:
    makers = {name for name, text in FILES.items() if re.search(r"Bounded(Sum|Scores)\(", text)}
    assert makers == {"clipping/ridge.py", "clipping/shares.py", "clipping/sums.py"}


def test_no_pickle() -> None:
    assert not users_of("pickle")
    assert not users_of("joblib")


def test_only_the_deep_room_and_the_gpu_need_torch() -> None:
    with_torch = {name for name in users_of("torch") if not name.startswith("deep/")}
    assert with_torch == {
        "reproduce/p4_cells.py",
        "reproduce/p4_fedavg.py",
        "reproduce/p4_side_by_side.py",
        "audit/joint.py",
        "engines/device.py",
        "statistics/kernels/cuda.py",
    }


def test_heavy_libraries_are_loaded_by_those_who_need_them() -> None:
    """Memory is promised as a block and a half and 300 MB, and imports are part of it."""
    ask = "import sys, commonground; print([name for name in ('sqlalchemy', 'torch', 'matplotlib') if name in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


def test_only_the_federated_room_needs_flower() -> None:
    """And its command line imports the rest of it only when a command runs."""
    assert {name.split("/")[0] for name in users_of("flwr")} == {"federated"}
    at_once = [n for n in ast.parse(FILES["cli/federate.py"]).body if isinstance(n, ast.Import | ast.ImportFrom)]
    needed = imports(ast.unparse(ast.Module(at_once, [])))
    assert "commonground.cli.ledger.population_for_training" in needed
    assert not any(name.startswith(("flwr", "commonground.federated")) for name in needed)


def test_who_in_the_federated_room_knows_the_gate() -> None:
    """A node releases through the one gate; the server's side only describes sums that are noised elsewhere."""
    at_the_gate = {name for name in users_of("commonground.gate") if name.startswith("federated/")}
    assert at_the_gate == {"federated/node.py", "federated/federation.py", "federated/guarantee.py"}
    assert {name for name in users_of("commonground.gate.release") if name.startswith("federated/")} == {
        "federated/federation.py",  # for the margin that a node's noise has
    }
