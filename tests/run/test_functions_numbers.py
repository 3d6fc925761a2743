"""Numbers to predict in place of labels, from a table to a comparison page; against scikit-learn."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression
from sklearn.metrics import mean_absolute_error

import coterie
from coterie.errors import CoterieError
from coterie.run.export import export, load_exported, predict

SETTINGS = {
    "dataset_options": {"label": "price", "client": "town"},
    "metric": "mae",
    "model": "mclr",
    "fraction": 1.0,
    "epochs": 1,
    "batch_size": 1000,
    "momentum": 0.0,
    "lr": 0.2,
    "eval_every": 20,
}


def houses(rng, towns=("Graz", "Lyon", "Oslo"), rows=80):
    pd = pytest.importorskip("pandas")
    area, age = rng.uniform(30, 200, rows * len(towns)), rng.integers(0, 100, rows * len(towns))
    price = 90_000 + 900 * area - 300 * age + rng.normal(0, 4000, len(area))
    return pd.DataFrame({"town": np.repeat(towns, rows), "area": area, "age": age, "price": price.round(2)})


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("houses") / "houses.csv"
    houses(np.random.default_rng(0)).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def run(table, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    targets = {"target": ["G=20000", "C=1"], "server_share": 0.0}
    return coterie.run(dataset=str(table), **SETTINGS, **targets, rounds=60, out=str(folder))


@pytest.mark.integration
def test_full_batches_of_all_clients_come_to_least_squares(run):
    """FedAvg of one full step each is gradient descent on all rows: the error is that of ordinary least squares."""
    other = houses(np.random.default_rng(1))
    x, y = other[["area", "age"]].to_numpy(), other["price"].to_numpy()
    rows = Path(run.folder) / "new.csv"
    other.to_csv(rows, index=False)
    made = predict(Path(run.folder), rows)
    assert made.labels.dtype == np.float64
    assert len(made.lines()) == len(y)
    train = houses(np.random.default_rng(0))
    exact = LinearRegression().fit(train[["area", "age"]], train["price"]).predict(other[["area", "age"]])
    assert mean_absolute_error(exact, made.labels) < 0.05 * mean_absolute_error(y, exact)
    assert f"mean absolute error {mean_absolute_error(y, made.labels):.4g} against" in made.summary
    outputs = run.model()(torch.tensor(x, dtype=torch.float32)).detach().numpy()
    np.testing.assert_allclose(outputs, made.labels, rtol=1e-4)


@pytest.mark.integration
def test_a_run_says_errors_in_the_unit_of_the_numbers_and_less_is_better(run):
    written = json.loads((Path(run.folder) / "result.json").read_text())
    assert written["metric"] == "mae"
    assert 1000 < written["accuracy"]["G"] < 20_000
    reached = {(target["protocol"], target["value"]): target["round"] for target in written["targets"]}
    assert reached["G", 20_000.0] == 20
    assert reached["C", 1.0] is None
    errors = [row["L"] for row in run.history]
    assert run.accuracy["L_max"] == min(errors)
    assert run.accuracy["L_best"] <= min(errors) * (1 + 1e-9)
    assert f"G {run.accuracy['G']:.0f}" in repr(run)
    assert "%" not in repr(run)
    table = run.report()
    assert "MAE (less is better), mean over clients" in table
    assert "in %" not in table
    assert run.per_client["C_own"] == [None] * 3
    page = coterie.report(run.folder).read_text()
    assert "MAE L" in page
    assert not re.search(r"MAE[^\"<]*\(%\)", page)


@pytest.mark.integration
def test_an_exported_model_says_its_scale(run, tmp_path):
    file, _ = export(Path(run.folder), tmp_path / "model.safetensors")
    network, about = load_exported(file)
    mean, std = about["target"]["mean"], about["target"]["std"]
    prices = houses(np.random.default_rng(0))["price"]
    assert (mean, std) == pytest.approx((prices.mean(), prices.std(ddof=0)), rel=1e-6)
    assert "classes" not in about
    assert network(torch.zeros(1, 2)).shape == (1, 1)


@pytest.mark.integration
def test_a_comparison_calls_the_lowest_error_the_best(table, tmp_path):
    settings = {**SETTINGS, "rounds": 4, "eval_every": 0, "lr": 0.1}
    made = coterie.compare(
        algorithms=["fedavg", "fedavg:lr=0.02"],
        seeds=[0, 1],
        dataset=str(table),
        target=["C=1", "C=1e9"],
        **settings,
        out=tmp_path / "c",
    )
    counted = made.table()
    assert {reached.target: reached.n for reached in counted.rows[0].reached} == {"C=1": 0, "C=1e+09": 2}
    means = {row.label: row.accuracy["C"].mean for row in counted.rows}
    fast, slow = counted.rows[0].label, counted.rows[1].label
    assert means[fast] < means[slow]
    assert counted.leaders["C"].label == fast
    assert any(note.startswith(f"C: {fast} has the lowest mean") for note in counted.notes)
    assert counted.verdict("C").startswith(f"C, from the lowest: {fast}: ")
    assert "%" not in counted.verdict("C")
    assert counted[slow].differences["C"].mean == pytest.approx(means[slow] - means[fast])
    assert "MAE (less is better)" in made.report()
    assert "MAE (less is better)" in made.report("latex")
    page = coterie.report(tmp_path / "c").read_text()
    assert "lowest C" in page
    assert "the unit of MAE" in page
    assert not re.search(r"MAE[^\"<]*\(%\)", page)


REFUSED = [
    ({"algorithm": "flag"}, "method 'flag' uses labels"),
    ({"algorithm": "kindred", "algorithm_options": {"labels": "none"}}, "method 'kindred' uses labels"),
    ({"algorithm": "fedavg", "algorithm_options": {"labels": "both"}}, "labels=none"),
    ({"algorithm": "sub-fedavg-un"}, "uses labels"),
    ({"loss": "cross-entropy"}, "write loss='mse', or choose another metric"),
    ({"partition": "dirichlet:alpha=0.1"}, "partition 'dirichlet' uses labels.* use by-attribute, by-user, iid"),
    ({"curriculum": "score=G-pred"}, "leave out -pred"),
    ({"label_smoothing": 0.1}, "label smoothing is of the cross-entropy"),
    ({"target": ["L=-1"]}, "an error, like L=0.8"),
    ({"metric": "accuracy"}, "to predict numbers write metric='mae';"),
    ({"dataset": "digits-rotated", "dataset_options": None}, "has classes to predict and no numbers"),
    ({"trainer": "native"}, "does not know the loss 'mse'"),
    ({"algorithm": "pacfl", "algorithm_options": {"signature": "per-label"}}, "Signature uses labels"),
]


@pytest.mark.parametrize(("changed", "sentence"), REFUSED)
def test_what_goes_by_labels_is_refused_in_a_sentence(table, changed, sentence):
    settings = {"dataset": str(table), **SETTINGS, "rounds": 1, **changed}
    with pytest.raises(CoterieError, match=sentence):
        coterie.run(**{key: value for key, value in settings.items() if value is not None})


@pytest.mark.integration
def test_methods_that_choose_among_models_or_keep_layers_predict_numbers(table):
    for method in ("ifca:groups=2", "lg-fedavg", "pacfl"):
        result = coterie.run(dataset=str(table), **{**SETTINGS, "model": "mlp"}, algorithm=method, rounds=1)
        assert 0 < result.accuracy["L"] < 1e6
