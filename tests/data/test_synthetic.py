"""Synthetic(alpha, beta): the published recipe, written down a second time, and what it implies."""

import numpy as np
import pytest

import coterie
from coterie.data import Dataset, FederatedData, Normalisation, Samples, check, default_clients, divide, load, traits
from coterie.data.on_demand import LazyArray
from coterie.data.sources import synthetic
from coterie.errors import CoterieError
from coterie.streams import stream


def recipe(alpha: float, beta: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """One client, sample by sample and class by class, with the numbers drawn in the same order."""
    n = int(np.exp(4 + 2 * rng.standard_normal())) + 50
    u = alpha * rng.standard_normal()
    W = np.array([[u + rng.standard_normal() for _ in range(10)] for _ in range(60)])
    b = np.array([u + rng.standard_normal() for _ in range(10)])
    B = beta * rng.standard_normal()
    v = np.array([B + rng.standard_normal() for _ in range(60)])
    x = np.zeros((n, 60))
    for i in range(n):
        for j in range(60):
            x[i, j] = v[j] + np.sqrt((j + 1) ** -1.2) * rng.standard_normal()
    y = np.array([max(range(10), key=lambda c: float(x[i] @ W[:, c] + b[c])) for i in range(n)])
    return x, y, {"W": W, "b": b, "v": v}


def samples_of(data: FederatedData, client: int) -> Samples:
    """Training and test samples of a client."""
    train, test = data.train[data.train_parts[client]], data.test[data.test_parts[client]]
    return Samples(np.concatenate([train.x, test.x]), np.concatenate([train.y, test.y]))


@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 1.0), (0.0, 0.5), (2.0, 0.0)])
def test_clients_follow_the_recipe(alpha: float, beta: float) -> None:
    data = load("synthetic", {"alpha": alpha, "beta": beta}, clients=4, seed=3)
    server = {x.tobytes(): y for x, y in zip(data.server.x, data.server.y, strict=True)}
    for client in range(4):
        x, y, _ = recipe(alpha, beta, stream(3, "synthetic", client))
        expected = {row.tobytes(): label for row, label in zip(x.astype(np.float32), y, strict=True)}
        own = samples_of(data, client)
        found = {row.tobytes(): label for row, label in zip(own.x, own.y, strict=True)}
        with_server = found | {row: server[row] for row in server if row in expected}
        close = {row for row in with_server if row in expected and with_server[row] == expected[row]}
        assert len(with_server) == len(expected)
        assert len(close) > 0.99 * len(expected)


@pytest.mark.integration
def test_shape_sizes_and_parts() -> None:
    data = load("synthetic")
    assert (data.name, data.clients, data.classes, data.shape, data.common_test) == ("synthetic", 100, 10, (60,), False)
    assert data.train.x.dtype == np.float32
    assert data.true_groups is None
    assert len(data.server) == 2500
    sizes = np.array([[len(a), len(b)] for a, b in zip(data.train_parts, data.test_parts, strict=True)])
    assert sizes[:, 1].tolist() == [round(0.1 * n) for n in sizes.sum(axis=1)]
    # Besides the 50 that all have, and what the server took: half of the sizes are below e^4.
    assert np.median(sizes.sum(axis=1)) == pytest.approx(50 + np.exp(4), rel=0.4)
    assert np.log(sizes.sum(axis=1)).std() > 0.8


def test_inputs_are_used_as_they_are() -> None:
    data = load("synthetic", clients=5)
    assert np.array_equal(data.normalise(data.train.x), data.train.x)


def test_a_client_does_not_depend_on_how_many_others_there_are() -> None:
    few, many = load("synthetic", clients=3, seed=1), load("synthetic", clients=30, seed=1)
    for client in range(3):
        own = [{x.tobytes() for x in samples_of(data, client).x} for data in (few, many)]
        with_server = [rows | {x.tobytes() for x in data.server.x} for rows, data in zip(own, (few, many), strict=True)]
        assert own[0] <= with_server[1]
        assert own[1] <= with_server[0]


def test_the_seed_alone_decides() -> None:
    first, again, other = (load("synthetic", clients=5, seed=seed) for seed in (0, 0, 1))
    assert np.array_equal(first.train.x, again.train.x)
    assert np.array_equal(first.test.y, again.test.y)
    assert first.train.x.shape != other.train.x.shape


def test_variance_falls_with_the_feature() -> None:
    data = load("synthetic", clients=60, seed=2)
    own = [samples_of(data, client).x for client in range(60)]
    variance = np.mean([x.var(axis=0, ddof=1) for x in own if len(x) > 200], axis=0)
    assert variance == pytest.approx(np.arange(1, 61) ** -1.2, rel=0.2)


@pytest.mark.integration
@pytest.mark.parametrize("beta", [0.0, 1.0, 5.0])
def test_beta_says_how_far_clients_lie_apart(beta: float) -> None:
    data = load("synthetic", {"beta": beta}, clients=150)
    centres = np.array([samples_of(data, client).x.mean() for client in range(150)])
    # The mean of 60 features: B_i of deviation beta, and 60 means of deviation 1.
    assert centres.std() == pytest.approx(np.sqrt(beta**2 + 1 / 60), rel=0.2)


def test_a_small_alpha_and_beta_make_clients_no_more_alike_in_labels_than_chance() -> None:
    """Each client has its own W, also with alpha = 0: what one learnt does not help another."""
    data = load("synthetic", {"alpha": 0.0, "beta": 0.0}, clients=30)
    top = [np.bincount(samples_of(data, client).y, minlength=10).argmax() for client in range(30)]
    assert len(set(top)) >= 6


def test_what_is_refused() -> None:
    with pytest.raises(CoterieError, match=r"alpha = -1 is not valid"):
        check("synthetic", {"alpha": -1})
    with pytest.raises(CoterieError, match=r"cannot have 0 clients: use at least 1"):
        load("synthetic", clients=0)
    with pytest.raises(CoterieError, match="comes divided among clients"):
        check("synthetic", {}, "iid")
    assert default_clients("synthetic") == 100
    assert traits("synthetic").divided
    assert load("synthetic", clients=1).clients == 1


def pooled(clients: int, seed: int, server_share: float | None) -> FederatedData:
    """All samples in memory first, then divided by who drew them."""
    drawn = [synthetic.draw_client(1.0, 1.0, stream(seed, "synthetic", client)) for client in range(clients)]
    samples = Samples(np.concatenate([own.x for own in drawn]), np.concatenate([own.y for own in drawn]))
    users = np.repeat(np.arange(clients), [len(own) for own in drawn])
    pool = Dataset("synthetic", samples, None, 10, Normalisation(1.0, (0.0,), (1.0,)), users)
    return divide(pool, "by-user", {"min_samples": 1, "test_share": 0.1}, clients, seed, server_share=server_share)


@pytest.mark.parametrize("share", [None, 0.0, 0.2])
@pytest.mark.parametrize("memory", [synthetic.MEMORY, 100_000])
def test_what_is_drawn_on_demand_is_what_a_pool_would_hold(
    share: float | None, memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synthetic, "MEMORY", memory)
    data, expected = load("synthetic", clients=12, seed=4, server_share=share), pooled(12, 4, share)
    assert isinstance(data.train.x, LazyArray) == (memory == 100_000)
    for part in ("train", "test", "server"):
        ours, theirs = getattr(data, part), getattr(expected, part)
        assert np.array_equal(ours.x[:], theirs.x)
        assert np.array_equal(ours.y, theirs.y)
    for ours, theirs in ((data.train_parts, expected.train_parts), (data.test_parts, expected.test_parts)):
        assert [part.tolist() for part in ours] == [part.tolist() for part in theirs]


def test_many_clients_give_the_server_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthetic, "FROM_CLIENTS", 5)
    data = load("synthetic", clients=6, seed=4)
    server = {x.tobytes() for x in data.server.x}
    for client in range(6):
        own, drawn = samples_of(data, client), synthetic.draw_client(1.0, 1.0, stream(4, "synthetic", client))
        assert {x.tobytes() for x in own.x} == {x.tobytes() for x in drawn.x}
        assert np.array_equal(np.bincount(own.y), np.bincount(drawn.y))
        assert not server & {x.tobytes() for x in own.x}
    assert not data.lends_tests
    total = sum(len(samples_of(data, client)) for client in range(6))
    assert len(data.server) == min(2500, round(0.05 * total))
    counts = np.bincount(data.server.y, minlength=10)
    assert np.median(counts) >= len(data.server) // 10 - 1
    assert len(load("synthetic", clients=6, seed=4, server_share=0.0).server) == 0


def test_rows_on_demand_are_indexed_as_an_array_is(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = load("synthetic", clients=4, seed=1).train.x
    monkeypatch.setattr(synthetic, "MEMORY", 0)
    lazy = load("synthetic", clients=4, seed=1).train.x
    assert isinstance(lazy, LazyArray)
    assert (lazy.shape, lazy.dtype, lazy.ndim, len(lazy)) == (plain.shape, plain.dtype, 2, len(plain))
    some = np.random.default_rng(0).integers(-len(plain), len(plain), 50)
    for index in (some, slice(3, 200, 7), slice(0), 5, -1, plain[:, 0] > 0, some[:0]):
        assert np.array_equal(lazy[index], plain[index])
    assert np.array_equal(np.asarray(lazy), plain)
    assert np.array_equal(np.array(list(lazy)), plain)
    assert lazy.max(initial=-1e9) == plain.max()


@pytest.mark.integration
def test_a_run_on_samples_on_demand_has_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    def accuracies() -> object:
        result = coterie.run(
            dataset="synthetic", algorithm="pacfl", clients=6, rounds=2, epochs=1, fraction=1.0, workers=2
        )
        return result.accuracy, result.groups

    in_memory = accuracies()
    monkeypatch.setattr(synthetic, "MEMORY", 0)
    assert accuracies() == in_memory
