"""Whole runs of CFL: against an independent implementation, on real data, and from a checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, linkage
from steered_cfl import DIGITS, SPLITTING, Recorded, federation, flat, play

import coterie
from coterie.algorithms.cfl import CFL
from coterie.errors import CoterieError
from coterie.federation.checkpoint import load_checkpoint, save_checkpoint
from coterie.testing import goes_on_after_an_interruption as interruption
from coterie.testing import needs_nothing_but_messages as messages
from coterie.testing import repeats_itself, small_run

# Against an independent implementation


def reference(engine: Recorded, clients: int, options: dict[str, Any]) -> list[tuple[list[Any], list[np.ndarray]]]:
    """Play CFL on recorded training, in float64 and with SciPy; return groups and models after each round."""
    member: list[Any] = [0] * clients
    last: dict[int, np.ndarray] = {}
    n, after_rounds, models = 1, [], list[np.ndarray]()

    def cosine(a: np.ndarray, b: np.ndarray) -> float:
        lengths = np.linalg.norm(a) * np.linalg.norm(b)
        return float(a @ b / lengths) if lengths else 0.0

    for t, trained in sorted(engine.trained.items()):
        delta = {client: after - before for client, (before, after) in sorted(trained.items())}
        last |= delta
        for group in range(n):
            own = [client for client in delta if member[client] == group]
            if len(own) <= 2 or t <= options["min_round"]:
                continue
            mean = np.linalg.norm(sum(delta[client] for client in own) / len(own))
            if mean >= options["eps1"] or max(np.linalg.norm(delta[client]) for client in own) <= options["eps2"]:
                continue
            apart = [1 - cosine(delta[a], delta[b]) for i, a in enumerate(own) for b in own[i + 1 :]]
            found = fcluster(linkage(apart, "complete"), 2, "maxclust")
            sides = [
                [c for c, f in zip(own, found, strict=True) if bool(f == found[0]) is first] for first in (True, False)
            ]
            means = [sum(delta[client] for client in side) / len(side) for side in sides]
            for client in range(clients):
                if member[client] != group:
                    continue
                if client in own:
                    member[client] = group if client in sides[0] else n
                elif client in last:
                    member[client] = group if cosine(last[client], means[0]) >= cosine(last[client], means[1]) else n
                else:
                    member[client] = None
            n += 1
        models += [None] * (n - len(models))  # type: ignore[list-item]
        for group in range(n):
            own = [client for client in delta if member[client] == group]
            if own:
                models[group] = sum(trained[client][1] for client in own) / len(own)
        after_rounds.append((list(member), list(models)))
    return after_rounds


@pytest.mark.integration
@pytest.mark.parametrize(
    ("dataset", "fraction", "drop"),
    [("digits-rotated", 1.0, 0.0), ("digits-permuted", 0.7, 0.0), ("digits-rotated", 0.8, 0.3)],
)
def test_against_a_direct_loop(dataset: str, fraction: float, drop: float) -> None:
    settings = {**DIGITS, "dataset": dataset, "fraction": fraction, "drop": drop, "rounds": 13}
    ours = []
    with federation(**settings, algorithm_options=SPLITTING) as (method, fed):
        engine = fed.wrap_engine(Recorded)
        method.begin(fed)
        for t in range(1, 14):
            fed.start_round(t)
            method.round(fed, fed.cohort(fed.round))
            ours.append(([method.groups().get(c) for c in range(20)], [flat(m) for m in method.models]))
        assert not engine.walked  # else clients would come in that the loop does not know of
        theirs = reference(engine, 20, SPLITTING)
    assert max(max(groups) for groups, _ in ours) >= 3
    for t, ((our_groups, our_models), (their_groups, their_models)) in enumerate(zip(ours, theirs, strict=True), 1):
        assert our_groups == their_groups, f"round {t}"
        for a, b in zip(our_models, their_models, strict=True):
            assert np.allclose(a, b, rtol=1e-5, atol=1e-6), f"round {t}"


# On real data


@pytest.mark.integration
@pytest.mark.parametrize(("fraction", "seed"), [(1.0, 0), (1.0, 1), (0.5, 0), (0.5, 2)])
def test_it_finds_the_rotations(fraction: float, seed: int) -> None:
    settings = {**DIGITS, "fraction": fraction, "seed": seed, "rounds": 14}
    result = small_run("cfl", **settings, algorithm_options=SPLITTING)
    assert result.ari == 1
    assert result.history[-1]["groups"] == 4


@pytest.mark.integration
@pytest.mark.parametrize("join_at", [4, 12, None])
def test_newcomers_find_their_rotation(join_at: int | None) -> None:
    """Before the splits they are in the group of all; later they walk; also when training is over."""
    late = {"newcomers": 0.3, "join_at": join_at, "rounds": 12, "newcomer_epochs": 1}
    result = small_run("cfl", **{**DIGITS, **late}, algorithm_options=SPLITTING)
    assert len(result.newcomers["clients"]) == 6
    assert result.ari == 1
    assert ("walk" in result.traffic["by_kind"]) is (join_at != 4)


@pytest.mark.integration
def test_with_30_percent_missing_in_every_round_groups_are_found_all_the_same() -> None:
    result = small_run("cfl", **{**DIGITS, "rounds": 16}, drop=0.3, algorithm_options=SPLITTING)
    assert result.ari == 1
    assert sum(event["count"] for event in result.events) > 60


# What is kept


EAGER = {"eps1": 50.0, "eps2": 1e-6, "min_round": 1}
"""Splits whenever three clients of a group train."""


@pytest.mark.integration
@pytest.mark.parametrize("check", [repeats_itself, interruption, messages], ids=lambda check: check.__name__)
def test_the_battery_holds_with_splits_in_every_round(check: Callable[..., None], tmp_path: Path) -> None:
    check("cfl", tmp_path, clients=9, fraction=0.6, newcomers=0.3, join_at=3, algorithm_options=EAGER)


def test_a_state_that_was_saved_goes_on_as_the_one_that_was_not(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.safetensors"
    settings = {**DIGITS, "clients": 12, "fraction": 0.5, "rounds": 8, "epochs": 2}
    options = {**EAGER, "relative": True}
    with federation(**settings, algorithm_options=options) as (method, fed):
        play(method, fed, [fed.cohort(t) for t in range(1, 5)])
        assert method.splits
        assert method.standing
        save_checkpoint(path, method.save())
        restored = CFL(**options)
        restored.load(load_checkpoint(path))
        assert (restored.standing, restored.norms) == (method.standing, method.norms)
        assert restored.unit == method.unit != 1
        waiting = next(iter(method.standing))
        assert np.array_equal(flat(restored.model_for(waiting)), flat(method.model_for(waiting)))
        for t in (5, 6, 7):
            fed.start_round(t)
            method.round(fed, fed.cohort(t))
            fed.start_round(fed.round)  # each client is asked by both
            restored.round(fed, fed.cohort(t))
            fed.start_round(fed.round)
        assert restored.groups() == method.groups()
        assert restored.standing == method.standing
        assert restored.norms == method.norms
        assert restored.reason == method.reason
        for a, b in zip(restored.models, method.models, strict=True):
            assert np.array_equal(flat(a), flat(b))


def test_a_checkpoint_writes_only_the_updates_that_changed(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.safetensors"
    with federation(rounds=3) as (method, fed):
        method.begin(fed)
        files: set[str] = set()
        for t, cohort in ((1, [0, 1, 2]), (2, [2, 3])):
            fed.start_round(t)
            method.round(fed, cohort)
            save_checkpoint(path, method.save())
            before, files = files, {file.name for file in tmp_path.glob("checkpoint-*")}
        assert len(files) == 4
        assert len(files & before) == 2  # those of clients 0 and 1


def test_it_takes_no_wishes() -> None:
    with pytest.raises(CoterieError, match="'cfl' takes no options for groups: leave out"):
        coterie.run(algorithm="cfl", dataset="digits", groups=4)
