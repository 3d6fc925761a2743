"""Kindred's groups: by what labels look like, on the digits, with newcomers, on pages and on real data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import coterie
from coterie.clustering import adjusted_rand_index
from coterie.data.catalogue import is_here
from coterie.errors import CoterieError
from coterie.inspect.inspection import inspect
from coterie.messages import MomentsReply
from coterie.report.folders import make_page
from coterie.report.page import render
from coterie.run.cluster import ClusterResult, form_groups
from coterie.run.settings import settings_to_config
from coterie.similarity import class_moments
from coterie.testing import small_federation

NAME = "kindred"


def config(dataset: str, partition: str | None = None, **settings: Any) -> Any:
    if partition is not None:
        settings["partition"] = partition
    return settings_to_config(None, {"dataset": dataset, **settings}, NAME)


def found(dataset: str, partition: str | None = None, **settings: Any) -> ClusterResult:
    return form_groups(config(dataset, partition, **settings))


ONE = ["iid", "label-skew:rho=0.3", "dirichlet:alpha=0.2", "shards"]
FOUR = ["rotated", "permuted"]


@pytest.mark.integration
@pytest.mark.parametrize("partition", ONE)
def test_digits_that_differ_in_frequencies_are_one_group(partition: str) -> None:
    groups = found("digits", partition, clients=20)
    assert groups.grouping.n_groups == 1
    assert groups.grouping.rule == "concepts"


@pytest.mark.integration
@pytest.mark.parametrize("partition", FOUR)
@pytest.mark.parametrize("seed", [0, 1])
def test_digits_that_look_different_are_four(partition: str, seed: int) -> None:
    assert found("digits", partition, clients=20, seed=seed).ari == 1
    assert found(f"digits-{partition}", seed=seed).ari == 1


@pytest.mark.integration
def test_frequencies_and_looks_together_are_told_apart() -> None:
    assert found("digits", "rotated:groups=2,parts=label-skew:rho=0.5", clients=12).ari == 1


@pytest.mark.integration
def test_groups_are_looked_at_again_by_what_their_clients_tell_together() -> None:
    """Of so few samples that no two clients differ by twice chance; also where newcomers are grouped with them."""
    rng, true = np.random.default_rng(0), [k % 4 for k in range(60)]
    centres = 0.31 * rng.normal(size=(4, 10, 16))
    with small_federation(NAME, dataset="digits-rotated", partition=None) as (run, _):
        method = run.algorithm
        for client, group in enumerate(true):
            y = np.sort(rng.integers(0, 10, 80))
            moments = class_moments(centres[group, y] + rng.normal(size=(80, 16)), y, 10)
            method.described[client] = MomentsReply(*moments)
        pairs, rule = method.distances([*method.described.values()]), method.rule(run.fed)
        alone = rule.group(pairs)
        assert alone.n_groups == 1
        for made in (method.form(run.fed, pairs), method.form_anew(rule, alone, pairs)):
            assert adjusted_rand_index(made.labels, true) == 1


@pytest.mark.integration
def test_a_client_sends_a_few_numbers_per_label(tmp_path: Path) -> None:
    groups = found("digits-rotated")
    each = groups.up_bytes / 20
    assert 10 * 16 * 4 < each < 10 * 16 * 4 + 1000
    assert {file.suffix for file in groups.save(tmp_path)} == {".png", ".svg"}


@pytest.mark.integration
def test_labels_without_a_chain_make_parts_which_are_drawn_and_written(tmp_path: Path) -> None:
    sets: dict[str, Any] = {"partition_options": {"labels": "0+1+2/3+4+5+6"}, "clients": 8}
    groups = found("digits", "given-labels", **sets)
    assert groups.grouping.labels.tolist() == [0, 1] * 4
    assert "2 parts are connected by no chain" in groups.grouping.reason
    assert json.loads(json.dumps(groups.to_json(), allow_nan=False))["n_groups"] == 2
    assert len(groups.save(tmp_path / "pictures")) == 6
    assert "2 groups by rule 'concepts'" in groups.report()
    inspection = inspect(config("digits", "given-labels", **sets), measures="class_moments,labels")
    plain = json.loads(json.dumps(inspection.to_json(), allow_nan=False))
    assert plain["measures"]["class_moments"]["matrix"][0][1] is None
    assert abs(plain["measures"]["class_moments"]["mean"]) < 0.2
    assert len(inspection.save(tmp_path / "inspection")) > 2
    run: dict[str, Any] = {"dataset": "digits", "partition": "given-labels", "rounds": 1, "out": str(tmp_path / "run")}
    result = coterie.run(algorithm=NAME, **run, **sets)
    assert result.groups == [0, 1] * 4
    page = render(make_page([tmp_path / "run"]))
    assert "connected by no chain of shared labels" in page


@pytest.mark.integration
def test_inspect_measures_moments_whatever_the_method() -> None:
    turned, alike = (
        inspect(settings_to_config(None, {"dataset": name}, "pacfl"), measures="class_moments").view
        for name in ("digits-rotated", "digits")
    )
    apart, together = (view.measures["class_moments"].values for view in (turned, alike))
    assert np.mean(apart) > 0.5
    assert abs(np.mean(together)) < 0.05


@pytest.mark.integration
def test_newcomers_join_who_sees_labels_as_they_do() -> None:
    settings: dict[str, Any] = {"dataset": "digits-rotated", "rounds": 2, "newcomers": 0.2, "seed": 3}
    for assign in ("frozen", "recluster"):
        result = coterie.run(algorithm=NAME, algorithm_options={"assign": assign}, **settings)
        assert result.ari == 1
        assert result.newcomers is not None
        assert len(result.newcomers["clients"]) == 4
        assert result.newcomers["founded"] in ([], 0, None)


@pytest.mark.integration
def test_rules_that_need_other_evidence_are_refused() -> None:
    for setting in ({"rule": "gap"}, {"groups": 4}, {"threshold": 5.0}):
        with pytest.raises(CoterieError, match="use concepts"):
            config("digits-rotated", **setting)
    assert found("digits-rotated", rule="concepts:chance=1000").grouping.n_groups == 1


REAL: list[tuple[str, str | None, int, int]] = [
    ("fashion_mnist", "iid", 100, 1),
    ("fashion_mnist", "label-skew:rho=0.2", 100, 1),
    ("fashion_mnist", "dirichlet:alpha=0.1", 100, 1),
    ("fashion_mnist", "shards", 100, 1),
    ("mnist", "by-user", 100, 1),
    ("cifar10", "dirichlet:alpha=0.1", 100, 1),
    ("fashion_mnist", "rotated", 100, 4),
    ("fashion_mnist", "permuted", 100, 4),
    ("fashion_mnist", "rotated:parts=dirichlet:alpha=0.1", 100, 4),
    ("fashion_mnist", "rotated:parts=label-skew:rho=0.2", 100, 4),
    ("cifar10", "rotated", 100, 4),
    ("cifar10", "permuted", 100, 4),
    ("svhn", "rotated", 100, 4),
    ("svhn", "permuted", 100, 4),
    ("svhn", "rotated:parts=dirichlet:alpha=0.1", 100, 4),
    ("mix-4", None, 100, 4),
]
"""Federations of the prototype's table, and SVHN, in which it found one group only."""


@pytest.mark.slow
@pytest.mark.parametrize(("dataset", "partition", "clients", "groups"), REAL, ids=lambda value: str(value))
def test_real_data(dataset: str, partition: str | None, clients: int, groups: int) -> None:
    if not is_here(dataset):
        pytest.skip(f"data set '{dataset}' is not here")
    result = found(dataset, partition, clients=clients)
    assert result.grouping.n_groups == groups
    if groups > 1:
        assert result.ari == 1


@pytest.mark.slow
def test_super_clusters_are_parts() -> None:
    if not is_here("fashion_mnist"):
        pytest.skip("data set 'fashion_mnist' is not here")
    result = found("fashion_mnist", "sc-niid", clients=100)
    assert result.ari == 1
