"""Whether a model treats records apart, and takes all that are there, seen before anything is paid for.

A record's gradient is bounded by clipping only if other records' gradients do not depend on it. No probe can prove that; this one
finds what real models do, on made-up records: statistics over the batch (their mean, their largest value), an order, a memory in
buffers. Then all records pass once: one that stops the model would else stop a training that everybody has paid for.
"""

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn

from commonground.errors import InputError

Loss = Callable[[Tensor, Tensor], Tensor]  # (outputs, labels) of some records to one loss for each

_SCALES = (1e-3, 1.0, 1e3)  # a huge companion moves a statistic of the batch, a tiny record feels it
_RECORDS_OF_EACH = 2
_TOLERANCE = 1e-3  # of a record's largest output; far above rounding, which may differ with the shape of the batch
_ROWS_AT_ONCE = 256  # without gradients
_ACROSS_RECORDS = (nn.modules.batchnorm._BatchNorm,)


def made_up_records(X: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Records of very different sizes with the shape of X's, and labels of the kind of y's; nothing else of them is read."""
    n = _RECORDS_OF_EACH * len(_SCALES)
    draws = torch.Generator().manual_seed(0)
    if X.dtype.is_floating_point:
        scale = torch.tensor(_SCALES).repeat(_RECORDS_OF_EACH).view(-1, *[1] * (X.ndim - 1))
        records = (scale * torch.randn((n, *X.shape[1:]), generator=draws)).to(X.dtype)
    else:  # names of things: every list of them has a first and a second
        records = torch.randint(2, (n, *X.shape[1:]), generator=draws, dtype=X.dtype)
    return records.to(X.device), torch.zeros((n, *y.shape[1:]), dtype=y.dtype, device=y.device)


def refuse_mixing(model: nn.Module, loss: Loss, X: Tensor, y: Tensor) -> None:
    """Raise for a model (or loss) whose answer for one record depends on the others, or on what it has seen before.

    ``model`` is probed as it is trained (dropout and the like at rest) and in training mode, on a copy.
    """
    for name, module in model.named_modules():
        if isinstance(module, _ACROSS_RECORDS):
            raise InputError(
                f"layer {name!r} is a {type(module).__name__}: it mixes the records of a batch, so one record's effect on "
                "the gradient has no bound. Use GroupNorm or LayerNorm, which treat each record by itself."
            )
    records, labels = made_up_records(X, y)
    for training in (False, True):
        probed = copy.deepcopy(model).train(training)
        before = {name: value.clone() for name, value in probed.state_dict().items()}
        with torch.no_grad():
            together, again = probed(records), probed(records)
        changed = [name for name, value in probed.state_dict().items() if not _same(value, before[name])]
        if changed:
            raise InputError(
                f"a forward pass of the model writes {', '.join(changed)}: what it has seen of one record reaches all later "
                "ones, and its effect has no bound. Remove what is written during the pass (running statistics, counters)."
            )
        if not _same(together, again):
            if training:
                continue  # dropout and the like, which rest while the shared part is trained
            raise InputError("the model answers the same records differently each time. Take out what draws at random.")
        _refuse_dependence(probed, loss, records, labels)


def refuse_failing_rows(model: nn.Module, loss: Loss, X: Tensor, y: Tensor) -> None:
    """Raise for a row, or its label, that the model or its loss fails on, such as a token that an embedding has no place for."""
    for start in range(0, len(X), _ROWS_AT_ONCE):
        here = slice(start, start + _ROWS_AT_ONCE)
        try:
            with torch.no_grad():
                loss(
                    model(X[here]), y[here]
                ).sum().item()  # a GPU tells of a failure only when it is asked for a number
        except (LookupError, RuntimeError, ValueError) as reason:
            raise InputError(
                f"the model, or its loss, fails on one of rows {start} to {min(here.stop, len(X)) - 1}: {reason}. Drop or recode "
                "what it does not know, such as token ids beyond its embedding, or give a model that takes every row."
            ) from reason


def _refuse_dependence(model: nn.Module, loss: Loss, records: Tensor, labels: Tensor) -> None:
    """Every record alone, and among others in batches of several sizes and orders."""
    n = len(records)
    batches = [list(range(n)), list(range(n))[::-1], [0, 2], [1, 0], [0, 1, 2] * 11]

    def answers(here: list[int]) -> tuple[Tensor, Tensor]:
        try:
            with torch.no_grad():
                outputs = model(records[here])
                return outputs, loss(outputs, labels[here])
        except (RuntimeError, ValueError) as reason:
            raise InputError(
                f"the model, or its loss, fails on a batch of {len(here)} made-up records: {reason}. It must take records in "
                "batches of any size, one alone, too; a model that mixes records cannot."
            ) from reason

    alone = [answers([i]) for i in range(n)]
    for batch in batches:
        for what, found in zip(("output", "loss"), answers(batch), strict=True):
            if len(found) != len(batch):
                raise InputError(
                    f"a batch of {len(batch)} records has an {what} of shape {tuple(found.shape)}: one a record, please."
                )
            for place, i in enumerate(batch):
                expected = alone[i][what == "loss"][0]
                near = _TOLERANCE * expected.abs().max() + torch.finfo(torch.float32).tiny
                if torch.isfinite(expected).all() and not ((found[place] - expected).abs() <= near).all():
                    raise InputError(
                        f"the {what} of one record changes when other records are in the batch: the model mixes them (a "
                        "largest value, a mean, an order over the batch), so one record's effect on the gradient has no bound. "
                        "Compute it from each record by itself."
                    )


def _same(a: Tensor, b: Tensor) -> bool:
    return torch.equal(torch.nan_to_num(a), torch.nan_to_num(b))
