"""Per-sample gradients against one backward pass a record, and the clipped sum against its stated sensitivity."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from commonground.clipping.sums import SampledSum
from commonground.deep.clipped import clipped_sum
from commonground.deep.models import TwoBranchCNN
from commonground.deep.per_sample import PerSampleGradients, patches
from commonground.deep.trainer import cross_entropy
from commonground.errors import InputError
from commonground.owners.units import Units


class Strided(nn.Module):
    """Convolutions with stride, dilation and no bias; a linear layer over places."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 3, (3, 2), stride=2, padding=(1, 0), bias=False)
        self.second = nn.Conv2d(3, 4, 2, dilation=2, padding=1)
        self.places = nn.Linear(4, 10)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.tanh(self.second(torch.tanh(self.first(x))))
        return self.places(hidden.flatten(2).transpose(1, 2)).mean(1)


class Twice(nn.Module):
    """One layer used two times, and a norm: no closed form here."""

    def __init__(self) -> None:
        super().__init__()
        self.again = nn.Linear(64, 64)
        self.norm = nn.LayerNorm(64)
        self.out = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(1)
        return self.out(self.norm(self.again(torch.tanh(self.again(flat)))))


MODELS = {"two branches": lambda: TwoBranchCNN(side=8), "strided": Strided, "twice": Twice}


def records(n: int = 7) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    return torch.rand(n, 1, 8, 8, generator=generator), torch.arange(n) % 10


def one_by_one(model: nn.Module, names: list[str], X: Tensor, y: Tensor) -> Tensor:
    """The slow obvious version."""
    parameters = dict(model.named_parameters())
    rows = []
    for x, label in zip(X, y, strict=True):
        loss = cross_entropy(model(x[None]), label[None]).sum()
        found = torch.autograd.grad(loss, [parameters[name] for name in names])
        rows.append(torch.cat([g.flatten() for g in found]))
    return torch.stack(rows)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_rows_are_the_gradients_of_single_records(name: str, layout: torch.memory_format) -> None:
    model = MODELS[name]().to(memory_format=layout)
    X, y = records()
    names = [n for n, _ in model.named_parameters() if not n.startswith("fc1")]
    gradients = PerSampleGradients(model, names, cross_entropy)
    torch.testing.assert_close(gradients(X, y), one_by_one(model, names, X, y), rtol=1e-4, atol=1e-6)
    assert (gradients.layers is None) == (name == "twice")
    assert all(p.requires_grad for p in model.parameters())


def test_patches_are_what_the_library_unfolds() -> None:
    layer = nn.Conv2d(3, 4, (5, 3), stride=(1, 2), dilation=(1, 2), padding=(2, 1))
    x = torch.rand(6, 3, 17, 16)
    unfolded = nn.functional.unfold(x, layer.kernel_size, layer.dilation, layer.padding, layer.stride)
    torch.testing.assert_close(patches(layer, x), unfolded.transpose(1, 2))


class Applied(nn.Module):
    """A linear layer after what a careless author did to the batch."""

    def __init__(self, do: Callable[["Applied", Tensor], Tensor]) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.do = do
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(self.do(self, x))


def writes(model: Applied, x: Tensor) -> Tensor:
    model.seen = model.seen + x.detach().sum(0)
    return x


def writes_in_training(model: Applied, x: Tensor) -> Tensor:
    if model.training:
        model.seen.add_(x.detach().mean(0))
    return x - model.seen


MIXING: dict[str, Callable[[Applied, Tensor], Tensor]] = {
    "divided by the largest value of the batch": lambda _, x: x / x.abs().max(),
    "centred": lambda _, x: x - x.mean(0),
    "a thousandth of the others": lambda _, x: x + 1e-3 * x.mean(0, keepdim=True),
    "scaled by the batch": lambda _, x: x / (1.0 + x.norm()),
    "sorted": lambda _, x: x.sort(0).values,
    "its neighbour": lambda _, x: x + x.roll(1, 0),
    "size of the batch": lambda _, x: x / len(x),
    "softmax over records": lambda _, x: x.softmax(0),
    "mixes in training only": lambda model, x: x - x.mean(0) if model.training else x,
    "writes a buffer": writes,
    "writes a buffer in training": writes_in_training,
    "batch norm of its own": lambda _, x: torch.nn.functional.batch_norm(x, None, None, training=len(x) > 1),
}


@pytest.mark.parametrize("name", MIXING)
def test_models_that_mix_records_are_refused(name: str) -> None:
    model = Applied(MIXING[name]).eval()
    X, y = torch.rand(5, 4), torch.zeros(5, dtype=torch.long)
    with pytest.raises(InputError, match=r"mixes|writes"):
        PerSampleGradients(model, ["layer.weight"], cross_entropy)(X, y)


def test_a_loss_that_mixes_records_is_refused() -> None:
    model = nn.Linear(4, 3)
    with pytest.raises(InputError, match="loss of one record"):
        PerSampleGradients(model, ["weight"], lambda o, t: cross_entropy(o, t) / cross_entropy(o, t).max())(
            torch.rand(5, 4), torch.zeros(5, dtype=torch.long)
        )


@pytest.mark.parametrize("norm", [nn.BatchNorm1d, nn.SyncBatchNorm])
def test_layers_that_mix_records_are_refused(norm: type[nn.Module]) -> None:
    model = nn.Sequential(nn.Linear(3, 3), norm(3)).eval()
    with pytest.raises(InputError, match="GroupNorm"):
        PerSampleGradients(model, ["0.weight"], cross_entropy)(torch.rand(5, 3), torch.zeros(5, dtype=torch.long))


APART: dict[str, Callable[[], nn.Module]] = {
    "dropout": lambda: nn.Sequential(nn.Linear(4, 8), nn.Dropout(), nn.Linear(8, 3)),
    "norms": lambda: nn.Sequential(nn.Linear(4, 8), nn.GroupNorm(2, 8), nn.LayerNorm(8), nn.Linear(8, 3)),
    "a buffer that is only read": lambda: Applied(lambda model, x: x - model.seen),
    "divided by its own largest value": lambda: Applied(lambda _, x: x / x.abs().amax(1, keepdim=True)),
    "exponentials that overflow": lambda: Applied(lambda _, x: x.exp()),
}


@pytest.mark.parametrize("name", APART)
def test_models_that_treat_records_apart_pass(name: str) -> None:
    torch.manual_seed(0)
    model = APART[name]().eval()
    names = [n for n, _ in model.named_parameters()]
    X, y = torch.rand(5, 4), torch.arange(5) % 3
    found = PerSampleGradients(model, names, cross_entropy)(X, y)
    torch.testing.assert_close(found, one_by_one(model, names, X, y), rtol=1e-4, atol=1e-6)


def test_names_of_things_as_records() -> None:
    """Whole numbers, of which only the first two are sure to be names of something."""
    model = nn.Sequential(nn.Embedding(5, 4), nn.Flatten(), nn.Linear(12, 3)).eval()
    names = [n for n, _ in model.named_parameters()]
    X, y = torch.tensor([[0, 4, 2], [3, 1, 1]]), torch.tensor([0, 2])
    found = PerSampleGradients(model, names, cross_entropy)(X, y)
    torch.testing.assert_close(found, one_by_one(model, names, X, y), rtol=1e-4, atol=1e-6)


def summed(
    X: Tensor, y: Tensor, unit: np.ndarray, clip_norm: float, drawn: np.ndarray | None = None, microbatch: int = 4
):
    model = TwoBranchCNN(side=8)
    names = [n for n, _ in model.named_parameters() if not n.startswith("fc1")]
    units = Units(unit, int(unit.max()) + 1)
    drawn = np.arange(units.n_units) if drawn is None else drawn
    return clipped_sum(PerSampleGradients(model, names, cross_entropy), X, y, units, drawn, clip_norm, microbatch)


@pytest.mark.parametrize("unit", [[0, 1, 2, 3, 4, 5, 6], [0, 0, 1, 1, 1, 2, 2], [0, 0, 0, 0, 0, 0, 1]])
@pytest.mark.parametrize("clip_norm", [1e-3, 0.5, 1e3])
def test_clipped_sum_is_the_sum_of_clipped_means(unit: list[int], clip_norm: float) -> None:
    X, y = records()
    model = TwoBranchCNN(side=8)
    names = [n for n, _ in model.named_parameters() if not n.startswith("fc1")]
    rows, of = one_by_one(model, names, X, y).double().numpy(), np.array(unit)
    expected = np.zeros(rows.shape[1])
    for u in np.unique(of):
        mean = rows[of == u].mean(axis=0)
        expected += mean * min(1.0, clip_norm / np.linalg.norm(mean))
    np.testing.assert_allclose(summed(X, y, of, clip_norm).value, expected, rtol=1e-4, atol=1e-7)


STRANGE = {
    "huge": torch.full((1, 8, 8), 1e30), "infinite": torch.full((1, 8, 8), torch.inf), "NaN": torch.full((1, 8, 8), torch.nan),
    "zeros": torch.zeros(1, 8, 8), "negative": -1e6 * torch.ones(1, 8, 8), "ordinary": torch.rand(1, 8, 8),
}  # fmt: skip


@pytest.mark.parametrize("unit", [[0, 1, 2, 3, 4, 5, 6], [0, 0, 1, 1, 1, 2, 2]])
@pytest.mark.parametrize("relation", ["add-or-remove-one", "replace-one"])
def test_a_neighbour_moves_the_sum_by_at_most_its_sensitivity(unit: list[int], relation: str) -> None:
    """Every unit missing in turn, or replaced by strange ones; a sum that ignored the relation would exceed C."""
    X, y = records()
    of, clip_norm = np.array(unit), 0.05
    whole = summed(X, y, of, clip_norm)
    bound = whole.bounded("g", relation).sensitivity
    moved = []
    for u in np.unique(of):
        if relation == "add-or-remove-one":
            others = np.setdiff1d(np.unique(of), [u])
            moved.append(np.linalg.norm(whole.value - summed(X, y, of, clip_norm, drawn=others).value))
            continue
        for strange in STRANGE.values():
            changed, labels = X.clone(), y.clone()
            changed[torch.from_numpy(of == u)], labels[torch.from_numpy(of == u)] = strange, 9
            after = summed(changed, labels, of, clip_norm)
            assert np.isfinite(after.value).all()
            moved.append(np.linalg.norm(whole.value - after.value))
    assert clip_norm * 0.5 < max(moved) <= bound


def test_the_gradients_of_others_do_not_feel_one_more_record() -> None:
    """Bit by bit: whoever joins, and wherever in a batch a record then stands, its own row stays the same."""
    X, y = records(40)
    model = TwoBranchCNN(side=8).to(memory_format=torch.channels_last)
    names = [n for n, _ in model.named_parameters()]
    of = np.arange(40)
    gradients = PerSampleGradients(model, names, cross_entropy)
    for joins in (0, 13, 39):
        with_it = clipped_sum(gradients, X, y, Units(of, 40), of, 1e9, 16).value
        without = clipped_sum(gradients, X, y, Units(of, 40), np.setdiff1d(of, [joins]), 1e9, 16).value
        alone = clipped_sum(gradients, X, y, Units(of, 40), np.array([joins]), 1e9, 16).value
        np.testing.assert_allclose(with_it - without, alone, atol=1e-12)


def test_private_sums_do_not_print() -> None:
    assert "777" not in repr(SampledSum(np.full(3, 777.0), 1.0))
    assert "7" not in repr(Units(np.array([7, 7, 0]), 8))


def test_activations_in_place_take_the_slower_way() -> None:
    """An in-place activation overwrites what the closed form watches; torch.func does not mind."""
    X, y = records()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(inplace=True), nn.Linear(8, 10))
    names = [name for name, _ in model.named_parameters()]
    found = PerSampleGradients(model, names, cross_entropy)(X, y)
    torch.testing.assert_close(found, one_by_one(model, names, X, y), rtol=1e-4, atol=1e-6)


def test_the_clipped_sum_is_computed_in_full_precision() -> None:
    """Whatever the program around it allows for its own products, which it gets back."""
    X, y = records()
    found = []

    class Watched(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            found.append(torch.get_float32_matmul_precision())
            return super().forward(x)

    model = nn.Sequential(nn.Flatten(), Watched(64, 10))
    gradients = PerSampleGradients(model, ["1.weight", "1.bias"], cross_entropy)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        clipped_sum(gradients, X, y, Units(np.arange(7), 7), np.arange(7), 1.0, 8)
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)
    assert set(found) == {"highest"}
