"""FLIS-DC: overlapping clusters of models that agree, and which of their means a client receives."""

from dataclasses import replace

import numpy as np
import pytest
from flis_world import UNEVEN, agreement, numbers, opened, play, same

from coterie.algorithms.flis_dc import FLISDC
from coterie.clustering import Silhouette, adjusted_rand_index
from coterie.errors import CoterieError
from coterie.federation.loop import admit
from coterie.federation.served_model import CandidateModels
from coterie.messages import weighted_mean
from coterie.testing import RecordingEngine, small_run
from coterie.training import losses


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
