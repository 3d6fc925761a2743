"""What ``coterie inspect`` measures, and what it refuses."""

import sys
import types
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coterie.errors import CoterieError
from coterie.inspect.inspection import (
    Inspection,
    inspect,
    on_a_map,
    read_measures,
)
from coterie.registry import is_own
from coterie.run.building import load_data
from coterie.run.config import Config
from coterie.run.settings import settings_to_config
from coterie.run.values import split_list
from coterie.similarity import (
    MEASURES,
    class_distances,
    class_moments,
    label_total_variation,
    pairwise,
    principal_angles,
    signature,
)

OURS = [name for name in MEASURES if is_own(MEASURES[name])]
SAMPLE_MEASURES = [name for name in OURS if MEASURES[name].needs == "samples"]
ALL = ["angles", *(name for name in OURS if name != "theta1")]


def config(**settings: Any) -> Config:
    return settings_to_config(None, {"dataset": "digits", "clients": 6} | settings, method="pacfl")


@pytest.fixture(scope="module")
def all_measures() -> Inspection:
    """Every measure, of skewed labels beside iid ones."""
    return inspect(config(partition="label-skew:rho=0.3"), measures=",".join(ALL), against="iid", super_clusters=3)


@pytest.mark.integration
def test_measures_are_those_of_the_samples(all_measures: Inspection) -> None:
    """Computed here from the data themselves, not through messages."""
    for view, partition in ((all_measures.view, "label-skew:rho=0.3"), (all_measures.against[0], "iid")):
        data = load_data(config(partition=partition))
        parts = [data.train.x[part] for part in data.train_parts]
        labels = [data.train.y[part] for part in data.train_parts]
        flat = [x.reshape(len(x), -1) for x in parts]
        whole = [signature(x, 3) for x in flat]
        per_label = [
            np.hstack([signature(x[y == c], 3) for c in np.unique(y)]) for x, y in zip(flat, labels, strict=True)
        ]
        counts = np.stack([np.bincount(y, minlength=10) for y in labels])
        expected = {
            "angles": principal_angles(whole),
            "sum_angles": principal_angles(whole, measure="sum_angles"),
            **{name: principal_angles(per_label, measure=name) for name in ("min_abs", "min_entry", "trace")},
            "labels": label_total_variation(counts),
            "class_moments": class_distances(
                [class_moments(data.normalise(x), y, 10) for x, y in zip(parts, labels, strict=True)]
            )["distance"],
            **{name: pairwise(name, parts) for name in SAMPLE_MEASURES},
        }
        assert set(view.measures) == set(expected) == set(ALL)
        assert np.array_equal(view.counts, counts)
        for name, matrix in expected.items():
            assert view.measures[name].matrix == pytest.approx(matrix, rel=1e-3, abs=2e-3, nan_ok=True), name


@pytest.mark.integration
def test_mean_and_spread_are_over_pairs(all_measures: Inspection) -> None:
    above = np.triu_indices(6, 1)
    for name, measured in all_measures.view.measures.items():
        pairs = measured.matrix[above]
        pairs = pairs[~np.isnan(pairs)]  # of those who share a label
        if name == "kl":  # which has two values for each pair
            pairs = np.concatenate([pairs, measured.matrix.T[above]])
        told = measured.to_json()
        assert told["mean"] == pytest.approx(pairs.mean())
        assert told["sd"] == pytest.approx(pairs.std())
        assert (told["min"], told["max"]) == (pairs.min(), pairs.max())


def test_who_may_know_it_is_said_of_each_measure(all_measures: Inspection) -> None:
    described = all_measures.to_json()["measures"]
    assert {name for name in described if not described[name]["real_federation"]} == set(SAMPLE_MEASURES)
    assert {name for name in described if described[name]["similarity"]} == {"cka"}


def test_json_has_what_scripts_need(all_measures: Inspection) -> None:
    told = all_measures.to_json()
    assert told["against"].keys() == {"iid"}
    assert len(told["map"]) == len(told["clients"]) == 6
    assert sorted(told["order"]) == list(range(6))
    assert told["advice"]["choice"] in ("one model", "cluster", "alone")
    assert told["advice"]["command"].startswith("coterie run --algorithm ")
    assert told["method"] == "pacfl"
    assert sorted(label for one in told["classes"]["super_clusters"] for label in one) == list(range(10))
    assert len(told["classes"]["super_clusters"]) == 3
    assert np.shape(told["classes"]["angles"]) == (10, 10)
    assert told["measures"]["cka"]["needs"] == "samples"
    assert not told["measures"]["cka"]["real_federation"]
    assert told["measures"]["angles"]["real_federation"]


@pytest.mark.integration
def test_groups_are_those_of_cluster() -> None:
    import coterie

    settings = {"dataset": "digits-rotated", "clients": 8, "seed": 3}
    found = inspect(settings_to_config(None, settings, method="pacfl"), measures="labels")
    assert found.view.groups.to_json() == coterie.cluster(**settings).to_json()


@pytest.mark.integration
def test_files(all_measures: Inspection, tmp_path: Path) -> None:
    two = {name: all_measures.view.measures[name] for name in ("angles", "emd_pixel")}
    found = replace(all_measures, view=replace(all_measures.view, measures=two))
    written = found.save(tmp_path / "new" / "folder")
    names = {path.name for path in written}
    assert {"inspection.html", "inspection.json", "labels.png", "clients.png", "classes.png"} <= names
    assert {"proximity-angles.png", "proximity-emd-pixel.png", "class-angles.png", "dendrogram.png"} <= names
    assert all(path.stat().st_size > 500 for path in written)
    page = (tmp_path / "new" / "folder" / "inspection.html").read_text(encoding="utf-8")
    assert escape(all_measures.advice.sentence.split(":")[0]) in page
    assert escape(all_measures.advice.command) in page
    assert "Groups of pacfl" in page
    assert "simulation only" in page


def test_report_says_it_all(all_measures: Inspection) -> None:
    text = all_measures.report()
    assert all(name in text for name in ALL)
    assert "simulation only" in text
    assert "also for a real" in text
    assert "Advice: " in text
    assert f"\n    {all_measures.advice.command}\n" in text
    assert "Super clusters of classes: {" in text


def test_umap_is_used_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {}

    class UMAP:
        def __init__(self, **options: Any) -> None:
            asked.update(options)

        def fit_transform(self, distances: Any) -> Any:
            return np.asarray(distances)[:, :2] + 1

    module = types.ModuleType("umap")
    module.UMAP = UMAP  # type: ignore[attr-defined]
    distances = np.abs(np.subtract.outer(np.arange(9.0), np.arange(9.0)))
    monkeypatch.setitem(sys.modules, "umap", None)  # as if it were not there
    places, how = on_a_map(distances, 4)
    assert how.startswith("classical")
    assert np.abs(np.subtract.outer(places[:, 0], places[:, 0])) == pytest.approx(distances)
    monkeypatch.setitem(sys.modules, "umap", module)
    places, how = on_a_map(distances, 4)
    assert how.startswith("UMAP")
    assert places.tolist() == (distances[:, :2] + 1).tolist()
    assert asked == {"metric": "precomputed", "n_neighbors": 8, "random_state": 4}


def test_a_class_with_one_image_and_equal_images_are_measured(tmp_path: Path) -> None:
    """Covariances are singular, signatures of one vector, and one class has a single image."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (41, 6, 6), dtype=np.uint8)
    x[:10] = x[0]
    y = np.r_[np.arange(40) % 2, 2]
    np.savez(tmp_path / "few.npz", x_train=x, y_train=y, x_test=x[:4], y_test=y[:4])
    found = inspect(
        config(dataset=str(tmp_path / "few.npz"), clients=4), measures=",".join(ALL), per_class=True, against="iid"
    )
    told = found.to_json()
    assert np.isfinite([measured["mean"] for measured in told["measures"].values()]).all()
    assert found.report()


def test_one_class_has_no_map_of_classes(tmp_path: Path) -> None:
    x = np.random.default_rng(0).integers(0, 256, (40, 6, 6), dtype=np.uint8)
    y = np.zeros(40, np.int64)
    np.savez(tmp_path / "one.npz", x_train=x, y_train=y, x_test=x[:4], y_test=y[:4])
    found = inspect(config(dataset=str(tmp_path / "one.npz"), clients=4), per_class=True)
    assert found.classes is None
    assert found.advice.choice == "one model"
    assert "Advice: Train one model" in found.report()


def test_names_of_measures_and_partitions() -> None:
    assert list(read_measures(None)) == ["angles", "sum_angles", "labels"]
    assert list(read_measures("emd, theta1,angles,emd-pixel")) == ["emd", "angles", "emd_pixel"]
    assert split_list(" iid ,dirichlet:alpha=0.1,label-skew") == ["iid", "dirichlet:alpha=0.1", "label-skew"]


@pytest.mark.parametrize(
    ("settings", "wanted", "message"),
    [
        ({}, {"measures": "emdd"}, "unknown measure 'emdd': did you mean 'emd'?"),
        ({}, {"measures": "mmd:bandwith=2"}, "measure 'mmd' has no option 'bandwith': did you mean 'bandwidth'?"),
        ({}, {"measures": "mmd:bandwidth=-2"}, "measure 'mmd': bandwidth = -2 is not valid"),
        ({}, {"measures": " ,"}, "--measures names none: write some of angles,"),
        ({}, {"against": "iid,label-skw"}, "unknown partition 'label-skw': did you mean 'label-skew'? (in --against)"),
        ({}, {"against": "label-skew:roh=1"}, "has no option 'roh': did you mean 'rho'?"),
        ({}, {"against": ","}, "--against names no partition"),
        ({"dataset": "digits-rotated"}, {"against": "iid"}, "comes divided among clients"),
        ({"clients": 1}, {}, "there is one client: nothing to compare it with; use --clients 2 or more"),
        ({}, {"super_clusters": 0}, "--super-clusters 0 should be at least 1"),
        ({"algorithm": "fedavg"}, {}, "forms no groups before training"),
    ],
)
def test_refusals_say_what_to_write(settings: dict[str, Any], wanted: dict[str, Any], message: str) -> None:
    with pytest.raises(CoterieError) as refused:
        inspect(config(**settings), **wanted)
    assert message in str(refused.value)
