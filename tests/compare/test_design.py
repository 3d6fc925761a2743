"""What is compared: how it is written, what is refused, and what all methods of a seed share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.algorithms import ALGORITHMS
from coterie.client import MemoryStore
from coterie.compare.design import Design
from coterie.compare.make_design import comparison_design, parse_variation, sweep_design
from coterie.errors import CoterieError
from coterie.results.comparison_folder import Tuning, slug
from coterie.results.comparisons import differing
from coterie.run.building import completed, load_data, make_spec, make_trainer, session
from coterie.run.progress import Progress
from coterie.run.validation import differences
from coterie.run.values import split_list
from coterie.training import one_thread

BASE: dict[str, dict[str, Any]] = {
    "data": {"name": "digits", "clients": 6},
    "partition": {"name": "label-skew", "rho": 0.5},
    "training": {"rounds": 5, "fraction": 0.5, "epochs": 1},
}


@pytest.mark.integration
def test_all_methods_of_a_seed_share_partition_start_and_cohorts() -> None:
    """By construction: each is a function of the seed, and of settings that methods do not change."""
    own = {"sub-fedavg-hy": {"model": "lenet5-bn"}}  # another network: it has no start in common with others
    labels = [name for name in sorted(ALGORITHMS) if name not in own and name != "ifca"]
    design = comparison_design(BASE, [*labels, "ifca:groups=3"], [0, 1])
    seen: dict[int, list[Any]] = {0: [], 1: []}
    for label in design.cells:
        for seed in design.seeds if label == "fedavg" else (0,):
            config = design.config(label, seed)
            data = load_data(config)
            config = completed(config, data)
            if config.model.name != "mlp":
                continue
            trainer = make_trainer(config, make_spec(config, data), Progress())
            with one_thread(), session(config, data, MemoryStore(), trainer) as run:
                run.fed.start_round(1)
                seen[seed].append(
                    (
                        [part.tobytes() for part in data.train_parts],
                        [part.tobytes() for part in data.test_parts],
                        data.train.x.tobytes(),
                        data.server.x.tobytes(),
                        [run.fed.cohort(t) for t in range(1, 6)],
                        [array.tobytes() for array in run.fed.initial().values()],
                    )
                )
    assert len(seen[0]) >= 15
    assert all(one == seen[0][0] for one in seen[0])
    assert all(a != b for a, b in zip(seen[0][0], seen[1][0], strict=True))


def test_settings_of_a_method_stand_behind_its_name_or_in_a_table() -> None:
    design = comparison_design(
        BASE,
        "fedavg,pacfl:p=5,lr=0.02,pacfl:count=4",
        [0],
        methods={"pacfl": {"lr": 0.5, "momentum": 0.0}, "fedavg": {"training.batch_size": 4}},
    )
    first, second = (design.config(label, 0) for label in ("pacfl:p=5,lr=0.02", "pacfl:count=4"))
    assert (first.algorithm.options["p"], first.training.lr, first.training.momentum) == (5, 0.02, 0.0)
    assert (second.grouping.groups, second.training.lr) == (4, 0.5)
    assert design.config("fedavg", 0).training.batch_size == 4
    assert design.config("fedavg", 7).run.seed == 7


@pytest.mark.parametrize(
    ("algorithms", "more", "message"),
    [
        ("fedavg", {}, "two methods or more"),
        ("fedavg,fedavg", {}, "fedavg is named twice"),
        ("fedavg,fedavgg", {}, "did you mean 'fedavg'?"),
        ("pacfl,pacfl:p=3", {}, "'pacfl' and 'pacfl:p=3' are the same"),
        ("fedavg,pacfl:q=3", {}, "there is no key 'q'"),
        ("fedavg,pacfl:gropus=3", {}, "did you mean 'groups'?"),
        ("fedavg,fedprox:groups=3", {}, "fedprox:groups=3: method 'fedprox' takes no options for groups"),
        ("fedavg,solo:seed=3", {}, "seeds are named by --seeds"),
        ("fedavg,solo:workers=3", {}, "changes no numbers"),
        ("fedavg,,solo", {}, "empty place"),
        ("fedavg,solo", {"baseline": "sol"}, "did you mean 'solo'?"),
        ("fedavg,solo", {"methods": {"pacfl": {"lr": 0.1}}}, "[methods.pacfl]"),
        ("fedavg,solo", {"tune": {"training.lrr": [1, 2]}}, "did you mean 'lr'?"),
        ("fedavg,solo", {"tune": {"lr": [0.1]}}, "one value"),
        ("fedavg,solo", {"tune": {"lr": [0.1, 0.1]}}, "named twice"),
        ("fedavg,solo", {"tune": {"lr": [0.1, -1]}}, "training.lr = -1"),
        ("fedavg,solo", {"tune": {"lr": [0.1, 0.2]}, "tune_share": 1.0}, "between 0 and 1"),
        ("fedavg,solo", {"protocol": "plus", "tune": {}}, None),
        ("fedavg,solo", {"protocol": "W"}, "no protocol 'W'"),
    ],
)
def test_wrong_comparisons_say_what_is_right(algorithms: str, more: dict[str, Any], message: str | None) -> None:
    if message is None:
        comparison_design(BASE, algorithms, [0], **more)
        return
    with pytest.raises(CoterieError) as error:
        comparison_design(BASE, algorithms, [0], **more)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("vary", "message"),
    [
        ({"grouping.treshold": [1, 2]}, "did you mean 'threshold'?"),
        ({"groupin.threshold": [1, 2]}, "did you mean 'grouping'?"),
        ({"learning_rate": [1, 2]}, "there is no key 'learning_rate'"),
        ({"lr": [0.1]}, "two values or more"),
        ({"lr": [0.1, 0.1]}, "named twice"),
        ({"lr": [0.1, 0.2], "training.lr": [0.3, 0.4]}, "names a key twice"),
        ({"training.lr": [0.1, "fast"]}, "lr=fast: training.lr = 'fast'"),
        ({"algorithm.mu": [0.1, 0.2]}, "has no option 'mu'"),
        ({"run.seed": [0, 1]}, "--seeds"),
    ],
)
def test_wrong_sweeps_say_what_is_right(vary: dict[str, Any], message: str) -> None:
    with pytest.raises(CoterieError) as error:
        sweep_design(BASE, vary, [0])
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("seeds", "message"), [([], "at least one seed"), ([0, 0], "named twice"), ([-1], "0 or more")]
)
def test_wrong_seeds(seeds: list[int], message: str) -> None:
    with pytest.raises(CoterieError, match=message):
        comparison_design(BASE, "fedavg,solo", seeds)


def test_a_plain_target_is_of_the_protocol() -> None:
    base = BASE | {"evaluation": {"targets": ["0.8", "G=0.5"]}}
    assert comparison_design(base, "fedavg,solo", [0], protocol="C").targets == ["C=0.8", "G=0.5"]
    with pytest.raises(CoterieError, match="measured over rounds"):
        comparison_design(base, "fedavg,solo", [0], protocol="plus")


@pytest.mark.integration
@given(st.lists(st.text("abc", min_size=1, max_size=4), min_size=1, max_size=5), st.data())
def test_lists_of_names_with_options_are_divided_rightly(names: list[str], data: st.DataObject) -> None:
    options = st.lists(st.sampled_from(["p=3", "lr=0.1", "x=true"]), max_size=3)
    texts = [name + (f":{','.join(chosen)}" if (chosen := data.draw(options)) else "") for name in names]
    assert split_list(",".join(texts)) == texts


def test_values_of_a_variation() -> None:
    assert parse_variation("partition.name=label-skew:rho=0.2,x=1,iid", "--vary")[1] == [
        "label-skew:rho=0.2,x=1",
        "iid",
    ]
    assert parse_variation("a.b=[1, 2],[3]", "--vary")[1] == [[1, 2], [3]]
    for wrong in ("lr", "=1", "lr=", "lr=1,,2"):
        with pytest.raises(CoterieError):
            parse_variation(wrong, "--vary")


def test_folders_of_cells_are_their_own() -> None:
    cells: dict[str, dict[str, Any]] = {
        "a:b=1": {},
        "a-b=1": {},
        "A b=1": {},
        "tuning": {},
        "x" * 300: {},
        "../up": {},
        "é/ü": {},
    }
    design = Design({}, cells, (0,))
    folders = [design.folder(label) for label in design.cells]
    assert len({folder.lower() for folder in folders}) == len(cells)
    assert all("/" not in folder and not folder.startswith(".") and len(folder) < 120 for folder in folders)
    assert "tuning" not in folders
    assert slug("pacfl") == "pacfl"


def test_what_is_written_reads_back_the_same(tmp_path: Path) -> None:
    for design in (
        comparison_design(
            BASE, "fedavg,pacfl:count=4", [3, 1], baseline="fedavg", protocol="C", tune={"lr": [0.1, 0.01]}
        ),
        sweep_design(BASE, {"partition.name": ["iid", "label-skew:rho=0.3"], "lr": [1, 0.5]}, [0]),
    ):
        file = tmp_path / "comparison.toml"
        file.write_text(design.to_toml(), encoding="utf-8")
        again = Design.read(file)
        assert again == design
        for label in design.cells:
            assert not differences(again.config(label, 1), design.config(label, 1))


@pytest.mark.parametrize(
    "text", ["", "[comparison]\n", "[comparison]\nkind = 'compare'\nseeds = 3\n", "cells = 3", "[["]
)
def test_a_damaged_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "comparison.toml").write_text(text)
    with pytest.raises(CoterieError, match=r"comparison\.toml"):
        Design.read(tmp_path / "comparison.toml")


def test_more_may_be_asked_of_the_same_comparison_but_nothing_else(tmp_path: Path) -> None:
    old = comparison_design(BASE, "fedavg,solo", [0, 1], baseline="solo")
    more = old.extended(comparison_design(BASE, "ifca:groups=2,fedavg", [2, 1]), tmp_path)
    assert (list(more.cells), more.seeds, more.baseline) == (["fedavg", "solo", "ifca:groups=2"], (0, 1, 2), "solo")
    others = BASE | {"training": BASE["training"] | {"lr": 0.5}}
    refused = [
        comparison_design(others, "fedavg,solo", [0]),
        comparison_design(others, "fedprox,ifca:groups=2", [0]),  # none of these is there yet, but the base differs
        comparison_design(BASE, "fedavg,solo", [0], methods={"solo": {"lr": 0.5}}),
        comparison_design(BASE, "fedavg,solo", [0], tune={"lr": [0.1, 0.2]}),
        sweep_design(BASE, {"lr": [0.1, 0.2]}, [0]),
    ]
    for new in refused:
        with pytest.raises(CoterieError, match="choose another --out"):
            old.extended(new, tmp_path)
    targets = BASE | {"evaluation": {"targets": ["L=0.5"]}}
    assert old.extended(comparison_design(targets, "fedavg,solo", [0]), tmp_path).targets == ["L=0.5"]


def test_tries_are_all_combinations_of_what_a_cell_leaves_open() -> None:
    tuning = Tuning({"training.lr": [1, 2], "training.momentum": [0.0, 0.5, 0.9]}, (0,))
    assert len(tuning.tries({})) == 6
    assert tuning.tries({"training.lr": 3}) == [{"training.momentum": value} for value in (0.0, 0.5, 0.9)]
    assert tuning.tries({"training.lr": 3, "training.momentum": 0.1}) == []
    assert Tuning().tries({}) == []


def test_what_cells_do_not_share_is_said() -> None:
    assert differing([*comparison_design(BASE, "fedavg,solo", [0]).tables().values()]) == []
    assert differing([*sweep_design(BASE, {"partition.rho": [0.2, 0.5]}, [0]).tables().values()]) == ["partitions"]
    assert differing(
        [*sweep_design(BASE, {"fraction": [0.2, 0.5], "model.name": ["mlp", "mclr"]}, [0]).tables().values()]
    ) == [
        "initial models",
        "cohorts",
    ]


def test_paths_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("own.npz", x=np.zeros((40, 4), np.float32), y=np.arange(40) % 2)
    (tmp_path / "empty_plugin.py").write_text("")
    base = {"data": {"name": "own.npz"}, "run": {"plugins": ["empty_plugin.py"], "seed": 3, "out": "x"}}
    design = comparison_design(base, "fedavg,solo", [0])
    assert design.base["data"]["name"] == os.path.abspath("own.npz")
    assert design.base["run"] == {"plugins": [os.path.abspath("empty_plugin.py")]}


def test_a_method_is_baseline_by_its_name_alone_where_only_one_has_it() -> None:
    """Its options need not be repeated; with two of that name they must be."""
    assert comparison_design(BASE, "fedavg,pacfl:count=4", [0], baseline="pacfl").baseline == "pacfl:count=4"
    with pytest.raises(CoterieError, match="the baseline 'pacfl' is not compared"):
        comparison_design(BASE, "pacfl:count=2,pacfl:count=4", [0], baseline="pacfl")
