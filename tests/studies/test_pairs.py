"""The pair study: what it trains, what it compares, and what it refuses."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import coterie
from coterie.errors import CoterieError
from coterie.run.config import Config
from coterie.run.settings import settings_to_config
from coterie.studies.pairs import PairStudy, SeedValues, study, verdict

QUICK: dict[str, Any] = {"dataset": "digits", "rounds": 2, "epochs": 1, "fraction": 1.0, "lr": 0.05, "eval_every": 0}


def config(**settings: Any) -> Config:
    return settings_to_config(None, QUICK | settings)


@pytest.fixture(scope="module")
def pairs() -> PairStudy:
    return study(config(), "8,9", "9,8;0,1;3", samples=60, seeds=2)


@pytest.mark.integration
def test_accuracies_are_those_of_runs(pairs: PairStudy) -> None:
    """Of `coterie.run` with the partition that deals out labels."""
    for k, seed in enumerate(pairs.seeds):
        alone = coterie.run(
            algorithm="solo", partition="given-labels:labels=8+9,samples=60", clients=1, seed=seed, **QUICK
        )
        assert pairs.solo.values[k] == alone.per_client["L"][0]
        for row in pairs.rows:
            text = "+".join(map(str, row.labels))
            both = coterie.run(partition=f"given-labels:labels=8+9/{text},samples=60", clients=2, seed=seed, **QUICK)
            assert row.own.values[k] == both.per_client["L"][0]
            assert row.received.values[k] == both.per_client["C"][0]
            assert row.gain.values[k] == pytest.approx(row.own.values[k] - pairs.solo.values[k])


@pytest.mark.integration
def test_rows_say_what_is_shared(pairs: PairStudy) -> None:
    assert [row.labels for row in pairs.rows] == [(8, 9), (0, 1), (3,)]
    assert [row.shared for row in pairs.rows] == [2, 0, 0]
    assert pairs.rows[0].angle < min(row.angle for row in pairs.rows[1:])
    assert pairs.seeds == [0, 1]


def test_files_hold_the_numbers(pairs: PairStudy, tmp_path: Path) -> None:
    written = {path.name for path in pairs.save(tmp_path / "out")}
    assert written == {"pairs.json", "pairs.csv", "pairs.png"}
    rows = list(csv.DictReader((tmp_path / "out" / "pairs.csv").read_text(encoding="utf-8").splitlines()))
    assert [row["c2"] for row in rows] == ["", "8+9", "0+1", "3"]
    assert float(rows[1]["gain"]) == pairs.rows[0].gain.mean
    text = pairs.report()
    assert "60 samples per client" in text
    assert f"{100 * pairs.solo.mean:.2f}" in text


@pytest.mark.integration
def test_where_there_are_few_samples_all_rows_get_as_many_as_there_are() -> None:
    """No label is asked for more often than it is there, in the fullest row."""
    found = study(config(rounds=1), "8,9", "8,9;9", seeds=1)
    assert 80 < found.samples < 500
    assert found.rows[0].verdict == "one seed tells nothing sure"


def test_verdict_is_a_t_test() -> None:
    from scipy.stats import ttest_1samp

    rng = np.random.default_rng(0)
    seen = set()
    for shift in (-2, -1, 0, 1, 2):
        for n in (2, 3, 5, 9):
            gains = rng.normal(shift, 0.8, n)
            sure = ttest_1samp(gains, 0).pvalue < 0.05
            word = ("helps" if gains.mean() > 0 else "hurts") if sure else "no clear difference"
            assert verdict(gains.tolist()) == word
            seen.add(word)
    assert len(seen) == 3


def test_spread_is_of_a_sample() -> None:
    assert SeedValues.of([1.0, 3.0]) == SeedValues(2.0, float(np.sqrt(2)), (1.0, 3.0))
    assert SeedValues.of([1.0]).sd == 0


@pytest.mark.parametrize(
    ("c1", "c2", "settings", "message"),
    [
        ("", "8", {}, "--c1 has a set without labels: write labels like 8,9"),
        ("8", "", {}, '--c2 names no labels: write sets like --c2 "8,9;0,1"'),
        ("8", "8;", {}, "--c2 has a set without labels"),
        ("8,8", "9", {}, "--c1 8,8 names label 8 twice"),
        ("8", "1,2;2,1", {}, "--c2 names the labels 1+2 twice"),
        ("eight", "9", {}, "--c1 eight should be labels like 8,9"),
        ("8,9", "8,12", {}, "data set 'digits' has no label 12: its labels are 0, 1, 2"),
        ("8", "9", {"dataset": "digits-rotated"}, "comes divided among clients"),
        ("8", "9", {"algorithm": "solo"}, "name another method than solo"),
        ("8", "9", {"newcomers": 0.5}, "leave out the newcomers"),
    ],
)
def test_refusals_say_what_to_write(c1: str, c2: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(CoterieError) as refused:
        study(config(**settings), c1, c2)
    assert message in str(refused.value)
