"""The billboard: what is published. Arrays, and the statement of what they cost everybody."""

import hashlib
import json
import math
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays
from scipy import sparse

from commonground.accounting.events import Event, GaussianEvent, PureEvent, epsilon_spent, event_from_dict
from commonground.accounting.sampled import REPLACE
from commonground.claims import UnbelievableError, check_claim, check_finite, check_shapes
from commonground.errors import BillboardError, InputError
from commonground.files import DRAFT, PUBLIC, AloneIn, replacing, sync_folder
from commonground.heads.arithmetic import shared_scores
from commonground.heads.choice import HEAD, OWN, OwnModels, keep_best
from commonground.heads.convex import LOSSES, fit_convex_heads
from commonground.heads.ridge import Head, fit_heads, head_from
from commonground.ledger import BookedLedger, Ledger, LedgerEntry
from commonground.signing import SigningKey, VerifyingKey
from commonground.sparse import as_csr
from commonground.users import Block

SCHEMA_VERSION = 4  # 2: events have a kind; 3: heads may have a prior; 4: what was spent is written down
_SPEND_SINCE = 4
_ARRAYS, _STATEMENT, _SIGNATURE = "billboard.safetensors", "statement.json", "statement.sig"
_NEW_ARRAYS, _NEW_SIGNATURE = (
    "billboard-*.safetensors",
    "statement-*.sig",
)  # with a checksum, until the statement is theirs


@dataclass(frozen=True)
class Statement:
    """What is guaranteed, to whom, and every release it rests on. ``str()`` is one honest paragraph."""

    algorithm: str
    recipe: str
    epsilon: float  # declared; math.inf for a model without privacy
    delta: float
    n_users: int
    n_features: int
    simulated: bool
    noise: str
    events: tuple[Event, ...]
    unit: str = "person"
    relation: str = "replace-one"
    budgets: dict[str, Any] | None = None  # how people's own ε are distributed; epsilon is then the largest of them
    custody: str = ""  # who held the rows, and what the server saw before the noise; empty: one operator had them all
    sharing_pays: bool | None = None  # whether what is shared can be expected to beat own data; None: not judged
    ledger: LedgerEntry | None = None  # where a durable ledger has it written down; None: it was not asked
    parameters: dict[str, Any] = field(default_factory=dict)
    software: dict[str, str] = field(default_factory=lambda: {"commonground": version("commonground")})

    @cached_property
    def epsilon_spent(self) -> float:
        """The ε of the releases made, at the declared δ; at most the declared ε."""
        return epsilon_spent(self.events, self.delta) if self.private else float("inf")

    @property
    def private(self) -> bool:
        return bool(np.isfinite(self.epsilon))

    @property
    def _composition(self) -> str:
        kinds = {type(event) for event in self.events}
        if kinds == {GaussianEvent}:
            return "by exact Gaussian composition"
        if all(issubclass(kind, PureEvent) for kind in kinds):
            return "by addition of their ε" if self.delta == 0 else "by composition of pure ε"
        return "by composition of their privacy loss distributions"

    def __str__(self) -> str:
        what = f"{self.algorithm} (recipe {self.recipe!r}), trained on {self.n_users:,} people"
        if not self.private:
            return f"NOT PRIVATE. {what}, without any privacy protection. Do not publish it."
        if not self.events:
            return f"{what}. Nothing that depends on anybody's data is published."
        public = "the number of people is"
        whose, cost = f"(ε = {self.epsilon:g}, δ = {self.delta:g})-differentially private for every person", ""
        if self.budgets is not None:
            quantiles, absent = self.budgets["quantiles"], self.budgets["taking no part"]
            spread = f"from {quantiles['0']:g} to {quantiles['1']:g}, median {quantiles['0.5']:g}"
            nobody = f"; {absent:,} take no part" if absent else ""
            whose = (
                f"(ε_i, δ = {self.delta:g})-differentially private for every person i, with an ε_i of her own "
                f"({spread}{nobody})"
            )
            public = "the number of people and everybody's ε are"
            cost = " to the person with the largest budget, and to everybody else no more than her own"
        paragraph = (
            f"{what}. What is published here is {whose}: the unit is one {self.unit} with all of her rows, and "
            f"neighbouring data sets differ in that one person's whole data is replaced by any other; {public} public. "
            f"The published values are the only ones that depend on more than one person's data. They passed one gate in "
            f"{len(self.events)} noisy releases, which together cost ε = {self.epsilon_spent:.4g} at this δ "
            f"{self._composition}{cost}. "
            f"A person's head is made from the billboard and her own rows and is shown to her alone, so all other people "
            f"together learn no more about her than this (joint differential privacy). Noise: {self.noise}."
        )
        if self.custody:
            paragraph += f" {self.custody}"
        if self.sharing_pays is False:
            paragraph += (
                " People are too few at this ε for what is shared to be more than noise: sharing is not expected to pay, and own "
                "data alone will mostly do better."
            )
        paragraph += in_words(self.ledger)
        if self.simulated:
            return f"SIMULATED, NOT PRIVATE: the noise comes from a known seed and protects nobody. {paragraph}"
        return paragraph

    def to_json(self) -> dict[str, Any]:
        document = asdict(self)
        document["epsilon"] = self.epsilon if self.private else "inf"
        document["events"] = [event.as_dict() for event in self.events]
        return document

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> "Statement":
        known = {f.name for f in fields(cls)}
        values = {name: value for name, value in document.items() if name in known}
        values["events"] = tuple(event_from_dict(event) for event in values["events"])
        values["epsilon"] = float(values["epsilon"])
        values["ledger"] = entry_from_json(values.get("ledger"))
        return cls(**values)


@dataclass(frozen=True)
class Billboard:
    """The shared part of everybody's model: θ_j = mean + embedding · head_j, plus intercepts."""

    embedding: np.ndarray  # (d, k), orthonormal columns
    mean: np.ndarray | None  # (d,) the shared coefficients w₀
    intercept: float  # shared; a person's own intercept comes on top when fit_intercept
    fit_intercept: bool
    feature_names: tuple[str, ...] | None
    statement: Statement
    loss: str = "square"  # which heads belong to it; "logistic" predicts log-odds
    prior: np.ndarray | None = None  # (k, k) ridge matrix for heads of people who have few rows
    local_choice: bool = (
        False  # a person may keep the shared prediction, or a model of her own rows, in place of a head
    )

    @property
    def n_features(self) -> int:
        return int(self.embedding.shape[0])

    @property
    def rank(self) -> int:
        return int(self.embedding.shape[1])

    @property
    def fingerprint(self) -> str:
        """Names this billboard's arrays: heads remember which billboard they belong to."""
        return hashlib.sha256(self._payload()).hexdigest()

    def fit_heads(self, block: Block) -> tuple[np.ndarray, np.ndarray]:
        """(people, k) heads and (people,) own intercepts for the people of a block, each from her own rows."""
        model = block, self.embedding, self.mean, self.intercept, self.fit_intercept
        if block.sparse and self.loss != "square":
            raise InputError(f"heads for the {self.loss} loss need dense rows. Pass X.toarray().")
        return fit_heads(*model, self.prior) if self.loss == "square" else fit_convex_heads(*model, self.loss)

    def keep_best(self, block: Block, heads: np.ndarray, own_intercepts: np.ndarray) -> OwnModels:
        """Where the billboard leaves the choice to people, each keeps what serves her best on her own rows.

        Those who keep no head get zeros in ``heads`` and ``own_intercepts``; models of their own are returned.
        """
        if not (self.local_choice and self.loss == "square" and self.rank and isinstance(block.X, np.ndarray)):
            return OwnModels.nobody(self.n_features)
        usually = OWN if self.statement.sharing_pays is False else HEAD
        model = self.embedding, self.mean, self.intercept, self.fit_intercept
        return keep_best(block, *model, self.prior, usually, heads, own_intercepts)

    def predict(self, X: Any) -> np.ndarray:
        """The shared prediction: what can be said of a person nobody knows."""
        X = check_features(X, self.n_features, self.feature_names)
        return shared_scores(X, self.mean, self.intercept)

    def personalize(self, X: Any, y: Any) -> Head:
        """A head for one person from her own rows; for newcomers, too (P2 Corollary 11). Costs no budget."""
        X = check_features(X, self.n_features, self.feature_names)
        y = as_floats(y, "labels").ravel()
        if len(y) != X.shape[0] or not len(y):
            raise InputError(
                f"personalize needs one label for each of one or more rows, got {X.shape[0]} rows, {len(y)} labels."
            )
        if not np.isfinite(y).all():
            raise InputError("personalize got a label that is NaN or infinite. Remove the row or fill in the label.")
        rows = X if sparse.issparse(X) else np.ascontiguousarray(X)
        block = Block(rows, y, np.array([0, len(y)]), first=0)
        heads, intercepts = self.fit_heads(block)
        own = self.keep_best(block, heads, intercepts)
        if len(own.people):
            return Head(own.coef[0, :-1], float(own.coef[0, -1]), heads[0])
        return head_from(self.embedding, self.mean, self.intercept, heads[0], float(intercepts[0]))

    # ---- files -------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], sign: SigningKey | str | os.PathLike[str] | None = None) -> Path:
        """Write a folder with the arrays and the statement, in place of an older billboard there; nothing else is touched.

        ``sign``: a private key (``commonground keys new``), or its file; the statement, and with it the arrays, is signed.
        """
        document = {
            "feature_names": self.feature_names,
            "fit_intercept": self.fit_intercept,
            "loss": self.loss,
            "local_choice": self.local_choice,
            **self.statement.to_json(),
            "epsilon_spent": spent_as_json(self.statement.epsilon_spent),
        }
        return write_board(path, self._payload(), document, sign)

    def _payload(self) -> bytes:
        arrays = {"embedding": np.ascontiguousarray(self.embedding), "intercept": np.array([self.intercept])}
        if self.mean is not None:
            arrays["mean"] = np.ascontiguousarray(self.mean)
        if self.prior is not None:
            arrays["prior"] = np.ascontiguousarray(self.prior)
        return bytes(save_arrays(arrays))

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        public_key: VerifyingKey | str | os.PathLike[str] | None = None,
    ) -> "Billboard":
        """Read and verify: a changed byte, a newer schema, a missing part or a claim that cannot be true is an error.

        ``public_key``, or its file: only a board that was signed with the private key to it is read. Without, a board is
        checked against itself alone, and whoever may write to it can make it agree with itself.
        """
        with reading_board(path, public_key) as (document, payload):
            arrays = load_arrays(payload)
            names = document["feature_names"]
            check_finite(arrays)
            board = cls(
                embedding=arrays["embedding"],
                mean=arrays.get("mean"),
                intercept=float(arrays["intercept"][0]),
                fit_intercept=bool(document["fit_intercept"]),
                feature_names=None if names is None else tuple(names),
                statement=Statement.from_json(document),
                loss=LOSSES[LOSSES.index(document.get("loss", "square"))],
                prior=arrays.get("prior"),
                local_choice=bool(document.get("local_choice", False)),
            )
            board._check(arrays, recorded_spend(document))
            return board

    def _check(self, arrays: dict[str, np.ndarray], spend: float | None) -> None:
        """Raise ``UnbelievableError`` where arrays, statement and releases do not belong together."""
        claim, names = self.statement, self.feature_names
        d, k = claim.n_features, self.rank
        check_shapes(arrays, {"embedding": (d, k), "intercept": (1,), "mean": (d,), "prior": (k, k)})
        if names is not None and (len(names) != d or not all(isinstance(name, str) for name in names)):
            raise UnbelievableError(f"it names {len(names)} features, and has {d}")
        if claim.parameters.get("rank", k) != k:
            raise UnbelievableError(f"it claims the rank {claim.parameters['rank']}, and has {k} directions")
        if self.prior is not None and k and not np.linalg.eigvalsh(self.prior)[0] > 0.0:
            raise UnbelievableError("its prior is not a positive definite matrix")
        if (claim.unit, claim.relation) != ("person", REPLACE):
            raise UnbelievableError(
                f"it claims to protect one {claim.unit} ({claim.relation}); a billboard protects a person"
            )
        check_claim(claim, spend)
        if claim.budgets is not None and not math.isclose(claim.budgets["quantiles"]["1"], claim.epsilon):
            raise UnbelievableError("the largest personal budget is not the ε that it declares")
        str(claim)  # what cannot be read out is damaged
        if claim.private and not claim.events:
            shared = (*arrays["intercept"], *(() if self.mean is None else self.mean))
            if any(shared) or self.prior is not None or not np.array_equal(self.embedding, np.eye(d, k)):
                raise UnbelievableError("it says that nothing depends on anybody's data, and publishes learned numbers")


AnyBoard = TypeVar("AnyBoard", bound=Any)  # a dataclass with a statement and a fingerprint


def name_each_other(board: AnyBoard, book: Ledger | None) -> AnyBoard:
    """The board with the entry that paid for it, after the ledger was told the board's fingerprint."""
    if not isinstance(book, BookedLedger):
        return board
    book.published(board.fingerprint)
    return replace(board, statement=replace(board.statement, ledger=book.entry))


def in_words(entry: LedgerEntry | None) -> str:
    """A sentence of the statement."""
    if entry is None:
        return ""
    return (
        f" A ledger has it as reservation {entry.reservation} of the population {entry.population!r}, whose chain had "
        f"reached event {entry.sequence}, hash {entry.head[:12]}…, by its last release."
    )


def entry_from_json(document: Any) -> LedgerEntry | None:
    return None if document is None else LedgerEntry.from_json(document)


def spent_as_json(epsilon: float) -> float | str:
    return epsilon if np.isfinite(epsilon) else "inf"


def recorded_spend(document: dict[str, Any]) -> float | None:
    """What the writer said was spent; None in files from before that was written down."""
    return float(document["epsilon_spent"]) if document["schema_version"] >= _SPEND_SINCE else None


@contextmanager
def place_for_board(path: str | os.PathLike[str]) -> Iterator[Path]:
    """The folder where a billboard can be written, tried by making it and a file in it; it goes again if it stays empty.

    To be entered before budget is spent: none may be on a result that has no place to go.
    """
    folder = Path(os.path.realpath(path))  # of a link, the folder that it leads to
    made: list[Path] = []
    try:
        try:
            if folder.exists() and not (folder.is_dir() and _may_hold_board(folder)):
                raise BillboardError(f"{path} exists and is not a billboard. Choose a new folder or remove it first.")
            made = [missing for missing in (folder, *folder.parents) if not missing.exists()]
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(prefix=DRAFT, dir=folder):
                pass
        except OSError as problem:
            raise BillboardError(
                f"{path} cannot be written ({problem.strerror}). Name a folder that this user can make or write to."
            ) from None
        yield folder
    finally:
        for empty in made:
            with suppress(OSError):  # not empty
                empty.rmdir()


def _may_hold_board(folder: Path) -> bool:
    """Whether a board is there, or nothing but what an interrupted save left."""
    if (folder / _STATEMENT).exists():
        return True
    names = (_ARRAYS, _SIGNATURE, _NEW_ARRAYS, _NEW_SIGNATURE, DRAFT + "*")
    ours = {path for name in names for path in folder.glob(name)}
    return set(folder.iterdir()) <= ours


def write_board(
    path: str | os.PathLike[str],
    payload: bytes,
    document: dict[str, Any],
    sign: SigningKey | str | os.PathLike[str] | None = None,
) -> Path:
    """A billboard's folder: arrays and statement with their checksums. Whatever else is in the folder stays as it is.

    At every moment the folder holds the old board or the new one, also if the power fails: new arrays, and the signature,
    are written under names of their own first, the statement changes in one step, and then they get their usual names.
    Between these steps a reader finds them under the first ones (``_read_files``, ``_signature_of``).
    """
    key = SigningKey.of(sign)
    document = {"schema_version": SCHEMA_VERSION, "sha256": hashlib.sha256(payload).hexdigest(), **document}
    document["statement_sha256"] = _digest(document)
    statement = (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode("utf-8")
    with place_for_board(path) as folder, AloneIn(folder):
        new_arrays = folder / _NEW_ARRAYS.replace("*", document["sha256"])
        new_signature = folder / _NEW_SIGNATURE.replace("*", document["statement_sha256"])
        try:
            with replacing(new_arrays, PUBLIC) as file:
                file.write(payload)
            if key is not None:
                with replacing(new_signature, PUBLIC) as file:
                    file.write(key.sign(_canonical(document)).encode("utf-8"))
            with replacing(folder / _STATEMENT, PUBLIC) as file:
                file.write(statement)
        except BaseException:
            if not (folder / _STATEMENT).exists() or (folder / _STATEMENT).read_bytes() != statement:
                new_arrays.unlink(missing_ok=True)
                new_signature.unlink(missing_ok=True)
            raise
        os.replace(new_arrays, folder / _ARRAYS)
        if key is not None:
            os.replace(new_signature, folder / _SIGNATURE)
        else:  # that of an older board says nothing of this one
            (folder / _SIGNATURE).unlink(missing_ok=True)
        sync_folder(folder)
        for stray in (*folder.glob(_NEW_ARRAYS), *folder.glob(_NEW_SIGNATURE)):  # of a save that was killed
            stray.unlink()
    return Path(path)


def _signature_of(folder: Path, document: dict[str, Any]) -> Path:
    """Where the signature of this statement is, also after an interrupted save."""
    new = folder / _NEW_SIGNATURE.replace("*", document["statement_sha256"])
    return new if new.exists() else folder / _SIGNATURE


def _read_files(folder: Path) -> tuple[str, bytes]:
    """The statement and its arrays, also during a save or after an interrupted one. Whether they match is checked later."""
    while True:
        text = (folder / _STATEMENT).read_text(encoding="utf-8")
        for path in (folder / _ARRAYS, *folder.glob(_NEW_ARRAYS), folder / _ARRAYS):  # the last: it was moved just now
            with suppress(FileNotFoundError):
                payload = path.read_bytes()
                if hashlib.sha256(payload).hexdigest() in text:
                    return text, payload
        if (folder / _STATEMENT).read_text(encoding="utf-8") == text:  # else it was replaced meanwhile
            return text, (folder / _ARRAYS).read_bytes()


@contextmanager
def reading_board(
    path: str | os.PathLike[str], public_key: VerifyingKey | str | os.PathLike[str] | None = None
) -> Iterator[tuple[dict[str, Any], bytes]]:
    """The verified statement and arrays of a folder; whatever the caller cannot read in them is damage, too."""
    folder, key = Path(path), VerifyingKey.of(public_key)
    try:
        text, payload = _read_files(folder)
    except (OSError, UnicodeDecodeError) as problem:
        raise BillboardError(
            f"{folder} is not a readable billboard folder ({type(problem).__name__}: it needs {_STATEMENT} and "
            f"{_ARRAYS}). Give the folder that `commonground train --out` wrote."
        ) from None
    try:
        document = json.loads(text)
        schema = document["schema_version"]
        if not isinstance(schema, int):
            raise TypeError
        if schema > SCHEMA_VERSION:
            raise BillboardError(
                f"{folder} has schema version {schema}, newer than the {SCHEMA_VERSION} known here. Update commonground."
            )
        signed = {name: value for name, value in document.items() if name != "statement_sha256"}
        if document["statement_sha256"] != _digest(signed):
            raise _changed(folder / _STATEMENT)
        if document["sha256"] != hashlib.sha256(payload).hexdigest():
            raise _changed(folder / _ARRAYS)
        if key is not None:
            key.verify(_signature_of(folder, document), _canonical(document))
        yield document, payload
    except UnbelievableError as why:
        raise BillboardError(
            f"{folder} cannot be believed: {why}. Its checksums match, so it was written like this. Do not rely on it; ask "
            "its publisher for the board and their public key."
        ) from None
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError, SafetensorError):
        raise BillboardError(
            f"{folder} is damaged: its statement or arrays cannot be read. Get a fresh copy."
        ) from None


def _digest(document: dict[str, Any]) -> str:
    return hashlib.sha256(_canonical(document)).hexdigest()


def _canonical(document: dict[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True).encode()


def _changed(path: Path) -> BillboardError:
    return BillboardError(f"{path} was changed after it was written: its checksum does not match. Get a fresh copy.")


def check_features(X: Any, n_features: int, names: Sequence[str] | None) -> np.ndarray:
    """Rows for prediction as a float64 matrix (sparse if they are), or an error that says what does not fit."""
    given = getattr(X, "columns", None)
    if given is not None and names is not None:
        given = [str(name) for name in given]
        missing = [name for name in names if name not in given]
        if missing:
            raise InputError(
                f"the model was trained on features {list(names)}, but {missing} are missing. Got {given}."
            )
        X = X[list(names)]
    matrix = X if sparse.issparse(X) else np.ascontiguousarray(as_floats(X, "features"))
    if matrix.ndim != 2 or matrix.shape[1] != n_features:
        raise InputError(
            f"expected rows of {n_features} features, got an array of shape {matrix.shape}. "
            "One row per prediction, one column per training feature, in the same order."
        )
    if sparse.issparse(matrix):
        return as_csr(matrix, range(n_features)).astype(np.float64)
    if not np.isfinite(matrix).all():
        row, column = np.argwhere(~np.isfinite(matrix))[0]
        raise InputError(f"row {row}, column {column} of the features is NaN or infinite. Fill it in or drop the row.")
    return matrix


def as_floats(values: Any, what: str) -> np.ndarray:
    """Numbers of any type as float64. Text, dates and complex numbers, which NumPy would convert, are refused."""
    if sparse.issparse(values):
        raise InputError(f"{what} are a sparse matrix, for which there is no version here. Pass X.toarray().")
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "biufO":
            raise TypeError
        with np.errstate(over="ignore"):  # a longer float becomes infinite, which is reported by who asked
            return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{what} must be numbers; encode text columns first.") from None
