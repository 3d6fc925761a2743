"""L, C, G and + with label offsets, and C by clients' labels, against direct computation from the definitions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_evaluation import images

from coterie.client import MemoryStore
from coterie.federation.evaluation import Evaluation
from coterie.federation.loop import rounds
from coterie.messages import EVALUATION, LABEL_EVALUATION, Evaluate, Request, Train
from coterie.models import initial
from coterie.run.building import Session
from coterie.testing import RecordingEngine, small_federation, small_run
from coterie.training.label_offsets import label_offset

pytestmark = pytest.mark.integration


def settings(tmp_path: Path, common: bool, **options: Any) -> dict[str, Any]:
    """Clients with some of the labels, with a test set for all or without."""
    data = {"dataset": images(tmp_path / "images.npz")} if common else {"dataset": "digits"}
    return {**data, "partition": "label-skew:rho=0.3", "algorithm_options": options}


def run_through(run: Session) -> list[Evaluation]:
    return [e for _, e in rounds(run.fed, run.algorithm, run.evaluator, every=2) if e is not None]


@pytest.mark.parametrize("common", [False, True])
@pytest.mark.parametrize("serving", ["lacking", "prior"])
def test_offsets_are_added_under_l_and_c_and_not_under_g(tmp_path: Path, common: bool, serving: Any) -> None:
    store = MemoryStore()
    with small_federation("fedavg", store, **settings(tmp_path, common, labels="both", serving=serving)) as (run, data):
        first, last = run_through(run)
        fed, model = run.fed, run.algorithm.model_for(0)
        start = initial(fed.spec, fed.seed)
        outputs = {}
        for client in range(data.clients):
            own = store.load(client, before=99).get("model", start)
            for name, params in (("L", own), ("C", model)):
                outputs[name, client] = fed.trainer.logits(fed.spec, params, data.normalise(data.test.x))  # type: ignore[arg-type]
        right, own_frequencies, lacking = {}, [], []
        for client, (train, part) in enumerate(zip(data.train_parts, data.test_parts, strict=True)):
            n = np.bincount(data.train.y[train], minlength=data.classes)
            offset = label_offset(n, serving)
            assert (n == 0).sum() > 0
            for name in ("L", "C"):
                correct = (outputs[name, client] + offset).argmax(axis=1) == data.test.y
                right[name, client] = correct[part].mean()
            tested = [y for y in range(data.classes) if n[y] and (data.test.y[part] == y).any()]
            of_label = [correct[part][data.test.y[part] == y].mean() for y in tested]
            own_frequencies.append(np.average(of_label, weights=n[tested]))
            lacking.append(correct[n[data.test.y] == 0].mean())
        for name in ("L", "C"):
            by_hand = np.mean([right[name, client] for client in range(data.clients)])
            assert getattr(last, name) == pytest.approx(by_hand), name
        assert pytest.approx((outputs["C", 0].argmax(axis=1) == data.test.y).mean()) == last.G
        assert last.C_own == pytest.approx(np.mean(own_frequencies))
        assert last.C_lacking == pytest.approx(np.mean(lacking))
        assert (first.C_own, first.C_lacking) == (None, None)  # measured at the end only
        assert last.C != last.G


@pytest.mark.parametrize("method", ["fedavg", "per-fedavg", "ifca", "lg-fedavg", "pacfl"])
@pytest.mark.parametrize("labels", ["none", "trained", "served", "both"])
def test_which_questions_have_an_offset(tmp_path: Path, method: str, labels: str) -> None:
    """Trainings and scores have it, where the method says so; what orders or chooses models has none."""
    trained = "prior" if labels in ("trained", "both") else None
    served = "lacking" if labels in ("served", "both") else None
    with small_federation(method, **settings(tmp_path, True, labels=labels)) as (run, _):
        engine = run.fed.wrap_engine(RecordingEngine)
        run_through(run)
        run.evaluator.fine_tune()
    asked: list[Request] = [request for exchange in engine.exchanges for request in exchange.values()]
    plans = {verb.plan.label_offset for request in asked for verb in request.verbs if isinstance(verb, Train)}
    scored = [verb for r in asked if r.measures for verb in r.verbs if isinstance(verb, Evaluate)]
    assert plans == {trained}
    assert {verb.label_offset for verb in scored} == {served}
    by_label = [verb for r in asked if r.kind == LABEL_EVALUATION for verb in r.verbs if isinstance(verb, Evaluate)]
    assert by_label
    assert all(verb.by_label for verb in by_label)
    assert not any(
        verb.by_label for r in asked if r.kind == EVALUATION for verb in r.verbs if hasattr(verb, "by_label")
    )


def test_what_is_measured_by_label_is_no_traffic_and_no_new_model() -> None:
    with small_federation("fedavg", dataset="digits", partition="label-skew:rho=0.3", drop=1.0) as (run, _):
        last = run_through(run)[-1]
        assert last.C_own is not None  # measurements reach clients that never answer otherwise
        assert last.C_lacking is not None
        assert run.fed.ledger.total("up") == 0
        assert {*run.fed.ledger.by_kind} == {"train", EVALUATION, LABEL_EVALUATION}
        spent = dict(run.fed.ledger.by_kind[LABEL_EVALUATION])
        run.evaluator.evaluate()  # of what is known already nobody is asked again
        assert run.fed.ledger.by_kind[LABEL_EVALUATION] == spent


def test_who_has_all_labels_lacks_none_and_who_has_no_model_has_no_c() -> None:
    everyone = small_run("fedavg", dataset="digits", clients=3)
    assert everyone.accuracy["C_lacking"] is None
    assert everyone.per_client["C_lacking"] == [None] * 3
    assert everyone.accuracy["C_own"] == pytest.approx(np.mean(everyone.per_client["C_own"]))  # type: ignore[arg-type]
    alone = small_run("solo", dataset="digits", partition="label-skew:rho=0.3")
    assert (alone.accuracy["C_own"], alone.accuracy["C_lacking"]) == (None, None)


def test_offsets_that_say_nothing_change_nothing() -> None:
    """Clients that have all labels equally often serve what they served without offsets."""
    plain, served = (
        small_run("fedavg", dataset="digits", clients=2, algorithm_options={"labels": labels})
        for labels in ("none", "served")
    )
    assert plain.accuracy == served.accuracy
