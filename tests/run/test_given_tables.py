"""Tables and torch data sets in runs: from files or objects, resumed, predicted with, exported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import TensorDataset

import coterie
from coterie.errors import CoterieError
from coterie.run.export import export, load_exported, predict
from coterie.testing import outcome

pandas = pytest.importorskip("pandas")

RNG = np.random.default_rng(0)
AGE, JOB = RNG.integers(18, 80, 300), RNG.choice(["cook", "clerk", "nurse"], 300)
FRAME = pandas.DataFrame(
    {
        "age": AGE,
        "job": JOB,
        "town": RNG.choice(["Oslo", "Graz", "Lyon"], 300),
        "income": np.where(AGE + 20 * (JOB == "nurse") > 50, "high", "low"),
    }
)
COLUMNS = {"label": "income", "client": "town"}
FEW: dict[str, Any] = {"fraction": 1.0, "rounds": 3, "epochs": 2, "lr": 0.1, "model": "mclr"}


def numbers(result: coterie.Result) -> dict[str, Any]:
    """All but times, names and what else is known by the name of the data."""
    return {key: value for key, value in outcome(result).items() if key not in ("data", "model", "versions", "events")}


@pytest.mark.integration
def test_a_data_frame_a_csv_file_and_a_resumed_run_come_to_the_same(tmp_path: Path) -> None:
    FRAME.to_csv(tmp_path / "people.csv", index=False)
    whole = coterie.run(dataset=tmp_path / "people.csv", dataset_options=COLUMNS, **FEW)
    assert (whole.partition.partition(":")[0], len(whole.per_client["L"])) == ("by-user", 3)
    assert numbers(coterie.run(dataset=FRAME, dataset_options=COLUMNS, **FEW)) == numbers(whole)
    coterie.run(dataset=FRAME, dataset_options=COLUMNS, **{**FEW, "rounds": 1}, out=tmp_path / "run")
    with pytest.raises(CoterieError, match="give the same table again"):
        coterie.resume(tmp_path / "run", rounds=3)
    with pytest.raises(CoterieError, match="began with dataset 'table-"):
        coterie.resume(tmp_path / "run", rounds=3, dataset=FRAME[:200])
    assert numbers(coterie.resume(tmp_path / "run", rounds=3, dataset=FRAME)) == numbers(whole)


@pytest.mark.integration
def test_other_rows_go_the_way_of_those_trained_on(tmp_path: Path) -> None:
    FRAME.to_csv(tmp_path / "people.csv", index=False)
    result = coterie.run(dataset=tmp_path / "people.csv", dataset_options=COLUMNS, **FEW, out=tmp_path / "run")
    other = FRAME.iloc[::-3][["job", "income", "age"]]  # in another order, without the town
    other.to_csv(tmp_path / "other.csv", index=False)
    made = predict(tmp_path / "run", tmp_path / "other.csv")
    agree = np.mean(
        [made.class_names[label] == wanted for label, wanted in zip(made.labels, other["income"], strict=True)]
    )
    assert agree > 0.8
    assert f"{100 * agree:.2f} % agree with the labels in the file" in made.summary
    assert set(made.lines()) == {"high", "low"}
    known = other.assign(income=[made.class_names[k] for k in made.labels[:2]] + [None] * (len(other) - 2))
    known.to_csv(tmp_path / "odd.csv", index=False)
    said = f"{len(other)} predictions by the model of all clients, after round 3; 100.00 % of the 2 with a known label"
    assert said in predict(tmp_path / "run", tmp_path / "odd.csv").summary
    assert np.array_equal(coterie.predict(result, other.drop(columns="income")), made.labels)
    other.assign(job="mayor").to_csv(tmp_path / "odd.csv", index=False)
    assert "count as none" in predict(tmp_path / "run", tmp_path / "odd.csv").summary
    for damage, reason in (
        (other.drop(columns="age"), "there is no column 'age', which the network was trained on"),
        (other.assign(age="old"), "column 'age' should hold numbers, as in training, but holds texts"),
        (other.assign(age=None), "missing values: fill them in"),
    ):
        damage.to_csv(tmp_path / "odd.csv", index=False)
        with pytest.raises(CoterieError, match=reason):
            predict(tmp_path / "run", tmp_path / "odd.csv")


@pytest.mark.integration
def test_an_exported_model_says_classes_and_inputs(tmp_path: Path) -> None:
    coterie.run(dataset=FRAME, dataset_options=COLUMNS, **{**FEW, "rounds": 1}, out=tmp_path / "run")
    about = load_exported(export(tmp_path / "run")[0])[1]
    assert about["classes"] == ["high", "low"]
    assert about["inputs"] == ["age", "job=clerk", "job=cook", "job=nurse"]
    assert json.loads(json.dumps(about)) == about


@pytest.mark.integration
def test_newcomers_bring_a_table_of_the_same_columns(tmp_path: Path) -> None:
    FRAME.to_csv(tmp_path / "people.csv", index=False)
    FRAME[FRAME["job"] == "cook"].iloc[:60].assign(town="Bern").to_csv(tmp_path / "bern.csv", index=False)
    few = {**FEW, "rounds": 1, "admit": [str(tmp_path / "bern.csv")]}
    result = coterie.run(dataset=tmp_path / "people.csv", dataset_options=COLUMNS, **few)
    assert result.newcomers


@pytest.mark.integration
def test_a_torch_data_set_is_what_its_arrays_are() -> None:
    x, y = torch.randn(200, 5, generator=torch.Generator().manual_seed(0)), torch.arange(200) % 2
    x[:, 0] += 3 * y
    few = {**FEW, "clients": 4, "rounds": 1}
    of_torch = coterie.run(dataset=(TensorDataset(x[:150], y[:150]), TensorDataset(x[150:], y[150:])), **few)
    arrays = (x[:150].numpy(), y[:150].numpy(), x[150:].numpy(), y[150:].numpy())
    assert numbers(of_torch) == numbers(coterie.run(dataset=arrays, **few))
