"""A site with a privacy limit: what it tells, in all federations together, and across restarts."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra: pip install 'coterie[flower]'")

from flower_sites import write_app

from coterie.deploy.deployment import make_site
from coterie.deploy.preview import check
from coterie.deploy.rehearsal import policy_of
from coterie.deploy.terms import read_site, read_terms
from coterie.errors import CoterieError
from coterie.messages import (
    Failure,
    Guarantee,
    Plan,
    Reply,
    Request,
    Schedule,
    Signature,
    SignatureReply,
    Train,
    TrainReply,
    wire,
)
from coterie.models import initial
from coterie.run.building import make_plan

pytestmark = pytest.mark.integration
FEDERATION, OTHER, NONCE = "0123456789abcdef", "f" * 16, "0" * 32


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_app(
        tmp_path / "app", 2, algorithm="pacfl:redescribe=1", model={"name": "mlp", "hidden": 16},
        training={"rounds": 9}, privacy={"min_samples": 10, "dp_signature": "epsilon=1"},
    )  # fmt: skip
    with (tmp_path / "site-0" / "site.toml").open("a") as file:
        file.write('limit = "epsilon=1.5,delta=1e-5"\n')
    policy = policy_of(read_terms(tmp_path / "app"))
    monkeypatch.setattr("coterie.deploy.deployment.policy_of", lambda terms: policy)
    return tmp_path


def site_of(folder: Path) -> Any:
    """As Flower makes it, anew for each message."""
    return make_site(read_terms(folder / "app"), read_site(folder / "site-0" / "site.toml"))


def request(folder: Path, round: int = 0) -> Request:
    verb = Signature(3, halves=6, private=Guarantee(1.0, 1e-5), features=(1, 8, 8))
    return Request(round, 0, read_terms(folder / "app").spec, (verb,))


def asked(folder: Path, round: int = 0, federation: str = FEDERATION) -> bytes:
    answer: bytes = site_of(folder).answer(0, federation, wire.encode(request(folder, round)))
    return answer


def test_two_answers_in_all_federations_and_no_third(folder: Path) -> None:
    """Two of ε = 1 cost 1.44; the ledger is the site's, not a federation's."""
    for federation in (FEDERATION, OTHER):
        said = site_of(folder).introduce(federation, NONCE)
        assert (said["samples"], said["tests"], said["problem"]) == (1, 1, "")
    first = asked(folder)
    assert isinstance(wire.decode(first), Reply)
    assert isinstance(wire.decode(asked(folder, 1, OTHER)), Reply)
    refused = wire.decode(asked(folder, 2))
    assert isinstance(refused, Failure)
    assert (refused.kind, "beyond its limit of 1.5" in refused.detail) == ("withheld", True)
    assert asked(folder, 1) == asked(folder, 1, OTHER)
    events = (folder / "site-0" / "state" / FEDERATION / "events.jsonl").read_text()
    assert "beyond its limit" in events


def test_the_same_bytes_also_after_a_sample_came(folder: Path) -> None:
    """And nobody hears that it came."""
    site_of(folder).introduce(FEDERATION, NONCE)
    first, file = asked(folder), folder / "site-0" / "data.npz"
    with np.load(file) as arrays:
        parts = {name: arrays[name][:-1] for name in arrays}
    np.savez(file, **parts)
    assert site_of(folder).introduce(FEDERATION, NONCE)["problem"] == ""
    assert asked(folder) == first
    told = wire.decode(asked(folder, 1))
    assert isinstance(told, Reply)
    assert not np.allclose(told.answer(SignatureReply).vectors, wire.decode(first).answer(SignatureReply).vectors)  # type: ignore[union-attr]


def test_what_a_site_is_told_before_it_joins(folder: Path) -> None:
    lines = "\n".join(check(folder / "app", folder / "site-0" / "site.toml"))
    assert "no number of samples" in lines
    assert "held back: train is answered without noise" in lines
    assert "held back: evaluate is answered without noise" in lines
    assert "private (epsilon 1.0, delta 1e-05)" in lines


def test_a_limit_is_not_the_federations_to_set(folder: Path) -> None:
    file = folder / "app" / "federation.toml"
    file.write_text(file.read_text().replace("[privacy]", '[privacy]\nlimit = "epsilon=1"'))
    with pytest.raises(CoterieError, match=r"limit is each site's own: write limit into its site.toml"):
        read_terms(folder / "app")


def test_a_site_trains_by_private_steps_within_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its policy is of the noise for all rounds; it tells no number of samples, and beyond its limit nothing more."""
    write_app(
        tmp_path / "app", 2, algorithm="fedavg", model={"name": "mlp", "hidden": 16},
        training={"rounds": 9, "epochs": 1}, privacy={"dp_sgd": "epsilon=3,shuffled=true"},
    )  # fmt: skip
    with (tmp_path / "site-0" / "site.toml").open("a") as file:
        file.write('limit = "epsilon=1.5,delta=1e-5"\n')
    terms = read_terms(tmp_path / "app")
    policy = policy_of(terms)
    monkeypatch.setattr("coterie.deploy.deployment.policy_of", lambda terms: policy)
    plan, model = make_plan(terms.config), initial(terms.spec, 0)

    def ask(plan: Plan, round: int) -> Any:
        request = Request(round, 0, terms.spec, (Train(plan),), {"model": model})
        return wire.decode(site_of(tmp_path).answer(0, FEDERATION, wire.encode(request)))

    said = site_of(tmp_path).introduce(FEDERATION, NONCE)
    assert (said["samples"], said["problem"]) == (1, "")
    answers = {round: ask(plan, round) for round in range(1, 5)}
    replies = [answer for answer in answers.values() if isinstance(answer, Reply)]
    assert [reply.round for reply in replies] == [1, 2]  # of nine at ε = 3 two cost less than 1.5, and three more
    assert "beyond its limit of 1.5" in answers[3].detail
    assert {(reply.answer(TrainReply).samples, reply.answer(TrainReply).loss) for reply in replies} == {(1, 0.0)}
    assert plan.private is not None
    weaker = ask(replace(plan, private=replace(plan.private, noise=plan.private.noise / 2)), 5)
    assert isinstance(weaker, Failure)
    assert weaker.kind == "refused"
    lines = "\n".join(check(tmp_path / "app", tmp_path / "site-0" / "site.toml"))
    assert f"noise {plan.private.noise}" in lines


def test_what_is_withheld_tells_nothing_of_the_number_of_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch of all samples is of this federation, one of fewer is not: a site with a limit does not say which."""
    write_app(tmp_path / "app", 2, algorithm="pacfl:diversity=1", model={"name": "mclr"}, training={"rounds": 1})
    with (tmp_path / "site-0" / "site.toml").open("a") as file:
        file.write('limit = "epsilon=1.5,delta=1e-5"\n')
    terms = read_terms(tmp_path / "app")
    policy = policy_of(terms)
    monkeypatch.setattr("coterie.deploy.deployment.policy_of", lambda terms: policy)
    site = site_of(tmp_path)
    assert site.introduce(FEDERATION, NONCE)["problem"] == ""
    samples, answers = len(site.data().train), []
    for size in (samples - 1, samples):
        verb = Train(Plan(Schedule(1.0), steps=1, batch_size=size), keep=False, purpose="gradient")
        asked = Request(1, 0, terms.spec, (verb,), {"model": initial(terms.spec, 0)})
        answers.append(wire.decode(site.answer(0, FEDERATION, wire.encode(asked))))
    assert answers[0] == answers[1]
    assert isinstance(answers[0], Failure)
    assert answers[0].kind == "withheld"
