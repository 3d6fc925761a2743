"""PACFL by landmarks and sketches: who is in which group, what is sent, kept and refused, and who comes late."""

import numpy as np
import pytest

import coterie
from coterie.algorithms import one_shot
from coterie.clustering import landmarks as by_way
from coterie.errors import CoterieError
from coterie.messages import Signature, SignatureReply
from coterie.similarity import projection, sketch
from coterie.testing import RecordingEngine, small_federation, small_run

ROTATED = {"dataset": "digits-rotated", "clients": 24, "seed": 2}


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight landmarks in a pass, and two clients join at a time."""
    monkeypatch.setattr(by_way, "LANDMARKS", 8)
    monkeypatch.setattr(by_way, "BLOCK", 2)
    monkeypatch.setattr(one_shot, "BLOCK", 2)


@pytest.mark.integration
def test_landmarks_find_the_groups_that_all_pairs_show(few: None) -> None:
    exact = coterie.cluster(**ROTATED)
    found = coterie.cluster(**ROTATED, grouping="landmarks")
    assert exact.ari == found.ari == 1.0
    assert len(found.grouping.labels) == 24
    assert len(found.grouping.tree) == 7  # of the landmarks of the first pass
    assert found.grouping.proximity is None
    assert "of 24 clients were landmarks" in found.grouping.reason
    told, by_all = found.to_json(), exact.to_json()
    assert told["ari"] == 1.0
    assert told["groups"] == by_all["groups"]
    assert found.up_bytes < exact.up_bytes


def test_clients_send_sketches_of_the_run_s_directions_and_only_landmarks_are_kept(few: None) -> None:
    with small_federation("pacfl", clients=12, grouping="landmarks") as (run, _):
        run.fed.wrap_engine(RecordingEngine)
        run.algorithm.begin(run.fed)
        method, p = run.algorithm, run.algorithm.p
        assert method.verb.sketch == 32
        assert len(method.groups()) == 12
        assert len(method.described) == len(method.grouping.labels) < 12
        whole = run.fed.ask({c: run.fed.request(Signature(p)) for c in method.described})
        for client, told in method.described.items():
            u = whole[client].answer(SignatureReply).vectors
            expected = sketch(u, projection(len(u), 32, run.fed.seed))
            assert told.vectors.nbytes == 4 * 32 * p
            np.testing.assert_allclose(told.vectors @ told.vectors.T, expected @ expected.T, atol=1e-4)


@pytest.mark.integration
def test_late_clients_join_groups_of_landmarks(few: None) -> None:
    options = {"rounds": 3, "grouping": "landmarks", "newcomers": 0.4, "join_at": 2}
    whole = small_run("pacfl", clients=12, **options)
    assert None not in whole.groups
    assert whole.grouping["rule"] == "auto"


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("flag", {}, "method 'flag' compares every two clients, so there are no landmarks: .*, or use pacfl"),
        ("kindred", {}, "method 'kindred' compares every two clients"),
        ("fedavg", {}, "takes no options for groups: leave out scale"),
        ("pacfl", {"algorithm_options": {"assign": "recluster"}}, "assign = 'recluster' compares every two"),
        ("pacfl", {"algorithm_options": {"redescribe": 2}}, "redescribe groups all clients anew"),
        ("pacfl", {"algorithm_options": {"sketch": 2}}, "can't hold p = 3 vectors"),
        ("pacfl", {"algorithm_options": {"sketch": 32}, "threshold": 5.0}, "needs whole vectors"),
        ("pacfl", {"algorithm_options": {"sketch": 32, "budget": 5}}, "of all samples together"),
    ],
)
def test_what_does_not_go_together_is_refused(method: str, options: dict, message: str) -> None:
    with pytest.raises(CoterieError, match=message):
        small_run(method, grouping="landmarks", **options)


@pytest.mark.integration
def test_many_clients_have_landmarks_unless_told_and_too_many_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_shot, "MANY", 10)
    monkeypatch.setattr(one_shot, "MOST_EXACT", 11)
    for clients, options, passes in ((10, {}, 0), (12, {}, 1), (11, {"grouping": "exact"}, 0)):
        with small_federation("pacfl", clients=clients, **options) as (run, _):
            run.algorithm.begin(run.fed)
            assert run.algorithm.grouping.passes == passes
    for method, instead in (("pacfl", "write --grouping landmarks"), ("fielding", "use pacfl, which has landmarks")):
        with (
            small_federation(method, clients=12, grouping="exact") as (run, _),
            pytest.raises(CoterieError, match=f"every two of 12 clients can't be compared, only of 11: {instead}"),
        ):
            run.algorithm.begin(run.fed)
