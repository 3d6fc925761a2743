"""Deployed sites that measure mean and std of their inputs: what they agree on, and what they refuse later."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra: pip install 'coterie[flower]'")

from flower_requests import REQUEST, impatient
from flower_sites import PlayedGrid, node_of, write_app

from coterie.deploy.deployment import make_site, serve
from coterie.deploy.terms import read_site, read_terms
from coterie.engine.flower.app import WIRE
from coterie.errors import CoterieError
from coterie.federation.checkpoint import load_checkpoint
from coterie.messages import Evaluate, Failure, InputMoments, Reply, Request, Standardisation, wire
from coterie.run.trained_models import find_model

__all__ = ["impatient"]

MEASURED = {"mean": None, "std": None}
TERMS: dict[str, Any] = {
    "algorithm": "fedavg",
    "model": {"name": "mlp", "hidden": 16},
    "training": {"rounds": 3, "lr": 0.1, "momentum": 0.0, "epochs": 1},
    "samples": MEASURED,
}
FEDERATION, NONCE = "0123456789abcdef", "0" * 32
AGREED, OTHER = Standardisation((0.3,), (0.4,)), Standardisation((0.3,), (0.5,))


class Killed(Exception):
    """The end of a server."""


def requests_in(grid: PlayedGrid) -> list[tuple[int, Request]]:
    found = []
    for message in grid.messages.values():
        if WIRE in message.content.array_records:
            request = wire.decode(message.content.array_records[WIRE][WIRE].data)
            assert isinstance(request, Request)
            found.append((message.metadata.dst_node_id, request))
    return found


@pytest.mark.integration
def test_a_federation_agrees_once_and_keeps_to_it(tmp_path: Path) -> None:
    """After a kill too, where a site has come in between; exported models have the same numbers."""
    data = write_app(tmp_path / "app", 4, **{**TERMS, "server": {"min_clients": 3}})
    nodes = {c: node_of(tmp_path / "app", site=str(tmp_path / f"site-{c}" / "site.toml")) for c in range(4)}
    grid = PlayedGrid()
    grid.nodes = {client + 1: nodes[client] for client in range(3)}

    def kill(message: Any) -> None:
        if any(request.round == 2 for _, request in requests_in(grid)):
            raise Killed

    grid.before = kill
    with pytest.raises(Killed):
        serve(grid, read_terms(tmp_path / "app"))
    first = load_checkpoint(tmp_path / "run" / "checkpoint.safetensors")["normalise"]
    grid.before = lambda message: None
    grid.nodes[4] = nodes[3]
    serve(grid, read_terms(tmp_path / "app"))
    assert load_checkpoint(tmp_path / "run" / "checkpoint.safetensors")["normalise"] == first
    here = np.concatenate([data.train.x[data.train_parts[client]] for client in range(3)]) / data.normalise.scale
    np.testing.assert_allclose([*first["mean"], *first["std"]], [here.mean(), here.std()], rtol=1e-6)
    asked = requests_in(grid)
    assert sum(isinstance(request.verbs[0], InputMoments) for _, request in asked) == 3
    given = {request.standardisation for node, request in asked if node == 4}
    assert given == {Standardisation(first["mean"], first["std"])}
    normalisation = find_model(tmp_path / "run", client=0).run.normalisation
    assert normalisation is not None
    assert (normalisation.scale, normalisation.mean) == (16.0, first["mean"])


@pytest.fixture
def site(tmp_path: Path) -> Any:
    write_app(tmp_path / "app", 2, **TERMS)
    here = make_site(read_terms(tmp_path / "app"), read_site(tmp_path / "site-0" / "site.toml"))
    here.introduce(FEDERATION, NONCE)
    return here


def answer(site: Any, request: Request) -> Reply | Failure:
    told = wire.decode(site.answer(0, FEDERATION, wire.encode(request)))
    assert isinstance(told, Reply | Failure)
    return told


def refused(site: Any, request: Request) -> str:
    told = answer(site, request)
    assert isinstance(told, Failure)
    assert told.kind == "refused"
    return told.detail


MEASURE = replace(REQUEST, round=0, verbs=(InputMoments(1, 255 / 16),), models={}, kind="inputmoments")
TRAIN = replace(REQUEST, round=1, standardisation=AGREED)


def test_a_site_keeps_to_what_was_agreed_on(site: Any) -> None:
    assert isinstance(answer(site, MEASURE), Reply)
    assert "a request without mean and std" in refused(site, replace(TRAIN, standardisation=None))
    assert "std from 0 to 0" in refused(site, replace(TRAIN, standardisation=Standardisation((0.0,), (0.0,))))
    assert "up to 4e+09 times std" in refused(site, replace(TRAIN, standardisation=Standardisation((-2e9,), (0.5,))))
    assert "measured before they are agreed on" in refused(site, replace(MEASURE, standardisation=AGREED))
    assert "mean has 2 numbers" in refused(site, replace(TRAIN, standardisation=Standardisation((0, 0), (1.0,))))
    assert isinstance(answer(site, TRAIN), Reply)
    assert refused(site, replace(TRAIN, standardisation=OTHER)).endswith("not those that were agreed on")
    assert refused(site, replace(TRAIN, round=2, standardisation=OTHER)).endswith("not those that were agreed on")
    assert isinstance(answer(site, replace(TRAIN, round=2)), Reply)


def test_a_server_that_was_killed_in_round_0_may_come_to_others(site: Any) -> None:
    early = replace(TRAIN, round=0)
    assert isinstance(answer(site, early), Reply)
    assert isinstance(answer(site, MEASURE), Reply)
    assert isinstance(answer(site, replace(early, standardisation=OTHER)), Reply)
    assert refused(site, TRAIN).endswith("not those that were agreed on")
    assert isinstance(answer(site, replace(TRAIN, standardisation=OTHER)), Reply)


def test_numbers_in_the_terms_take_the_place_of_all_others(tmp_path: Path) -> None:
    write_app(tmp_path / "app", 2, **{**TERMS, "samples": {}})
    here = make_site(read_terms(tmp_path / "app"), read_site(tmp_path / "site-0" / "site.toml"))
    here.introduce(FEDERATION, NONCE)
    assert "fixed in this federation" in refused(here, TRAIN)
    assert "inputmoments is not asked for" in refused(here, MEASURE)
    assert isinstance(answer(here, replace(TRAIN, standardisation=None)), Reply)


def test_a_part_of_the_numbers_is_none(tmp_path: Path) -> None:
    write_app(tmp_path / "app", 2, **{**TERMS, "samples": {"std": None}})
    with pytest.raises(CoterieError, match="give both mean and std, or neither: then sites measure them"):
        read_terms(tmp_path / "app")


def test_a_small_site_does_not_tell(tmp_path: Path) -> None:
    write_app(tmp_path / "app", 2, **{**TERMS, "privacy": {"min_samples": 10**6}})
    here = make_site(read_terms(tmp_path / "app"), read_site(tmp_path / "site-0" / "site.toml"))
    here.introduce(FEDERATION, NONCE)
    told = answer(here, MEASURE)
    assert isinstance(told, Failure)
    assert told.kind == "withheld"
    assert isinstance(answer(here, replace(TRAIN, verbs=(Evaluate(),), kind="evaluate")), Failure)
