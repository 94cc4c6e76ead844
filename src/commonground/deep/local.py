"""What owners do on their own side, with the published parameters and their own rows: local fits, and a choice among them.

Free, and shown to nobody else: no number of one owner enters another's, not even in the last bit (``own_rows``). Where several
are computed at once, on a GPU, each has its own copy of the parameters (a leading dimension).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from commonground.deep.clipped import full_precision
from commonground.deep.own_rows import BATCH, OwnRows, stacks
from commonground.deep.per_sample import Loss
from commonground.deep.stacked import Parameters, Repeated, stacked_call, with_patches
from commonground.errors import InputError

KEEP = ("own", "shared", "personal", "blend")
_OWNERS_AT_ONCE = 64  # on a GPU
_FIRST_CHOICE = ("blend", "personal")  # whichever of them is there is kept, unless another is clearly better
_CLEARLY = 2.0  # standard errors
_PRIOR_COUNT = 0.5  # rows of each class that an owner is credited with before it has seen any


@dataclass(frozen=True)
class LocalSettings:
    """How owners fit; public."""

    keep: tuple[str, ...] = ("shared", "personal")
    epochs: int = 40
    fewest_updates: int = 100  # an owner with few rows passes over them more often
    learning_rate: float = 3e-3  # of a network trained by one owner alone (Adam)
    personal_steps: int = 100
    personal_learning_rate: float = 0.01
    personal_ridge: float = 2000.0  # pulls personal parameters to their start: ridge / rows, in units of one row's loss
    class_prior: bool = True  # correct for the classes an owner has seen; classification only
    blend_rows: float = 1000.0  # an owner of so many rows blends its own model and "personal" half and half
    validation: float = 0.25  # share of an owner's rows on which it chooses; the choice is then fitted on all of them

    def __post_init__(self) -> None:
        if not self.keep or not set(self.keep) <= set(KEEP):
            raise InputError(f"keep must name some of {', '.join(KEEP)}, got {self.keep!r}.")
        if "blend" in self.keep and not {"own", "personal"} <= set(self.keep):
            raise InputError(f"keep='blend' mixes 'own' and 'personal': name them, too; got {self.keep!r}.")


@dataclass(frozen=True, repr=False)
class OwnersModels:
    """Everybody's own model; private: entry j belongs to owner j alone."""

    shared: Parameters
    candidates: dict[str, Parameters]  # what differs from the shared parameters, stacked (owners, …)
    priors: Tensor | None  # (owners, classes) added to the outputs of "personal"
    weights: Tensor  # (owners,) of "own" in "blend"
    choice: np.ndarray  # (owners,) names of candidates

    def __repr__(self) -> str:
        return "<OwnersModels: private>"

    def of(self, owners: np.ndarray) -> "OwnersModels":
        """Some owners' models, in this order."""
        at = torch.from_numpy(owners).to(self.weights.device)
        return OwnersModels(
            self.shared,
            {name: {p: values[at] for p, values in mine.items()} for name, mine in self.candidates.items()},
            None if self.priors is None else self.priors[at],
            self.weights[at],
            self.choice[owners],
        )

    @classmethod
    def joined(cls, parts: Sequence["OwnersModels"]) -> "OwnersModels":
        first, priors = parts[0], [part.priors for part in parts if part.priors is not None]
        return cls(
            first.shared,
            {
                name: {p: torch.cat([part.candidates[name][p] for part in parts]) for p in mine}
                for name, mine in first.candidates.items()
            },
            torch.cat(priors) if priors else None,
            torch.cat([part.weights for part in parts]),
            np.concatenate([part.choice for part in parts]),
        )


class OwnersTraining:
    """One network, seen from the owners' side."""

    def __init__(self, model: nn.Module, loss: Loss, personal: Sequence[str], settings: LocalSettings) -> None:
        self.model = with_patches(model) if next(model.parameters()).is_cuda else model
        self.loss, self.personal, self.settings = loss, list(personal), settings

    def fit(
        self, X: Tensor, y: Tensor, owner_of_row: np.ndarray, n_owners: int, shared: Parameters, start: Parameters
    ) -> OwnersModels:
        """Candidates on all rows, and each owner's choice of one by the loss on some of its own rows, kept apart.

        ``shared`` are all parameters with the published values, ``start`` as they were before training.
        """
        fitted, who = [], []
        with full_precision():
            for some, _, part in stacks(X, y, owner_of_row, n_owners, min(_OWNERS_AT_ONCE, n_owners)):
                choice = self._choices(part, shared, start)
                fitted.append(replace(self._candidates(part, shared, start), choice=choice).of(np.arange(len(some))))
                who.append(some)
        return OwnersModels.joined(fitted).of(np.argsort(np.concatenate(who)))  # from stacks to the order of the owners

    def answers(
        self, models: OwnersModels, X: Tensor, asker_of_row: np.ndarray, owner: np.ndarray, candidate: np.ndarray
    ) -> Tensor:
        """Outputs for every row: asker a is owner ``owner[a]``, answered by the candidate of that name. Askers do not meet."""
        found: Tensor | None = None
        width = min(_OWNERS_AT_ONCE, len(owner))  # of all who ask: how many of them prefer a candidate is private
        no_labels = torch.zeros(len(X), dtype=torch.long, device=X.device)
        for name in np.unique(candidate):
            askers, rows = np.flatnonzero(candidate == name), np.flatnonzero(candidate[asker_of_row] == name)
            taken = torch.from_numpy(rows).to(X.device)
            asker = np.searchsorted(askers, asker_of_row[rows])
            for some, mine, part in stacks(X[taken], no_labels[taken], asker, len(askers), width):
                here = models.of(owner[askers[np.resize(some, len(part.y))]])  # a stack is filled up with anybody
                with full_precision():
                    outputs = self._outputs(str(name), here, part.X)[part.weight > 0]
                found = outputs.new_empty((len(X), *outputs.shape[1:])) if found is None else found
                found[taken[torch.from_numpy(mine).to(X.device)]] = outputs
        assert found is not None
        return found

    def _choices(self, rows: OwnRows, shared: Parameters, start: Parameters) -> np.ndarray:
        keep = self.settings.keep
        first = next((name for name in _FIRST_CHOICE if name in keep), keep[0])
        best = np.full(len(rows.y), first, dtype="U8")
        if len(keep) == 1:
            return best
        held_out = torch.arange(rows.y.shape[1], device=rows.X.device) % round(1 / self.settings.validation) == 0
        models = self._candidates(replace(rows, weight=rows.weight * ~held_out), shared, start)
        X, y, weight = rows.X[:, held_out], rows.y[:, held_out], rows.weight[:, held_out]
        losses = {name: self._row_losses(self._outputs(name, models, X), y) for name in keep}
        # With few validation rows the lowest loss is luck.
        n_rows = weight.sum(1).clamp(min=1.0)
        gain = torch.zeros(len(weight), device=weight.device)
        for name, loss in losses.items():
            better = losses[first] - loss
            mean = (better * weight).sum(1) / n_rows
            error = torch.sqrt(((better - mean[:, None]) ** 2 * weight).sum(1) / n_rows / (n_rows - 1).clamp(min=1.0))
            takes = (mean > _CLEARLY * error) & (mean > gain) & (n_rows > 1)
            gain = torch.where(takes, mean, gain)
            best[takes.cpu().numpy()] = name
        return best

    # ---- candidates ----------------------------------------------------------------------------------------------------

    def _candidates(self, rows: OwnRows, shared: Parameters, start: Parameters) -> OwnersModels:
        s = self.settings
        prior = self._class_prior(rows, shared) if s.class_prior and "personal" in s.keep else None
        fits: dict[str, Callable[[], Parameters]] = {
            "own": lambda: self._fit_own(rows, start),
            "shared": dict,
            "personal": lambda: self._fit_personal(rows, shared, prior),
        }
        n_rows = rows.weight.sum(1)
        fitted = {name: fit() for name, fit in fits.items() if name in s.keep}
        return OwnersModels(
            shared, fitted, prior, n_rows / (n_rows + s.blend_rows), np.full(len(n_rows), "", dtype="U8")
        )

    def _class_prior(self, rows: OwnRows, shared: Parameters) -> Tensor | None:
        with torch.no_grad():
            one_output = functional_call(self.model, shared, (rows.X[0, :1],))
        if one_output.ndim != 2 or rows.y.dtype.is_floating_point:
            return None
        n_classes = one_output.shape[1]
        known = (rows.y >= 0) & (rows.y < n_classes)  # another loss may know other labels
        seen = torch.zeros((len(rows.y), n_classes), device=rows.X.device).scatter_add_(
            1, rows.y.clamp(0, n_classes - 1), rows.weight * known
        )
        return torch.log((seen + _PRIOR_COUNT) / (seen + _PRIOR_COUNT).mean(1, keepdim=True))

    def _fit_own(self, rows: OwnRows, start: Parameters) -> Parameters:
        """All parameters from the public start, by Adam over minibatches of every owner's rows."""
        s, n_columns = self.settings, rows.y.shape[1]
        learned = {p: value.expand(len(rows.y), *value.shape).clone() for p, value in start.items()}
        batches = math.ceil(n_columns / BATCH)
        epochs = max(s.epochs, math.ceil(s.fewest_updates / batches))
        order = torch.Generator().manual_seed(0)  # the order in which an owner passes its own rows protects nobody
        passes = torch.cat([torch.randperm(n_columns, generator=order) for _ in range(epochs)])

        def loss(columns: Tensor) -> Tensor:
            weight, y = rows.weight[:, columns], rows.y[:, columns]
            losses = self._row_losses(stacked_call(self.model, {}, learned, rows.X[:, columns]), y)
            return ((losses * weight).sum(1) / weight.sum(1).clamp(min=1.0)).sum()

        return _adam(learned, loss, s.learning_rate, passes.view(epochs * batches, -1).to(rows.X.device))

    def _fit_personal(self, rows: OwnRows, shared: Parameters, prior: Tensor | None) -> Parameters:
        """min over the personal parameters of Σ rows' losses + ridge/rows · ‖change‖², by Adam on all rows at once."""
        s = self.settings
        module, prefix, X = self._without_shared_layers(rows.X, shared)
        fixed = {prefix + p: value for p, value in shared.items() if p not in self.personal}
        begin = {p: shared[p].expand(len(rows.y), *shared[p].shape) for p in self.personal}
        learned = {p: value.clone() for p, value in begin.items()}
        if not learned:
            return {}
        n_rows = rows.weight.sum(1).clamp(min=1.0)

        def loss(_: Tensor) -> Tensor:
            outputs = stacked_call(module, fixed, {prefix + p: value for p, value in learned.items()}, X)
            if prior is not None:
                outputs = outputs + prior[:, None]
            losses = (self._row_losses(outputs, rows.y) * rows.weight).sum(1)
            change = sum(((learned[p] - begin[p]) ** 2).flatten(1).sum(1) for p in learned)
            found: Tensor = ((losses + s.personal_ridge / n_rows * change) / n_rows).sum()
            return found

        every_row = torch.zeros((s.personal_steps, 0), dtype=torch.long, device=X.device)
        return _adam(learned, loss, s.personal_learning_rate, every_row)

    def _without_shared_layers(self, X: Tensor, shared: Parameters) -> tuple[nn.Module, str, Tensor]:
        """A model with ``features`` and ``head`` passes its shared ``features`` once, if nothing personal is inside them."""
        if not (hasattr(self.model, "features") and hasattr(self.model, "head")):
            return self.model, "", X
        features = _Part(self.model, "features")
        tensors = {f"model.{p}": value.detach().requires_grad_() for p, value in shared.items()}
        one = functional_call(features, tensors, (X[0, :1],))
        mine = [tensors[f"model.{p}"] for p in self.personal]
        if mine and any(g is not None for g in torch.autograd.grad(one.sum(), mine, allow_unused=True)):
            return self.model, "", X
        with torch.no_grad():
            plain = {f"model.{p}": value for p, value in shared.items()}
            found = torch.cat([functional_call(features, plain, (x,)) for x in X.flatten(0, 1).split(4096)])
        return _Part(self.model, "head"), "model.", found.unflatten(0, X.shape[:2])

    def _outputs(self, name: str, models: OwnersModels, X: Tensor) -> Tensor:
        if name == "blend":
            own, personal = (self._outputs(part, models, X) for part in ("own", "personal"))
            return personal + models.weights.view(-1, *[1] * (own.ndim - 1)) * (own - personal)
        with torch.no_grad():
            outputs = torch.cat(
                [
                    stacked_call(self.model, models.shared, models.candidates.get(name, {}), x)
                    for x in X.split(256, dim=1)
                ],
                dim=1,
            )
        return outputs + models.priors[:, None] if name == "personal" and models.priors is not None else outputs

    def _row_losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        return self.loss(outputs.flatten(0, 1), y.flatten(0, 1)).view(y.shape[:2])


def _adam(learned: Parameters, loss: Callable[[Tensor], Tensor], rate: float, columns: Tensor) -> Parameters:
    """Adam on ``loss(columns[step])``, step by step, with a rate that falls to zero like a cosine."""
    variables = [value.requires_grad_() for value in learned.values()]
    on_gpu = columns.is_cuda
    rates = rate * (1 + torch.cos(math.pi * torch.arange(len(columns), device=columns.device) / len(columns))) / 2
    step = torch.zeros(1, dtype=torch.long, device=columns.device)
    now = rates[step].squeeze()
    optimiser = torch.optim.Adam(variables, lr=now if on_gpu else rate, capturable=on_gpu)

    def update() -> None:
        now.copy_(rates[step].squeeze())
        if not on_gpu:
            optimiser.param_groups[0]["lr"] = float(now)
        gradients = torch.autograd.grad(loss(columns[step].squeeze(0)), variables)
        for variable, gradient in zip(variables, gradients, strict=True):
            variable.grad = gradient
        optimiser.step()
        step.add_(1)

    Repeated(update, on_gpu)(len(columns))
    return {p: value.detach() for p, value in learned.items()}


class _Part(nn.Module):
    """One method of a model as a module of its own."""

    def __init__(self, model: nn.Module, method: str) -> None:
        super().__init__()
        self.model, self.method = model, method

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = getattr(self.model, self.method)(x)
        return found
