"""`commonground personalize` and `commonground predict`: heads, and what they answer."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from commonground.billboard.board import Billboard
from commonground.cli.first_look import look_at_answers, look_at_labels, look_at_rows
from commonground.cli.options import answer
from commonground.cli.tables import feature_names, newcomers_in, schema_of
from commonground.data.features import check_features
from commonground.data.ids import in_the_type_of, mostly_unknown, plain_list, require_one_type
from commonground.data.items import one_hot
from commonground.data.schema import Schema
from commonground.data.tables import read_encoded, read_rows, write_table
from commonground.errors import InputError, UnknownUserError, UnknownUserWarning
from commonground.files import require_other_file
from commonground.heads.arithmetic import shared_scores
from commonground.heads.files import Heads
from commonground.heads.table import HeadTable, interval_of, probabilities


def heads_in(path: Path, board: Billboard) -> Heads:
    if not path.exists():
        raise InputError(
            f"There is no file {path}. Heads are made by `commonground personalize BILLBOARD TABLE --out {path}`, from rows with "
            "labels of the people that are asked about."
        )
    return Heads.load(path, board)


def personalize(
    billboard: Path, table: Path, out: Path, *, user: str | None, label: str | None, item: str | None, as_json: bool
) -> None:
    require_other_file(out, table)
    if out.suffix.lower() != ".parquet":  # before everybody's head is fitted
        raise InputError(f"Heads are written as Parquet; give a file name that ends in .parquet, not {str(out)!r}.")
    board = Billboard.load(billboard)
    users = newcomers_in(board, table, user, label, item)
    if board.head_kind.held_by_own_rows_alone(board):
        look_at_rows(users, board.rank + int(board.fit_intercept), "this board")
    look_at_labels(board, users)
    Heads.fit(board, users).save(out, board)
    told = f"Fitted {users.n_users:,} head{'s' * (users.n_users != 1)} into {out}."
    document = {"heads": str(out), "people": users.n_users}
    answer(f"{told} They are private: give each person only her own.", document, as_json)


def predict(
    billboard: Path,
    table: Path,
    out: Path,
    *,
    heads: Path | None,
    user: str | None,
    item: str | None,
    strict: bool,
    interval: float | None,
    as_json: bool,
) -> None:
    require_other_file(out, table, heads)
    if interval is not None and heads is None:
        raise InputError("--interval needs --heads: how far off an answer may be is known of people's own heads.")
    board = Billboard.load(billboard)
    own = None if heads is None else heads_in(heads, board)
    schema = schema_of(board, user, None)
    who = schema.person.name if schema is not None else user or "user_id"
    if schema is not None:
        ids, X = read_encoded(table, schema)
    else:
        names = feature_names(board)
        ids, X = read_rows(table, who, names if item is None else [])
        if item is not None:
            X = one_hot(read_rows(table, item, [])[0], names)
    if X.shape[0] == 0:
        raise InputError(f"There are no rows in {table}: nothing to predict.")
    ends: dict[str, Any] = {}
    about_classes = board.log_odds or board.classes is not None
    if own is None:
        X = check_features(X, board.n_features, None)
        scores, known = board_scores(board, X), np.zeros(X.shape[0], dtype=bool)
        chances = HeadTable.nobody(board).probabilities(board, X, np.full(len(known), -1)) if about_classes else None
    else:
        asked = in_the_type_of(own.ids, plain_list(ids))
        scores, known = _by_own_heads(own, board, X, asked, strict)
        chances = own.probabilities(board, X, asked) if about_classes else None
        if interval is not None:
            low, high = interval_of(scores, own.std(board, X, asked), interval).T
            ends = {"low": _as_answers(board, low), "high": _as_answers(board, high)}
    look_at_answers(board, scores)
    write_table(pa.table({who: ids, **answers(board, scores, chances), **ends, "has_own_head": known}), out)
    told = f"Wrote {X.shape[0]:,} prediction{'s' * (X.shape[0] != 1)} to {out}; {int(known.sum()):,} from people's own heads."
    if own is None:
        told += " Without --heads everybody gets the shared one; `personalize` makes heads."
    answer(told, {"predictions": str(out), "rows": X.shape[0], "rows_with_own_head": int(known.sum())}, as_json)


def board_scores(board: Billboard, X: Any) -> np.ndarray:
    """Of the shared part, for rows that are features already."""
    if board.class_scores is not None:
        return HeadTable.nobody(board).predict(board, X, np.full(X.shape[0], -1))
    return shared_scores(X, board.mean, board.intercept)


def _by_own_heads(
    own: Heads, board: Billboard, X: Any, asked: list[Any], strict: bool
) -> tuple[np.ndarray, np.ndarray]:
    scores, known = own.predict(board, X, asked, strict)
    if not known.any():
        require_one_type(own.ids.to_pylist(), asked)
    if known.mean() < 0.5:
        if strict:
            raise UnknownUserError(mostly_unknown(~known))
        warnings.warn(mostly_unknown(~known), UnknownUserWarning, stacklevel=2)
    return scores, known


def _as_answers(board: Billboard, scores: np.ndarray) -> np.ndarray:
    """Ends of intervals: probabilities where scores are log-odds, else labels within their range."""
    if board.log_odds:
        return np.asarray(probabilities(scores, np.zeros(len(scores)))[:, 1])
    return board.in_label_range(scores)


def answers(board: Billboard, scores: np.ndarray, chances: np.ndarray | None) -> dict[str, Any]:
    """Scores as people asked for them: numbers within the label's range, or a class by its name and its probability."""
    schema = board.schema
    if board.classes is not None and chances is not None:
        each = {f"probability of {name}": chances[:, place] for place, name in enumerate(board.classes)}
        return {"prediction": np.array(board.classes)[chances.argmax(axis=1)], **each}
    if schema is None and (chances is not None or board.answers_by_sign):  # labels were 0 and 1, or −1 and 1
        found = {"prediction": (scores > 0).astype(int)}
        return found if chances is None else {**found, "probability of 1": chances[:, 1]}
    if schema is None or not schema.label.is_class:
        return {"prediction": board.in_label_range(scores)}
    label = schema.label
    names = np.array(label.values if label.kind == "category" else ("no", "yes"), dtype=object)
    found = {"prediction": names[class_of(board, scores, schema)]}
    if chances is not None:
        found[f"probability of {names[1]}"] = chances[:, 1]
    return found


def class_of(board: Billboard, scores: np.ndarray, schema: Schema) -> np.ndarray:
    """The place of the class that scores speak for, among those that the schema lists."""
    n_classes = len(schema.label.values) if schema.label.kind == "category" else 2
    if board.log_odds or board.answers_by_sign:
        return (scores > 0).astype(int)
    return np.clip(np.rint(scores), 0, n_classes - 1).astype(int)
