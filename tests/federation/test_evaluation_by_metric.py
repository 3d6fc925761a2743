"""Runs that are measured by another metric than accuracy: what is asked, counted, named and refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import f1_score

import coterie
from coterie.client import MemoryStore
from coterie.errors import CoterieError
from coterie.messages import Evaluate, EvaluateReply, Limits, ModelSpec, Request
from coterie.testing import small_federation

ONE_LABEL: dict[str, Any] = {"metric": "auc", "dataset": "digits", "partition": "label-skew:rho=0.1", "clients": 10}
SMALL: dict[str, Any] = {"dataset": "digits", "partition": "label-skew:rho=0.3", "clients": 6, "rounds": 2, "epochs": 1}


@pytest.mark.integration
def test_every_protocol_is_of_the_metric(tmp_path: Path) -> None:
    """L, C and + are means of what scikit-learn says of each client; tables, progress and files name the metric."""
    result = coterie.run(**SMALL, metric="f1", optimiser="adam", lr=0.002, out=str(tmp_path / "run"), eval_every=1)
    stored = json.loads((tmp_path / "run" / "result.json").read_text("utf-8"))
    assert stored["metric"] == result.metric == "f1"
    assert stored["accuracy"]["C_own"] is stored["accuracy"]["C_lacking"] is None
    assert result.accuracy["L"] == pytest.approx(np.mean([v for v in result.per_client["L"] if v is not None]))
    assert "F1 in %, mean over clients." in result.report()
    assert repr(result).count("F1: L ") == 1
    assert {row["metric"] for row in result.history} == {"f1"}
    plain = coterie.run(**SMALL, optimiser="adam", lr=0.002, eval_every=1)
    assert plain.metric == "accuracy"
    assert plain.accuracy["L"] != result.accuracy["L"]
    assert all("metric" not in row for row in plain.history)
    page = Path(coterie.report(tmp_path / "run", out=tmp_path / "page.html")).read_text("utf-8")
    assert "F1 over rounds" in page
    assert "ccuracy over rounds" not in page


@pytest.mark.integration
def test_what_a_client_says_is_scikit_learns() -> None:
    with small_federation("fedavg", MemoryStore(), metric="f1") as (run, data):
        run.algorithm.begin(run.fed)
        evaluation = run.evaluator.evaluate()
        model, spec = run.fed.initial(), run.fed.spec
        expected = []
        for part in data.test_parts:
            outputs = run.fed.trainer.logits(spec, model, data.normalise(data.test.x[part]))
            expected.append(f1_score(data.test.y[part], outputs.argmax(axis=1), average="macro", zero_division=0))
    assert pytest.approx(np.mean(expected)) == evaluation.C
    assert pytest.approx(np.mean(expected)) == evaluation.L


@pytest.mark.integration
def test_clients_of_whom_the_metric_says_nothing_are_not_counted() -> None:
    with small_federation("fedavg", MemoryStore(), **ONE_LABEL) as (run, data):
        run.algorithm.begin(run.fed)
        told = [len(np.unique(data.test.y[part])) > 1 for part in data.test_parts]
        assert run.evaluator.evaluate().covered == sum(told) < len(told)


def test_a_score_is_a_share_that_was_asked_for() -> None:
    limits = Limits({}, samples=10, tests=10)
    request = Request(1, 0, ModelSpec("mlp", (4,), 3), (Evaluate(),))
    assert Evaluate(metric="f1").error_in(EvaluateReply(10, 4, 1.0, score=0.5), request, limits) is None
    assert Evaluate(metric="f1").error_in(EvaluateReply(10, 4, 1.0), request, limits) is None
    assert "0 to 1" in str(Evaluate(metric="f1").error_in(EvaluateReply(10, 4, 1.0, score=1.5), request, limits))
    assert "not asked for" in str(Evaluate().error_in(EvaluateReply(10, 4, 1.0, score=0.5), request, limits))
    assert "metric" not in Evaluate().restricted()
    assert Evaluate(metric="auc").restricted()["metric"] == "auc"


def test_one_comparison_has_one_metric() -> None:
    with pytest.raises(CoterieError, match="measured by one metric, not by accuracy and f1"):
        coterie.compare(algorithms=["fedavg", "solo:metric=f1"], seeds=[0], dataset="digits", rounds=1)
