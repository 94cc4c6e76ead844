"""Rounds on a GPU: the same sums and the same billboard as on the processor.

Where there is no GPU its kernels cannot run, and a plain version stands in for them: what is tested then is what is around
them. `benchmarks/gpu_round.py` compares the kernels themselves with a slow computation, and so does the last test on a GPU.
"""

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import commonground as cg
from commonground.clipping.grid import bins_of
from commonground.data.users import Users
from commonground.engines.device import DeviceReader, size_bins
from commonground.errors import InputError
from commonground.statistics.coordinates import InCoordinates
from commonground.statistics.gradients import EmbeddingGradients
from commonground.statistics.statistic import SharedModel
from populations import random_person, strange_people

NO_GPU = "needs an NVIDIA GPU with CuPy"


def plain_gradients(X: Any, y: Any, offsets: Any, W: Any, k: int, intercept: float, local: bool) -> Any:
    """`cuda.person_gradients`, person by person."""
    n, d = len(offsets) - 1, X.shape[1]
    g, factors, squared = np.zeros((n, d)), np.zeros((n, k)), np.full(n, np.nan)
    rows, labels, columns = (t.double().numpy() for t in (X, y, W))
    for j, (lo, hi) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)):
        own = labels[lo:hi] - intercept - (rows[lo:hi] @ columns[k] if len(columns) > k else 0.0)
        P = rows[lo:hi] @ columns[:k].T
        if local:
            P, own = P - P.mean(axis=0), own - own.mean()
        freedom = hi - lo - k - local
        if freedom > 0:
            gram = P.T @ P
            v = np.linalg.solve(gram + 1e-6 * np.trace(gram) * np.eye(k), P.T @ own)
            g[j], factors[j] = rows[lo:hi].T @ (own - P @ v), v / (freedom * (v @ v))
            squared[j] = (g[j] @ g[j]) * (factors[j] @ factors[j])
    return SimpleNamespace(g=torch.tensor(g), factors=torch.tensor(factors), squared=torch.tensor(squared))


def plain_sum(people: Any, weights: Any) -> Any:
    there = weights != 0
    return (people.factors[there] * weights[there, None]).T @ people.g[there]


def plain_rows(X: Any, transform: np.ndarray) -> Any:
    T = torch.tensor(transform)
    return X * T if T.ndim == 1 else X @ T.T


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> DeviceReader:
    kernels = SimpleNamespace(person_gradients=plain_gradients, weighted_sum=plain_sum, transformed=plain_rows)
    monkeypatch.setitem(sys.modules, "commonground.statistics.kernels.cuda", kernels)
    made = object.__new__(DeviceReader)
    made.device, made._rows, made._transform, made._weights = torch.device("cpu"), [], None, None
    return made


def ragged(n: int, seed: int = 0) -> Users:
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(n), rng.integers(1, 12, n))
    X = rng.standard_normal((len(ids), 6)) + 2.0
    heads = rng.standard_normal((n, 2))[ids]
    return Users.from_arrays(X, (X[:, :2] * heads).sum(axis=1) + 0.1 * rng.standard_normal(len(ids)), ids)


def test_bins_are_those_of_the_processor() -> None:
    squares = np.array([0.0, -1.0, np.nan, np.inf, 5e-324, 1e-300, 2.0**-120, 0.25, 1.0, 3.9, 4.0, 2.0**120, 1e300])
    rng = np.random.default_rng(0)
    squares = np.concatenate([squares, np.exp(rng.uniform(-90, 90, 1000)), 2.0 ** np.arange(-130.0, 130.0)])
    np.testing.assert_array_equal(size_bins(torch.tensor(squares)).numpy(), bins_of(squares))


@pytest.mark.parametrize("with_mean", [False, True])
def test_sums_histograms_and_clips_are_those_of_the_processor(engine: DeviceReader, with_mean: bool) -> None:
    users = ragged(300)
    weights = np.random.default_rng(1).integers(0, 5, users.n_users) / 4
    users = users.weighted(weights)
    embedding = np.linalg.qr(np.random.default_rng(2).standard_normal((6, 2)))[0]
    model = SharedModel(embedding, np.ones(6) if with_mean else None, 0.3 if with_mean else 0.0, True)
    asked = EmbeddingGradients(model, 113)
    ours = engine.sum(users, asked)
    expected = asked.of(next(users.blocks()))
    assert ours.total_weight == expected.total_weight
    np.testing.assert_array_equal(ours.whole_histogram("h").value, expected.whole_histogram("h").value)
    np.testing.assert_array_equal(ours.histogram("h").value, expected.histogram("h").value)
    for edge in (116, 121, 126):
        mine, theirs = ours.clipped_at(edge, "c"), expected.clipped_at(edge, "c")
        np.testing.assert_allclose(mine.value, theirs.value, rtol=1e-9, atol=1e-9)
        assert mine.sensitivity == pytest.approx(theirs.sensitivity, rel=1e-9)


def test_who_takes_part_may_change_from_sum_to_sum(engine: DeviceReader) -> None:
    everybody, asked = ragged(200), EmbeddingGradients(SharedModel(np.eye(6)[:, :2]), 113)
    rng = np.random.default_rng(4)
    for _ in range(3):
        some = everybody.weighted((rng.random(everybody.n_users) < 0.3).astype(float))
        ours = engine.sum(some, asked)
        expected = some.sum(asked)
        assert ours.total_weight == expected.total_weight
        np.testing.assert_allclose(ours.clipped_at(121, "c").value, expected.clipped_at(121, "c").value, atol=1e-9)


def test_people_of_later_blocks_keep_their_own_weights(engine: DeviceReader, monkeypatch: pytest.MonkeyPatch) -> None:
    users = ragged(300)
    users = users.weighted(np.random.default_rng(1).integers(1, 2**10, users.n_users) / 2.0**10)
    asked = EmbeddingGradients(SharedModel(np.eye(6)[:, :2]), 113)
    expected = asked.of(next(users.blocks()))
    in_one = Users.blocks
    monkeypatch.setattr(Users, "blocks", lambda self, max_bytes=None: in_one(self, 6000))
    ours = engine.sum(users, asked)
    assert len(engine._rows) > 3
    np.testing.assert_array_equal(ours.whole_histogram("h").value, expected.whole_histogram("h").value)
    np.testing.assert_allclose(ours.clipped_at(121, "c").value, expected.clipped_at(121, "c").value, atol=1e-9)


def test_nothing_is_clipped_outside_the_window(engine: DeviceReader) -> None:
    sums = engine.sum(ragged(10), EmbeddingGradients(SharedModel(np.eye(6)[:, :2], None, 0.0, False), 113))
    for edge in (113, 113 + 16, 242):
        with pytest.raises(ValueError, match="outside the window"):
            sums.clipped_at(edge, "c")


def test_rows_are_seen_in_the_coordinates_asked_for(engine: DeviceReader) -> None:
    users, asked = ragged(200), EmbeddingGradients(SharedModel(np.eye(6)[:, :2]), 113)
    turned = np.random.default_rng(5).standard_normal((6, 6))
    for transform in (turned, np.arange(1.0, 7.0), turned.T.copy()):
        ours = engine.sum(users, InCoordinates(transform, asked))
        expected = users.sum(InCoordinates(transform, asked))
        np.testing.assert_allclose(ours.clipped_at(121, "c").value, expected.clipped_at(121, "c").value, atol=1e-9)
    plain = engine.sum(users, asked)
    expected = users.sum(asked)
    np.testing.assert_allclose(plain.clipped_at(121, "c").value, expected.clipped_at(121, "c").value, atol=1e-9)


def test_a_fit_is_the_same_wherever_the_rounds_are_read(engine: DeviceReader, monkeypatch: pytest.MonkeyPatch) -> None:
    users, _ = cg.datasets.make_shared_subspace(400, rows_per_user=6, n_features=8, seed=0)
    settings = {"epsilon": 8.0, "n_rounds": 3, "simulation_seed": 1, "shared_mean": False}
    here = cg.PrivateFedRep(**settings).fit(users)
    monkeypatch.setattr(DeviceReader, "__init__", lambda self, device: self.__dict__.update(vars(engine)))
    there = cg.PrivateFedRep(device="cuda", **settings).fit(users)
    np.testing.assert_allclose(there.billboard_.embedding, here.billboard_.embedding, atol=1e-7)


def test_private_sums_do_not_print(engine: DeviceReader) -> None:
    sums = engine.sum(ragged(10), EmbeddingGradients(SharedModel(np.eye(6)[:, :2], None, 0.0, False), 113))
    assert repr(sums) == "<DeviceSums: private>"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_the_error_says_what_to_do() -> None:
    with pytest.raises(InputError, match=r"'cpu', or 'cuda' on a machine with an NVIDIA GPU"):
        cg.PrivateFedRep(device="cuda").fit(ragged(20))


@pytest.mark.skipif(not torch.cuda.is_available(), reason=NO_GPU)
@pytest.mark.parametrize("local", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("condition", [1.0, 10.0])
def test_on_a_gpu_results_are_those_of_the_processor(local: bool, dtype: type, condition: float) -> None:
    users, _ = cg.datasets.make_shared_subspace(6000, rows_per_user=9, n_features=20, seed=0)
    block = next(users.blocks())
    mixed = np.linalg.qr(np.random.default_rng(0).standard_normal((20, 20)))[0] * np.geomspace(1, condition, 20)
    X = (block.X @ mixed).astype(dtype)
    users = Users.from_arrays(X, block.y, np.repeat(users.ids, np.diff(block.offsets)))
    settings = {"epsilon": 4.0, "fit_intercept": local, "shared_mean": local, "n_rounds": 8, "simulation_seed": 3}
    here, there = (cg.PrivateFedRep(device=device, **settings).fit(users).billboard_ for device in ("cpu", "cuda"))
    np.testing.assert_allclose(there.embedding, here.embedding, atol=1e-8 if dtype is np.float64 else 1e-3)


@pytest.mark.skipif(not torch.cuda.is_available(), reason=NO_GPU)
@pytest.mark.parametrize("local", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_on_a_gpu_nobody_sends_more_than_her_bin_allows(local: bool, dtype: type) -> None:
    """Rows of any size from 5e-324 to 1.8e308: what has a bin has its norm, and scaled by it norm one."""
    from commonground.statistics.kernels.cuda import person_gradients, weighted_sum

    d, rng = 6, np.random.default_rng(0)
    with np.errstate(over="ignore"):
        people = [(X.astype(dtype), y.astype(dtype)) for X, y in strange_people(d).values()]
    people += [random_person(rng, d, dtype) for _ in range(3000)]
    offsets = np.concatenate([[0], np.cumsum([len(y) for _, y in people])])
    X, y = (np.concatenate(parts) for parts in zip(*people, strict=True))
    W = np.linalg.qr(rng.standard_normal((d, 2)))[0].T
    there = [torch.tensor(values, device="cuda") for values in (X, y, offsets, W.astype(dtype))]
    sent = person_gradients(*there, 2, 0.0, local)
    bins = size_bins(sent.squared)
    some = (bins > 0).cpu().numpy()
    assert 100 < some.sum() < len(people)
    g, factors, squared = (values.cpu().numpy().astype(np.float64)[some] for values in sent)
    np.testing.assert_array_equal(bins.cpu().numpy()[some], bins_of(squared))
    units = factors[:, :, None] * g[:, None, :] / np.sqrt(squared)[:, None, None]
    np.testing.assert_allclose(np.sqrt((units**2).sum(axis=(1, 2))), 1.0, rtol=1e-9)
    one_by_one = torch.where(bins > 0, 1.0 / torch.sqrt(sent.squared), 0.0)
    np.testing.assert_allclose(weighted_sum(sent, one_by_one).cpu().numpy(), units.sum(axis=0), rtol=1e-7, atol=1e-7)
