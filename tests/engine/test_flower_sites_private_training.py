"""Private training of deployed federations: the server's noise is its secret, and what was published stays so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra: pip install 'coterie[flower]'")
pytest.importorskip("dp_accounting", reason="needs the extra: pip install 'coterie[private]'")

from flower_sites import PlayedGrid, node_of, write_app
from test_flower_sites import asked

import coterie
from coterie.deploy.deployment import serve
from coterie.deploy.rehearsal import policy_of
from coterie.deploy.terms import read_terms
from coterie.errors import CoterieError
from coterie.federation.checkpoint import load_checkpoint
from coterie.messages import Request

pytestmark = pytest.mark.integration
SITES = 4
NOISY = "epsilon=8,delta=1e-3,clip=0.5,min_group=2"
NONE = dict.fromkeys(("rule", "max_samples", "max_weight"))


class Federation:
    """Four sites of the digits; what passes is noted."""

    def __init__(self, folder: Path, wanted: str, fraction: float = 1.0, **settings: Any) -> None:
        self.folder, self.app, self.grid = folder, folder / "app", PlayedGrid()
        settings = {
            "algorithm": "fedavg",
            "aggregation": NONE,
            "evaluation": {"every": 1},
            "engine": {"deadline": 0.5},
            **settings,
        }
        write_app(
            self.app, SITES, training={"rounds": 3, "fraction": fraction}, privacy={"dp_training": wanted}, **settings
        )
        for client in range(SITES):
            self.grid.nodes[client + 1] = node_of(self.app, site=str(folder / f"site-{client}" / "site.toml"))
        self.requests: list[tuple[int, Request]] = []
        self.grid.before = self.note

    def note(self, message: Any) -> None:
        if (request := asked(message)) is not None:
            self.requests.append((message.metadata.dst_node_id, request))

    def mute(self, node: int, round: int | None = None) -> None:
        """Let a site not answer when it is to train, in all rounds or in one."""
        answers = self.grid.nodes[node]

        def muted(message: Any) -> Any:
            request = asked(message)
            silent = request is not None and request.kind == "train" and round in (None, request.round)
            return None if silent else answers(message)

        self.grid.nodes[node] = muted

    def go(self) -> coterie.Result:
        serve(self.grid, read_terms(self.app))
        return coterie.Result.load(self.folder / "run")

    def received(self, round: int, kind: str) -> list[np.ndarray]:
        """Models that sites were sent, as vectors."""
        wanted = [r for _, r in self.requests if r.round == round and r.kind == kind]
        return [np.concatenate([p.ravel() for p in m.values()]) for r in wanted for m in r.models.values()]


def test_coins_and_noise_are_the_servers_secret_and_nobody_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two federations of one seed, and of the same sites, train other clients and have other noise."""
    runs = []
    for name in ("one", "two"):
        federation = Federation(tmp_path / name, NOISY, fraction=0.5)
        federation.mute(2)
        result = federation.go()
        runs.append((federation, result))
        entry = result.privacy[0]
        assert (entry["unit"], entry["simulated"], entry["releases"]) == ("client", False, 3)
        assert 7.5 < entry["epsilon"] <= 8
        assert all(not event["clients"] for event in result.events)
        assert "client 1" not in capsys.readouterr().out
        assert "by_client" not in json.dumps(result.traffic)
    trained = [{(node, r.round) for node, r in fed.requests if r.kind == "train"} for fed, _ in runs]
    assert trained[0] != trained[1]
    secrets = [(fed.folder / "run" / "secret").read_text() for fed, _ in runs]
    assert secrets[0] != secrets[1]
    assert all(secrets[0].encode() not in path.read_bytes() for path in (tmp_path / "one" / "run").rglob("*.json*"))


@pytest.mark.parametrize("algorithm", ["fedavg", "ifca:groups=2"])
def test_a_round_that_was_published_and_asked_again_publishes_the_same(tmp_path: Path, algorithm: str) -> None:
    """The server is killed when sites have its models and no checkpoint has; then a site does not answer."""
    wanted = f"{NOISY[:-1]}1" if algorithm != "fedavg" else NOISY
    federation = Federation(tmp_path, wanted.replace("clip=0.5", "clip=adaptive,first_clip=0.5"), algorithm=algorithm)

    def killed(message: Any) -> None:
        request = asked(message)
        federation.note(message)
        if request is not None and (request.round, request.kind) == (2, "evaluate"):
            raise ConnectionError("killed")

    federation.grid.before = killed
    with pytest.raises(ConnectionError):
        federation.go()
    published = federation.received(2, "evaluate")
    assert load_checkpoint(tmp_path / "run" / "checkpoint.safetensors")["round"] == 1
    federation.requests.clear()
    federation.grid.before = federation.note
    federation.mute(3, round=2)
    result = federation.go()
    assert any(event["kind"] == "late" for event in result.events)
    again = federation.received(2, "evaluate")
    assert len(published) >= 1
    for model in published:
        assert any(np.array_equal(model, other) for other in again)
    assert result.rounds == 3


def test_sites_add_local_noise_by_their_secrets_and_tell_no_number_of_samples(tmp_path: Path) -> None:
    """Under a policy that holds the noise of all rounds, as the server asks for it."""
    federation = Federation(tmp_path, f"{NOISY},noise=local")
    policy = policy_of(read_terms(federation.app))
    train = next(verb for verb in policy.verbs if verb["verb"] == "train")
    result = federation.go()
    plans = {verb.plan.hidden for _, request in federation.requests for verb in request.verbs if hasattr(verb, "plan")}
    (hidden,) = {plan for plan in plans if plan is not None}
    assert f"{hidden.noise:g}" in json.dumps(train, default=str)
    assert not [event for event in result.events if event["kind"] in ("refused", "withheld")]
    sites = json.loads((tmp_path / "run" / "sites.json").read_text())["sites"]
    assert {site["samples"] for site in sites.values()} == {1}
    entry = result.privacy[0]
    assert (entry["unit"], entry["simulated"]) == ("client", False)
    assert "numbers of training samples" not in entry["not_covered"]


def test_what_can_not_be_accounted_for_is_refused_before_anybody_waits(tmp_path: Path) -> None:
    for settings, said in (
        ({"aggregation": {**NONE, "secure": True}}, "leave out secure"),
        ({"aggregation": {**NONE, "rule": "median"}}, "takes the place of"),
        ({"engine": {"max_strikes": 3}}, "min_replies or max_strikes"),
        ({"algorithm": "cfl"}, "looks at single updates"),
    ):
        app = tmp_path / said.replace(" ", "-")
        Federation(app, NOISY, **settings)
        with pytest.raises(CoterieError, match=said):
            read_terms(app / "app")
