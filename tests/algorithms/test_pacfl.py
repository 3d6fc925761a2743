"""PACFL: what it is at its two ends, that groups are what its signatures say, and who comes late."""

import json
from pathlib import Path

import numpy as np
import pytest

import coterie
from coterie.client import MemoryStore
from coterie.data import PARTITIONS, load
from coterie.experiment.api import settings_to_config
from coterie.experiment.progress import Silent
from coterie.experiment.runner import completed, load_data, make_spec, make_trainer, session
from coterie.similarity import principal_angles, signature
from coterie.testing import SMALL, small_run


def numbers(result: coterie.Result) -> list[dict]:
    return [{key: row[key] for key in ("round", "L", "C", "W", "loss", "discrepancy")} for row in result.history]


def test_with_everything_merged_it_is_fedavg_bit_for_bit() -> None:
    pacfl, fedavg = small_run("pacfl", threshold=180.0, rounds=6), small_run("fedavg", rounds=6)
    assert pacfl.groups == [0] * 6
    assert numbers(pacfl) == numbers(fedavg)
    assert pacfl.per_client == fedavg.per_client


def test_with_nothing_merged_every_client_goes_on_from_its_own_model() -> None:
    result = small_run("pacfl", threshold=-1.0, rounds=6)
    assert result.groups == list(range(6))
    assert result.per_client["L"] == result.per_client["C"]  # a group's model is its only client's
    assert result.history[-1]["discrepancy"] == 0


def test_signatures_come_from_raw_training_samples_only() -> None:
    data = load("digits-rotated", clients=6)
    found = coterie.cluster(dataset="digits-rotated", clients=6, threshold=5.0)
    signatures = []
    for part in data.train_parts:
        x, y = data.train.x[part], data.train.y[part]
        signatures.append(signature(x, 3, y).astype(np.float32))
    assert found.grouping.proximity == pytest.approx(principal_angles(signatures, measure="min_entry"))


def test_traffic_is_the_signatures_once_and_two_models_a_round() -> None:
    result = small_run("pacfl")
    kinds = result.traffic["by_kind"]
    assert kinds["signature"]["up"] >= 6 * 64 * 3 * 4
    assert kinds["signature"]["up"] < 6 * (64 * 3 * 4 + 1000)
    plain = small_run("fedavg").traffic["by_kind"]["train"]
    assert kinds["train"]["up"] == pytest.approx(plain["up"], rel=0.01)
    assert kinds["train"]["down"] == pytest.approx(plain["down"], rel=0.01)


def test_who_did_not_answer_at_first_is_placed_when_it_takes_part() -> None:
    """Half of the clients are away before training; they join the groups that are there, or found their own."""
    config = settings_to_config(None, {"algorithm": "pacfl", **SMALL, "clients": 16, "dataset": "digits-rotated"})
    data = load_data(config)
    config = completed(config, data)
    with session(config, data, MemoryStore(), make_trainer(config, make_spec(config, data), Silent())) as run:
        method, fed = run.algorithm, run.fed
        method.start = fed.initial()
        method.place(fed, [0, 1, 2, 4, 5, 6, 8, 9, 10])  # groups 0, 1 and 2; nobody of group 3
        first = dict(method.groups())
        assert sorted(set(first.values())) == [0, 1, 2]
        method.place(fed, [3, 7, 11, 12, 13])
        later = method.groups()
        assert {client: later[client] for client in first} == first
        assert (later[12], later[13]) == (first[0], first[1])
        assert later[3] == later[7] == later[11] == 3
        assert len(method.models) == 4


def test_a_client_without_samples_is_in_no_group_and_gets_a_model() -> None:
    @coterie.partition("all-but-one")
    def all_but_one(data, clients, rng):
        """The last client gets nothing."""
        from coterie.data import Partition

        return Partition([*np.array_split(np.arange(len(data.train.y)), clients - 1), np.zeros(0, np.int64)])

    try:
        result = coterie.run(
            algorithm="pacfl", dataset="digits", partition="all-but-one", clients=5, rounds=2, epochs=1, fraction=1.0
        )
    finally:
        del PARTITIONS._items["all-but-one"]
    assert result.groups[-1] is None
    assert None not in result.groups[:-1]
    assert result.events[0]["kind"] == "empty"


def test_a_resumed_run_has_the_same_groups(tmp_path: Path) -> None:
    small_run("pacfl", out=str(tmp_path / "a"))
    saved = json.loads((tmp_path / "a" / "result.json").read_text())
    assert saved["grouping"]["rule"] == "auto"
    assert len(list((tmp_path / "a").glob("checkpoint-*.safetensors"))) == 1
