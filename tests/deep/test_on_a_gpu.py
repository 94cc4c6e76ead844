"""What an owner computes on a GPU, where updates are recorded once and played back."""

import pytest
import torch

from commonground.deep import TwoBranchCNN, local
from commonground.deep.trainer import cross_entropy

NO_GPU = "there is no GPU here"


@pytest.mark.skipif(not torch.cuda.is_available(), reason=NO_GPU)
def test_recorded_updates_give_what_plain_ones_give(monkeypatch: pytest.MonkeyPatch) -> None:
    model = TwoBranchCNN(side=8).cuda()
    start = {name: p.detach().clone() for name, p in model.named_parameters()}
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(3, 128, 1, 8, 8, generator=generator).cuda()
    y = torch.randint(10, (3, 128), generator=generator).cuda()
    rows = local.OwnRows(X, y, torch.ones(3, 128, device="cuda"))
    settings = local.LocalSettings(epochs=5, fewest_updates=10, personal_steps=10)
    owners = local.Locally(model, cross_entropy, ["fc1.weight", "fc1.bias"], settings)
    recorded = owners._fit_own(rows, start), owners._fit_personal(rows, start, None)
    monkeypatch.setattr(local, "_BEFORE_RECORDING", 10**9)
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

    local._repeat(update, 10, on_gpu=True)
    assert float(total) == 10.0
