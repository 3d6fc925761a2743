"""The digits of scikit-learn, pooled and with planted groups."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from coterie.data import FederatedData, Samples, load

IMAGES = load_digits().images
LABELS = load_digits().target
WHICH = {image.astype(np.uint8).tobytes(): number for number, image in enumerate(IMAGES)}


def originals(samples: Samples, turns: int = 0) -> list[int]:
    """Which digits these are, after turning them back."""
    back = np.rot90(samples.x[:, 0], -turns, axes=(1, 2))
    return [WHICH.get(np.ascontiguousarray(image).tobytes(), -1) for image in back]


def all_parts(data: FederatedData) -> list[tuple[int, Samples]]:
    """Each client's training and test samples, with the client."""
    return [
        (client, samples[part])
        for samples, parts in ((data.train, data.train_parts), (data.test, data.test_parts))
        for client, part in enumerate(parts)
    ]


def test_the_images_are_distinct_so_that_they_can_be_recognised() -> None:
    assert len(WHICH) == 1797


def test_digits_are_the_raw_values_with_their_labels() -> None:
    data = load("digits")
    assert (data.clients, data.classes, data.shape, data.common_test) == (20, 10, (1, 8, 8), False)
    assert data.true_groups is None
    found = []
    for samples in (data.train, data.test, data.server):
        found += originals(samples)
        assert np.array_equal(LABELS[originals(samples)], samples.y)
    assert sorted(found) == list(range(1797))
    assert (np.bincount(data.server.y) == 9).all()


def test_digits_are_normalised_to_mean_0_and_deviation_1() -> None:
    data = load("digits")
    x = data.normalise(np.concatenate([data.train.x, data.test.x, data.server.x]))
    assert x.dtype == np.float32
    assert x.mean() == pytest.approx(0, abs=1e-3)
    assert x.std() == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize(("groups", "clients"), [(4, 20), (3, 7), (1, 5), (4, 2)])
def test_each_group_sees_the_images_turned_by_its_angle(groups: int, clients: int) -> None:
    data = load("digits-rotated", {"groups": groups}, clients=clients, seed=3)
    assert data.true_groups is not None
    assert data.true_groups.tolist() == [client % groups for client in range(clients)]
    found = []
    for client, samples in all_parts(data):
        numbers = originals(samples, turns=client % groups)
        assert -1 not in numbers
        assert np.array_equal(LABELS[numbers], samples.y)
        found += numbers
    assert len(set(found)) == len(found) == 1797 - 90


def test_a_quarter_turn_is_counter_clockwise() -> None:
    plain, turned = load("digits", clients=4), load("digits-rotated", clients=4)
    part = plain.train_parts[1]
    assert np.array_equal(turned.train.x[part[0], 0], np.rot90(plain.train.x[part[0], 0]))
    assert not np.array_equal(turned.train.x[part[0], 0], plain.train.x[part[0], 0])


def test_the_server_set_of_rotated_digits_has_all_angles_in_every_class() -> None:
    data = load("digits-rotated")
    turns = np.stack([np.array(originals(data.server, turn)) >= 0 for turn in range(4)])
    assert turns.any(axis=0).all()
    for label in range(10):
        counts = turns[:, data.server.y == label].sum(axis=1)
        assert counts.sum() == 9
        assert counts.min() >= 2
    assert not set(np.concatenate([originals(data.server, turn) for turn in range(4)])) & {
        number for client, samples in all_parts(data) for number in originals(samples, client % 4)
    } - {-1}


@pytest.mark.integration
@settings(max_examples=10)
@given(groups=st.integers(1, 6), clients=st.integers(1, 12), seed=st.integers(0, 2**32))
def test_each_group_renames_the_labels_by_one_permutation_of_its_own(groups: int, clients: int, seed: int) -> None:
    data = load("digits-permuted", {"groups": groups}, clients=clients, seed=seed)
    assert data.true_groups is not None
    assert data.true_groups.tolist() == [client % groups for client in range(clients)]
    pairs: dict[int, set[tuple[int, int]]] = {}
    for client, samples in all_parts(data):
        true = LABELS[originals(samples)]
        pairs.setdefault(client % groups, set()).update(zip(true.tolist(), samples.y.tolist(), strict=True))
    assert len(pairs) == min(groups, clients)
    renamings = []
    for seen in pairs.values():
        assert {a for a, _ in seen} == {b for _, b in seen} == set(range(10))
        assert len(seen) == 10
        renamings.append(frozenset(seen))
    assert pairs[0] == {(label, label) for label in range(10)}
    assert len(set(renamings)) == len(renamings)


def test_the_server_set_of_permuted_digits_has_the_original_labels() -> None:
    server = load("digits-permuted").server
    assert np.array_equal(LABELS[originals(server)], server.y)


def test_permutations_follow_the_seed() -> None:
    def renaming(seed: int) -> list[int]:
        data = load("digits-permuted", {"groups": 2}, clients=2, seed=seed)
        samples = data.train[data.train_parts[1]]
        pairs = dict(zip(LABELS[originals(samples)].tolist(), samples.y.tolist(), strict=True))
        return [pairs[label] for label in range(10)]

    assert renaming(0) == renaming(0)
    assert renaming(0) != renaming(1)
