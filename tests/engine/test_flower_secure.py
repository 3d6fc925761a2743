"""Secure sums of deployed federations: real apps, messages and files, on a network that is played in this process."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra: pip install 'coterie[flower]'")
pytest.importorskip("cryptography")

from flower_driver import arrays
from flower_sites import PlayedGrid, hand_over_secrets, node_of, silent, write_app

import coterie
from coterie.deploy.deployment import serve
from coterie.deploy.terms import read_terms
from coterie.engine.flower.app import WIRE
from coterie.federation import secure_sum
from coterie.federation.checkpoint import load_checkpoint
from coterie.federation.federation import Federation
from coterie.federation.group_sum import GroupSum
from coterie.federation.shared_secrets import SharedSecrets
from coterie.messages import ClientId, Shares, wire

SITES = 4
SETTINGS: dict[str, Any] = {"rounds": 3, "fraction": 1.0, "epochs": 1}


class Killed(BaseException):
    """The end of a server, which nothing catches."""


def steps_of(message: Any) -> tuple[int, tuple[str, ...]]:
    """Return the round of a request, and what it asks for."""
    records = message.content.array_records
    if WIRE not in records:
        return 0, ()
    request = wire.decode(records[WIRE][WIRE].data)
    return request.round, tuple(type(verb).__name__ for verb in request.verbs)  # type: ignore[union-attr]


def federation(folder: Path, hidden: bool = False) -> PlayedGrid:
    """Write a federation of fedavg, or of ifca with hidden choices, and return the network of its sites."""
    secure = {"secure": True, "secure_min": 3, "max_weight": None, "max_samples": None, "secure_hidden": hidden}
    write_app(
        folder / "app", SITES, algorithm="ifca" if hidden else "fedavg", training=SETTINGS,
        engine={"deadline": 60.0 if hidden else 0.3}, evaluation={"every": 0}, aggregation=secure,
        grouping={"groups": 2 if hidden else None},
    )  # fmt: skip
    terms = folder / "app" / "federation.toml"
    terms.write_text(terms.read_text().replace('name = "ifca"', 'name = "ifca"\nweights = "equal"'))
    grid = PlayedGrid()
    for client in range(SITES):
        grid.nodes[client + 1] = node_of(folder / "app", site=str(folder / f"site-{client}" / "site.toml"))
    return grid


@pytest.mark.integration
def test_a_server_killed_in_each_step_comes_to_the_numbers_of_a_simulation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time when half of the sites have been asked; from the second round on there are three steps."""
    grid = federation(tmp_path)
    steps_of_rounds = {1: ("Keys", "Shares", "MaskedTrain", "Agree", "Unmask"), 2: ("MaskedTrain", "Agree", "Unmask")}
    moments = [(round, step) for round, steps in steps_of_rounds.items() for step in steps]
    asked: list[tuple[int, tuple[str, ...]]] = []

    def before(message: Any) -> None:
        round, steps = steps_of(message)
        asked.append((round, steps))
        if moments and steps and (round, steps[0]) == moments[0] and asked.count((round, steps)) % SITES == 2:
            moments.pop(0)
            raise Killed

    grid.before = before
    while moments:
        with pytest.raises(Killed):
            serve(grid, read_terms(tmp_path / "app"))
    serve(grid, read_terms(tmp_path / "app"))
    assert {steps for round, steps in asked if round == 3 and "Evaluate" not in steps} == {
        ("MaskedTrain",),
        ("Agree",),
        ("Unmask",),
    }
    deployed = coterie.Result.load(tmp_path / "run")
    assert not deployed.events, deployed.events
    hand_over_secrets(monkeypatch, tmp_path / "run", tmp_path)
    simulated = coterie.run(
        algorithm="fedavg", dataset="digits-rotated", clients=SITES, model="mlp", secure=True, secure_min=3,
        out=str(tmp_path / "simulated"), **SETTINGS,
    )  # fmt: skip
    assert deployed.per_client == simulated.per_client
    models = [arrays(load_checkpoint(tmp_path / run / "checkpoint.safetensors")) for run in ("run", "simulated")]
    for name, array in models[0].items():
        np.testing.assert_allclose(array, models[1][name], atol=1e-6, err_msg=name)


@pytest.mark.integration
@pytest.mark.parametrize("step", ["Keys", "Shares", "MaskedTrain", "Agree", "Unmask"])
def test_a_site_that_is_gone_in_a_step_spoils_no_sum(tmp_path: Path, step: str) -> None:
    """In round 1, and for good: the others go on, first in five exchanges, then in three."""
    grid = federation(tmp_path)
    asked: list[tuple[int, tuple[str, ...]]] = []

    def before(message: Any) -> None:
        round, steps = steps_of(message)
        asked.append((round, steps))
        if round == 1 and step in steps[:1]:
            grid.nodes[SITES] = silent

    grid.before = before
    serve(grid, read_terms(tmp_path / "app"))
    result = coterie.Result.load(tmp_path / "run")
    kinds = {event["kind"] for event in result.events}
    assert kinds == {"late"}
    assert all([*map(int, event["clients"])] == [SITES - 1] for event in result.events)
    assert result.accuracy["C"] is not None
    assert any(steps == ("Unmask",) and round == 3 for round, steps in asked)


@pytest.mark.integration
def test_a_server_that_puts_in_keys_of_its_own_gets_no_shares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = SharedSecrets.question

    def question(self: SharedSecrets, client: ClientId, ahead: bool = False) -> Shares:
        asked = honest(self, client, ahead)
        if asked.signers is None:  # in the rehearsal at a site, whose clients have no identities
            return asked
        assert len({*asked.signers}) == SITES - 1
        return replace(asked, masks=("09" + 31 * "00", *asked.masks[1:]))

    monkeypatch.setattr(SharedSecrets, "question", question)
    grid = federation(tmp_path)
    serve(grid, read_terms(tmp_path / "app"))
    events = {event["kind"]: event for event in coterie.Result.load(tmp_path / "run").events}
    assert events["withheld"]["count"] == SITES * SETTINGS["rounds"]
    assert all("not signed for this sum" in detail for detail in events["withheld"]["details"])
    assert "0 clients of a group have shared secrets" in events["too few"]["example"]


@pytest.mark.integration
def test_without_two_thirds_that_agree_nothing_is_unmasked(tmp_path: Path) -> None:
    """Two of four sites are gone then: the others have too few signatures, and in later rounds they are too few."""
    grid = federation(tmp_path)

    def before(message: Any) -> None:
        round, steps = steps_of(message)
        if round == 1 and "Agree" in steps:
            grid.nodes |= dict.fromkeys((SITES - 1, SITES), silent)

    grid.before = before
    serve(grid, read_terms(tmp_path / "app"))
    events = {event["kind"]: event for event in coterie.Result.load(tmp_path / "run").events}
    assert events["withheld"]["count"] == 2
    assert all("signed by 2 clients, where 3 must have" in detail for detail in events["withheld"]["details"])
    assert "0 of the 3 shares" in events["too few"]["example"]


@pytest.mark.integration
@pytest.mark.parametrize("skipped", [True, False])
def test_a_server_without_the_agreement_of_sites_unmasks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, skipped: bool
) -> None:
    """Whether it does not ask them, or puts other signatures in the place of theirs."""
    honest = secure_sum.agree

    def agree(fed: Federation, groups: Sequence[GroupSum]) -> None:
        if not skipped:
            honest(fed, groups)
        for group in groups:
            group.signatures = dict.fromkeys(group.survivors, "00" * 64)

    monkeypatch.setattr(secure_sum, "agree", agree)
    grid = federation(tmp_path)
    serve(grid, read_terms(tmp_path / "app"))
    events = {event["kind"]: event for event in coterie.Result.load(tmp_path / "run").events}
    assert events["withheld"]["count"] == SITES * SETTINGS["rounds"]
    why = "has not signed that these are the survivors" if skipped else "signed by 1 client, where 3 must have signed"
    assert all(why in detail for detail in events["withheld"]["details"])
    assert "0 of the 3 shares" in events["too few"]["example"]


@pytest.mark.integration
def test_choices_of_sites_are_hidden(tmp_path: Path) -> None:
    """Each site's policy allows losses that it keeps to itself, and no others; models are trained all the same."""
    grid = federation(tmp_path, hidden=True)
    asked: set[tuple[str, ...]] = set()
    grid.before = lambda message: asked.add(steps_of(message)[1])
    serve(grid, read_terms(tmp_path / "app"))
    result = coterie.Result.load(tmp_path / "run")
    assert not result.events, result.events
    assert result.groups is None
    assert ("Losses", "MaskedTrain", "Keys") in asked
    assert ("Losses", "Keys") not in asked
    policies = [*tmp_path.glob("site-*/state/*/policy.json")]
    assert len(policies) == SITES
    assert all('"hidden": true' in policy.read_text() for policy in policies)
