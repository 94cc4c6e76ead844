"""Learning across owners with a deep net (P4): shared layers by DP-SGD, personal layers fitted by each owner."""

import copy
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn
from torch.nn import functional as F

from commonground.accounting.budgets import warn_of_a_large_delta
from commonground.accounting.sampled import ADD_OR_REMOVE
from commonground.billboard.joint import refuse_ledger_with_gate
from commonground.deep.local import LocalSettings, OwnersTraining
from commonground.deep.per_sample import Loss, PerSampleGradients
from commonground.deep.probe import made_up_records, refuse_failing_rows
from commonground.deep.shared_training import SharedTraining, as_tensor, check_settings
from commonground.errors import InputError
from commonground.gate import SampledReleases
from commonground.ledger import Ledger, SharedLedger
from commonground.owners.units import protected_units


def cross_entropy(outputs: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(outputs, labels, reduction="none")


class JointTrainer(BaseEstimator):
    """Train one network across many owners; what owners share is private, what is personal never leaves them.

    Parameters
    ----------
    model : nn.Module
        Its forward pass treats records apart (no BatchNorm). Its initial parameters are public; it is copied, not changed.
    personal : sequence of str, default=()
        Parameters ("fc1.bias") or whole layers ("fc1") that stay with each owner. While the shared part is trained they keep
        their initial values. With none, everything is shared (P4's full DP); with all, nothing is published or paid.
    epsilon, delta : float, default=1.0 and 1e-5
        The budget of the shared part.
    unit : {"record", "user"}, default="record"
        Whom it protects: every record, or every user with all of her records at one owner (``users=`` of ``fit``; the same name
        at two owners is two users).
    user_level : {"clip", "group"}, default="clip"
        "clip" clips a user's mean gradient; "group" clips records and counts ``records_per_user`` of them as a group (P4).
    records_per_user : int, default=None
        A public bound, for "group"; a user's further records are left out.
    relation : {"add-or-remove-one", "replace-one"}, default="add-or-remove-one"
        As the field reports DP-SGD, or replacement, accounted and named as such.
    sampling_probability, steps, clip_norm : float, int, float, default=0.05, 600 and 0.1
        q, T and C of DP-SGD; the noise follows from them and the budget.
    learning_rate : float, default=None
        None chooses it from public quantities (``shared_training.default_learning_rate``).
    momentum, average : float, default=0.9 and 0.3
        Of the descent; ``average`` is the share of last iterates whose mean is published.
    keep : sequence of str, default=("shared", "personal")
        What each owner chooses from on its own validation rows: "own" (trained alone), "shared", "personal" (shared with the
        personal part fitted) and "blend" (the mean of what "own" and "personal" say, weighed by how many rows an owner has).
    local : LocalSettings, default=None
        How owners fit what they choose from; costs no budget.
    loss : callable, default=cross_entropy
        Of outputs and labels, one number a record.
    microbatch : int, default=None
        Records whose gradients are in memory at once.
    device : str, default="cpu"
        Where torch computes.
    checkpoint, checkpoint_every : path and int, default=None and 50
        A file that is rewritten after so many steps, and from which ``fit(resume=True)`` goes on.
    simulation_seed : int, default=None
        Repeatable noise, which protects nobody; the statement says so.
    verbose : bool, default=False
        Show progress.

    Attributes
    ----------
    billboard_ : SharedParameters
        The shared parameters and the statement of what they cost: all that is published.
    owner_ids_ : ndarray
        The owners, in order.
    owners_models_ : OwnersModels
        What each of them keeps; private to it.

    Notes
    -----
    **Guarantee.** The unit is one record or one user at one owner, neighbours differ in that its contribution is there or
    missing (or is replaced by any other), the numbers of owners and units are public. What passes the gate, and what it costs,
    stands in ``shared_training``. Nothing else that depends on more than one owner's rows is computed.

    P4's baselines (everything shared, every owner alone, no protection) are in ``commonground.reproduce.p4_baselines``.

    Examples
    --------
    >>> import commonground as cg
    >>> from commonground.deep import JointTrainer, TwoBranchCNN
    >>> data = cg.datasets.digits_across_owners(n_owners=8, seed=0)
    >>> trainer = JointTrainer(TwoBranchCNN(side=8), personal=["fc1"], epsilon=8.0, delta=1e-4, steps=10, simulation_seed=0)
    >>> trainer = trainer.fit(data.X, data.y, owners=data.owners)
    >>> sorted(trainer.billboard_.arrays)
    ['conv1.bias', 'conv1.weight', 'conv2.bias', 'conv2.weight', 'fc2.bias', 'fc2.weight']
    """

    def __init__(
        self,
        model: nn.Module,
        personal: Sequence[str] = (),
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        unit: str = "record",
        user_level: str = "clip",
        records_per_user: int | None = None,
        relation: str = ADD_OR_REMOVE,
        sampling_probability: float = 0.05,
        steps: int = 600,
        clip_norm: float = 0.1,
        learning_rate: float | None = None,
        momentum: float = 0.9,
        average: float = 0.3,
        keep: Sequence[str] = ("shared", "personal"),
        local: LocalSettings | None = None,
        loss: Loss = cross_entropy,
        microbatch: int | None = None,
        device: str = "cpu",
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int = 50,
        simulation_seed: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.model = model
        self.personal = personal
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit
        self.user_level = user_level
        self.records_per_user = records_per_user
        self.relation = relation
        self.sampling_probability = sampling_probability
        self.steps = steps
        self.clip_norm = clip_norm
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.average = average
        self.keep = keep
        self.local = local
        self.loss = loss
        self.microbatch = microbatch
        self.device = device
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every
        self.simulation_seed = simulation_seed
        self.verbose = verbose

    def fit(
        self, X: Any, y: Any, owners: Any, users: Any = None, *,
        ledger: Ledger | SharedLedger | None = None, resume: bool = False,
        gate: Callable[..., SampledReleases] = SampledReleases,
    ) -> Self:  # fmt: skip
        """Train the shared part on all rows, then everybody's personal part.

        Parameters
        ----------
        X, y : array-like or Tensor
            Everybody's records and labels.
        owners : array-like, (n,)
            Each row's owner.
        users : array-like, (n,), default=None
            Each row's user inside its owner; needed for ``unit="user"``.
        ledger : Ledger or SharedLedger, default=None
            What all steps are charged to before the first is drawn.
        resume : bool, default=False
            Go on from ``checkpoint``; a ledger that was charged for this run is not charged again. Steps that a killed process
            had begun are not drawn a second time: the resumed run makes that many fewer, at most ``checkpoint_every``.
        gate : callable, default=SampledReleases
            For audits: makes this fit's releases, which somebody watches.

        Returns
        -------
        self
        """
        self._validate()
        refuse_ledger_with_gate(gate, ledger)
        X, y = _with_whole_as_long(X), _with_whole_as_long(y)
        self.owner_ids_, owner_of_row = np.unique(np.asarray(owners), return_inverse=True)
        if not len(X) == len(y) == len(owner_of_row) > 0:
            raise InputError(f"X has {len(X)} rows, y {len(y)}, owners {len(owner_of_row)}. Give one of each per row.")
        if X.dtype.is_floating_point and not bool(torch.isfinite(X).all()):
            raise InputError("X holds NaN or infinite values. Fill them in or drop the row.")
        protected = protected_units(owner_of_row, users, self.unit, self.user_level, self.records_per_user)
        warn_of_a_large_delta(self.delta, protected.count, self.unit)
        model = copy.deepcopy(self.model).to(self.device).eval()
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # faster pooling on a CPU
        personal = personal_names(model, self.personal)
        start = {name: p.detach().clone() for name, p in model.named_parameters()}
        X, y = X.to(self.device), y.to(self.device)
        if self.loss is cross_entropy:
            _refuse_unknown_classes(model, X, y)
        # All rows, before anything is paid: those that take no part in training make owners' own models.
        refuse_failing_rows(model, self.loss, X, y)
        settings = replace(self.local or LocalSettings(), keep=tuple(self.keep))
        self._owners_training = OwnersTraining(model, self.loss, personal, settings)
        shared = [name for name in start if name not in personal]
        gradients = PerSampleGradients(model, shared, self.loss) if shared else None
        run = SharedTraining(self, model, gradients, protected.count, protected.group_size, gate)
        run.train(X[protected.rows], y[protected.rows], protected.drawn, ledger, resume)
        self.billboard_ = run.publish(len(self.owner_ids_))
        self._start, self._shared = start, {name: p.detach().clone() for name, p in model.named_parameters()}
        return self.fit_owners(X, y, owners)

    def fit_owners(self, X: Any, y: Any, owners: Any) -> Self:
        """Everybody's own model from the published parameters and own rows; for owners who come later, too. Costs nothing.

        Parameters
        ----------
        X, y : array-like or Tensor
            Everybody's records and labels.
        owners : array-like, (n,)
            Each row's owner.

        Returns
        -------
        self
        """
        check_is_fitted(self, "billboard_")
        X, y = _with_whole_as_long(X).to(self.device), _with_whole_as_long(y).to(self.device)
        self.owner_ids_, owner_of_row = np.unique(np.asarray(owners), return_inverse=True)
        self.owners_models_ = self._owners_training.fit(
            X, y, owner_of_row, len(self.owner_ids_), self._shared, self._start
        )
        return self

    def predict(self, X: Any, owners: Any = None, *, keep: str | None = None) -> np.ndarray:
        """The class of each row (the raw output for a regression), by its owner's model.

        Parameters
        ----------
        X : array-like or Tensor
            Records.
        owners : array-like, (n,), default=None
            Each row's owner.
        keep : str, default=None
            Forces one candidate.

        Returns
        -------
        ndarray, (n,)
        """
        outputs = self.decision_function(X, owners, keep=keep)
        return outputs.argmax(1) if outputs.ndim == 2 and outputs.shape[1] > 1 else outputs

    def score(self, X: Any, y: Any, owners: Any = None, *, keep: str | None = None) -> float:
        """Accuracy.

        Parameters
        ----------
        X, y : array-like or Tensor
            Records and labels.
        owners : array-like, (n,), default=None
            Each row's owner.
        keep : str, default=None
            Forces one candidate.

        Returns
        -------
        float
        """
        return float((self.predict(X, owners, keep=keep) == np.asarray(y)).mean())

    def decision_function(self, X: Any, owners: Any = None, *, keep: str | None = None) -> np.ndarray:
        """The network's outputs; rows of unknown owners, or all without ``owners``, by the shared parameters.

        What one owner is answered does not depend on what others ask in the same call, not even in the last bit.

        Parameters
        ----------
        X : array-like or Tensor
            Records.
        owners : array-like, (n,), default=None
            Each row's owner.
        keep : str, default=None
            Forces one candidate.

        Returns
        -------
        ndarray, (n, outputs)
        """
        check_is_fitted(self, "owners_models_")
        models, X = self.owners_models_, _with_whole_as_long(X).to(self.device)
        if owners is not None and len(owners) != len(X):
            raise InputError(f"got {len(X)} rows but {len(owners)} owners; give one owner for each row.")
        asker_of_row, owner, name = np.zeros(len(X), dtype=np.int64), np.zeros(1, dtype=np.int64), np.array(["shared"])
        if owners is not None and len(X):
            askers, asker_of_row = np.unique(np.asarray(owners), return_inverse=True)
            owner = np.searchsorted(self.owner_ids_, askers).clip(max=len(self.owner_ids_) - 1)
            preferred = np.full(len(owner), keep) if keep else models.choice[owner]
            name = np.where(self.owner_ids_[owner] == askers, preferred, "shared")
        candidates = {"shared", *self._owners_training.settings.keep}
        if keep and keep not in candidates:
            raise InputError(
                f"keep={keep!r} was not among the candidates {self._owners_training.settings.keep} of this training."
            )
        return self._owners_training.answers(models, X, asker_of_row, owner, name).cpu().numpy()

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _validate(self) -> None:
        if self.unit not in ("record", "user") or self.user_level not in ("clip", "group"):
            raise InputError(
                f"unit must be 'record' or 'user' and user_level 'clip' or 'group', got {self.unit!r}, {self.user_level!r}."
            )
        check_settings(self)


def personal_names(model: nn.Module, personal: Sequence[str]) -> list[str]:
    """The parameters that ``personal`` names, by themselves or by their layer."""
    names = [name for name, _ in model.named_parameters()]
    found = [name for name in names if any(name == p or name.startswith(f"{p}.") for p in personal)]
    for wanted in personal:
        if not any(name == wanted or name.startswith(f"{wanted}.") for name in names):
            raise InputError(f"the model has no parameter or layer {wanted!r}. Its parameters are: {', '.join(names)}.")
    return found


def _refuse_unknown_classes(model: nn.Module, X: Tensor, y: Tensor) -> None:
    """Before anything is paid: one label that the network has no output for would end the training midway."""
    with torch.no_grad():
        outputs = model(made_up_records(X[:1], y[:1])[0])
    if y.dtype.is_floating_point or y.ndim != 1 or outputs.ndim != 2 or y.min() < 0 or y.max() >= outputs.shape[1]:
        raise InputError(
            f"cross entropy takes a whole number for each row as its label, from 0 to {outputs.shape[-1] - 1} for this network; "
            f"got labels of type {y.dtype} and shape {tuple(y.shape)}, or outside that range. Recode them, or give loss=."
        )


def _with_whole_as_long(values: Any) -> Tensor:
    tensor = as_tensor(values)
    return tensor if tensor.dtype.is_floating_point or tensor.dtype == torch.long else tensor.long()
