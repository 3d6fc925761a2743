"""Concept shift and drift: what groups see, and when it changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import coterie
from coterie.data import Dataset, FederatedData, Samples, divide, load
from coterie.data.loading import check
from coterie.errors import CoterieError
from coterie.testing import outcome, small_run


def numbered(test: bool) -> Dataset:
    """Images that can be told apart: the first two pixels of a corner give the sample's number."""
    x = np.zeros((200, 1, 4, 4), np.uint8)
    x[:, 0, 0, 0], x[:, 0, 0, 1] = np.arange(200), 255
    part = Samples(x, np.arange(200) % 5)
    held = Samples(x + np.uint8(0), np.arange(200) % 5) if test else None
    return Dataset("numbered", part, held, 5)


@pytest.mark.parametrize("own_test_set", [False, True])
def test_rotated_clients_see_turned_images_in_training_and_test(own_test_set: bool) -> None:
    data = divide(numbered(own_test_set), "rotated", {"groups": 4}, 8, 0)
    assert not data.common_test
    assert data.true_groups is not None
    for client in range(8):
        group = client % 4
        assert data.true_groups[client] == group
        for samples, part in ((data.train, data.train_parts[client]), (data.test, data.test_parts[client])):
            upright = np.rot90(samples.x[part], -group, axes=(2, 3))
            assert (upright[:, 0, 0, 1] == 255).all()
            assert (samples.y[part] == upright[:, 0, 0, 0] % 5).all()
    everyone = np.concatenate(list(data.test_parts))
    assert len(everyone) == len(set(everyone)) == len(data.test)


def corner(data: FederatedData, positions: np.ndarray) -> set[int]:
    """How often the images must be turned back to stand upright."""
    x = data.train.x[positions]
    return {t for t in range(4) for image in x if np.rot90(image[0], -t)[0, 1] == 255 and image.max() == 255}


def test_drift_turns_every_group_into_the_next_and_moves_no_sample() -> None:
    data = divide(numbered(False), "rotated", {"groups": 3, "drift_at": 5}, 6, 0)
    (phase,) = data.drift
    assert phase.start == 5
    for client in range(6):
        before, after = data.train_parts[client], phase.train_parts[client]
        upright = [
            np.rot90(data.train.x[p], -g, axes=(2, 3)) for p, g in ((before, client % 3), (after, (client + 1) % 3))
        ]
        assert np.array_equal(*upright)
        assert np.array_equal(data.train.y[before], data.train.y[after])
    assert phase.true_groups is not None
    assert phase.true_groups.tolist() == [1, 2, 0, 1, 2, 0]
    assert data.final_groups is phase.true_groups


def test_permuted_groups_agree_on_images_and_not_on_names() -> None:
    data = divide(numbered(False), "permuted", {"groups": 2}, 4, 3)
    names = {}
    for client in range(4):
        part = data.train_parts[client]
        for number, label in zip(data.train.x[part, 0, 0, 0] % 5, data.train.y[part], strict=True):
            assert names.setdefault((client % 2, int(number)), int(label)) == label
    first, second = ([names[g, c] for c in range(5)] for g in (0, 1))
    assert first == list(range(5))
    assert sorted(second) == list(range(5))
    assert second != first


@pytest.mark.parametrize("name", ["rotated", "permuted"])
def test_the_default_is_dealt_evenly_as_ever(name: str) -> None:
    """Bit for bit: naming the default changes nothing."""
    plain, named = (divide(numbered(True), name, options, 8, 0) for options in ({}, {"parts": "iid"}))
    for a, b in zip(plain.train_parts, named.train_parts, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(plain.train.x, named.train.x)
    np.testing.assert_array_equal(plain.test.y, named.test.y)
    assert not named.common_test


@pytest.mark.parametrize("drift_at", [None, 3])
def test_skewed_clients_are_tested_on_all_samples_of_their_labels_as_their_group_sees_them(
    drift_at: int | None,
) -> None:
    data = divide(numbered(True), "rotated", {"groups": 3, "parts": "label-skew:rho=0.4", "drift_at": drift_at}, 9, 0)
    assert data.common_test
    assert len(data.test) == 3 * 200
    phases = [(data.train_parts, data.test_parts, data.true_groups)]
    phases += [(phase.train_parts, phase.test_parts, phase.true_groups) for phase in data.drift]
    assert len(phases) == 1 + (drift_at is not None)
    for train_parts, test_parts, groups in phases:
        assert groups is not None
        for client, group in enumerate(groups):
            labels = np.unique(data.train.y[train_parts[client]])
            assert len(labels) == 2
            for samples, part in ((data.train, train_parts[client]), (data.test, test_parts[client])):
                upright = np.rot90(samples.x[part], -group, axes=(2, 3))
                assert (upright[:, 0, 0, 1] == 255).all()
                assert (samples.y[part] == upright[:, 0, 0, 0] % 5).all()
            assert len(test_parts[client]) == 80
            assert set(data.test.y[test_parts[client]]) == set(labels)


def test_skewed_and_renamed_clients_are_tested_in_their_own_names() -> None:
    data = divide(numbered(True), "permuted", {"groups": 2, "parts": "dirichlet:alpha=0.2;min_samples=2"}, 6, 1)
    for client in range(6):
        train, test = data.train_parts[client], data.test_parts[client]
        trained, tested = (
            {int(n) % 5: int(y) for n, y in zip(samples.x[part, 0, 0, 0], samples.y[part], strict=True)}
            for samples, part in ((data.train, train), (data.test, test))
        )
        assert trained == tested
        assert len(train) >= 2


def test_what_clients_get_does_not_go_with_their_group() -> None:
    """Client i has label i modulo their number: without a shuffle even labels would be in group 0 only."""
    pool = numbered(False)
    pool = replace(pool, train=Samples(pool.train.x, np.arange(200) % 4), classes=4)
    data = divide(pool, "rotated", {"groups": 2, "parts": "label-skew:rho=0.25"}, 20, 0)
    seen = [{int(y) for c in range(g, 20, 2) for y in data.train.y[data.train_parts[c]]} for g in (0, 1)]
    assert seen == [{0, 1, 2, 3}] * 2


def test_parts_that_can_t_be_are_refused_before_data_are_read() -> None:
    for parts, why in [
        ("rotated", "makes groups itself"),
        ("dirichlett", "unknown partition 'dirichlett'"),
        ("dirichlet:alpha=-1", "alpha = -1 is not valid"),
        ("dirichlet:alpha", "should read name:option=value"),
    ]:
        with pytest.raises(CoterieError, match=why):
            check("digits", {}, "rotated", {"parts": parts})
    with pytest.raises(CoterieError, match="use at most 20 groups"):
        divide(numbered(True), "permuted", {"groups": 21, "parts": "shards"}, 21, 0)


def test_rotation_needs_square_images() -> None:
    oblong = Dataset("oblong", Samples(np.zeros((20, 1, 4, 5), np.uint8), np.arange(20) % 2), None, 2)
    with pytest.raises(CoterieError, match="needs square images"):
        divide(oblong, "rotated", {}, 4, 0)


@pytest.mark.integration
def test_a_run_meets_the_drift_at_its_round(tmp_path) -> None:
    """Until the drift nothing differs; at it the accuracy of what was learnt falls; a resume changes nothing."""
    settings = {"rounds": 12, "eval_every": 1, "fraction": 1.0, "epochs": 4, "dataset_options": {"groups": 2}}
    settings["dataset"] = "digits-rotated"
    steady = small_run("fedavg", **settings).history
    settings["dataset_options"] = {"groups": 2, "drift_at": 8}
    result = small_run("fedavg", **settings, out=str(tmp_path / "run"))
    drifting = result.history
    same = ["L", "C", "G"]
    assert [[row[k] for k in same] for row in drifting[:7]] == [[row[k] for k in same] for row in steady[:7]]
    assert [[row[k] for k in same] for row in drifting[7:]] != [[row[k] for k in same] for row in steady[7:]]
    assert result.true_groups == [1, 0, 1, 0, 1, 0]
    alone = small_run("solo", **settings | {"algorithm_options": {"epochs": 24}}).history
    assert alone[7]["L"] < alone[6]["L"] - 0.1
    assert outcome(coterie.Result.load(tmp_path / "run")) == outcome(result)


def test_digits_rotated_is_the_partition_of_that_name() -> None:
    divided, partitioned = load("digits-rotated", clients=6), load("digits", {}, ("rotated", {}), 6)
    assert np.array_equal(divided.train.x, partitioned.train.x)
    assert np.array_equal(divided.server.x, partitioned.server.x)
