"""Rows and heads never leave a node: every message of a training, in both directions, is searched for them.

Everybody's cells and heads are looked for as 64-bit numbers at every byte, the canary's (``test_numbers_that_leave``) also as
text and as numbers of other kinds. Under trust="nodes" the exact sums are secret, too. A false alarm of the first search
needs 64 random bits to agree, about 1e-8 for all messages; of the second one 1e-6 (``Secrets``).
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import commonground as cg
import federation_in_process as in_process
from commonground.federated.federation import Federation
from commonground.federated.node import Node
from commonground.federated.wire import pack, unpack
from commonground.heads.table import HeadTable
from commonground.statistics.directions import FeatureEnergies
from federation_in_process import InProcess, as_bytes, nodes_of
from test_numbers_that_leave import CELLS, LABEL, Secrets, population


def numbers_in(data: bytes, known: np.ndarray) -> set[float]:
    """Those of the known numbers that occur in the data, at any byte, with either sign."""
    found: set[float] = set()
    known = np.unique(np.abs(known[np.isfinite(known) & (known != 0) & (known != np.rint(known))]))
    for shift in range(8):
        whole = (len(data) - shift) // 8 * 8
        numbers = np.abs(np.frombuffer(data[shift : shift + whole], dtype="<f8"))
        found.update(known[np.isin(known, numbers)].tolist())
    return found


class Training:
    """One training on the canary and 1200 others at three nodes, and all that must stay there."""

    def __init__(self, folder: Path, trust: str, monkeypatch: pytest.MonkeyPatch) -> None:
        frame = population()
        frame.to_csv(folder / "rows.csv", index=False)
        self.users = cg.Users.from_table(folder / "rows.csv")
        self.link = InProcess(nodes_of(self.users, 3, trust))
        sums: list[np.ndarray] = []
        if trust == "nodes":
            exact = cg.Users.sum

            def noting(users: cg.Users, statistic: Any) -> Any:
                result = exact(users, statistic)
                sums.extend(value.ravel() for value in vars(result).values() if isinstance(value, np.ndarray))
                return result

            monkeypatch.setattr(cg.Users, "sum", noting)
        seed = 2 if trust == "server" else None
        model = cg.PrivateFedRep(2, 3.0, n_rounds=4, simulation_seed=seed)
        board = model.fit(Federation(self.link, trust=trust)).billboard_
        self.board = replace(board, head_kind=board.head_kind.on_shared_part_only)  # who keeps that has nothing to show
        heads = [HeadTable.fit(self.board, node.users) for node in self.link.members]
        cells = frame.drop(columns="user_id").to_numpy().ravel()
        own = [np.concatenate([h.weights.ravel(), h.intercepts]) for h in heads]
        self.secrets = np.concatenate([cells, *own, *sums])
        self.canary = Secrets()
        self.canary.note(CELLS, LABEL, frame[frame.user_id == "canary"].drop(columns="user_id"), marked=True)
        head = self.board.personalize(*self.users.rows_of("canary"))
        self.canary.note(head.weights, head.intercept, head.coef)


@pytest.mark.parametrize("trust", ["server", "nodes"])
def test_no_row_and_no_head_leaves(trust: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    training = Training(tmp_path, trust, monkeypatch)
    assert len(training.link.sent) > 80
    assert len(training.secrets) > 30_000
    everything = b"".join(training.link.sent)
    assert numbers_in(everything, training.secrets) == set()
    if trust == "server":
        assert training.canary.found_in(everything) == set()


@pytest.mark.parametrize("leak", ["a row", "a head"])
def test_the_search_would_find_it(leak: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    training = Training(tmp_path, "server", monkeypatch)
    for person in ("u5", "canary"):
        X, y = training.users.rows_of(person)
        value = np.asarray(X[0] if leak == "a row" else training.board.personalize(X, y).weights)
        config, arrays = unpack(training.link.members[0].answer(pack({"ask": "introduce"})))
        message = as_bytes(pack({**config, "odd": 1}, {**arrays, "value": value}))
        hidden = {abs(float(number)) for number in value}
        assert numbers_in(message, training.secrets) == {x for x in hidden if x != round(x)}
        if person == "canary":
            assert training.canary.found_in(message) & hidden
            assert training.canary.found_in(as_bytes(pack({"reason": f"failed on {value[0]:.5e}"})))


def test_a_private_object_does_not_show_what_it_holds() -> None:
    users = cg.datasets.make_shared_subspace(n_users=30, n_features=6, seed=1)[0]
    assert "X" not in repr(Node(users, "clinic"))
    federation = Federation(InProcess(nodes_of(users, 2)))
    assert repr(federation) == "Federation(n_users=30, n_features=6)"
    assert repr(federation.sum(FeatureEnergies(True))) == "<SizeCounts: private>"
    assert in_process.from_bytes(as_bytes(pack({"a": 1}))) == pack({"a": 1})
