"""Deep personalisation for people (P1's open question (i)): a shared body, and heads that move while it is trained."""

import copy
import os
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from commonground.accounting.budgets import warn_of_a_large_delta
from commonground.accounting.sampled import ADD_OR_REMOVE
from commonground.billboard.joint import SharedParameters, refuse_ledger_with_gate
from commonground.clipping.sums import SampledSum
from commonground.deep.own_heads import OwnHeads, of_each, outputs_of, own_head
from commonground.deep.probe import made_up_records, refuse_failing_rows
from commonground.deep.profiled import ProfiledGradients, WithSharedHead, clipped_sum_of_people
from commonground.deep.shared_training import SharedTraining, as_tensor, check_settings
from commonground.errors import BillboardError, InputError, check_count, check_parameters
from commonground.gate import SampledReleases
from commonground.ledger import Ledger, SharedLedger
from commonground.owners.units import Units

_ALGORITHM = "Training of a body for heads of one's own"


class PeopleTrainer(BaseEstimator):
    """Train one network's body with many people; each has a head of her own, fitted anew in every round and never published.

    Parameters
    ----------
    body : nn.Module
        Rows to features (rows, k), each row by itself (no BatchNorm). Its initial parameters are public; it is copied.
    epsilon, delta : float, default=1.0 and 1e-5
        The budget of the body and of the shared head.
    classes : sequence, default=None
        The labels, public; they are fitted by least squares on indicators. None: a regression.
    ridge : float, default=1.0
        What holds a person's head to zero during the training, in units of squared features. ``math.inf``: nobody has a head
        of her own, which is one private model for all.
    relation : {"add-or-remove-one", "replace-one"}, default="add-or-remove-one"
        As the field reports training on samples, or replacement, accounted and named as such.
    rows_per_person : int, default=128
        Public: so many of a person's rows, her first, take part in training the body. Her head is fitted on all of them.
    sampling_probability, steps, clip_norm : float, int, float, default=0.1, 300 and 0.1
        q, T and C: who takes part in a round, how many rounds, and what her mean gradient is clipped to. The noise follows.
    learning_rate : float, default=None
        None chooses it from public quantities (``shared_training.default_learning_rate``).
    momentum, average : float, default=0.9 and 0.3
        Of the descent; ``average`` is the share of last iterates whose mean is published.
    microbatch : int, default=2048
        Rows, of all people together, that are in memory at once.
    device : str, default="cpu"
        Where torch computes.
    checkpoint, checkpoint_every : path and int, default=None and 50
        As for ``JointTrainer``.
    simulation_seed : int, default=None
        Repeatable noise, which protects nobody; the statement says so.
    verbose : bool, default=False
        Show progress.

    Attributes
    ----------
    billboard_ : SharedParameters
        The body, the shared head and the statement of what they cost: all that is published.
    heads_ : OwnHeads
        Everybody's own head; private to her.

    Notes
    -----
    **Guarantee.** The unit is one person with all of her rows; neighbours differ in that she is there or missing, her place left
    empty (or is replaced by any other); the number of people is public. One kind of release reads rows and has the whole budget:
    in each round the sum over the people drawn of their mean gradients, each clipped as a whole to norm C. All rounds are charged
    before the first is drawn. Why heads may move here, and not in ``JointTrainer``, stands in ``deep.profiled``. At the end each
    person fits a head from the billboard and her own rows, and is alone in seeing it.

    Examples
    --------
    >>> import commonground as cg
    >>> from torch import nn
    >>> from commonground.deep import PeopleTrainer
    >>> data = cg.datasets.digits_across_owners(n_owners=8, records_per_user=20, seed=0)
    >>> body = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.Tanh())
    >>> trainer = PeopleTrainer(body, epsilon=8.0, delta=1e-3, classes=range(10), steps=10, simulation_seed=0)
    >>> trainer = trainer.fit(data.X, data.y, users=data.users)
    >>> trainer.predict(data.X, users=data.users).shape, trainer.billboard_.statement.unit
    ((1200,), 'person')
    """

    unit = "person"

    def __init__(
        self,
        body: nn.Module,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        classes: Sequence[Any] | None = None,
        ridge: float = 1.0,
        relation: str = ADD_OR_REMOVE,
        rows_per_person: int = 128,
        sampling_probability: float = 0.1,
        steps: int = 300,
        clip_norm: float = 0.1,
        learning_rate: float | None = None,
        momentum: float = 0.9,
        average: float = 0.3,
        microbatch: int = 2048,
        device: str = "cpu",
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int = 50,
        simulation_seed: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.body = body
        self.epsilon = epsilon
        self.delta = delta
        self.classes = classes
        self.ridge = ridge
        self.relation = relation
        self.rows_per_person = rows_per_person
        self.sampling_probability = sampling_probability
        self.steps = steps
        self.clip_norm = clip_norm
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.average = average
        self.microbatch = microbatch
        self.device = device
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every
        self.simulation_seed = simulation_seed
        self.verbose = verbose

    def fit(
        self, X: Any, y: Any, users: Any, *, ledger: Ledger | SharedLedger | None = None, resume: bool = False,
        gate: Callable[..., SampledReleases] = SampledReleases,
    ) -> Self:  # fmt: skip
        """Train the body on everybody's rows, then everybody's own head.

        Parameters
        ----------
        X : array-like or Tensor, (n, …)
            Everybody's rows.
        y : array-like, (n,)
            Labels.
        users : array-like, (n,)
            Whose row it is.
        ledger : Ledger or SharedLedger, default=None
            What all rounds are charged to before the first is drawn.
        resume : bool, default=False
            Go on from ``checkpoint``, as ``JointTrainer`` does.
        gate : callable, default=SampledReleases
            For audits: makes this fit's releases, which somebody watches.

        Returns
        -------
        self
        """
        self._validate()
        refuse_ledger_with_gate(gate, ledger)
        X, targets, ids, person = self._rows(X, y, users)
        warn_of_a_large_delta(self.delta, len(ids))
        model = self._network(X)
        gradients, y = ProfiledGradients(model, self.ridge), torch.from_numpy(targets).float().to(self.device)
        refuse_failing_rows(model, gradients.loss, X, y)  # before anything is paid
        run = _PeoplesTraining(self, model, gradients, len(ids), 1, gate)
        run.train(X, y, Units(person, len(ids)), ledger, resume)
        self.billboard_, self._model = run.publish(len(ids)), model
        return self._fit_heads(X, targets, ids, person)

    @classmethod
    def from_board(cls, board: SharedParameters, body: nn.Module, *, device: str = "cpu") -> Self:
        """A trainer from what was published alone, for people who come later: ``fit_people`` makes their heads.

        Parameters
        ----------
        board : SharedParameters
            The billboard.
        body : nn.Module
            Of the same architecture as the one that was trained; its parameters do not matter.
        device : str, default="cpu"
            Where torch computes.

        Returns
        -------
        PeopleTrainer
        """
        if board.statement.algorithm != _ALGORITHM:
            raise BillboardError(
                f"this board is of {board.statement.algorithm!r}. Give one that a PeopleTrainer published."
            )
        told = board.statement.parameters
        trainer = cls(
            body,
            board.statement.epsilon,
            board.statement.delta,
            classes=told["classes"],
            ridge=float(told["ridge"]),
            device=device,
        )
        n_outputs, n_features = board.arrays["shared_head.weight"].shape
        model = WithSharedHead(copy.deepcopy(body), n_features, n_outputs).to(device).eval()
        parameters = dict(model.named_parameters())
        if {n: p.shape for n, p in parameters.items()} != {n: torch.Size(a.shape) for n, a in board.arrays.items()}:
            raise InputError(
                f"the body has parameters {sorted(parameters)}; the board has {sorted(board.arrays)}, or of other shapes. "
                "Give the architecture that was trained."
            )
        for name, array in board.arrays.items():
            parameters[name].data.copy_(torch.from_numpy(np.array(array)))
        trainer.billboard_, trainer._model = board, model
        trainer.heads_ = OwnHeads(np.array([]), np.zeros((0, n_features + 1, n_outputs)))
        return trainer

    def fit_people(self, X: Any, y: Any, users: Any) -> Self:
        """Everybody's own head from the billboard and own rows; for people who come later, too. Costs nothing.

        Parameters
        ----------
        X : array-like or Tensor, (n, …)
            Rows.
        y : array-like, (n,)
            Labels.
        users : array-like, (n,)
            Whose row it is.

        Returns
        -------
        self
        """
        check_is_fitted(self, "billboard_")
        return self._fit_heads(*self._rows(X, y, users))

    def decision_function(self, X: Any, users: Any = None, *, strict: bool = False) -> np.ndarray:
        """Each row answered by its person's own head; rows of unknown people, or all without ``users``, by the shared head.

        What one person is answered does not depend on what others ask in the same call, not even in the last bit.

        Parameters
        ----------
        X : array-like or Tensor, (n, …)
            Rows.
        users : array-like, (n,), default=None
            Whose row it is.
        strict : bool, default=False
            Refuse people without a head.

        Returns
        -------
        ndarray, (n, outputs)
        """
        check_is_fitted(self, "heads_")
        X = as_tensor(X).to(self.device)
        asker_ids, asker = np.unique(np.zeros(len(X)) if users is None else np.asarray(users), return_inverse=True)
        if len(asker) != len(X):
            raise InputError(f"got {len(X)} rows but {len(asker)} users; give one user for each row.")
        known = np.isin(asker_ids, self.heads_.ids) & (users is not None)
        if strict and not known.all():
            raise InputError(f"{int((~known).sum())} people have no head. Call fit_people with their rows first.")
        place = np.searchsorted(self.heads_.ids, asker_ids) if known.any() else np.zeros(len(asker_ids), int)
        found = np.zeros((len(X), self._model.n_outputs))
        for who, rows in of_each(asker) if len(X) else ():
            shared, features = outputs_of(self._model, X[torch.from_numpy(rows).to(X.device)])
            found[rows] = shared + features @ self.heads_.heads[place[who]] if known[who] else shared
        return found

    def predict(self, X: Any, users: Any = None, *, strict: bool = False) -> np.ndarray:
        """The label of each row, by its person's own head.

        Parameters
        ----------
        X : array-like or Tensor, (n, …)
            Rows.
        users : array-like, (n,), default=None
            Whose row it is; rows of unknown people are answered by the shared head.
        strict : bool, default=False
            Refuse people without a head.

        Returns
        -------
        ndarray, (n,)
        """
        answers = self.decision_function(X, users, strict=strict)
        return answers[:, 0] if self.classes is None else np.asarray(self.classes)[answers.argmax(1)]

    def score(self, X: Any, y: Any, users: Any = None) -> float:
        """Accuracy, or R² of a regression. Computed on rows as they are: look, do not publish.

        Parameters
        ----------
        X : array-like or Tensor, (n, …)
            Rows.
        y : array-like, (n,)
            Labels.
        users : array-like, (n,), default=None
            Whose row it is.

        Returns
        -------
        float
        """
        answers, y = self.predict(X, users), np.asarray(y)
        if self.classes is not None:
            return float((answers == y).mean())
        return float(1 - ((y - answers) ** 2).sum() / ((y - y.mean()) ** 2).sum())

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _fit_heads(self, X: Tensor, targets: np.ndarray, ids: np.ndarray, person: np.ndarray) -> Self:
        heads = [
            own_head(self._model, X[torch.from_numpy(rows).to(X.device)], targets[rows], self.ridge)
            for _, rows in of_each(person)
        ]
        self.heads_ = OwnHeads(ids, np.stack(heads))
        return self

    def _rows(self, X: Any, y: Any, users: Any) -> tuple[Tensor, np.ndarray, np.ndarray, np.ndarray]:
        """Rows, targets (n, outputs), people's ids, and which of them each row belongs to."""
        X, y = as_tensor(X), np.asarray(y)
        ids, person = np.unique(np.asarray(users), return_inverse=True)
        if y.ndim != 1 or not len(X) == len(y) == len(person) > 0:
            raise InputError(
                f"X has {len(X)} rows, y has shape {y.shape}, users {len(person)}. Give one of each per row."
            )
        if X.dtype.is_floating_point and not bool(torch.isfinite(X).all()):
            raise InputError("X holds NaN or infinite values. Fill them in or drop the row.")
        if self.classes is None:
            targets = y.astype(np.float64)[:, None]
            if not np.isfinite(targets).all():
                raise InputError("y holds NaN or infinite values. Drop these rows.")
        else:
            targets = (y[:, None] == np.asarray(self.classes)).astype(np.float64)
            if not (targets.sum(1) == 1).all():
                raise InputError(
                    f"y holds labels that are not among classes={list(self.classes)!r}. Name them, or drop the rows."
                )
        return X.to(self.device), targets, ids, person

    def _network(self, X: Tensor) -> WithSharedHead:
        body = copy.deepcopy(self.body).to(self.device).eval()
        with torch.no_grad():
            features = body(made_up_records(X[:1], torch.zeros(1))[0])
        if features.ndim != 2 or not features.dtype.is_floating_point:
            raise InputError(
                f"the body must give (rows, k) features; it gives shape {tuple(features.shape)}. Flatten its output."
            )
        n_outputs = 1 if self.classes is None else len(self.classes)
        return WithSharedHead(body, features.shape[1], n_outputs).to(self.device).eval()

    def _validate(self) -> None:
        check_settings(self)
        check_parameters(check_count, self, "rows_per_person", "microbatch")
        if not self.ridge > 0:
            raise InputError(f"ridge must be a number > 0, or math.inf for no heads of one's own; got {self.ridge!r}.")
        if self.classes is not None and not 0 < len(self.classes) == len(set(self.classes)):
            raise InputError(f"classes must name each label once, got {self.classes!r}.")


class _PeoplesTraining(SharedTraining):
    """DP-SGD as P4's training has it (charges, checkpoints, noise), over people whose heads are profiled out."""

    algorithm = _ALGORITHM
    noise_walk = 0.5  # chosen on simulated people whom no reported run has; heads follow where the body drifts
    settings: PeopleTrainer
    gradients: ProfiledGradients

    def _clipped_sum(self, X: Tensor, y: Tensor, units: Units, drawn: np.ndarray) -> SampledSum:
        s = self.settings
        return clipped_sum_of_people(self.gradients, X, y, units, drawn, s.clip_norm, s.rows_per_person, s.microbatch)

    def _of_this_kind(self) -> dict[str, Any]:
        s = self.settings
        classes = None if s.classes is None else np.asarray(s.classes).tolist()
        return {
            "classes": classes,
            "ridge": str(s.ridge),  # JSON knows no infinity
            "rows_per_person": s.rows_per_person,
        }
