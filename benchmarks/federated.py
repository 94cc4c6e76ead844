"""A SuperLink with TLS and four SuperNodes on loopback: accuracy, message sizes, and a node killed in mid-training.

    python benchmarks/federated.py                      # all of it: some minutes
    python benchmarks/federated.py --only killed        # one scenario

n = 20,000 people (5,000 at each node), ε = 1, δ = 1e-6, d = 50, k = 2, 10 rows, label noise 0.01. Scenarios:

- local: the same people on one machine;
- server: nodes send exact sums, the server adds the noise;
- nodes: each node adds its share, none may vanish;
- killed: as server, one node and its SuperNode killed after the eighth question;
- killed-noise: as nodes, one may vanish, and one is killed;
- killed-too-many: as nodes, none may vanish, and one is killed: training has to stop.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import commonground as cg
from commonground.accounting.budgets import Budget
from commonground.cli.federate import dealt_out
from commonground.errors import CommongroundError
from commonground.federated.flower import GridLink, Settings, train
from commonground.federated.guarantee import NoiseShares, epsilon_to_the_server
from commonground.federated.keys import make_certificates, make_node_key
from commonground.federated.processes import LOOPBACK, free_port
from commonground.federated.superlink import ServerTls, superlink

NODES, KILLED_AFTER = 4, 8
SCENARIOS = {  # trust, how many may vanish, whether one is killed
    "server": ("server", 0, False),
    "nodes": ("nodes", 0, False),
    "killed": ("server", 0, True),
    "killed-noise": ("nodes", 1, True),
    "killed-too-many": ("nodes", 0, True),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=["local", *SCENARIOS], nargs="*", default=["local", *SCENARIOS])
    parser.add_argument("--people", type=int, default=20_000)
    arguments = parser.parse_args()
    users, truth = cg.datasets.make_shared_subspace(
        n_users=arguments.people, rows_per_user=10, n_features=50, rank=2, noise=0.01, seed=0
    )
    floor = cg.metrics.population_mse(truth.embedding, users, truth)

    def over_floor(board: cg.Billboard) -> float:
        return cg.metrics.population_mse(board, users, truth) / floor

    if "local" in arguments.only:
        start = time.monotonic()
        model = cg.PrivateFedRep(2, 1.0, 1e-6, fit_intercept=False, shared_mean=False, keep_heads=False)
        ratio = over_floor(model.fit(users).billboard_)
        print(f"local: MSE ÷ floor {ratio:.4f}, {time.monotonic() - start:.0f} s", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        parts = dealt_out(users, NODES, Path(scratch), "user_id", "y")
        for name in SCENARIOS:
            if name in arguments.only:
                trust, tolerated, kill = SCENARIOS[name]
                run(name, Path(scratch), parts, trust, tolerated, kill, over_floor)


def run(
    name: str, folder: Path, parts: list[Path], trust: str, tolerated: int, kill: bool,
    over_floor: Callable[[cg.Billboard], float],
) -> None:  # fmt: skip
    made, port = make_certificates(folder), free_port()
    keys = [make_node_key(folder, f"{name}-{part.stem}") for part in parts]
    allowed = epsilon_to_the_server(Budget(1.0, 1e-6), NoiseShares(NODES, tolerated)) * (1 + 1e-6)
    settings = Settings(
        nodes=NODES, rank=2, epsilon=1.0, intercept=False, shared_mean=False, trust=trust, tolerated=tolerated,
        timeout=60.0,
    )  # fmt: skip
    tls = ServerTls(made.certificate, made.key, made.authority)
    nodes: list[subprocess.Popen[bytes]] = []
    start = time.monotonic()
    try:
        with superlink(LOOPBACK, port, tls, [Path(f"{key}.pub") for key in keys]) as link:
            for part, key in zip(parts, keys, strict=True):
                own = ["--trust", trust] + (["--epsilon", repr(allowed)] if trust == "nodes" else [])
                nodes.append(serve(part, port, made.authority, key, own))
            with link.run(settings.as_config()) as grid:
                wire = Watched(grid, settings.timeout, nodes[-1] if kill else None)
                try:
                    board = train(wire, settings)
                except CommongroundError as stopped:
                    print(f"{name}: stopped cleanly: {stopped}", flush=True)
                    return
    finally:
        for node in nodes:
            if node.poll() is None:
                os.killpg(node.pid, signal.SIGTERM)
            node.wait()
    down, up = (sum(sizes) / len(wire.traffic) for sizes in zip(*wire.traffic, strict=True))
    seconds = [later - earlier for earlier, later in zip(wire.times, wire.times[1:], strict=False)]
    print(
        f"{name}: MSE ÷ floor {over_floor(board):.4f}, {time.monotonic() - start:.0f} s with start-up; {len(wire.traffic)} "
        f"questions, median {sorted(seconds)[len(seconds) // 2]:.1f} s each; bytes per question, all nodes: {down:,.0f} to, "
        f"{up:,.0f} from; largest answers {max(received for _, received in wire.traffic):,}"
    )
    print(f"  {board.statement.custody}", flush=True)


class Watched(GridLink):
    """Kills a node after some questions."""

    def __init__(self, grid: object, timeout: float, victim: "subprocess.Popen[bytes] | None") -> None:
        super().__init__(grid, timeout)  # type: ignore[arg-type]
        self.victim, self.times = victim, list[float]()

    def ask(self, messages: dict) -> dict:  # type: ignore[type-arg]
        self.times.append(time.monotonic())
        if self.victim is not None and len(self.times) == KILLED_AFTER + 1:
            os.killpg(self.victim.pid, signal.SIGKILL)
        return super().ask(messages)


def serve(part: Path, port: int, authority: Path, key: Path, own: list[str]) -> "subprocess.Popen[bytes]":
    program = [sys.executable, "-c", "from commonground.cli import main; main()", "federate", "node", "serve"]
    where = ["--superlink", f"{LOOPBACK}:{port}", "--ca", str(authority), "--key", str(key)]
    return subprocess.Popen([*program, str(part), *where, *own], start_new_session=True, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
