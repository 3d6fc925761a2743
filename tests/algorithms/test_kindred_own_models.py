"""Kindred: clients whose labels are not their group's use a mean of its model and their own."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coterie.algorithms.kindred import own_share
from coterie.run.trained_models import find_model
from coterie.testing import small_federation, small_run
from coterie.training import choose_trainer

SKEWED: dict[str, Any] = {
    "dataset": "digits", "partition": "label-skew:rho=0.3", "clients": 8, "fraction": 0.5, "rounds": 2, "seed": 0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("counts", "of_group", "share"),
    [
        ([10, 10, 0, 0, 0], [40, 40, 40, 40, 40], 0.3),  # TV = 3/5
        ([10, 0], [10, 1000], 0.5),  # the most: half of its own
        ([30, 34], [300, 300], 0.0),  # chance
        ([0, 0], [5, 5], 0.0),  # silent
        ([5, 5], [0, 0], 0.0),
    ],
)
def test_the_share_is_half_the_total_variation(counts: list[int], of_group: list[int], share: float) -> None:
    assert own_share(np.array(counts), np.array(of_group)) == pytest.approx(share)


def test_c_is_of_the_mean_that_is_exported(tmp_path: Path) -> None:
    """Against the mean made here, for those who have trained and those who have not."""
    result = small_run("kindred", out=str(tmp_path / "run"), **SKEWED)
    with small_federation("kindred", **SKEWED) as (_, data):
        pass
    run = find_model(tmp_path / "run", 0).run
    trained = [run.own_model(client) is not None for client in range(8)]
    assert any(trained)
    assert not all(trained)
    trainer = choose_trainer("torch", run.spec)
    for client in range(8):
        used, received, own = find_model(tmp_path / "run", client), run.received(client), run.own_model(client)
        assert received is not None
        share = run.own_share(client)
        assert 0.2 < share <= 0.5
        for name, value in used.params.items():
            mean = received[name] if own is None else (1 - share) * received[name] + share * own[name]
            np.testing.assert_allclose(value, mean, rtol=1e-5, atol=1e-6)
        part = data.test_parts[client]
        assert used.label_offset is not None
        logits = trainer.logits(run.spec, used.params, data.normalise(data.test.x[part])) + used.label_offset
        right = float((logits.argmax(axis=1) == data.test.y[part]).mean())
        assert result.per_client["C"][client] == pytest.approx(right)


def test_of_a_run_without_a_folder_they_are_the_same(tmp_path: Path) -> None:
    kept, stored = small_run("kindred", **SKEWED), small_run("kindred", out=str(tmp_path / "run"), **SKEWED)
    for client in range(8):
        here, there = kept.trained_model(client, None), stored.trained_model(client, None)
        assert here.whose == there.whose
        for name, value in here.params.items():
            np.testing.assert_array_equal(value, there.params[name])


def test_only_c_changes_with_them() -> None:
    with_own, without = (
        small_run("kindred", algorithm_options={"mixes_own": own}, eval_every=1, **SKEWED) for own in (True, False)
    )
    for protocol in ("L", "G", "plus"):
        assert with_own.accuracy[protocol] == without.accuracy[protocol]
    assert with_own.accuracy["C"] != without.accuracy["C"]
    assert [row["loss"] for row in with_own.history] == [row["loss"] for row in without.history]


def test_where_labels_are_alike_or_counts_do_not_leave_nobody_does(tmp_path: Path) -> None:
    alike = {**SKEWED, "partition": "iid"}
    with small_federation("kindred", **alike) as (run, _):
        run.algorithm.begin(run.fed)
        assert set(run.algorithm.own_shares(range(8)).values()) == {0.0}
    with small_federation("kindred", algorithm_options={"rows": "samples"}, **SKEWED) as (run, _):
        run.algorithm.begin(run.fed)
        assert run.algorithm.own_shares(range(8)) == {}
