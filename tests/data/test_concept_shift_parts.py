"""Concept shift and drift: what groups see, and when it changes."""

from __future__ import annotations

import numpy as np
import pytest

import coterie
from coterie.data import Dataset, FederatedData, Samples, divide, load
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
