"""Boards of every kind that the page knows, with one person's rows, and the CSV that she might have."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from commonground.billboard.board import Billboard
from commonground.data.items import one_hot
from commonground.data.schema import Schema
from commonground.data.schema_column import Column
from commonground.heads.kinds import ConvexHeads, PosteriorHeads, RidgeHeads, SignHeads
from made_boards import a_board

NAMES = ("a", "b", "c", "<script>", "=cmd()", "größe")


@dataclass(frozen=True)
class Case:
    """One board, her table to learn from, another to predict, and the same for Python."""

    board: Billboard
    rows: str
    asked: str
    X: Any
    y: Any
    Z: Any
    item: str | None = None


def csv(names: tuple[str, ...], rows: Any, delimiter: str = ",", comma: bool = False, quotes: bool = False) -> str:
    def cell(value: Any) -> str:
        text = value if isinstance(value, str) else repr(float(value))
        text = text.replace(".", ",") if comma and not isinstance(value, str) else text
        return '"' + text.replace('"', '""') + '"' if quotes or delimiter in text or '"' in text else text

    return "\r\n".join(delimiter.join(cell(one) for one in row) for row in (names, *rows)) + "\r\n"


def posterior(names: tuple[str, ...] = NAMES, rank: int = 2, local_choice: bool = False, **changes: Any) -> Billboard:
    board = a_board(names, rank=rank, seed=3, **changes)
    q = rank + board.fit_intercept
    root = np.random.default_rng(4).standard_normal((q, q))
    return replace(board, head_kind=PosteriorHeads(local_choice), prior=None, spread=root @ root.T / 2, noise=0.4)


def numbers(board: Billboard, n: int, seed: int = 5, noise: float = 0.3, **how: Any) -> Case:
    draw = np.random.default_rng(seed)
    d = board.n_features
    X, Z = draw.standard_normal((n, d)), draw.standard_normal((7, d))
    y = X @ (np.asarray(board.mean) + draw.standard_normal(d) / 2) + 0.7 + noise * draw.standard_normal(n)
    names = board.feature_names or ()
    return Case(board, csv((*names, "stars"), np.column_stack([X, y]), **how), csv(names, Z, **how), X, y, Z)


def yes_or_no(board: Billboard, n: int, seed: int = 6) -> Case:
    case = numbers(board, n, seed)
    y = (case.y > np.median(case.y)).astype(float)
    rows = csv((*(board.feature_names or ()), "stars"), np.column_stack([case.X, y]))
    return replace(case, rows=rows, y=y)


def items() -> Case:
    names = tuple(f'film {at}, "part" <{at}>' for at in range(40))
    board, draw = posterior(names, rank=3), np.random.default_rng(7)
    rated, asked = draw.permutation(40)[:9], np.arange(40)
    y = draw.integers(1, 6, 9).astype(float)
    rows = csv(("film", "stars"), [(names[at], label) for at, label in zip(rated, y, strict=True)], delimiter=";")
    X, Z = (one_hot([names[at] for at in which], names) for which in (rated, asked))
    return Case(board, rows, csv(("film",), [(names[at],) for at in asked]), X, y, Z, item="film")


SCHEMA = Schema(
    (
        Column("who", "person"),
        Column("stars", "label", range=(1, 5)),
        Column("age", range=(0, 120), missing="indicator", empty=(999, -1)),
        Column("town", kind="category", values=("Oslo", "São Paulo", "=cmd()"), missing="Oslo", empty=("n.n.",)),
        Column("member", kind="yes/no", missing=False),
        Column("since", kind="date", origin="2020-01-01", unit="weeks", range=(-100, 400)),
        Column("weight", scale=80.0),
    )
)


def mixed_columns() -> Case:
    board = posterior(SCHEMA.feature_names, rank=2)
    board = replace(board, schema=SCHEMA, statement=replace(board.statement, n_features=len(SCHEMA.feature_names)))
    table = {
        "age": ["30", "", "61,5", "140", "999,00", "NA"],
        "town": ["Oslo", "São Paulo", "Rome", "", "=cmd()", " n.n. "],
        "member": ["yes", "NO", "", "1", "0.0", "True"],
        "since": [
            "2021-05-01",
            "2020-02-29T12:30",
            "2019-12-31 23:59:59",
            "2030-01-01",
            "2020-01-01T00:00:00+02:00",
            "1999-01-01",
        ],
        "weight": ["80", "71,25", "1e2", "0", "-3", "+64,5"],
    }
    y = ["3", "4,5", "1", "9", "2", "5"]
    text = csv((*table, "stars"), zip(*table.values(), y, strict=True), delimiter=";")
    asked = csv(tuple(table), zip(*table.values(), strict=True), delimiter=";")
    plain = {
        name: [None if cell in ("", "NA") else cell.replace(",", ".") for cell in cells]
        for name, cells in table.items()
    }
    return Case(board, text, asked, plain, [cell.replace(",", ".") for cell in y], plain)


CASES: dict[str, Callable[[], Case]] = {
    "dense, few rows": lambda: numbers(posterior(), 4),
    "dense, more rows, semicolons and decimal commas": lambda: numbers(posterior(), 30, delimiter=";", comma=True),
    "own model kept": lambda: numbers(posterior(local_choice=True), 60, noise=1e-3, delimiter="\t"),
    "items": items,
    "rank 0": lambda: numbers(posterior(rank=0), 12, quotes=True),
    "no intercepts": lambda: numbers(posterior(fit_intercept=False), 12, delimiter="\t", comma=True),
    "no shared mean": lambda: numbers(replace(posterior(), mean=np.zeros(6)), 3),
    "logistic": lambda: yes_or_no(a_board(NAMES, head_kind=ConvexHeads("logistic")), 25),
    "logistic posterior": lambda: yes_or_no(replace(posterior(), head_kind=PosteriorHeads(True, loss="logistic")), 25),
    "Huber": lambda: numbers(a_board(NAMES, head_kind=ConvexHeads("huber")), 25),
    "ridge with a prior": lambda: numbers(a_board(NAMES), 12),
    "ridge, one row": lambda: numbers(a_board(NAMES, prior=None), 1),
    "ridge, fewer rows than directions": lambda: numbers(a_board(NAMES, rank=4, prior=None), 3),
    "ridge, the choice": lambda: numbers(a_board(NAMES, head_kind=RidgeHeads(True)), 50),
    "ridge, sharing does not pay": lambda: numbers(a_board(NAMES, head_kind=RidgeHeads(True), sharing_pays=False), 9),
    "signs": lambda: yes_or_no(a_board(NAMES, head_kind=SignHeads(0.5)), 20),
    "columns of a schema": mixed_columns,
    "50,000 rows": lambda: numbers(posterior(local_choice=True), 50_000),
}
