"""Audits of runs: what is attacked is what was sent, and what is told of it is what attacks found."""

import csv
import hashlib
import io
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import coterie
from coterie.audit.auditing import Trials
from coterie.audit.findings import RunAudit
from coterie.audit.seen import sent_models, unprotected_signatures
from coterie.errors import CoterieError
from coterie.run.building import load_data, make_trainer
from coterie.run.progress import Progress
from coterie.run.trained_models import TrainedRun
from coterie.training import one_thread

SMALL: dict[str, Any] = {
    "dataset": "digits-rotated", "clients": 8, "fraction": 1.0, "rounds": 1, "epochs": 1, "model": "mlp:hidden=16",
    "lr": 0.05, "eval_every": 0, "workers": 1, "progress": False,
}  # fmt: skip
FEW: dict[str, Any] = {**SMALL, "dataset": "digits", "clients": 150, "fraction": 0.02, "algorithm": "pacfl:p=16"}
"""Clients whose nine samples lie in the span of their signatures, were it not for the noise."""
TARGETS = ["signatures", "pictures", "received models", "sent models"]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of pacfl without protection."""
    folder = tmp_path_factory.mktemp("audited") / "run"
    coterie.run(algorithm="pacfl", **SMALL, out=folder)
    return folder


def only(*runs: Path, **options: Any) -> RunAudit:
    found = coterie.audit(*runs, **options, progress=False)
    (run,) = found.runs
    return run


def content(folder: Path) -> dict[str, str]:
    return {str(f): hashlib.sha256(f.read_bytes()).hexdigest() for f in sorted(folder.rglob("*")) if f.is_file()}


@pytest.mark.integration
def test_a_run_without_protection_claims_nothing_and_is_left_as_it_is(plain: Path) -> None:
    before = content(plain)
    found = coterie.audit(plain, progress=False)
    (run,) = found.runs
    assert [row.target for row in run.findings] == TARGETS
    assert {row.shown for row in run.findings} == {"as sent"}
    assert {row.claim for row in run.findings} == {None}
    assert not found.broken
    assert run.clients == [*range(8)]
    assert content(plain) == before
    assert coterie.audit(plain, progress=False).to_json() == found.to_json()
    table = [line for line in found.report("markdown").splitlines() if line.startswith("|")]
    assert len(table) == 2 + len(TARGETS)
    assert f"{run.findings[0].auc:.3f} ± {run.findings[0].auc_error:.3f}" in table[2]


@pytest.mark.integration
def test_what_clients_would_send_is_what_they_send_in_the_next_round(plain: Path, tmp_path: Path) -> None:
    """So is what they would send without noise what clients without noise sent."""
    run = TrainedRun.open(plain)
    data, trainer = load_data(run.config), make_trainer(run.config, run.spec, Progress())
    with one_thread():
        sent = sent_models(run, data, [0, 3, 5])
    again = shutil.copytree(plain, tmp_path / "again")
    coterie.resume(again, rounds=2, progress=False)
    later = TrainedRun.open(again)
    for client, model in sent.items():
        own = later.own_model(client)
        assert own is not None
        assert all(np.array_equal(model[name], own[name]) for name in run.shapes)
    assert [*sent] == [0, 3, 5]
    told = run.algorithm.signatures()
    assert told is not None
    verb, replies = told
    _, made = unprotected_signatures(run, data, verb, [1, 2], trainer)
    assert all(np.array_equal(reply.vectors, replies[client].vectors) for client, reply in made.items())


@pytest.mark.integration
def test_noise_that_is_missing_is_noticed_and_that_which_is_there_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private = {**FEW, "dp_signature": "epsilon=1,delta=1e-5"}
    coterie.run(**private, out=tmp_path / "noised")
    sound = coterie.audit(tmp_path / "noised", clients=150, progress=False)
    sent, unprotected = (
        next(row for row in sound.runs[0].findings if (row.target, row.shown) == ("signatures", shown))
        for shown in ("as sent", "without protection")
    )
    assert abs(sent.auc - 0.5) < 4 * sent.auc_error < 0.2
    assert sent.proven is not None
    assert sent.claim is not None
    assert (sent.proven.epsilon, sent.claim.unit, sent.claim.steps) == (0, "sample", 1)
    assert unprotected.auc > 0.99
    assert not sound.broken

    monkeypatch.setattr("coterie.privacy.signatures.noised", lambda exact, sigma, randomness: np.asarray(exact))
    coterie.run(**private, out=tmp_path / "leaking")
    leak = coterie.audit(tmp_path / "leaking", clients=150, progress=False)
    (line,) = leak.broken
    assert "for signatures is disproved: ε = 1 for one sample" in line
    row = leak.runs[0].findings[0]
    assert row.auc > 0.99
    assert row.proven is not None
    assert row.proven.epsilon > 3
    rows = [*csv.DictReader(io.StringIO(leak.report("csv")))]
    assert [cell["broken"] for cell in rows] == ["True", *["False"] * (len(rows) - 1)]
    assert float(rows[0]["epsilon_at_least"]) == row.proven.epsilon
    assert "is disproved" in " ".join(leak.report().split())


@pytest.mark.integration
def test_models_that_are_private_for_clients_say_so(tmp_path: Path) -> None:
    pytest.importorskip("dp_accounting", reason="needs the extra: pip install 'coterie[private]'")
    wanted = "epsilon=8,delta=1e-3,clip=1,min_group=2"
    coterie.run(algorithm="pacfl", **SMALL, dp_training=wanted, out=tmp_path / "private")
    run = only(tmp_path / "private", clients=4)
    rows = {row.target: row for row in run.findings}
    claim = rows["received models"].claim
    assert claim is not None
    assert (claim.unit, claim.steps, claim.given_groups) == ("client", 2, True)
    assert {rows[target].claim for target in TARGETS if target != "received models"} == {None}
    assert len(run.clients) == 4
    assert "4 of 8 clients attacked" in run.title
    notes = " ".join(run.notes)
    assert "of 2 ε, and given as half of it" in notes
    assert "given who is in which group" in notes


@pytest.mark.integration
def test_models_of_private_groups_tell_of_descriptions_and_trainings_together(tmp_path: Path) -> None:
    wanted = {"dp_signature": "epsilon=8,delta=1e-5", "dp_sgd": "epsilon=4,delta=1e-5,shuffled=true"}
    result = coterie.run(algorithm="pacfl", **SMALL, **wanted, out=tmp_path / "private")
    rows = {row.target: row for row in only(tmp_path / "private", clients=4).findings if row.shown == "as sent"}
    together = (result.privacy or [])[-1]["epsilon"]
    assert together > 8
    models, signatures = rows["received models"].claim, rows["signatures"].claim
    assert models is not None
    assert signatures is not None
    assert (models.epsilon, models.unit) == (together, "sample")
    assert signatures.epsilon == pytest.approx(8.0)


@pytest.mark.integration
def test_what_a_server_cannot_see_is_not_attacked(tmp_path: Path) -> None:
    pytest.importorskip("cryptography", reason="needs the extra: pip install 'coterie[secure]'")
    coterie.run(algorithm="fedavg", **SMALL, secure=True, out=tmp_path / "secure")
    run = only(tmp_path / "secure")
    assert [row.target for row in run.findings] == ["received models"]
    assert any("no client's own model" in note for note in run.notes)
    assert any("'fedavg' asks for no signatures" in note for note in run.notes)


def test_scores_are_relative_to_those_of_their_label() -> None:
    """A label whose samples all score high would hide what tells members apart."""
    labels = np.array([0, 0, 1, 1])
    parts = [(np.array([1.1, 1.3, 9.1, 9.2]), np.array([1.0, 0.9, 8.9, 9.0]), labels)]
    made = Trials.joined(parts)
    assert made.members.min() > made.others.max()
    assert made.members - made.others == pytest.approx(parts[0][0] - parts[0][1])


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(CoterieError, match="name a run folder"):
        coterie.audit()
    with pytest.raises(CoterieError, match=r"should be at least 0\.5 and below 1"):
        coterie.audit(tmp_path, confidence=2.0)
    with pytest.raises(CoterieError, match="should be at least 1"):
        coterie.audit(tmp_path, clients=0)
    with pytest.raises(CoterieError, match="is not a run folder"):
        coterie.audit(tmp_path / "nowhere")
