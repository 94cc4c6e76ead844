"""`commonground personalize` and `commonground predict`: heads, and what they answer."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from commonground.billboard.board import Billboard
from commonground.cli.options import print_json
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
from commonground.heads.table import interval_of


def personalize(
    billboard: Path, table: Path, out: Path, user: str | None, label: str | None, item: str | None, as_json: bool
) -> str:
    require_other_file(out, table)
    board = Billboard.load(billboard)
    users = newcomers_in(board, table, user, label, item)
    Heads.fit(board, users).save(out, board)
    if as_json:
        print_json({"heads": str(out), "people": users.n_users})
        return ""
    return f"Fitted {users.n_users:,} heads into {out}. They are private: give each person only her own."


def predict(
    billboard: Path, table: Path, out: Path, heads: Path | None, user: str | None, item: str | None, strict: bool,
    interval: float | None, as_json: bool,
) -> str:  # fmt: skip
    require_other_file(out, table, heads)
    if interval is not None and heads is None:
        raise InputError("--interval needs --heads: how far off an answer may be is known of people's own heads.")
    board = Billboard.load(billboard)
    own = None if heads is None else Heads.load(heads, board)
    schema = schema_of(board, user, None)
    who = schema.person.name if schema is not None else user or "user_id"
    if schema is not None:
        ids, X = read_encoded(table, schema)
    else:
        names = feature_names(board)
        ids, X = read_rows(table, who, names if item is None else [])
        if item is not None:
            X = one_hot(read_rows(table, item, [])[0], names)
    ends: dict[str, Any] = {}
    if own is None:
        X = check_features(X, board.n_features, None)
        scores, known = shared_scores(X, board.mean, board.intercept), np.zeros(X.shape[0], dtype=bool)
    else:
        scores, known = _by_own_heads(own, board, X, ids, strict)
        if interval is not None:
            asked = in_the_type_of(own.ids, plain_list(ids))
            low, high = interval_of(scores, own.std(board, X, asked), interval).T
            ends = {"low": _as_answers(board, low), "high": _as_answers(board, high)}
    write_table(pa.table({who: ids, **answers(board, scores), **ends, "has_own_head": known}), out)
    if as_json:
        print_json({"predictions": str(out), "rows": X.shape[0], "rows_with_own_head": int(known.sum())})
        return ""
    return f"Wrote {X.shape[0]:,} predictions to {out}; {int(known.sum()):,} from people's own heads."


def _by_own_heads(own: Heads, board: Billboard, X: Any, ids: Any, strict: bool) -> tuple[np.ndarray, np.ndarray]:
    asked = in_the_type_of(own.ids, plain_list(ids))
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
    if _log_odds(board):
        return np.asarray(1.0 / (1.0 + np.exp(-np.clip(scores, -700, 700))))
    return board.in_label_range(scores)


def answers(board: Billboard, scores: np.ndarray) -> dict[str, Any]:
    """Scores as people asked for them: numbers within the label's range, or a class by its name and its probability."""
    schema = board.schema
    if schema is None or schema.label.kind in ("number", "date"):
        return {"prediction": board.in_label_range(scores)}
    label = schema.label
    names = np.array(label.values if label.kind == "category" else ("no", "yes"), dtype=object)
    found = {"prediction": names[class_of(board, scores, schema)]}
    if _log_odds(board):
        found[f"probability of {names[1]}"] = 1.0 / (1.0 + np.exp(-np.clip(scores, -700, 700)))
    return found


def _log_odds(board: Billboard) -> bool:
    return getattr(board.head_kind, "loss", "") == "logistic"


def class_of(board: Billboard, scores: np.ndarray, schema: Schema) -> np.ndarray:
    """The place of the class that scores speak for, among those that the schema lists."""
    n_classes = len(schema.label.values) if schema.label.kind == "category" else 2
    if _log_odds(board) or board.head_kind.name in ("signs", "margin"):
        return (scores > 0).astype(int)
    return np.clip(np.rint(scores), 0, n_classes - 1).astype(int)
