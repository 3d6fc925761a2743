"""A validation split: part of the training samples in the place of the test samples."""

from __future__ import annotations

import numpy as np
import pytest

import coterie
from coterie.data import load
from coterie.data.dividing import on_validation
from coterie.data.federated import FederatedData

SOURCES = {
    "own test parts": ("digits", None, 7),
    "divided": ("digits-rotated", None, 8),
    "with drift": ("digits", ("rotated", {"drift_at": 3}), 8),
    "tiny clients": ("digits", ("dirichlet", {"alpha": 0.1, "min_size": 0}), 60),
}


def source(name: str, seed: int) -> FederatedData:
    data, partition, clients = SOURCES[name]
    return load(data, {}, partition, clients, seed)


def rows(x: np.ndarray) -> list[bytes]:
    return [row.tobytes() for row in np.ascontiguousarray(x)]


@pytest.mark.parametrize("name", ["own test parts", "divided", "with drift"])
@pytest.mark.parametrize("share", [0.1, 0.5])
def test_each_client_is_tested_on_training_samples_that_it_no_longer_trains_on(name: str, share: float) -> None:
    data = source(name, 3)
    split = on_validation(data, share, 3)
    old = [(data.train_parts, data.true_groups), *((p.train_parts, p.true_groups) for p in data.drift)]
    new = [(split.train_parts, split.test_parts), *((p.train_parts, p.test_parts) for p in split.drift)]
    assert len(old) == len(new) == (2 if name == "with drift" else 1)
    for (before, _), (train, test) in zip(old, new, strict=True):
        for client in range(data.clients):
            had = rows(data.train.x[before[client]])
            trains, tests = rows(split.train.x[train[client]]), rows(split.test.x[test[client]])
            assert sorted(trains + tests) == sorted(had)
            assert len(tests) == max(1, round(share * len(had)))
            labels = [*split.train.y[train[client]], *split.test.y[test[client]]]
            assert sorted(labels) == sorted(data.train.y[before[client]])
    assert len(split.test) == sum(len(part) for _, parts in new for part in parts)  # nothing of the test set is there
    assert not split.common_test
    assert split.server is data.server
    again, other = on_validation(data, share, 3), on_validation(data, share, 4)
    assert np.array_equal(again.test.x, split.test.x)
    assert not np.array_equal(other.test.x, split.test.x)


def test_drift_holds_out_the_same_samples_before_and_after() -> None:
    split = on_validation(source("with drift", 0), 0.2, 0)
    for now, later in zip(split.test_parts, split.drift[0].test_parts, strict=True):
        assert np.array_equal(split.test.y[now], split.test.y[later])
        ink = [split.test.x[part].reshape(len(part), -1).sum(1) for part in (now, later)]  # turning keeps it
        assert np.array_equal(*ink)


def test_clients_with_one_sample_keep_it_and_with_none_have_none() -> None:
    data = load("digits", {}, ("iid", {}), 10, 0)
    parts = [data.train_parts[0][:0], data.train_parts[1][:1], data.train_parts[2][:2], *data.train_parts[3:]]
    split = on_validation(FederatedData(**{**vars(data), "train_parts": parts}), 0.1, 0)
    assert [len(part) for part in split.train_parts[:3]] == [0, 1, 1]
    assert [len(part) for part in split.test_parts[:3]] == [0, 0, 1]


def test_a_run_on_validation_data_never_sees_the_test_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other test samples, same numbers; other training samples, other numbers."""
    from coterie.run import building

    def validated(poison: str | None) -> dict[str, float | None]:
        original = building.sources.load

        def poisoned(*args: object, **kwargs: object) -> FederatedData:
            data = original(*args, **kwargs)  # type: ignore[arg-type]
            if poison is not None:
                getattr(data, poison).y[:] = 0
            return data

        with monkeypatch.context() as patch:
            patch.setattr(building.sources, "load", poisoned)
            return coterie.run(dataset="digits", clients=5, rounds=2, epochs=1, lr=0.05, validation=0.2).accuracy

    assert validated(None) == validated("test") != validated("train")
