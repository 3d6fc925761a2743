"""FLIS: models that agree on the server's samples, what follows for clients, and what the authors' code does wrong."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import coterie
from coterie.algorithms import inference
from coterie.algorithms.flis_dc import FLISDC
from coterie.algorithms.flis_hc import FLISHC
from coterie.client import MemoryStore
from coterie.clustering import Silhouette, adjusted_rand_index
from coterie.errors import CoterieError
from coterie.federation.checkpoint import load_checkpoint, save_checkpoint
from coterie.federation.loop import admit, rounds
from coterie.federation.served_model import CandidateModels
from coterie.messages import weighted_mean
from coterie.run.building import Session, completed, load_data, make_spec, make_trainer, session
from coterie.run.progress import Progress
from coterie.run.settings import settings_to_config
from coterie.similarity import inference_similarity
from coterie.testing import SMALL, RecordingEngine, goes_on_after_an_interruption, outcome, small_run
from coterie.training import losses

UNEVEN = {"dataset": "digits", "partition": "dirichlet:alpha=0.5", "clients": 10, "epochs": 3}
BOTH = pytest.mark.parametrize("method", ["flis-dc", "flis-hc"])


@contextmanager
def opened(method: str, change=lambda data: data, **settings: Any) -> Iterator[Session]:
    """A federation before its first round, whose data may be changed."""
    config = settings_to_config(None, {"algorithm": method, **SMALL, **settings})
    data = change(load_data(config))
    config = completed(config, data)
    with session(config, data, MemoryStore(), make_trainer(config, make_spec(config, data), Progress())) as run:
        run.data = data
        yield run


def play(run: Session, until: int) -> Any:
    """Play the rounds up to a number; return the method."""
    for t, _ in rounds(run.fed, run.algorithm, run.evaluator, every=0):
        if t == until:
            break
    return run.algorithm


def same(a, b) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


def agreement(run: Session, models) -> np.ndarray:
    """The share of the server's samples to which two models give the same label, counted one by one."""
    labels = [z.argmax(axis=1).tolist() for z in run.fed.logits(models, run.fed.settings.server_data.x)]
    return np.array([[sum(x == y for x, y in zip(a, b, strict=True)) / len(a) for b in labels] for a in labels])


def numbers(result: coterie.Result) -> list[dict]:
    return [{key: row[key] for key in ("round", "L", "C", "W", "loss", "discrepancy")} for row in result.history]


# ---- FLIS-DC


def test_with_beta_0_every_cluster_has_fedavgs_model_bit_for_bit() -> None:
    with opened("flis-dc", **UNEVEN, algorithm_options={"beta": 0.0}) as run, opened("fedavg", **UNEVEN) as plain:
        models, theta = play(run, 1).models, play(plain, 1).model
    assert len(models) == 5
    assert all(same(model, theta) for model in models)


def test_with_beta_0_it_goes_on_as_fedavg_does() -> None:
    dc = small_run("flis-dc", **UNEVEN, algorithm_options={"beta": 0.0})
    fedavg = small_run("fedavg", **UNEVEN)
    assert numbers(dc) == numbers(fedavg)
    assert dc.per_client == fedavg.per_client


def test_with_beta_above_1_each_client_of_the_cohort_is_alone() -> None:
    with opened("flis-dc", algorithm_options={"beta": 1.5}) as run:
        method = play(run, 2)
        returned = run.fed.training.returned
    assert method.clusters == [(client,) for client in returned]
    assert all(same(method.models[method.member[client]], params) for client, params in returned.items())
    assert method.groups() == {client: i for i, client in enumerate(returned)}


def test_similarity_is_the_share_of_samples_on_which_models_agree() -> None:
    """The paper prints ‖B_i ⊙ B_j‖ above the fraction, which has 1/√M on the diagonal."""
    with opened("flis-dc", fraction=1.0, epochs=4, algorithm_options={"beta": 0.5}) as run:
        method = play(run, 1)
        A = agreement(run, run.fed.training.returned.values())
    assert 1 - method.grouping.proximity == pytest.approx(A)
    assert (np.diagonal(method.grouping.proximity) == 0).all()
    assert len(np.unique(A)) > 5


def test_a_cluster_holds_those_who_agree_on_beta_or_more_and_its_model_is_their_mean() -> None:
    settings = {**UNEVEN, "fraction": 1.0}
    with opened("flis-dc", **settings) as run:
        play(run, 1)
        A = agreement(run, run.fed.training.returned.values())
    beta = float(np.sort(A[np.triu_indices(10, 1)])[20])  # a similarity that there is: it joins
    with opened("flis-dc", **settings, algorithm_options={"beta": beta}) as run:
        method = play(run, 1)
        returned, samples = run.fed.training.returned, run.fed.samples
    assert method.clusters == [tuple(np.flatnonzero(row >= beta)) for row in A]
    assert 1 < len(set(method.clusters)) <= 10
    for cluster, model in zip(method.clusters, method.models, strict=True):
        mean = weighted_mean([returned[j] for j in cluster], [samples[j] for j in cluster])
        assert same(model, mean)


def test_clusters_overlap_and_clients_of_equal_ones_share_a_group() -> None:
    method = FLISDC()
    method.clusters = [(2, 5), (2, 5, 7), (5, 7), (9, 11), (9, 11)]
    method.models = [{}] * 5
    method.member = {2: 0, 5: 1, 7: 2, 9: 3, 11: 4, 30: 4}  # 30 is a newcomer
    assert method.groups() == {2: 0, 5: 1, 7: 2, 9: 3, 11: 3, 30: 3}
    assert method.memberships() == {2: [0, 1], 5: [0, 1, 2], 7: [1, 2], 9: [3, 4], 11: [3, 4]}
    method.cohort = 5
    assert method.transfers == 6


@pytest.mark.parametrize("select_on", ["train", "holdout", "test"])
def test_a_client_trains_the_model_that_is_best_for_it(select_on: str) -> None:
    """By its loss on training samples, or on held-out ones that it never trains; or by test accuracy, if asked."""
    options = {"beta": 1.5, "select_on": select_on}
    with opened("flis-dc", fraction=1.0, algorithm_options=options, lr=1e-12) as run:
        method, data = play(run, 1), run.data
        method.models = [run.fed.initial(k) for k in range(1, 5)]  # any models: a step of 1e-12 leaves them as they are
        run.fed.start_round(2)
        method.round(run.fed, run.fed.cohort(2))
        for client in range(data.clients):
            _, held = run.fed.engine._clients[client]._data[0].training_part(0.1, 0, client)
            x, y = {
                "train": (data.train.x[data.train_parts[client]], data.train.y[data.train_parts[client]]),
                "holdout": (data.train.x[held], data.train.y[held]),
                "test": (data.test.x[data.test_parts[client]], data.test.y[data.test_parts[client]]),
            }[select_on]
            outputs = run.fed.logits([run.fed.initial(k) for k in range(1, 5)], data.normalise(x))
            scores = [losses(o, y).mean() if select_on != "test" else -(o.argmax(1) == y).sum() for o in outputs]
            trained = run.fed.training.returned[client]
            best = run.fed.initial(int(np.argmin(scores)) + 1)
            assert all(trained[name] == pytest.approx(best[name], abs=1e-6) for name in best)
            assert len(held) > 0
    assert method.plan(run.fed).holdout == (0.1 if select_on == "holdout" else 0)


def test_everyone_receives_all_models_and_the_papers_formula_counts_them() -> None:
    result = small_run("flis-dc", clients=8, rounds=6)
    d = 64 * 16 + 16 + 16 * 10 + 10
    assert result.traffic["paper_megabits"] == pytest.approx(6 * 0.5 * (4 + 1) * 32 * d / 1e6)
    down = result.traffic["by_kind"]["train"]["down"]
    assert down == pytest.approx((1 + 5 * 4) * 4 * 4 * d, rel=0.15)  # θ⁰, then 4 models, to 4 clients
    with opened("flis-dc", clients=8) as run:
        method = run.algorithm
        method.begin(run.fed)
        assert method.model_for(0) is method.start
        assert method.transfers == 5, "by the size of cohorts, whoever answered last"
        play(run, 1)
        assert isinstance(method.model_for(0), CandidateModels)
        assert len(method.model_for(0).models) == 4


def test_if_nobody_answers_the_models_stay() -> None:
    with opened("flis-dc") as run:
        method = play(run, 1)
        before = method.save()
        method.round(run.fed, [])
        assert method.save() == before


def test_beta_is_found_by_the_rule_in_every_round() -> None:
    settings = {"dataset": "digits-permuted", "clients": 20, "fraction": 1.0, "epochs": 10, "model_options": {}}
    with opened("flis-dc", **settings) as run:
        method = play(run, 1)
        A = agreement(run, run.fed.training.returned.values())
        groups = [method.groups()[client] for client in range(20)]
        assert adjusted_rand_index(groups, run.data.true_groups.tolist()) > 0.6
        expected = Silhouette("average").group(1 - A)
        assert method.threshold(method.grouping) == pytest.approx(1 - expected.threshold)
        assert method.grouping.summary()["rule"] == "silhouette"
        assert method.grouping.unit == "disagreement"
    with opened("flis-dc", rule="gap") as run:
        assert play(run, 2).grouping.rule == "gap"


def test_no_structure_means_fedavg_among_the_cohort() -> None:
    """Also where some pairs are farther apart than the highest merge of the tree, which is a mean of distances."""
    apart = np.array([[0.0, 0.2, 0.3, 0.2], [0.2, 0.0, 0.2, 0.3], [0.3, 0.2, 0.0, 0.2], [0.2, 0.3, 0.2, 0.0]])
    one = Silhouette("average").group(apart)
    assert (one.n_groups, FLISDC().threshold(one)) == (1, 0)
    assert FLISDC(beta=0.8).threshold(one) == 0.8

    def alike(data):
        return replace(data, train_parts=[data.train_parts[0]] * data.clients)

    settings = {"dataset": "digits", "batch_size": 1000, "epochs": 5}
    with opened("flis-dc", alike, **settings) as run, opened("fedavg", alike, **settings) as plain:
        method, theta = play(run, 3), play(plain, 3).model
    assert "below 0.25: one group" in method.grouping.reason
    assert all(same(model, theta) for model in method.models)
    assert set(method.groups().values()) == {0}


def test_newcomers_take_the_best_of_all_current_models() -> None:
    settings = {"clients": 8, "newcomers": 0.25, "newcomer_draw": "last", "join_at": 2, "epochs": 10}
    with opened("flis-dc", **settings, algorithm_options={"beta": 1.5}) as run:
        method = play(run, 1)
        run.fed.start_round(2)
        models = list(method.models)
        joined = admit(run.fed, method)
        assert sorted(joined) == [6, 7]
        for client in joined:
            part = run.data.train_parts[client]
            x, y = run.data.normalise(run.data.train.x[part]), run.data.train.y[part]
            best = int(np.argmin([losses(z, y).mean() for z in run.fed.logits(models, x)]))
            assert method.member[client] == best
            assert client not in method.memberships()
        assert method.models == models
        assert run.fed.ledger.by_kind["losses"]["down"] > 2 * len(models) * 4 * 1210


def test_newcomers_that_come_before_there_are_clusters_receive_the_start() -> None:
    with opened("flis-dc", newcomers=0.34, join_at=1) as run:
        run.algorithm.begin(run.fed)
        run.fed.start_round(1)
        joined = admit(run.fed, run.algorithm)
        assert len(joined) == 2
        assert not set(joined) & set(run.algorithm.groups())


# ---- FLIS-HC


def test_hc_with_everything_merged_is_fedavg_bit_for_bit() -> None:
    hc = small_run("flis-hc", **UNEVEN, algorithm_options={"beta": 0.0})
    fedavg = small_run("fedavg", **UNEVEN)
    assert hc.groups == [0] * 10
    assert numbers(hc) == numbers(fedavg)
    assert [row["G"] for row in hc.history] == [row["G"] for row in fedavg.history]
    assert hc.per_client == fedavg.per_client


def test_hc_with_nothing_merged_every_client_goes_on_from_its_own_model() -> None:
    result = small_run("flis-hc", algorithm_options={"beta": 1.5})
    assert result.groups == list(range(6))
    assert result.per_client["L"] == result.per_client["C"]


def test_hc_starts_anew_after_a_warm_up_that_only_the_ledger_remembers() -> None:
    with opened("flis-hc") as run:
        run.algorithm.begin(run.fed)
        method, start = run.algorithm, run.fed.initial()
        assert all(same(model, start) for model in method.models)
        assert all(run.fed.engine._clients[c]._store.load(c, before=9) == {} for c in range(6))
        assert {described.shape for described in method.described.values()} == {(len(run.data.server),)}
        warm_up = run.fed.ledger.by_kind["warm-up"]
        assert warm_up["up"] > 6 * 4 * 1210
        assert warm_up["down"] < 6 * 1000  # every client can make θ⁰ itself
        assert method.transfers == 2


def test_hc_is_hierarchical_and_uses_its_threshold() -> None:
    """The released script thresholds rows, at 5: it joins who agrees on 0.96, whatever β is, and groups overlap."""
    a = np.zeros(10, np.int64)
    b, c, d = a.copy(), a.copy(), np.full(10, 5)
    b[:2], c[:2], c[2:4] = 1, 1, 2  # a and b agree on 0.8, b and c too, a and c on 0.6
    with opened("flis-hc") as run:
        for beta, labels in ((0.8, [0, 0, 1, 2]), (0.7, [0, 0, 0, 1]), (0.9, [0, 1, 2, 3])):
            method = FLISHC(beta=beta)
            formed = method.form(run.fed, method.distances([a, b, c, d]))
            assert (formed.labels.tolist(), formed.linkage, formed.rule) == (labels, "weighted", "degrees")
            assert formed.threshold == pytest.approx(1 - beta)
        assert formed.heights == pytest.approx([0.2, 0.3, 1.0])
        script = FLISHC(beta=0.8, hc_mode="row-threshold")
        script.described = {3: a, 4: b, 5: c, 6: d}
        assert script.neighbours() == {3: (3, 4), 4: (3, 4, 5), 5: (4, 5), 6: (6,)}
        for beta in (None, 1.5):
            script = FLISHC(beta=beta, hc_mode="row-threshold")
            script.described = {3: a, 4: b, 5: a, 6: d}
            assert script.neighbours() == {3: (3, 5), 4: (4,), 5: (3, 5), 6: (6,)}


def test_hc_clients_describe_themselves_from_the_common_start_whenever_they_do() -> None:
    settings = {"fraction": 1.0, "epochs": 5}
    with opened("flis-hc", **settings) as run, opened("flis-hc", **settings) as other:
        trained, fresh = play(run, 3), other.algorithm
        other.fed.start_round(3)
        assert np.array_equal(trained.describe(run.fed, [2])[2], fresh.describe(other.fed, [2])[2])


@pytest.mark.integration
@pytest.mark.parametrize("seed", [0, 1])
def test_hc_finds_the_true_groups_once_models_have_learnt_something(seed: int) -> None:
    settings = {"algorithm": "flis-hc", "seed": seed, "epochs": 10}
    permuted = coterie.cluster(dataset="digits-permuted", **settings)
    assert (permuted.ari, permuted.grouping.rule, permuted.grouping.unit) == (1.0, "silhouette", "disagreement")
    assert coterie.cluster(dataset="digits-permuted", groups=4, **settings).ari == 1
    soft = coterie.cluster(dataset="digits-rotated", lr=0.05, algorithm_options={"soft": True}, **settings)
    assert soft.ari == 1


def test_hc_newcomers_join_groups_that_stay_as_they_are() -> None:
    settings = {"dataset": "digits-permuted", "clients": 20, "epochs": 10, "model_options": {}, "newcomers": 0.25}
    result = small_run("flis-hc", **settings, newcomer_draw="last")
    assert result.ari == 1
    assert result.newcomers["clients"] == [15, 16, 17, 18, 19]
    assert result.newcomers["groups"] == [result.groups[c % 4] for c in range(15, 20)]
    assert result.newcomers["founded"] == []
    assert result.newcomers["accuracy"]["L"] > 0.6


@pytest.mark.integration
def test_hc_who_misses_the_warm_up_is_placed_when_it_takes_part() -> None:
    settings = {"dataset": "digits-permuted", "clients": 20, "epochs": 10, "model_options": {}, "rounds": 8}
    result = small_run("flis-hc", **settings, drop=0.3, fraction=1.0)
    assert None not in result.groups
    assert result.ari == 1
    dropped = sum(event["count"] for event in result.events if event["kind"] == "dropped")
    assert dropped > 20


def test_the_released_script_averages_the_last_models_of_neighbours() -> None:
    options = {"hc_mode": "row-threshold", "beta": 0.5}
    with opened("flis-hc", **UNEVEN, algorithm_options=options) as run:
        method, last = run.algorithm, {}
        for t, _ in rounds(run.fed, method, run.evaluator, every=0):
            last |= run.fed.training.returned
            if t == 3:
                break
        near, samples, start = method.neighbours(), run.fed.samples, run.fed.initial()
        assert {len(members) for members in near.values()} - {1, 10}
        assert 0 < len(last) < 10
        for client in range(10):
            models = [last.get(j, start) for j in near[client]]
            assert same(method.model_for(client), weighted_mean(models, [samples[j] for j in near[client]]))
        equal = {(i, j) for i in near for j in near if near[i] == near[j]}
        groups = method.groups()
        assert equal == {(i, j) for i in groups for j in groups if groups[i] == groups[j]}
        assert method.grouping.summary()["rule"] == "row-threshold"


@pytest.mark.integration
def test_the_released_script_with_everyone_in_every_round_and_beta_0_is_fedavg() -> None:
    settings = {**UNEVEN, "fraction": 1.0}
    script = small_run("flis-hc", **settings, algorithm_options={"hc_mode": "row-threshold", "beta": 0.0})
    fedavg = small_run("fedavg", **settings)
    assert numbers(script) == numbers(fedavg)
    assert script.groups == [0] * 10


def test_the_released_script_gives_newcomers_their_neighbours_mean() -> None:
    options = {"hc_mode": "row-threshold", "beta": 0.0}
    with opened("flis-hc", newcomers=0.34, join_at=2, algorithm_options=options) as run:
        method = play(run, 2)
        newcomer = min(run.fed.joined)
        old = next(client for client in range(6) if client not in run.fed.joined)
        assert method.model_for(newcomer) is method.model_for(old)
        assert not same(method.model_for(newcomer), method.start)


# ---- both


@pytest.mark.integration
@BOTH
def test_the_test_samples_change_nothing_unless_asked(method: str) -> None:
    """The authors' server compares models on test samples, and DC's clients choose by them."""

    def models(options: dict[str, Any], other_tests: bool) -> list:
        def change(data):
            labels = (data.test.y + 3) % 10 if other_tests else data.test.y
            shown = data.test.x[:, :, ::-1] if other_tests else data.test.x
            return replace(data, common_test=True, test=replace(data.test, x=shown.copy(), y=labels))

        with opened(method, change, epochs=5, fraction=1.0, algorithm_options=options) as run:
            return play(run, 3).models

    def differ(**options: Any) -> bool:
        a, b = models(options, False), models(options, True)
        return len(a) != len(b) or not all(same(x, y) for x, y in zip(a, b, strict=True))

    assert not differ()
    assert not differ(server_data="noise")
    assert differ(server_data="test", beta=0.45)
    if method == "flis-dc":
        assert not differ(select_on="holdout", beta=0.5)
        assert differ(select_on="test", beta=0.5)


@BOTH
def test_the_servers_samples_may_be_of_the_users_own_file_or_another_data_set(method: str, tmp_path: Path) -> None:
    """Colour images of 10 x 6 become the digits' grey 8 x 8 in shades up to 16; models are compared on them only."""
    rng = np.random.default_rng(0)
    x, file = rng.integers(0, 256, (30, 10, 6, 3), np.uint8), tmp_path / "mine.npz"
    np.savez(file, x_train=x, y_train=np.arange(30) % 3)
    with opened(method, fraction=1.0, algorithm_options={"server_data": str(file)}) as run:
        algorithm = play(run, 1)
        grey = x.astype(np.float64).mean(axis=3).astype(np.uint8)[:, 1:9]
        shades = np.round(np.pad(grey, ((0, 0), (0, 0), (1, 1)))[:, None] * np.float32(16 / 255))
        expected = run.data.normalise(shades.astype(np.uint8))
        assert algorithm.samples(run.fed) == pytest.approx(expected, abs=1e-5)
        assert algorithm.grouping.proximity is not None
        models = [*run.fed.training.returned.values()]
        labels = [z.argmax(axis=1) for z in run.fed.logits(models, algorithm.samples(run.fed))]
        if method == "flis-dc":
            A = [[float((a == b).mean()) for b in labels] for a in labels]
            assert 1 - algorithm.grouping.proximity == pytest.approx(np.array(A))
    with opened(method, algorithm_options={"server_data": "digits"}, server_share=0.0) as run:
        assert run.algorithm.samples(run.fed).shape[1:] == (1, 8, 8)
        assert len(run.data.server) == 0
    for name, error in (("nois", "unknown data set 'nois'"), ("mix-4", "comes divided|is looked for|no 'usps")):
        with pytest.raises(CoterieError, match=error):
            small_run(method, algorithm_options={"server_data": name})
    np.savez(file, x_train=np.zeros((30, 5), np.float32), y_train=np.arange(30) % 3)
    with pytest.raises(CoterieError, match=r"has inputs of shape \(5,\), but clients have \(1, 8, 8\)"):
        small_run(method, algorithm_options={"server_data": str(file)})


def test_dc_clients_may_be_given_the_model_with_the_least_loss_on_the_servers_samples() -> None:
    """L_k(D_k^server; θ_j) of the text: D_k^server are the server's samples of labels that client k has."""
    settings = {**UNEVEN, "epochs": 5, "newcomers": 0.2, "join_at": 3}
    with opened("flis-dc", **settings, algorithm_options={"select_on": "server", "beta": 0.6}) as run:
        method = play(run, 2)
        x, y = run.fed.settings.server_data.x, run.fed.settings.server_data.y
        means = {}
        for client in range(10):
            own = np.isin(y, run.data.train.y[run.data.train_parts[client]])
            means[client] = [losses(z, y[own]).mean() for z in run.fed.logits(method.models, x[own])]
        best = {client: int(np.argmin(loss)) for client, loss in means.items()}
        assert len({best[client] for client in run.fed.clients}) > 1
        assert all(method.model_for(client) is method.models[best[client]] for client in run.fed.clients)
        models = method.models
        run.fed.start_round(3)
        engine = run.fed.wrap_engine(RecordingEngine)
        method.round(run.fed, cohort := run.fed.cohort(3))
        (requests,) = engine.exchanges
        assert all(same(requests[client].models["model"], models[best[client]]) for client in cohort)
        joined = admit(run.fed, method)
        assert len(joined) == 2
        assert all(method.member[client] == method.chosen(client) for client in joined)
        assert method.transfers == 2.0
    with pytest.raises(CoterieError, match="select_on = 'server' needs the labels of the server's samples"):
        small_run("flis-dc", algorithm_options={"select_on": "server", "server_data": "noise"})


@BOTH
def test_where_the_servers_samples_come_from(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def common(data):
        return replace(data, common_test=True)

    with opened(method) as run:
        assert run.algorithm.samples(run.fed) is run.fed.settings.server_data.x
    with opened(method, algorithm_options={"server_data": "noise"}) as run:
        noise = run.algorithm.samples(run.fed)
        assert noise.shape == run.fed.settings.server_data.x.shape
        assert abs(noise.mean()) < 0.05
        assert noise.std() == pytest.approx(1, abs=0.05)
    with opened(method, algorithm_options={"server_data": "noise"}) as run:
        assert np.array_equal(run.algorithm.samples(run.fed), noise)
    monkeypatch.setattr(inference, "SAMPLES", 52)
    with opened(method, common, algorithm_options={"server_data": "test"}) as run:
        test = run.data.test
        order = np.argsort(test.y, kind="stable")
        chosen = np.concatenate([order[test.y[order] == label][-5:] for label in range(10)])
        assert np.array_equal(run.algorithm.samples(run.fed), run.data.normalise(test.x[chosen]))


@BOTH
def test_mistakes_say_what_to_write_before_any_client_works(method: str) -> None:
    def empty(data):
        return replace(data, server=data.server[:0])

    def refused(text: str, change=lambda data: data, **settings: Any) -> None:
        with opened(method, change, **settings) as run:
            with pytest.raises(CoterieError, match=text):
                run.algorithm.begin(run.fed)
            assert run.fed.ledger.by_kind == {}

    refused("each has its own: use 'reserved'", algorithm_options={"server_data": "test"})
    refused("use server_data = 'noise'", empty)
    with pytest.raises(CoterieError, match=r"beta = 0.4 in .* rule 'gap' in .*: leave one of them out"):
        small_run(method, algorithm_options={"beta": 0.4}, rule="gap", dataset="there-is-none.npz")
    if method == "flis-hc":
        with pytest.raises(CoterieError, match="leave out the keys of"):
            small_run(method, algorithm_options={"hc_mode": "row-threshold"}, groups=4)
        with pytest.raises(CoterieError, match="use components or count or gap or silhouette or spectral, or its"):
            small_run(method, threshold=0.5)
    else:
        with pytest.raises(CoterieError, match="can't form groups by rule 'count': use gap or silhouette"):
            small_run(method, groups=4)
    with pytest.raises(CoterieError, match=r"beta = -0\.1 is not valid"):
        small_run(method, algorithm_options={"beta": -0.1})
    with opened(method, empty, algorithm_options={"server_data": "noise"}) as run:
        assert run.algorithm.samples(run.fed).shape == (2500, 1, 8, 8)


@BOTH
@pytest.mark.parametrize("soft", [False, True])
def test_models_that_predict_one_class_only_or_overflow_are_comparable(method: str, soft: bool) -> None:
    with opened(method, algorithm_options={"soft": soft}) as run:
        method, zero = run.algorithm, {name: np.zeros_like(value) for name, value in run.fed.initial().items()}
        bias = list(zero)[-1]
        models = [{**zero, bias: np.float32(50 * np.eye(10)[label])} for label in (3, 3, 7)]
        models.append({name: np.full_like(value, 3e38) for name, value in zero.items()})
        with np.errstate(over="ignore", invalid="ignore"):
            B = method.predictions(run.fed, models)
        A = inference_similarity(B)
    assert A[:3, :3] == pytest.approx(np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1]]))
    assert np.isfinite(A).all()


def test_soft_predictions_are_probabilities() -> None:
    with opened("flis-dc", algorithm_options={"soft": True}) as run:
        model = run.fed.initial()
        z = run.fed.logits([model], run.fed.settings.server_data.x)[0].astype(np.float64)
        expected = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
        assert run.algorithm.predictions(run.fed, [model])[0] == pytest.approx(expected, abs=1e-6)


@BOTH
@pytest.mark.parametrize("soft", [False, True])
def test_the_servers_samples_need_not_cover_all_classes(method: str, soft: bool) -> None:
    def few(data):
        return replace(data, server=data.server[data.server.y < 2])

    with opened(method, few, epochs=5, fraction=1.0, algorithm_options={"soft": soft}) as run:
        assert len(play(run, 3).models) >= 1
        assert run.evaluator.evaluate().L > 0.3


@pytest.mark.integration
@BOTH
def test_it_goes_on_when_a_third_of_the_clients_is_away(method: str) -> None:
    result = small_run(method, dataset="digits", clients=10, rounds=12, epochs=5, drop=0.3)
    assert result.accuracy["L"] > 0.6
    assert {event["kind"] for event in result.events} == {"dropped"}


@BOTH
def test_one_client_is_a_cluster(method: str) -> None:
    result = small_run(method, dataset="digits", clients=1)
    assert result.groups == [0]
    assert result.grouping["reason"] == "There is one client."


@pytest.mark.integration
@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("flis-dc", {"select_on": "holdout", "soft": True, "beta": 0.9}),
        ("flis-dc", {"select_on": "server", "beta": 0.6}),
        ("flis-hc", {"server_data": "noise", "soft": True}),
        ("flis-hc", {"hc_mode": "row-threshold", "beta": 0.6}),
    ],
)
def test_a_resumed_run_ends_as_if_nothing_had_happened(method: str, options: dict[str, Any], tmp_path: Path) -> None:
    goes_on_after_an_interruption(method, tmp_path, algorithm_options=options)


@BOTH
def test_what_is_saved_is_all_there_is(method: str, tmp_path: Path) -> None:
    with opened(method, epochs=5, algorithm_options={"beta": 0.5}) as run, opened(method) as other:
        old, new = play(run, 2), other.algorithm
        save_checkpoint(tmp_path / "state", old.save())
        new.load(load_checkpoint(tmp_path / "state"))
        assert new.groups() == old.groups()
        assert new.grouping.summary() == old.grouping.summary()
        assert all(same(a, b) for a, b in zip(new.models, old.models, strict=True))
        if method == "flis-dc":
            assert new.memberships() == old.memberships()


@BOTH
def test_results_tell_how_groups_were_found(method: str, tmp_path: Path) -> None:
    result = small_run(method, out=str(tmp_path / "run"))
    assert result.grouping["rule"] == "silhouette"
    assert result.grouping["unit"] == "disagreement"
    assert outcome(coterie.Result.load(tmp_path / "run")) == outcome(result)
