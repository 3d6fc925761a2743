"""How FedGroup is measured, lives with clients that drop out, and goes on after an interruption."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fedgroup_world import begun, same

import coterie
from coterie.algorithms.fedgroup import FedGroup
from coterie.data import PARTITIONS
from coterie.testing import goes_on_after_an_interruption, small_run


def test_clients_without_a_group_have_no_model_and_w_waits_for_all_of_them() -> None:
    with begun(clients=12, groups=2, alpha_pre=2, fraction=0.34) as run:
        covered = []
        for t in range(1, 9):
            run.play(t)
            found, evaluation = run.method.groups(), run.evaluator.evaluate()
            for client in range(12):
                served = run.method.model_for(client)
                assert (served is None) == (client not in found)
                assert served is None or served is run.method.models[found[client]]
            assert run.evaluator.received.keys() == found.keys()
            scores = [run.evaluator.received[client] for client in sorted(found)]
            assert pytest.approx(np.mean([correct / samples for correct, samples in scores])) == evaluation.C
            assert (evaluation.W is None) == (len(found) < 12)
            covered.append(len(found))
        assert covered[0] < 12 == covered[-1]


def test_a_client_without_samples_is_in_no_group_and_does_not_keep_w_waiting() -> None:
    @coterie.partition("all-but-the-last")
    def all_but_the_last(data: Any, clients: int, rng: np.random.Generator) -> Any:
        """The last client gets nothing."""
        from coterie.data import Partition

        return Partition([*np.array_split(np.arange(len(data.train.y)), clients - 1), np.zeros(0, np.int64)])

    try:
        with begun(dataset="digits", partition="all-but-the-last", clients=5, groups=2) as run:
            assert sorted(run.method.groups()) == [0, 1, 2, 3]
            assert run.method.model_for(4) is run.method.models[0]
            run.play(1)
            assert run.evaluator.evaluate().W is not None
    finally:
        del PARTITIONS._items["all-but-the-last"]


@pytest.mark.integration
@pytest.mark.parametrize("options", [{}, {"eager": True}, {"measure": "madc", "direction": "latest", "eta_g": 0.1}])
def test_with_thirty_percent_drop_outs_in_every_round_everyone_finds_a_group(options: dict[str, Any]) -> None:
    settings = {"clients": 20, "groups": 4, "rounds": 12, "drop": 0.3, "fraction": 0.5}
    result = small_run("fedgroup", algorithm_options=options, **settings)
    assert {event["kind"] for event in result.events} == {"dropped"}
    assert result.groups is not None
    assert None not in result.groups
    assert result.ari is not None
    assert result.ari > 0.8
    assert result.accuracy["C"] > small_run("fedavg", **{**settings, "groups": None, "drop": 0.0}).accuracy["C"]


@pytest.mark.integration
@pytest.mark.parametrize(
    "options",
    [
        {"alpha_pre": 1, "direction": "latest", "eta_g": 0.3},
        {"alpha_pre": 1, "assignment": "random-each", "measure": "madc"},
        {"centres": "random", "normalise": False, "eta_g": 0.1},
    ],
)
def test_resumed_runs_are_the_same(options: dict[str, Any], tmp_path: Path) -> None:
    goes_on_after_an_interruption("fedgroup", tmp_path, algorithm_options=options, groups=3, rounds=5)


def test_all_of_the_state_comes_back_from_a_checkpoint(tmp_path: Path) -> None:
    from coterie.federation.checkpoint import load_checkpoint, save_checkpoint

    with begun(clients=12, groups=3, alpha_pre=2, measure="madc") as run:
        run.play(1)
        save_checkpoint(tmp_path / "state.safetensors", run.method.save())
        copy = FedGroup(measure="madc", alpha_pre=2)
        copy.load(load_checkpoint(tmp_path / "state.safetensors"))
        assert [*copy.member.items()] == [*run.method.member.items()]
        assert copy.cold == run.method.cold
        assert all(same(a, b) for a, b in zip(copy.models, run.method.models, strict=True))
        assert all(np.array_equal(a, b) for a, b in zip(copy.directions, run.method.directions, strict=True))
        assert copy.grouping is not None
        assert run.method.grouping is not None
        assert copy.grouping.summary() == run.method.grouping.summary()
        assert len(copy.save()["directions"]) == 3  # and no client's update
