"""What FedGroup and FedGrouProx train and average in a round, against FedAvg and against loops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fedgroup_world import begun, flat, same

from coterie.algorithms import ALGORITHMS
from coterie.algorithms.fedgroup import FedGroup
from coterie.messages import Train, TrainReply, weighted_mean
from coterie.testing import small_run

# The auxiliary model, and pre-training that goes on


@pytest.mark.parametrize("dataset", ["digits", "digits-rotated"])
def test_the_auxiliary_model_is_the_mean_of_all_groups_and_measured_under_g(dataset: str) -> None:
    """Digits have one test set for all; of turned ones each client has its own part, so that clients are asked."""
    with (
        begun(groups=3, dataset=dataset, partition=None, auxiliary=True) as run,
        begun(groups=3, dataset=dataset) as no,
    ):
        for t in (1, 2):
            run.play(t)
            no.play(t)
            model = run.method.global_model()
            assert model is not None
            mean = np.mean([flat(group) for group in run.method.models], axis=0)
            assert np.allclose(flat(model), mean, atol=1e-6)
            measured, without = run.evaluator.evaluate(), no.evaluator.evaluate()
            parts = run.data.test_parts if run.data.true_groups is not None else [np.arange(len(run.data.test))]
            used = np.concatenate(parts)
            x, y = run.data.normalise(run.data.test.x[used]), run.data.test.y[used]
            right = float((run.fed.trainer.logits(run.fed.spec, model, x).argmax(axis=1) == y).mean())
            score = measured.G
            assert score == pytest.approx(right)
            assert (without.G, replace(measured, G=None)) == (None, without)


@pytest.mark.parametrize("pretraining", [{"pretrain_epochs": 1}, {"pretrain_steps": 4}], ids=str)
def test_a_client_goes_on_from_its_pre_training_and_its_group_gets_the_whole_update(
    pretraining: dict[str, int],
) -> None:
    """E − 1 further epochs, in the round in which it pre-trained (the paper's last words on communication)."""
    settings = {"clients": 12, "groups": 2, "alpha_pre": 2, "epochs": 3, "fraction": 0.75, **pretraining}
    with begun(**settings, continue_pretraining=True) as run:
        known, models, fed = {**run.method.member}, [*run.method.models], run.fed
        start, cohort = fed.initial(), fed.cohort(1)
        new = [client for client in cohort if client not in known]
        assert new
        run.play(1)
        fed.start_round(1)
        sent: dict[int, list[tuple[int, np.ndarray]]] = {0: [], 1: []}
        for client in cohort:
            group, samples = run.method.member[client], fed.samples[client]
            plan, model = fed.plan, models[group]
            if client in new:
                steps_each = -(-samples // plan.batch_size)
                done = steps_each if "pretrain_epochs" in pretraining else 4
                first = Train(replace(plan, steps=done), start=("model",), keep=False, purpose="pre-train")
                model = fed.ask({client: fed.request(first, model=start)})[client].answer(TrainReply).params
                plan = replace(plan, steps=3 * steps_each - done)
            end = fed.ask({client: fed.request(Train(plan, keep=False), model=model)})[client].answer(TrainReply).params
            whole = flat(models[group]) + flat(end) - flat(start) if client in new else flat(end)
            sent[group].append((samples, whole))
        for group, updates in sent.items():
            if updates:
                mean = sum(n * w for n, w in updates) / sum(n for n, _ in updates)
                assert np.allclose(flat(run.method.models[group]), mean, atol=1e-5)
        assert not {*new} & {*known}
        run.play(2)  # who is known by then trains its group's model


# What it equals


def test_one_group_is_fedavg_from_where_pre_training_led_bit_for_bit() -> None:
    with begun(groups=1, rounds=6) as ours, begun("fedavg", groups=None, rounds=6) as theirs:
        theirs.algorithm.model = ours.method.models[0]
        for t in range(1, 7):
            ours.play(t)
            theirs.play(t)
            assert same(ours.method.models[0], theirs.algorithm.model)
            assert ours.evaluator.evaluate() == theirs.evaluator.evaluate()


def test_fedgrouprox_without_strength_is_fedgroup_bit_for_bit() -> None:
    with begun("fedgrouprox", mu=0.0, groups=3) as prox, begun(groups=3) as plain:
        for t in range(1, 5):
            prox.play(t)
            plain.play(t)
            assert prox.method.groups() == plain.method.groups()
            assert all(same(a, b) for a, b in zip(prox.method.models, plain.method.models, strict=True))
            assert prox.evaluator.evaluate() == plain.evaluator.evaluate()


@pytest.mark.integration
def test_fedgrouprox_holds_clients_near_their_group_but_not_in_pre_training() -> None:
    drift = [
        small_run("fedgrouprox", algorithm_options={"mu": mu}, epochs=5, groups=2).history[-1]["discrepancy"]
        for mu in (0.0, 1.0, 10.0)
    ]
    assert drift == sorted(drift, reverse=True)
    assert drift[-1] < 0.6 * drift[0]
    with begun("fedgrouprox", mu=10.0) as prox, begun() as plain:
        assert all(np.array_equal(a, b) for a, b in zip(prox.method.directions, plain.method.directions, strict=True))
    assert ALGORITHMS.options("fedgrouprox")["mu"].default == 1.0
    assert "mu" not in ALGORITHMS.options("fedgroup")


# Rounds


def test_groups_are_averaged_by_samples_and_those_without_answers_keep_their_model() -> None:
    with begun(clients=12, groups=4, fraction=0.25) as run:
        before = [*run.method.models]
        run.play(1)
        cohort = run.fed.cohort(1)
        active = {run.method.member[c] for c in cohort}
        assert 0 < len(active) < 4
        for group, (old, new) in enumerate(zip(before, run.method.models, strict=True)):
            assert (new is old) == (group not in active)
            if group in active:
                verb = Train(run.fed.plan, keep=False)
                own = [c for c in cohort if run.method.member[c] == group]
                replies = run.fed.ask(dict.fromkeys(own, run.fed.request(verb, model=old))).values()
                answers = [reply.answer(TrainReply) for reply in replies]
                assert same(new, weighted_mean([a.params for a in answers], [a.samples for a in answers]))


@pytest.mark.parametrize("normalise", [True, False])
def test_aggregation_between_groups_against_loops(normalise: bool) -> None:
    eta = 0.7
    with begun(groups=3, clients=12) as plain, begun(groups=3, clients=12, eta_g=eta, normalise=normalise) as ours:
        for t in (1, 2):
            plain.method.models = [*ours.method.models]
            plain.play(t)
            ours.play(t)
            before = [flat(model) for model in plain.method.models]  # w̃
            for j, model in enumerate(ours.method.models):
                total, weights = before[j].copy(), 1.0
                for other, w in enumerate(before):
                    if other != j:
                        total += eta * w / np.linalg.norm(w)
                        weights += eta / np.linalg.norm(w)
                assert np.allclose(flat(model), total / weights if normalise else total, rtol=1e-6, atol=1e-7)


def test_aggregation_between_groups_skips_models_of_0_and_is_nothing_without_a_rate() -> None:
    with begun(groups=3, eta_g=0.5, normalise=False) as run:
        one, two, _ = run.method.models
        zero = {name: np.zeros_like(value) for name, value in one.items()}
        run.method.models = [one, two, zero]
        run.method.average(run.fed, {})
        a, b, c = (flat(model) for model in run.method.models)
        unit = [flat(model) / np.linalg.norm(flat(model)) for model in (one, two)]
        assert np.allclose(a, flat(one) + 0.5 * unit[1], atol=1e-6)
        assert np.allclose(b, flat(two) + 0.5 * unit[0], atol=1e-6)
        assert np.allclose(c, 0.5 * unit[0] + 0.5 * unit[1], atol=1e-6)
        run.method.normalise, run.method.models = True, [one, zero]
        run.method.average(run.fed, {})
        assert np.array_equal(flat(run.method.models[0]), flat(one))
    with begun(groups=3) as run:
        before = [*run.method.models]
        run.method.average(run.fed, {})
        assert all(new is old for new, old in zip(run.method.models, before, strict=True))


def test_counters_of_a_network_are_not_scaled() -> None:
    method = FedGroup(eta_g=1.0, normalise=False)
    method.models = [
        {"w": np.float32([3.0, 4.0]), "seen": np.array(7)},
        {"w": np.float32([0.0, 2.0]), "seen": np.array(5)},
    ]
    with begun(groups=2) as run:
        method.average(run.fed, {})
    assert [model["seen"].tolist() for model in method.models] == [7, 7]
    assert method.models[0]["w"] == pytest.approx([3.0, 5.0])
    assert method.models[1]["w"] == pytest.approx([0.6, 2.8])
