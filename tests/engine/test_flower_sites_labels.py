"""Sites that lack labels: they make and add their offsets themselves, and tell of their labels what they may."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra: pip install 'coterie[flower]'")

from flower_sites import PlayedGrid, hand_over_secrets, node_of, write_app, write_site

import coterie
from coterie.client import Client
from coterie.data import FederatedData, load
from coterie.deploy.deployment import serve
from coterie.deploy.rehearsal import policy_of
from coterie.deploy.terms import read_terms
from coterie.messages import (
    ClassCounts,
    ClassCountsReply,
    Evaluate,
    Losses,
    ModelSpec,
    Moments,
    MomentsReply,
    Reply,
    Request,
    Train,
    TrainReply,
)
from coterie.testing import outcome

pytestmark = pytest.mark.integration
PARTITION = ("label-skew", {"rho": 0.6})
Passed = list[tuple[Request, Reply]]


@pytest.fixture
def passed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Passed]:
    """What sites are asked and answer."""
    seen: Passed = []
    answer = Client.answer

    def noted(client: Client, request: Request) -> Any:
        made = answer(client, request)
        if isinstance(made, Reply) and client.protection.entropy is not None:  # not one of a rehearsal
            seen.append((request, made))
        return made

    with monkeypatch.context() as patch:
        patch.setattr(Client, "answer", noted)
        yield seen


def deployed(folder: Path, data: FederatedData, algorithm: str, **settings: Any) -> coterie.Result:
    """Serve a federation of sites with these data for two rounds."""
    for client in range(data.clients):
        write_site(folder / f"site-{client}", f"site-{client}", data, client)
    write_app(folder / "app", data.clients, algorithm=algorithm, training={"rounds": 2}, **settings)
    grid = PlayedGrid()
    for client in range(data.clients):
        grid.nodes[client + 1] = node_of(folder / "app", site=str(folder / f"site-{client}" / "site.toml"))
    serve(grid, read_terms(folder / "app"))
    return coterie.Result.load(folder / "run")


def test_offsets_are_made_at_the_sites_and_no_counts_leave(
    tmp_path: Path, passed: Passed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sites come to the numbers of a simulation, in which clients have the same labels."""
    data = load("digits", {}, PARTITION, 3)
    result = deployed(tmp_path, data, "fedavg:labels=both")
    answers = [answer for _, reply in passed for answer in reply.answers]
    assert not any(isinstance(answer, ClassCountsReply | MomentsReply) for answer in answers)
    asked = [verb for request, _ in passed for verb in request.verbs]
    assert {verb.plan.label_offset for verb in asked if isinstance(verb, Train)} == {"prior"}
    assert {verb.label_offset for verb in asked if isinstance(verb, Evaluate) and verb.label_offset} == {"lacking"}
    policy = policy_of(read_terms(tmp_path / "app"))
    assert {verb["verb"] for verb in policy.verbs} == {"train", "evaluate"}
    for verb in (ClassCounts(), Moments()):
        request, _ = passed[0]
        assert policy.error_in(Request(1, request.seed, request.spec, (verb,), {}), 100) is not None
    hand_over_secrets(monkeypatch, tmp_path / "run", tmp_path)
    simulated = coterie.run(
        algorithm="fedavg:labels=both", dataset="digits", partition="label-skew:rho=0.6", clients=3, fraction=1.0,
        rounds=2, epochs=1, model="mlp",
    )  # fmt: skip
    there, here = outcome(result), outcome(simulated)
    assert there["accuracy"].pop("C_lacking") is None
    assert here["accuracy"].pop("C_lacking") is not None
    assert there["accuracy"] == here["accuracy"]
    assert there["per_client"]["C_own"] == here["per_client"]["C_own"]


def test_labels_with_few_samples_are_not_told_of_and_rows_by_label_do_without(tmp_path: Path, passed: Passed) -> None:
    """One site has ten of no label: it describes nothing, and trains with the others all the same."""
    data = load("digits", {}, PARTITION, 3)
    few = np.concatenate([data.train_parts[2][data.train.y[data.train_parts[2]] == label][:9] for label in range(10)])
    data = FederatedData(**{**vars(data), "train_parts": [*data.train_parts[:2], few]})
    result = deployed(tmp_path, data, "kindred", privacy={"min_samples": 10, "min_label_samples": 10})
    told = [(reply.client, answer) for _, reply in passed for answer in reply.answers]
    counts = [(client, a.counts) for client, a in told if isinstance(a, ClassCountsReply | MomentsReply)]
    assert {client for client, _ in counts} == {0, 1}
    for client, counted in counts:
        true = np.bincount(data.train.y[data.train_parts[client]], minlength=10)
        assert counted.tolist() == np.where(true >= 10, true, 0).tolist()
    assert {client for client, answer in told if isinstance(answer, TrainReply)} == {0, 1, 2}
    withheld = next(event for event in result.events if event["kind"] == "withheld")
    assert "2" in withheld["clients"]
    assert None not in result.groups
    assert result.accuracy["C"] is not None


def test_the_policy_of_kindred_has_the_question_to_sites_that_cannot_be_compared(tmp_path: Path) -> None:
    """They compare the models of groups, of which there may be more than in the rehearsal, on training samples only."""
    write_app(tmp_path / "app", 3, algorithm="kindred", training={"rounds": 2})
    policy = policy_of(read_terms(tmp_path / "app"))
    spec = ModelSpec(**policy.networks[0])

    def refused(models: int, **changed: Any) -> str | None:
        verb = Losses(tuple(f"model{k}" for k in range(models)), **changed)
        return policy.error_in(Request(2, policy.seed, spec, (verb,), {}), 100)

    assert refused(2) is None
    assert refused(12) is None
    assert refused(50) is not None
    assert refused(2, on="test") is not None
    assert any("and 3, for all sites, if some join after training" in line for line in policy.lines())
