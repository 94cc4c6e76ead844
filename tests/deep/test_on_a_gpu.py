"""What an owner computes on a GPU, where updates are recorded once and played back."""

import numpy as np
import pytest
import torch

from commonground.deep import TwoBranchCNN, local, stacked
from commonground.deep.own_rows import OwnRows
from commonground.deep.trainer import cross_entropy

NO_GPU = "there is no GPU here"


@pytest.mark.skipif(not torch.cuda.is_available(), reason=NO_GPU)
def test_recorded_updates_give_what_plain_ones_give(monkeypatch: pytest.MonkeyPatch) -> None:
    model = TwoBranchCNN(side=8).cuda()
    start = {name: p.detach().clone() for name, p in model.named_parameters()}
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(3, 128, 1, 8, 8, generator=generator).cuda()
    y = torch.randint(10, (3, 128), generator=generator).cuda()
    rows = OwnRows(X, y, torch.ones(3, 128, device="cuda"))
    settings = local.LocalSettings(epochs=5, fewest_updates=10, personal_steps=10)
    owners = local.OwnersTraining(model, cross_entropy, ["fc1.weight", "fc1.bias"], settings)
    recorded = owners._fit_own(rows, start), owners._fit_personal(rows, start, None)
    monkeypatch.setattr(stacked, "_BEFORE_RECORDING", 10**9)
    plain = owners._fit_own(rows, start), owners._fit_personal(rows, start, None)
    for ours, theirs in zip(recorded, plain, strict=True):
        for name, values in ours.items():
            assert not torch.equal(values, start[name].expand_as(values)), f"{name} was not fitted"
            torch.testing.assert_close(values, theirs[name], rtol=1e-3, atol=1e-4)


@pytest.mark.skipif(not torch.cuda.is_available(), reason=NO_GPU)
def test_an_update_that_cannot_be_recorded_is_made_all_the_same() -> None:
    total = torch.zeros(1, device="cuda")

    def update() -> None:
        if float(total) >= 0:  # asks the GPU for a number
            total.add_(1)

    stacked.Repeated(update, on_gpu=True)(10)
    assert float(total) == 10.0


@pytest.mark.skipif(not torch.cuda.is_available(), reason=NO_GPU)
@pytest.mark.parametrize("n_owners", [5, 100])
def test_others_keep_every_bit_whatever_one_owner_holds_on_a_gpu(n_owners: int) -> None:
    """Stacks have one shape; that each of their members is computed alike is the libraries' doing, seen here."""
    model = TwoBranchCNN(side=8).cuda()
    start = {name: p.detach().clone() for name, p in model.named_parameters()}
    draws = np.random.default_rng(0)
    X = torch.tensor(draws.random((9000, 1, 8, 8)), dtype=torch.float32).cuda()
    y = torch.tensor(draws.integers(0, 10, 9000)).cuda()
    settings = local.LocalSettings(keep=local.KEEP, epochs=2, fewest_updates=9, personal_steps=9)
    owners = local.OwnersTraining(model, cross_entropy, ["fc1.weight", "fc1.bias"], settings)
    others = np.repeat(np.arange(1, n_owners), draws.integers(1, 60, n_owners - 1))
    first: dict[str, bytes] = {}
    for n_rows in (40, 0, 1, 64, 65, 300):
        taken = np.r_[8000 : 8000 + n_rows, : len(others)]
        of_row = np.r_[np.zeros(n_rows, dtype=int), others]
        models = owners.fit(X[taken], y[taken], of_row, n_owners, start, start)
        found = {
            f"{name} {p}": values[1:].cpu().numpy().tobytes()
            for name, candidate in models.candidates.items()
            for p, values in candidate.items()
        }
        found["choice"] = models.choice[1:].tobytes()
        found["answers"] = (
            owners.answers(models, X[taken], of_row, np.arange(n_owners), models.choice)[n_rows:]
            .cpu()
            .numpy()
            .tobytes()
        )
        first = first or found
        assert {name for name in found if found[name] != first[name]} == set(), n_rows
