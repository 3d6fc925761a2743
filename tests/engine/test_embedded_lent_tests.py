"""Test samples of labels that a simulated client lacks are lent to it as it sees its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import coterie.client.data as client_data
from coterie.client import LocalData, MemoryStore
from coterie.data import Dataset, FederatedData, Samples, divide
from coterie.data.dividing import on_validation
from coterie.engine.embedded import SimulatedClients
from coterie.engine.flower.sharing import share
from coterie.streams import stream
from coterie.training.torch_trainer import TorchTrainer


def numbered(test: bool) -> Dataset:
    """Images that can be told apart: the first two pixels of a corner give number and label."""
    x = np.zeros((200, 1, 4, 4), np.uint8)
    x[:, 0, 0, 0], x[:, 0, 0, 1] = np.arange(200), 255
    part = Samples(x, np.arange(200) % 5)
    return Dataset("numbered", part, part if test else None, 5)


def seen_by(data: FederatedData, round: int) -> list[LocalData]:
    clients = SimulatedClients(data, MemoryStore(), TorchTrainer())
    return [client.data_at(round) for client in clients]


def turns(local: LocalData, part: np.ndarray) -> set[int]:
    """How often images must be turned back to stand upright."""
    return {t for t in range(4) for image in local.test_x[part] if np.rot90(image[0], -t)[0, 1] == 255}


def check_views(data: FederatedData, round: int, groups: np.ndarray | None, everything: bool) -> None:
    assert groups is not None
    for local, group in zip(seen_by(data, round), groups, strict=True):
        lacking = local.tests_lacking(1000)
        absent = {*range(5)} - {*local.y[local.train].tolist()}
        assert turns(local, lacking) == {group}
        assert {*local.test_y[lacking].tolist()} <= absent
        if everything:
            assert len(lacking) == 40 * len(absent)


PARTS = {"groups": 4, "parts": "label-skew:rho=0.4"}


@pytest.mark.parametrize("test_set", [True, False])
@pytest.mark.parametrize("validation", [False, True])
def test_clients_of_a_group_are_lent_what_their_group_sees(test_set: bool, validation: bool) -> None:
    data = divide(numbered(test_set), "rotated", {**PARTS, "drift_at": 3}, 24, 0)
    data = on_validation(data, 0.3, 0) if validation else data
    check_views(data, 1, data.true_groups, everything=test_set and not validation)
    check_views(data, 3, data.drift[0].true_groups, everything=test_set and not validation)


def test_clients_of_a_flower_simulation_are_lent_the_same(tmp_path: Path) -> None:
    data = divide(numbered(True), "rotated", PARTS, 24, 0)
    check_views(share(data, tmp_path).open(), 1, data.true_groups, everything=True)
    alike = divide(numbered(True), "label-skew", {"rho": 0.4}, 6, 0)
    assert share(alike, tmp_path).open().test_views is None


def test_who_has_no_test_samples_is_lent_none_where_views_differ() -> None:
    data = divide(numbered(True), "rotated", PARTS, 8, 0)
    parts = [data.test_parts[0][:0], *data.test_parts[1:]]
    first, second, *_ = seen_by(FederatedData(**{**vars(data), "test_parts": parts}), 1)
    assert len(first.tests_lacking(1000)) == 0
    assert len(second.tests_lacking(1000))


def test_where_all_see_alike_everything_of_other_labels_is_lent() -> None:
    data = divide(numbered(True), "label-skew", {"rho": 0.4}, 6, 0)
    for local in seen_by(data, 1):
        assert len(local.tests_lacking(1000)) == 120


def test_of_very_many_test_samples_the_same_some_are_lent_to_all(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = seen_by(divide(numbered(True), "label-skew", {"rho": 0.4}, 6, 0), 1)
    all_of_them = [set(local.tests_lacking(1000).tolist()) for local in whole]
    monkeypatch.setattr(client_data, "MOST_LENT", 50)
    client_data._lent.cache_clear()
    some = [set(local.tests_lacking(1000).tolist()) for local in whole]
    client_data._lent.cache_clear()
    assert len(set().union(*some)) <= 50
    pool = set(lent_by_hand(200, 50))
    assert some == [everything & pool for everything in all_of_them]


def lent_by_hand(tests: int, most: int) -> list[int]:
    """The samples that are lent where there are more, drawn by hand."""
    return stream(0, "lent tests").choice(tests, most, replace=False).tolist()
