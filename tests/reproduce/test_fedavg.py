"""FedAvg as P4 tells of it, many runs side by side, held against the plain loop over owners and batches."""

import math
from dataclasses import replace

import numpy as np
import pytest

from commonground.datasets import OwnersData
from commonground.reproduce import p4_fedavg
from commonground.reproduce.p4_cells import Study

torch = pytest.importorskip("torch")

from commonground.deep import TwoBranchCNN  # noqa: E402
from commonground.reproduce import p4_side_by_side  # noqa: E402
from commonground.reproduce.p4_side_by_side import BATCH, RATE, Run, fedavg  # noqa: E402


def plain_loop(run: Run, epochs: int, rounds: int) -> tuple[float, dict[str, np.ndarray]]:
    """Test accuracy, and everybody's parameters at the end; one owner and one batch at a time."""
    model, data, rng = run.model, run.data, torch.Generator().manual_seed(run.seed)
    shared = {name: value.detach().clone() for name, value in model.named_parameters()}
    own = [name for name in shared if name.split(".")[0] in run.personal]
    owners = np.unique(data.owners)
    X, y = torch.as_tensor(data.X), torch.as_tensor(data.y)
    kept = {j: {name: shared[name].clone() for name in own} for j in owners}

    def load(j: int) -> None:
        with torch.no_grad():
            for name, value in model.named_parameters():
                value.copy_(kept[j].get(name, shared[name]))

    for _ in range(rounds):
        total = {name: torch.zeros_like(value) for name, value in shared.items() if name not in own}
        for j in owners:
            load(j)
            rows, optimiser = np.flatnonzero(data.owners == j), torch.optim.SGD(model.parameters(), lr=RATE)
            for _ in range(epochs):
                order = rows[torch.randperm(len(rows), generator=rng).numpy()]
                for batch in np.array_split(order, max(math.ceil(len(order) / BATCH), 1)):
                    optimiser.zero_grad()
                    torch.nn.functional.cross_entropy(model(X[batch]), y[batch]).backward()
                    optimiser.step()
            found = {name: value.detach().clone() for name, value in model.named_parameters()}
            kept[j] = {name: found[name] for name in own}
            update = {name: found[name] - shared[name] for name in total}
            length = math.sqrt(sum(float((part**2).sum()) for part in update.values()))
            for name, part in update.items():
                total[name] += min(1.0, run.clip / length) * part
        for name, part in total.items():
            shared[name] = shared[name] + part / len(owners) + run.noise_std * torch.randn(part.shape, generator=rng)
    right, ends = 0, []
    for j in owners:
        load(j)
        ends.append({name: value.detach().numpy().copy() for name, value in model.named_parameters()})
        with torch.no_grad():
            answers = model(torch.as_tensor(data.test_X[data.test_owners == j])).argmax(dim=1).numpy()
        right += int((answers == data.test_y[data.test_owners == j]).sum())
    return right / len(data.test_y), {name: np.stack([end[name] for end in ends]) for name in ends[0]}


def small(n_owners: int, seed: int) -> OwnersData:
    """Digits of 8 × 8 pixels; owners with unequal numbers of rows and of batches."""
    data = Study(fast=True).data("digits", n_owners, seed)
    some = np.random.default_rng(seed).random(len(data.y)) < 0.5 / (1 + data.owners)
    return replace(data, X=data.X[some], y=data.y[some], owners=data.owners[some], users=data.users[some])


def three_ways(data: OwnersData, seed: int) -> list[Run]:
    return [
        Run(data, TwoBranchCNN(side=8, channels=(2, 3), seed=seed), personal, clip, noise_std, seed)
        for personal, clip, noise_std in (((), math.inf, 0.0), ((), 0.02, 0.01), (("fc1",), 0.02, 0.01))
    ]


ON_A_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")


@pytest.mark.parametrize(
    ("device", "at_once"),  # one by one; in stacks of which the last is shorter; all together
    [("cpu", 1), ("cpu", 5), ("cpu", 24), pytest.param("cuda", 5, marks=ON_A_GPU)],
)
def test_side_by_side_is_the_plain_loop(device: str, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [run for seed in (0, 1) for run in three_ways(small(4, seed), seed)]
    ends: dict[str, np.ndarray] = {}
    scored = p4_side_by_side._Training.accuracies

    def and_remember(self: object, models: dict[str, torch.Tensor], runs: list[Run]) -> list[float]:
        ends.update({name: value.cpu().numpy().copy() for name, value in models.items()})
        return scored(self, models, runs)

    monkeypatch.setattr(p4_side_by_side._Training, "accuracies", and_remember)
    accuracies = fedavg(runs, 2, 2, device, at_once)
    for r, run in enumerate(runs):
        accuracy, expected = plain_loop(replace(run, model=TwoBranchCNN(side=8, channels=(2, 3), seed=run.seed)), 2, 2)
        assert accuracies[r] == pytest.approx(accuracy, abs=2.5 / len(run.data.test_y))
        for name, values in expected.items():
            np.testing.assert_allclose(ends[name][4 * r : 4 * r + 4], values, atol=2e-5, err_msg=f"{r} {name}")


def test_the_clip_binds_in_that_comparison() -> None:
    """Or it would say nothing about it."""
    free, clipped, _ = three_ways(small(4, 0), 0)
    close = [plain_loop(run, 2, 2)[1] for run in (free, replace(clipped, noise_std=0.0))]
    assert max(float(np.abs(close[0][name] - close[1][name]).max()) for name in close[0]) > 1e-3


def test_fedavg_is_the_mean_of_owners_updates() -> None:
    """One round, one epoch, one batch an owner, no noise: a step along the mean of owners' gradients."""
    data = Study(fast=True).data("digits", 4, seed=0)
    few = np.concatenate([np.flatnonzero(data.owners == j)[:BATCH] for j in range(4)])
    some = replace(data, X=data.X[few], y=data.y[few], owners=data.owners[few], users=data.users[few])
    model = TwoBranchCNN(side=8, channels=(4, 8), seed=0)
    (accuracy,) = fedavg([Run(some, model, (), math.inf, 0.0, 0)], 1, 1, "cpu")
    assert 0 < accuracy < 1
    losses = [
        torch.nn.functional.cross_entropy(
            model(torch.as_tensor(some.X[some.owners == j])), torch.as_tensor(some.y[some.owners == j])
        )
        for j in range(4)
    ]
    gradients = torch.autograd.grad(sum(losses) / 4, list(model.parameters()))
    with torch.no_grad():
        for value, gradient in zip(model.parameters(), gradients, strict=True):
            value -= RATE * gradient
        right = (model(torch.as_tensor(some.test_X)).argmax(dim=1).numpy() == some.test_y).mean()
    assert accuracy == pytest.approx(float(right), abs=0.01)


def test_fedavgs_noise_is_paid_exactly() -> None:
    """T releases of a sum that an owner moves by the clip: together (ε, δ)."""
    from commonground.accounting.gaussian import gaussian_epsilon

    std = p4_fedavg.noise_of_mean(64, 10, 1.0, 1e-4)
    assert gaussian_epsilon(np.sqrt(10) * p4_fedavg.CLIP / (64 * std), 1e-4) == pytest.approx(1.0, rel=1e-6)


def test_cells_carry_the_noise_they_pay_for(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Run] = []

    def remember(runs: list[Run], epochs: int, rounds: int, device: str) -> list[float]:
        assert (epochs, rounds) == (1, 2)
        seen.extend(runs)
        return [0.5] * len(runs)

    monkeypatch.setattr(p4_side_by_side, "fedavg", remember)
    cells = list(p4_fedavg.table1_fedavg_cells(Study(fast=True), 4, ("digits",), (0, 1)))
    assert [(cell["seed"], cell["method"]) for cell in cells] == [(s, m) for s in (0, 1) for m in p4_fedavg.WAYS]
    std = p4_fedavg.noise_of_mean(4, 2, 1.0, 1e-4)
    assert [(run.clip, run.noise_std, run.personal) for run in seen[:3]] == [
        (math.inf, 0.0, ()), (p4_fedavg.CLIP, std, ()), (p4_fedavg.CLIP, std, ("fc1",)),
    ]  # fmt: skip
