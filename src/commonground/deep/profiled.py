"""Heads fitted anew by each person in each round, and the gradient of what is left: P1's question (i), for networks.

A body φ(x; θ) maps a row to k numbers, a shared head (a part of θ) maps these to an answer, and each person j has a head v_j of
her own for what the shared one leaves over. With her rows fixed, her best head is a function of θ, so she can be asked for

    L_j(θ) = min over v of 1/m_j · ( Σ_i ½ ‖y_i − s(x_i; θ) − [φ(x_i; θ), 1] v‖² + ridge/2 · ‖v‖² )

alone: her head is profiled out. The minimum is a linear system, and by the envelope theorem the slope of L_j is that of the
sum with v held at its minimum: no derivative of the solution is needed.

**Guarantee.** Unit: one person with all of her rows. In a round her head is made from her own rows and from θ, which was released
before; it is never released, and no other person's gradient is made with it. So her mean gradient is a function of her rows and
of released values, and clipped as a whole to norm C it moves the sum over people by at most C if she is there or missing (2C if
she is replaced). With one *record* as the unit this would be wrong: a record steers its owner's head, and through it the
gradients of all of the owner's other records. That is why the personal part of ``JointTrainer`` rests.

**Bits.** People are computed side by side. Her block is padded by her own number of rows, and her place in it follows from the
coins of the sample, which are tossed for empty places, too: what one person holds changes no bit of another's gradient.
"""

import math
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from commonground.clipping.sums import SampledSum
from commonground.deep.clipped import clip_factors, full_precision
from commonground.deep.per_sample import PerSampleGradients
from commonground.deep.probe import refuse_mixing
from commonground.owners.units import Units

_FEWEST_COLUMNS = 8  # a person's rows are padded to this, or to the next power of two


class WithSharedHead(nn.Module):
    """(rows, outputs + k): what the shared head says, beside the body's features. The shared head starts at zero."""

    def __init__(self, body: nn.Module, n_features: int, n_outputs: int) -> None:
        super().__init__()
        self.body, self.n_outputs = body, n_outputs
        self.shared_head = nn.Linear(n_features, n_outputs)
        nn.init.zeros_(self.shared_head.weight)
        nn.init.zeros_(self.shared_head.bias)

    def forward(self, rows: Tensor) -> Tensor:
        features = self.body(rows)
        return torch.cat([self.shared_head(features), features], dim=1)


class ProfiledGradients(PerSampleGradients):
    """(people, parameters): row j is the gradient of person j's profiled loss, from her own block of rows alone."""

    def __init__(self, model: WithSharedHead, ridge: float) -> None:
        names = [name for name, _ in model.named_parameters()]
        super().__init__(model, names, lambda outputs, _: (outputs**2).sum(1))  # the probe's: any loss of single rows
        self.ridge, self.n_outputs = ridge, model.n_outputs

    def probe(self, X: Tensor, y: Tensor) -> None:
        """Refuse a body that mixes rows."""
        refuse_mixing(self.model, self.loss, X, y)

    def __call__(self, X: Tensor, y: Tensor) -> Tensor:
        """``X`` (people, rows, …); ``y`` (people, rows, outputs + 1): targets, and 1 for a row or 0 for padding."""
        tensors = {name: p.detach() for name, p in self.model.named_parameters()}
        buffers = dict(self.model.named_buffers())

        def one_loss(learned: dict[str, Tensor], rows: Tensor, targets: Tensor) -> Tensor:
            outputs = functional_call(self.model, {**buffers, **learned}, (rows,))
            return profiled_loss(outputs, targets, self.n_outputs, self.ridge)

        found = vmap(grad(one_loss), in_dims=(None, 0, 0))(tensors, X, y)
        return torch.cat([found[name].reshape(len(X), -1) for name in self.names], dim=1)


def profiled_loss(outputs: Tensor, y: Tensor, n_outputs: int, ridge: float) -> Tensor:
    """L_j(θ) of one person; its derivative is taken with her head held where it is best."""
    weight = y[:, -1:]
    left = (y[:, :-1] - outputs[:, :n_outputs]) * weight
    features = torch.cat([outputs[:, n_outputs:], torch.ones_like(weight)], dim=1) * weight
    head = best_head(features.detach(), left.detach(), ridge)
    squares = ((left - features @ head) ** 2).sum() + (0.0 if math.isinf(ridge) else ridge * (head**2).sum())
    return squares / (2 * weight.sum().clamp(min=1.0))


def best_head(features: Tensor, left: Tensor, ridge: float) -> Tensor:
    """(k + 1, outputs) argmin ‖left − features v‖² + ridge ‖v‖²; zero where no number can say. It never raises, whatever the
    rows: that a round was stopped would tell.
    """
    if math.isinf(ridge):
        return left.new_zeros((features.shape[1], left.shape[1]))
    wide = features.double()
    gram = wide.T @ wide + ridge * torch.eye(features.shape[1], dtype=torch.float64, device=features.device)
    factor, failed = torch.linalg.cholesky_ex(gram)
    head = torch.cholesky_solve(wide.T @ left.double(), factor).to(left.dtype)
    return torch.where(failed == 0, head, torch.zeros_like(head))


def clipped_sum_of_people(
    gradients: ProfiledGradients, X: Tensor, y: Tensor, people: Units, drawn: np.ndarray,
    clip_norm: float, most_rows: int, rows_at_once: int,
) -> SampledSum:  # fmt: skip
    """Σ over drawn people of clip(her mean gradient; clip_norm), added up in float64."""
    total = torch.zeros(gradients.n_parameters, dtype=torch.float64, device=X.device)
    for rows, weight in _blocks(people, drawn, most_rows, rows_at_once):
        at, real = torch.from_numpy(rows).to(X.device), torch.from_numpy(weight).to(X.device, y.dtype)
        with full_precision():
            found = gradients(X[at], torch.cat([y[at], real[..., None]], dim=2)).double()
        total += clip_factors(found, clip_norm) @ found
    return SampledSum(total.cpu().numpy(), clip_norm)


def _blocks(
    people: Units, drawn: np.ndarray, most_rows: int, rows_at_once: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(rows, weight), each (places, columns): at most ``most_rows`` rows of each drawn person, filled up with her first row.

    A place that nobody of this block has holds row 0 with no weight.
    """
    sizes = np.minimum(people.offsets[drawn + 1] - people.offsets[drawn], most_rows)
    columns = np.maximum(2 ** np.ceil(np.log2(np.maximum(sizes, 1))).astype(np.int64), _FEWEST_COLUMNS)
    for n_columns in np.unique(columns[sizes > 0]):
        width = max(rows_at_once // int(n_columns), 1)
        alike = np.flatnonzero((columns == n_columns) & (sizes > 0))  # places among all who were drawn
        for block in np.unique(alike // width):
            here = alike[alike // width == block]
            column, mine = np.arange(n_columns), sizes[here, None]
            rows, weight = np.zeros((width, n_columns), dtype=np.int64), np.zeros((width, n_columns))
            first = people.offsets[drawn[here], None]
            rows[here % width] = people.rows[first + np.where(column < mine, column, 0)]
            weight[here % width] = column < mine
            yield rows, weight
