"""Gradients with heads profiled out: against one person at a time, against differences, and by what one person can move."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from commonground.deep import TwoBranchCNN
from commonground.deep.profiled import ProfiledGradients, WithSharedHead, _blocks, best_head, clipped_sum_of_people
from commonground.owners.units import Units

C = 0.1


def network(n_outputs: int = 2, kind: str = "mlp") -> WithSharedHead:
    draws = torch.Generator().manual_seed(0)
    if kind == "mlp":
        body: nn.Module = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.LayerNorm(7), nn.Linear(7, 3))
        model = WithSharedHead(body, 3, n_outputs)
    else:
        cnn = TwoBranchCNN(side=8, channels=(2, 3), classes=4)
        model = WithSharedHead(cnn, 4, n_outputs)
    for parameter in model.parameters():
        nn.init.uniform_(parameter, -0.6, 0.6, generator=draws)
    return model


def rows_of(sizes: list[int], n_outputs: int = 2, shape: tuple[int, ...] = (5,)) -> tuple[Tensor, Tensor, Units]:
    draws = torch.Generator().manual_seed(1)
    person = np.repeat(np.arange(len(sizes)), sizes)
    order = np.random.default_rng(0).permutation(len(person))
    X = torch.randn((len(person), *shape), generator=draws)
    y = torch.randn((len(person), n_outputs), generator=draws)
    return X, y, Units(person[order], len(sizes))


def slow_gradient(model: WithSharedHead, X: Tensor, y: Tensor, ridge: float) -> np.ndarray:
    """The obvious way: her head by NumPy in float64, then autograd of her mean loss with that head as a constant."""
    with torch.no_grad():
        found = model(X).double().numpy()
    shared, phi = found[:, : model.n_outputs], np.column_stack([found[:, model.n_outputs :], np.ones(len(X))])
    head = np.linalg.solve(phi.T @ phi + ridge * np.eye(phi.shape[1]), phi.T @ (y.double().numpy() - shared))
    outputs = model(X)
    features = torch.cat([outputs[:, model.n_outputs :], torch.ones(len(X), 1)], dim=1)
    missed = y - outputs[:, : model.n_outputs] - features @ torch.from_numpy(head).float()
    loss = (missed**2).sum() / 2 / len(X)
    return np.concatenate([g.numpy().ravel() for g in torch.autograd.grad(loss, list(model.parameters()))])


def clipped(gradient: np.ndarray) -> np.ndarray:
    return gradient * min(1.0, C / np.linalg.norm(gradient))


@pytest.mark.parametrize("kind", ["mlp", "cnn"])
def test_the_sum_is_that_of_one_person_at_a_time(kind: str) -> None:
    """People with no rows, one, several, and more than may take part; some are clipped, some are not."""
    sizes = [3, 0, 9, 1, 8, 20, 2, 5]
    X, y, people = rows_of(sizes, shape=(5,) if kind == "mlp" else (1, 8, 8))
    y[people.rows_of(np.array([4]))[0]] *= 0.001
    model = network(kind=kind)
    drawn = np.array([0, 1, 2, 4, 5, 6, 7])
    found = clipped_sum_of_people(ProfiledGradients(model, 0.7), X, y, people, drawn, C, 16, 32)
    expected = np.zeros_like(found.value)
    norms = []
    for person in drawn:
        rows = torch.from_numpy(people.rows_of(np.array([person]))[0][:16])
        if len(rows):
            gradient = slow_gradient(model, X[rows], y[rows], 0.7)
            norms.append(np.linalg.norm(gradient))
            expected += clipped(gradient)
    np.testing.assert_allclose(found.value, expected, atol=2e-6)
    assert max(norms) > C


def test_the_gradient_is_the_slope_of_the_profiled_loss() -> None:
    """Differences of min over heads of the loss, in float64, the head fitted anew at both ends: the envelope theorem."""
    X, y, _ = rows_of([11])
    X, y = X.double(), y.double()
    model, ridge = network().double(), 0.7
    gradients = ProfiledGradients(model, ridge)
    found = gradients(X[None], torch.cat([y, torch.ones(11, 1)], dim=1)[None])[0].numpy()
    start = gradients.flatten({name: p.detach() for name, p in model.named_parameters()})

    def lowest(at: Tensor) -> float:
        with torch.no_grad():
            for name, value in gradients.unflatten(at).items():
                dict(model.named_parameters())[name].copy_(value)
            outputs = model(X).numpy()
        left, phi = y.numpy() - outputs[:, :2], np.column_stack([outputs[:, 2:], np.ones(11)])
        # ridge as further rows of a least-squares problem
        wide = np.vstack([phi, np.sqrt(ridge) * np.eye(4)])
        long = np.vstack([left, np.zeros((4, 2))])
        head = np.linalg.lstsq(wide, long, rcond=None)[0]
        return float(((long - wide @ head) ** 2).sum() / 2 / 11)

    step, slopes = 1e-5, []
    for entry in range(len(start)):
        move = torch.zeros_like(start)
        move[entry] = step
        slopes.append((lowest(start + move) - lowest(start - move)) / (2 * step))
    np.testing.assert_allclose(found, slopes, atol=1e-7)
    assert np.abs(found).max() > 1e-2


def sum_without_and_with(
    hers: tuple[Tensor, Tensor], relation: str = "there or missing"
) -> tuple[np.ndarray, np.ndarray]:
    """Sums over the same sample of six, of whom person 2 has no rows, or these."""
    sizes, found = [4, 9, 0, 3, 17, 8], []
    X, y, _ = rows_of(sizes)
    person = np.repeat(np.arange(6), sizes)
    gradients = ProfiledGradients(network(), 0.01)
    for more_X, more_y in ((X[:0], y[:0]), hers):
        people = Units(np.concatenate([person, np.full(len(more_X), 2)]), 6)
        total = clipped_sum_of_people(
            gradients, torch.cat([X, more_X]), torch.cat([y, more_y]), people, np.arange(6), C, 16, 64
        )
        found.append(total.value)
    return found[0], found[1]


STRANGE: list[tuple[int, float, float]] = [
    (1, 1.0, 1.0), (3, 1.0, 1e6), (500, 1.0, 1e3), (40, 1e30, 1.0), (7, 3e38, 3e38), (2, 0.0, 1e30), (16, 1e-30, 1e-30),
    (5, 1.0, float("nan")), (5, float("inf"), 1.0),
]  # fmt: skip


@pytest.mark.parametrize(("n_rows", "x_scale", "y_scale"), STRANGE)
def test_one_person_moves_the_sum_by_at_most_the_clip_norm(n_rows: int, x_scale: float, y_scale: float) -> None:
    draws = torch.Generator().manual_seed(n_rows)
    hers = x_scale * torch.randn(n_rows, 5, generator=draws), y_scale * torch.randn(n_rows, 2, generator=draws)
    without, with_her = sum_without_and_with(hers)
    assert np.isfinite(with_her).all()
    assert np.linalg.norm(with_her - without) <= C * (1 + 1e-9)


def test_a_huge_label_reaches_the_clip_norm() -> None:
    """The bound is met, so the test above is not empty."""
    without, with_her = sum_without_and_with((torch.randn(9, 5), torch.full((9, 2), 1e4) * torch.randn(9, 1)))
    assert np.linalg.norm(with_her - without) > 0.999 * C


@pytest.mark.parametrize(("n_rows", "x_scale"), [(0, 1.0), (1, 1.0), (9, 1e30), (16, 1.0), (200, 1.0)])
def test_others_gradients_keep_every_bit(n_rows: int, x_scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever one person holds, and however much: nobody's clipped gradient changes in the last bit."""
    from commonground.deep import profiled

    def contributions(hers: int, scale: float) -> list[bytes]:
        sizes = [4, 9, 12, 3, 17, 8, 7, 16]
        X, y, _ = rows_of(sizes)
        person = np.repeat(np.arange(8), sizes)
        others = person != 2
        X = torch.cat([X[torch.from_numpy(others)], scale * torch.randn(hers, 5)])
        y = torch.cat([y[torch.from_numpy(others)], torch.randn(hers, 2)])
        people = Units(np.concatenate([person[others], np.full(hers, 2)]), 8)
        seen: list[bytes] = []
        original = profiled.clip_factors

        def watched(found: Tensor, clip_norm: float) -> Tensor:
            factors = original(found, clip_norm)
            seen.extend((factors[:, None] * found)[j].numpy().tobytes() for j in range(len(found)))
            return factors

        with monkeypatch.context() as patch:
            patch.setattr(profiled, "clip_factors", watched)
            clipped_sum_of_people(ProfiledGradients(network(), 0.7), X, y, people, np.arange(8), C, 16, 32)
        return [one for one in seen if any(one)]

    ordinary, other = contributions(12, 1.0), contributions(n_rows, x_scale)
    assert len(set(ordinary) & set(other)) == 7


def test_every_drawn_person_is_in_one_place_with_her_own_first_rows() -> None:
    sizes = [4, 9, 0, 3, 40, 8, 1]
    people = Units(np.repeat(np.arange(7), sizes), 7)
    drawn = np.array([1, 2, 3, 4, 6])
    seen: dict[int, list[int]] = {}
    for rows, weight in _blocks(people, drawn, most_rows=12, rows_at_once=32):
        assert rows.size <= 32
        for mine, real in zip(rows, weight > 0, strict=True):
            if real.any():
                (owner,) = set(np.repeat(np.arange(7), sizes)[mine])
                assert owner not in seen
                seen[int(owner)] = [int(row) for row in mine[real]]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    assert seen == {j: list(range(starts[j], starts[j] + min(sizes[j], 12))) for j in (1, 3, 4, 6)}


def test_a_persons_place_and_padding_follow_from_her_own_rows_and_the_coins() -> None:
    """Others' blocks have the same shape and they the same place in them, whatever person 2 holds."""

    def laid_out(hers: int) -> dict[int, tuple[int, tuple[int, ...]]]:
        person = np.repeat(np.arange(7), [4, 7, hers, 3, 8, 1, 12])
        found = {}
        for rows, weight in _blocks(Units(person, 7), np.arange(7), most_rows=64, rows_at_once=64):
            for place in np.flatnonzero(weight.any(axis=1)):
                found[int(person[rows[place, 0]])] = int(place), rows.shape
        return {j: at for j, at in found.items() if j != 2}

    ordinary = laid_out(5)
    assert sorted(ordinary) == [0, 1, 3, 4, 5, 6]
    for hers in (0, 1, 8, 30, 64, 500):
        assert laid_out(hers) == ordinary, hers


def test_no_rows_stop_the_fit_of_a_head() -> None:
    for value in (float("nan"), float("inf"), 1e38, 0.0):
        features, left = torch.full((4, 3), value), torch.full((4, 2), value)
        head = best_head(features, left, 1e-6)
        assert head.shape == (3, 2)
    zero: Any = best_head(torch.ones(4, 3), torch.ones(4, 2), float("inf"))
    assert not zero.any()
