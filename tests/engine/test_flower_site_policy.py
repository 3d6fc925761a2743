"""A site and a server that asks for more than the federation has agreed on."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra: pip install 'coterie[flower]'")

from flower_driver import METHODS
from flower_requests import REQUEST, SPEC
from flower_sites import PlayedGrid, node_of, write_app

import coterie
from coterie.deploy.deployment import make_site, serve
from coterie.deploy.rehearsal import policy_of
from coterie.deploy.terms import read_site, read_terms
from coterie.engine.flower.site_record import SiteRecord
from coterie.errors import CoterieError
from coterie.messages import (
    Anchor,
    ClassCounts,
    Evaluate,
    Failure,
    Losses,
    ModelSpec,
    Moments,
    Request,
    Signature,
    Train,
    wire,
)
from coterie.models import initial

FEDERATION, NONCE = "0123456789abcdef", "0" * 32
TERMS: dict[str, Any] = {
    "algorithm": "fedavg",
    "model": {"name": "mlp", "hidden": 16},
    "training": {"lr": 0.1, "momentum": 0.0, "epochs": 1},
    "privacy": {"min_samples": 10, "min_label_samples": 10},
}
PLAN = REQUEST.verbs[0].plan  # type: ignore[attr-defined]
LINEAR = ModelSpec("mclr", SPEC.shape, SPEC.classes)


@pytest.fixture(scope="module")
def joined(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a federation that a site has joined."""
    folder = tmp_path_factory.mktemp("joined")
    write_app(folder / "app", 2, **TERMS)
    make_site(read_terms(folder / "app"), read_site(folder / "site-0" / "site.toml")).join(FEDERATION)
    return folder


@pytest.fixture
def site(joined: Path, tmp_path: Path) -> Any:
    shutil.copytree(joined, tmp_path, dirs_exist_ok=True)
    return make_site(read_terms(tmp_path / "app"), read_site(tmp_path / "site-0" / "site.toml"))


def answer(site: Any, request: Request, client: int = 0) -> Any:
    return wire.decode(site.answer(client, FEDERATION, wire.encode(request)))


def training(**changes: Any) -> Request:
    return replace(REQUEST, verbs=(Train(replace(PLAN, **changes)),))


HOSTILE: dict[str, Request] = {
    "all but one held out": training(holdout=682 / 683),
    "all but one in a batch": training(batch_size=682),
    "its own model": replace(REQUEST, verbs=(Train(PLAN, start=("own",)),)),
    "a training that only measures": replace(REQUEST, kind="evaluate"),
    "another share": training(holdout=0.1),
    "one step of one sample": training(steps=1, batch_size=1),
    "a batch of one": training(batch_size=1),
    "years": training(epochs=10_000),
    "no epoch": training(epochs=0),
    "another network": replace(REQUEST, spec=LINEAR, models={"model": initial(LINEAR, 0)}),
    "other options": replace(REQUEST, spec=replace(SPEC, options={"hidden": 17})),
    "other classes": replace(REQUEST, spec=replace(SPEC, classes=11)),
    "another seed": replace(REQUEST, seed=1),
    "a later round": replace(REQUEST, round=5),  # after the last one clients may still come
    "an impossible round": replace(REQUEST, round=-1),
    "counts": replace(REQUEST, verbs=(ClassCounts(),)),
    "moments": replace(REQUEST, verbs=(Moments(),)),
    "a signature": replace(REQUEST, verbs=(Signature(per_label=True),)),
    "losses": replace(REQUEST, verbs=(Losses(("model",), on="holdout", share=0.01),)),
    "drawn to the start, so that the last batch is what is left": training(anchors=(Anchor("model", 10.0),)),
    "pushed away from it": training(anchors=(Anchor("model", -10.0),)),
    "many shuffles in one request": replace(REQUEST, verbs=tuple(Train(PLAN, purpose=f"{i}") for i in range(9))),
    "many scores in one request": replace(REQUEST, verbs=(Evaluate(),) * 9),
    "scores of training samples": replace(REQUEST, verbs=(Evaluate(on="train"),)),
    "a verb beside": replace(REQUEST, verbs=(*REQUEST.verbs, ClassCounts())),
    "a model that is not there": replace(REQUEST, models={}),
    "a model of another shape": replace(REQUEST, models={"model": {**initial(SPEC, 0), "fc1.bias": np.zeros(3)}}),
    "a model of NaN": replace(
        REQUEST, models={"model": {**initial(SPEC, 0), "fc1.bias": np.full(16, np.nan, np.float32)}}
    ),
    "unknown tensors": replace(REQUEST, models={"model": {**initial(SPEC, 0), "x": np.zeros(3, np.float32)}}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_lies_outside_the_policy_is_refused_and_noted(site: Any, name: str) -> None:
    refused = answer(site, HOSTILE[name])
    assert isinstance(refused, Failure)
    assert refused.kind == "refused"
    assert refused.detail
    [line] = (site.state / FEDERATION / "events.jsonl").read_text().splitlines()
    event = json.loads(line)
    assert (event["kind"], event["detail"]) == ("refused", refused.detail)
    assert event["round"] == HOSTILE[name].round
    assert not list((site.state / FEDERATION).rglob("*.safetensors"))
    assert not isinstance(answer(site, REQUEST), Failure)


def test_the_attack_that_restored_all_images_gets_nothing(site: Any) -> None:
    """One request per sample, with all but one held out, by seeds of the server's choice."""
    samples = site.introduce(FEDERATION, NONCE)["samples"]
    for seed in range(5):
        for plan in (replace(PLAN, holdout=(samples - 1) / samples), replace(PLAN, steps=1, batch_size=1)):
            for spec in (SPEC, LINEAR):
                request = Request(1, seed, spec, (Train(plan),), {"model": initial(spec, 0)})
                assert isinstance(answer(site, request), Failure)


def test_a_federation_that_it_has_not_joined_gets_no_answer(site: Any) -> None:
    refused = wire.decode(site.answer(0, "f" * 16, wire.encode(REQUEST)))
    assert refused.detail == "this site has not joined that federation"
    assert not (site.state / ("f" * 16)).exists()


def test_how_many_models_are_compared_is_limited(tmp_path: Path) -> None:
    write_app(tmp_path / "app", 1, **{**TERMS, "algorithm": "ifca"})
    policy = policy_of(read_terms(tmp_path / "app"))
    models = {f"model{k}": initial(SPEC, 0) for k in range(100)}
    few, many = (replace(REQUEST, verbs=(Losses(tuple(models)[:count]),), models=models) for count in (2, 100))
    assert policy.error_in(few, 683) is None
    assert "100 models, where this federation has up to 40" in str(policy.error_in(many, 683))


@pytest.mark.parametrize(
    ("algorithm", "asked"),
    [
        ({"name": "lg-fedavg", "pretrain": 3}, replace(REQUEST, verbs=(Train(PLAN, send=("fc2.weight", "fc2.bias")),))),
        ({"name": "pacfl", "diversity": 1}, training(batch_size=683)),
    ],
)
def test_what_reveals_less_is_allowed(tmp_path: Path, algorithm: dict[str, Any], asked: Request) -> None:
    """A larger batch, and a part of the parameters: honest methods come to them in later rounds."""
    write_app(tmp_path / "app", 1, **{**TERMS, "algorithm": "fedavg"})
    text = (tmp_path / "app" / "federation.toml").read_text()
    lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in algorithm.items())
    (tmp_path / "app" / "federation.toml").write_text(text.replace('name = "fedavg"', lines))
    assert policy_of(read_terms(tmp_path / "app")).error_in(asked, 683) is None


def test_a_request_counts_once_and_only_so_many_are_answered(site: Any) -> None:
    most = site.joined_under(FEDERATION).requests
    first = answer(site, REQUEST)
    for number in range(1, most):
        other = replace(REQUEST, verbs=(replace(REQUEST.verbs[0], keep=False, purpose=f"again {number}"),))
        assert not isinstance(answer(site, other), Failure)
    again = answer(site, REQUEST)
    assert wire.encode(again) == wire.encode(first)
    one_more = replace(REQUEST, verbs=(replace(REQUEST.verbs[0], keep=False, purpose="once more"),))
    assert f"{most} different requests" in answer(site, one_more).detail


def test_rounds_that_are_over_and_other_numbers_are_refused(site: Any) -> None:
    assert not isinstance(answer(site, REQUEST), Failure)
    assert not isinstance(answer(site, replace(REQUEST, round=2)), Failure)  # a server that was killed goes on there
    assert "round 1 is over" in answer(site, replace(REQUEST, round=1)).detail
    assert "is client 0" in answer(site, replace(REQUEST, round=3), client=1).detail


def test_a_policy_stays_whatever_the_app_says_later(site: Any, tmp_path: Path) -> None:
    assert not isinstance(answer(site, REQUEST), Failure)
    text = (tmp_path / "app" / "federation.toml").read_text()
    (tmp_path / "app" / "federation.toml").write_text(
        text.replace('"fedavg"', '"flag"').replace("min_samples = 10", "min_samples = 0")
    )
    changed = make_site(read_terms(tmp_path / "app"), read_site(tmp_path / "site-0" / "site.toml"))
    assert "classcounts is not asked for" in answer(changed, replace(REQUEST, verbs=(ClassCounts(),))).detail
    assert changed.joined_under(FEDERATION).min_samples == 10
    changed.join("f" * 16)
    assert changed.joined_under("f" * 16).min_samples == 0  # of a federation that it joins now


def test_a_site_takes_part_under_the_policy_that_its_owner_names(tmp_path: Path) -> None:
    write_app(tmp_path / "app", 1, **TERMS)
    terms, file = read_terms(tmp_path / "app"), tmp_path / "site-0" / "site.toml"
    text, digest = file.read_text(), policy_of(terms).digest
    file.write_text(f'{text}policy = "{digest}"\n')
    assert make_site(terms, read_site(file)).introduce(FEDERATION, NONCE)["problem"] == ""
    file.write_text(f'{text}policy = "{"0" * 16}"\n')
    other = make_site(terms, read_site(file))
    assert "allows another policy only" in str(other.introduce(FEDERATION, NONCE)["problem"])
    with pytest.raises(CoterieError, match=f"has the policy {digest}"):
        other.answer(0, FEDERATION, wire.encode(REQUEST))


@pytest.mark.parametrize("content", ["", "{", "[]", '{"networks": 3}', '{"networks": [], "seed": "x"}', "[" * 10**5])
@pytest.mark.parametrize("file", ["policy.json", "asked.json"])
def test_a_damaged_record_is_told(site: Any, file: str, content: str) -> None:
    assert not isinstance(answer(site, REQUEST), Failure)
    (site.state / FEDERATION / file).write_text(content)
    with pytest.raises(CoterieError, match="is damaged"):
        site.answer(0, FEDERATION, wire.encode(REQUEST))


def test_a_policy_that_was_changed_is_damaged(site: Any) -> None:
    file = site.state / FEDERATION / "policy.json"
    text = file.read_text()
    for old, new in (('"min_samples": 10', '"min_samples": 0'), ('"epochs": 1', '"epochs": "1"')):
        assert old in text
        file.write_text(text.replace(old, new))
        with pytest.raises(CoterieError, match="its digest is not that of its content"):
            site.answer(0, FEDERATION, wire.encode(REQUEST))


def test_a_server_can_t_fill_the_disk_with_events(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coterie.engine.flower.site_record.LARGEST_LOG", 1000)
    record = SiteRecord(site.state / FEDERATION)
    for round in range(100):
        record.note(Failure(0, round, "refused", "x" * 50), "train")
    assert record.events_file.stat().st_size < 1300


def test_both_sides_note_what_a_site_refuses(tmp_path: Path) -> None:
    """A server that has another app than its sites: it asks for what they never agreed to."""
    write_app(tmp_path / "app", 2, **TERMS)
    write_app(tmp_path / "other", 2, **{**TERMS, "training": {**TERMS["training"], "batch_size": 1}})
    grid = PlayedGrid()
    for client in (0, 1):
        grid.nodes[client + 1] = node_of(tmp_path / "app", site=str(tmp_path / f"site-{client}" / "site.toml"))
    serve(grid, read_terms(tmp_path / "other"))
    events = {event["kind"]: event for event in coterie.Result.load(tmp_path / "run").events}
    assert "batch_size = 1 is not asked for in this federation" in events["refused"]["example"]
    assert set(events["refused"]["clients"]) == {"0", "1"}
    federation = json.loads((tmp_path / "run" / "sites.json").read_text())["federation"]
    for client in (0, 1):
        lines = (tmp_path / f"site-{client}" / "state" / federation / "events.jsonl").read_text().splitlines()
        assert "batch_size = 1" in json.loads(lines[0])["detail"]


@pytest.mark.integration
@pytest.mark.parametrize("algorithm", METHODS)
def test_with_minimum_counts_sites_of_some_size_are_not_hindered(tmp_path: Path, algorithm: str) -> None:
    privacy = {"min_samples": 10, "min_label_samples": 10}
    write_app(tmp_path / "app", 3, algorithm=algorithm, training={"rounds": 2}, privacy=privacy)
    grid = PlayedGrid()
    for client in range(3):
        grid.nodes[client + 1] = node_of(tmp_path / "app", site=str(tmp_path / f"site-{client}" / "site.toml"))
    serve(grid, read_terms(tmp_path / "app"))
    assert coterie.Result.load(tmp_path / "run").events == []
