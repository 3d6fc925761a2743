"""FedGroup and FedGrouProx: groups by first updates, and who joins them; against closed forms and small loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.cluster import hierarchy
from sklearn.cluster import KMeans

import coterie
from coterie.algorithms import ALGORITHMS
from coterie.algorithms.fedgroup import FedGroup
from coterie.client import MemoryStore
from coterie.clustering import adjusted_rand_index, canonical
from coterie.data import PARTITIONS, FederatedData
from coterie.federation.loop import admit
from coterie.messages import Params, Reply, Request, Train, TrainReply, weighted_mean
from coterie.models import initial
from coterie.run.building import Session, completed, load_data, make_spec, make_trainer, session
from coterie.run.progress import Progress
from coterie.run.settings import settings_to_config
from coterie.streams import stream
from coterie.testing import SMALL, RecordingEngine, goes_on_after_an_interruption, small_run
from coterie.training import steps

Change = Callable[[int, Request, Params, Params], Mapping[str, np.ndarray]]
"""Of client, request, θ⁰ and what was trained; returns what is sent."""


@dataclass
class Run(Session):
    """A method that has begun, and the data behind it."""

    data: FederatedData
    requests: list[dict[int, Request]]

    @property
    def method(self) -> FedGroup:
        assert isinstance(self.algorithm, FedGroup)
        return self.algorithm

    def first_updates(self, t: int = 0) -> dict[int, np.ndarray]:
        """All clients' Δ_i in float64, asked for in another way than the method does."""
        plan = replace(self.fed.plan, steps=self.method.pretrain_steps)
        verb = Train(plan, start=("start",), keep=False, purpose="pre-train")
        now = self.fed.round
        self.fed.start_round(t)
        request = self.fed.request(verb, models={"start": self.fed.initial()})
        replies = self.fed.ask(dict.fromkeys(range(self.data.clients), request))
        self.fed.start_round(now)
        return {c: flat(reply.answer(TrainReply).params) - flat(self.fed.initial()) for c, reply in replies.items()}

    def play(self, *rounds: int) -> None:
        for t in rounds:
            self.fed.start_round(t)
            self.algorithm.round(self.fed, self.fed.cohort(t))
            admit(self.fed, self.algorithm)


def applied(change: Change | None) -> Callable[[Reply, Request], Reply]:
    """Let clients send something else than they trained."""

    def changed(reply: Reply, request: Request) -> Reply:
        trained = reply.answers[0]
        if change is None or not isinstance(trained, TrainReply):
            return reply
        sent = change(reply.client, request, initial(request.spec, request.seed), trained.params)
        return replace(reply, answers=(replace(trained, params=dict(sent)),))

    return changed


@contextmanager
def begun(method: str = "fedgroup", change: Change | None = None, **settings: Any) -> Iterator[Run]:
    options = {k: settings.pop(k) for k in list(settings) if k in ALGORITHMS.options(method)}
    wanted = {"algorithm": method, "algorithm_options": options, **SMALL, "groups": 2, **settings}
    config = settings_to_config(None, {key: value for key, value in wanted.items() if value is not None})
    data = load_data(config)
    config = completed(config, data)
    with session(config, data, MemoryStore(), make_trainer(config, make_spec(config, data), Progress())) as made:
        engine = made.fed.wrap_engine(lambda inner: RecordingEngine(inner, applied(change)))
        made.algorithm.begin(made.fed)
        yield Run(made.config, made.fed, made.algorithm, made.evaluator, data, engine.exchanges)


def flat(params: Params) -> np.ndarray:
    return np.concatenate([np.asarray(v, np.float64).ravel() for v in params.values()])


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def same(a: Params, b: Params) -> bool:
    return list(a) == list(b) and all(np.array_equal(a[name], b[name]) for name in a)


def trained(requests: Mapping[int, Request]) -> Train:
    (verb,) = {request.verbs[0] for request in requests.values()}
    assert isinstance(verb, Train)
    return verb


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


# Pre-training


def test_first_updates_are_so_many_mini_batches_of_sgd_from_the_start() -> None:
    """Against softmax regression in NumPy, on the batches at the address of pre-training."""
    lr, rho, count = 0.05, 0.5, 9
    with begun(model="mclr", model_options={}, lr=lr, momentum=rho, pretrain_steps=count, groups=1) as run:
        start, ends = run.fed.initial(), []
        for client, part in enumerate(run.data.train_parts):
            x = run.data.normalise(run.data.train.x[part]).reshape(len(part), -1).astype(np.float64)
            x, y = np.hstack([x, np.ones((len(x), 1))]), run.data.train.y[part]
            w = np.vstack([start["fc.weight"].T, start["fc.bias"]]).astype(np.float64)
            v = np.zeros_like(w)
            plan = replace(run.fed.plan, steps=count)
            for (b,) in steps(len(y), plan, stream(run.fed.seed, "pre-train", client, 0)):
                z = np.exp(x[b] @ w)
                v = rho * v + x[b].T @ (z / z.sum(1, keepdims=True) - np.eye(10)[y[b]]) / len(b)
                w = w - lr * v
            ends.append(w)
        model = run.method.models[0]
        ours = np.vstack([model["fc.weight"].T, model["fc.bias"]])
        assert np.allclose(ours, np.mean(ends, axis=0), atol=1e-5)  # of models, and of all clients alike


def test_pre_training_is_asked_for_once_and_keeps_nothing() -> None:
    with begun() as run:
        (asked,) = run.requests
        verb = trained(asked)
        assert (verb.plan.steps, verb.start, verb.keep, verb.purpose) == (50, ("initial",), False, "pre-train")
        assert verb.plan == replace(run.fed.plan, steps=50)
        assert {request.kind for request in asked.values()} == {"pre-train"}
        assert not any(request.models for request in asked.values())
        assert run.fed.stale_clients == set()
    with begun(pretrain_epochs=3) as run:
        assert trained(run.requests[0]).plan == replace(run.fed.plan, epochs=3)


@pytest.mark.integration
def test_alpha_m_clients_are_drawn() -> None:
    def drawn(**settings: Any) -> list[int]:
        with begun(clients=20, **settings) as run:
            assert list(run.method.member) == sorted(run.requests[0])
            return sorted(run.requests[0])

    assert len(drawn(alpha_pre=3, groups=4)) == 12
    assert drawn(alpha_pre=3, groups=4) == drawn(alpha_pre=3, groups=4)
    assert drawn(alpha_pre=3, groups=4) != drawn(alpha_pre=3, groups=4, seed=1)
    assert drawn(groups=4) == list(range(20))  # of 80
    assert len(drawn(alpha_pre=3, groups=None, fraction=0.45)) == 9  # three groups for a cohort of nine


def test_traffic_is_a_model_up_for_each_first_update() -> None:
    with begun(clients=12, alpha_pre=2, groups=3) as run:
        size = sum(v.nbytes for v in run.fed.initial().values())
        kinds = run.fed.ledger.by_kind
        assert list(kinds) == ["pre-train"]
        assert 6 * size < kinds["pre-train"]["up"] < 6 * (size + 1500)
        assert kinds["pre-train"]["down"] < 6 * 2000


# The group cold start


@pytest.mark.integration
def test_edc_groups_are_the_best_k_means_of_cosines_with_singular_vectors() -> None:
    with begun(clients=16, groups=4, pretrain_steps=1) as run:
        deltas = np.stack([*run.first_updates().values()])
        _, _, v = np.linalg.svd(deltas, full_matrices=False)
        features = np.array([[cosine(delta, v[a]) for a in range(4)] for delta in deltas])
        best = KMeans(4, n_init=50, random_state=0).fit(features)
        groups = np.array([run.method.member[client] for client in range(16)])
        centres = np.stack([features[groups == g].mean(axis=0) for g in range(4)])
        assert ((features - centres[groups]) ** 2).sum() == pytest.approx(best.inertia_, rel=1e-6)
        assert adjusted_rand_index(groups.tolist(), best.labels_.tolist()) == 1
        assert 0 < adjusted_rand_index(groups.tolist(), run.data.true_groups.tolist()) < 1  # not by being too easy


def test_madc_groups_against_three_loops_and_scipy() -> None:
    with begun(clients=12, groups=4, measure="madc", pretrain_steps=3) as run:
        deltas = run.first_updates()
        s = [[cosine(a, b) for b in deltas.values()] for a in deltas.values()]
        apart = np.zeros((12, 12))
        for i in range(12):
            for j in range(12):
                others = [z for z in range(12) if z not in (i, j)]
                apart[i, j] = sum(abs(s[i][z] - s[j][z]) for z in others) / 10 if i != j else 0.0
        tree = hierarchy.linkage(apart[np.triu_indices(12, 1)], "complete")
        expected = hierarchy.fcluster(tree, 4, "maxclust")
        assert [*run.method.member.values()] == canonical(expected).tolist()
        assert run.method.grouping is not None
        assert run.method.grouping.heights == pytest.approx(np.sort(tree[:, 2]), abs=1e-6)
        assert run.method.grouping.confidence is not None


@pytest.mark.parametrize("measure", ["edc", "madc"])
def test_rotated_digits_are_told_apart(measure: str) -> None:
    result = coterie.run(
        algorithm=f"fedgroup:measure={measure}", dataset="digits-rotated", clients=20, groups=4, rounds=1, epochs=1
    )
    assert result.ari == 1
    ways = {"edc": "EDC and k-means", "madc": "MADC and complete linkage"}
    assert result.grouping is not None
    assert result.grouping["rule"] == "count"
    assert result.grouping["reason"] == f"4 groups of 20 first updates by {ways[measure]}."


def test_a_groups_model_is_the_mean_of_models_and_not_of_updates() -> None:
    """Line 16 of Alg. 3 averages updates and calls them the model."""
    with begun(groups=3, dataset="digits", partition="label-skew:rho=0.3") as run:  # of unequal sizes
        deltas, start = run.first_updates(), flat(run.fed.initial())
        for group, (model, direction) in enumerate(zip(run.method.models, run.method.directions, strict=True)):
            mean = np.mean([deltas[c] for c, g in run.method.member.items() if g == group], axis=0)
            assert np.allclose(flat(model), start + mean, atol=1e-6)
            assert np.allclose(direction, mean, atol=1e-6)
            assert not np.allclose(flat(model), mean, atol=1e-2)


@pytest.mark.integration
def test_clients_that_do_not_move_are_in_group_0_and_leave_the_others_groups_as_they_are() -> None:
    still = {1, 5}

    def change(client: int, request: Request, start: Params, end: Params) -> Params:
        return start if client in still else end

    for measure in ("edc", "madc"):
        with (
            begun(clients=12, groups=4, measure=measure) as all_moving,
            begun(change=change, clients=12, groups=4, measure=measure) as run,
        ):
            assert [c for c in run.method.member if c in still] == [1, 5]
            assert run.method.member[1] == run.method.member[5] == 0
            others = [c for c in range(12) if c not in still]
            before, now = ([m[c] for c in others] for m in (all_moving.method.member, run.method.member))
            assert adjusted_rand_index(before, now) == 1
            assert run.method.grouping is not None
            assert "of 10 first updates" in run.method.grouping.reason
            founders = [c for c, g in run.method.member.items() if g == 0]
            deltas = {**run.first_updates()}
            assert np.allclose(run.method.directions[0], np.mean([deltas[c] for c in founders], axis=0), atol=1e-6)


def test_if_nobody_moves_there_is_one_group_with_the_start() -> None:
    with begun(change=lambda client, request, start, end: start, alpha_pre=1, groups=3) as run:
        assert [*run.method.member.values()] == [0, 0, 0]
        assert same(run.method.models[0], run.fed.initial())
        run.method.place(run.fed, run.fed.trainable)  # whose updates are 0, too
        assert [*run.method.member.values()] == [0] * 6


@pytest.mark.parametrize("measure", ["edc", "madc"])
def test_parallel_updates_make_one_group_and_opposite_ones_two(measure: str) -> None:
    def line(sign: Callable[[int], float]) -> Change:
        def change(client: int, request: Request, start: Params, end: Params) -> Mapping[str, np.ndarray]:
            rng = np.random.default_rng(0)
            return {
                name: (v + sign(client) * (0.3 + client) * rng.normal(size=v.shape)).astype(v.dtype)
                for name, v in start.items()
            }

        return change

    with begun(change=line(lambda client: 1.0), groups=3, measure=measure) as run:
        assert set(run.method.member.values()) == {0}
        assert run.method.grouping is not None
        assert run.method.grouping.reason.endswith("; 3 would take more updates that differ.")
    with begun(change=line(lambda client: (-1.0) ** client), groups=3, measure=measure) as run:
        assert [*run.method.member.values()] == [0, 1, 0, 1, 0, 1]


def test_nonsense_is_not_grouped_and_the_client_is_placed_when_it_makes_sense() -> None:
    def change(client: int, request: Request, start: Params, end: Params) -> Mapping[str, np.ndarray]:
        return {n: np.full_like(v, np.nan) for n, v in end.items()} if client == 3 and request.round < 2 else end

    with begun(change=change, fraction=1.0) as run:
        assert sorted(run.method.member) == [0, 1, 2, 4, 5]
        assert run.fed.events.kinds["invalid"]["count"] == 1
        run.play(1)
        assert 3 not in run.method.member
        assert run.fed.events.kinds["invalid"]["count"] == 2  # it is not asked to train
        run.play(2)
        delta = run.first_updates(2)[3]
        assert run.method.member[3] == np.argmax([cosine(delta, d) for d in run.method.directions])


@pytest.mark.parametrize("measure", ["edc", "madc"])
@pytest.mark.parametrize(("clients", "groups", "found"), [(6, 10, 5), (6, 5, 5), (3, 3, 2), (2, 2, 1), (1, 4, 1)])
def test_fewer_clients_than_groups_make_fewer_groups_and_say_so(
    measure: str, clients: int, groups: int, found: int
) -> None:
    with begun(clients=clients, groups=groups, dataset="digits", measure=measure) as run:
        assert len(run.method.models) == len(set(run.method.member.values())) == found
        grouping = run.method.grouping
        assert grouping is not None
        assert ("would take more" in grouping.reason) == (found < groups)
        assert grouping.n_groups == found
        run.play(1, 2)


def test_the_cold_start_is_tried_again_until_somebody_answers() -> None:
    def change(client: int, request: Request, start: Params, end: Params) -> Mapping[str, np.ndarray]:
        return {n: np.full_like(v, np.inf) for n, v in end.items()} if request.round < 2 else end

    with begun(change=change, fraction=0.5) as run:
        assert run.method.grouping is None
        assert same(run.method.model_for(0), run.fed.initial())
        run.play(1)
        assert run.method.groups() == {}
        run.play(2)
        assert sorted(run.method.groups()) == list(range(6))
        assert len(run.method.models) == 2


# The client cold start


def test_lazy_and_eager_give_the_same_groups() -> None:
    """Whole batches, so that the order of samples, which depends on the round, does not matter."""
    settings = {"clients": 16, "groups": 4, "alpha_pre": 2, "batch_size": 10_000, "pretrain_steps": 20}
    with begun(**settings, fraction=0.25) as lazy, begun(**settings, eager=True) as eager:
        assert len(lazy.method.member) == 8
        assert len(eager.method.member) == 16
        assert set(lazy.method.member.items()) < set(eager.method.member.items())
        for t in range(1, 4):
            new = [c for c in lazy.fed.cohort(t) if c not in lazy.method.member]
            lazy.requests.clear()
            lazy.play(t)
            assert sorted(lazy.requests[0]) == new or not new
            assert {*new} <= lazy.method.member.keys()
        assert len(lazy.method.member) > 10
        assert set(lazy.method.member.items()) <= set(eager.method.member.items())


def test_who_does_not_answer_before_round_1_is_not_asked_twice() -> None:
    with begun(clients=20, groups=3, alpha_pre=3, eager=True, drop=0.4) as run:
        first, others = run.requests
        assert len(first) == 9
        assert {*first} | {*others} == {*range(20)}
        assert not {*first} & {*others}
        assert 0 < len(run.method.cold) == run.fed.events.kinds["dropped"]["count"]
        assert run.method.cold == {*range(20)} - run.method.groups().keys()


@pytest.mark.parametrize("direction", ["cold-start", "latest"])
def test_newcomers_join_the_group_of_nearest_direction(direction: str) -> None:
    with begun(clients=12, groups=4, newcomers=0.34, join_at=3, fraction=1.0, direction=direction) as run:
        first = [*run.method.directions]
        run.play(1)
        before = [flat(model) for model in run.method.models]
        run.play(2)
        changes = [flat(model) - old for model, old in zip(run.method.models, before, strict=True)]
        run.fed.start_round(3)
        run.method.round(run.fed, [])
        for ours, cold, latest in zip(run.method.directions, first, changes, strict=True):
            assert np.allclose(ours, cold if direction == "cold-start" else latest, atol=1e-7)
        newcomers = run.fed.newcomers
        assert len(newcomers) == 4
        admit(run.fed, run.algorithm)
        deltas = run.first_updates(3)
        for client in newcomers:
            cosines = [cosine(deltas[client], d.astype(np.float64)) for d in run.method.directions]
            assert run.method.member[client] == int(np.argmax(cosines))
            assert run.fed.joined[client] == run.fed.round


def test_a_group_without_direction_is_never_chosen_and_ties_go_to_the_first() -> None:
    with begun(alpha_pre=1, groups=3) as run:
        delta = run.first_updates()[next(c for c in range(6) if c not in run.method.member)].astype(np.float32)
        run.method.models = [run.method.start] * 3
        run.method.directions = [np.zeros_like(delta), -delta, delta]
        assert {*run.method.nearest(run.fed, run.fed.trainable).values()} == {2}
        run.method.directions = [-delta, delta, delta]
        assert {*run.method.nearest(run.fed, run.fed.trainable).values()} == {1}
        run.method.directions = [np.zeros_like(delta), -delta, -delta]
        assert {*run.method.nearest(run.fed, run.fed.trainable).values()} == {1}


def test_random_centres_are_one_client_each() -> None:
    with begun(clients=12, groups=3, centres="random", eager=True) as run:
        deltas, start = run.first_updates(), flat(run.fed.initial())
        founders = sorted(run.requests[0])
        assert len(founders) == 3
        assert [run.method.member[c] for c in founders] == [0, 1, 2]
        for group, client in enumerate(founders):
            assert np.allclose(flat(run.method.models[group]), start + deltas[client], atol=1e-6)
        for client in range(12):
            assert run.method.member[client] == np.argmax([cosine(deltas[client], deltas[f]) for f in founders])
        assert run.method.grouping is not None
        assert run.method.grouping.reason == "3 groups of 3 first updates, each of a client drawn at random."


def test_random_assignment_is_drawn_once_without_pre_training() -> None:
    cold = {"clients": 40, "groups": 3, "alpha_pre": 2}
    settings = {**cold, "assignment": "random-once", "fraction": 0.2}
    with (
        begun(**settings) as lazy,
        begun(**settings, eager=True) as eager,
        begun(**cold) as plain,
    ):
        assert lazy.method.member == plain.method.member  # the founders', by EDC
        lazy.play(*range(1, 9))
        assert set(lazy.method.member.items()) < set(eager.method.member.items())
        assert len(eager.method.member) == 40
        assert np.bincount([*eager.method.member.values()]).min() > 5
        assert sum(len(r) for r in eager.requests) == 6
        assert all(trained(r).purpose == "train" for r in lazy.requests[1:])


def test_random_assignment_at_every_selection_spares_the_founders() -> None:
    with begun(clients=12, groups=3, alpha_pre=2, assignment="random-each", fraction=0.5) as run:
        founders, seen = dict(run.method.member), []
        for t in range(1, 7):
            before = dict(run.method.member)
            run.play(t)
            cohort, now = run.fed.cohort(t), run.method.member
            assert {c: now[c] for c in founders} == founders
            assert all(now[c] == before[c] for c in before if c not in cohort)
            for client in set(cohort) - founders.keys():
                assert now[client] == stream(run.fed.seed, "random group", client, t).integers(3)
                seen.append((client, now[client]))
            assert run.method.grouping is not None
            assert run.method.grouping.labels.tolist() == [*now.values()]
        assert len({client for client, _ in seen}) < len(set(seen))


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
        run.method.average({})
        a, b, c = (flat(model) for model in run.method.models)
        unit = [flat(model) / np.linalg.norm(flat(model)) for model in (one, two)]
        assert np.allclose(a, flat(one) + 0.5 * unit[1], atol=1e-6)
        assert np.allclose(b, flat(two) + 0.5 * unit[0], atol=1e-6)
        assert np.allclose(c, 0.5 * unit[0] + 0.5 * unit[1], atol=1e-6)
        run.method.normalise, run.method.models = True, [one, zero]
        run.method.average({})
        assert np.array_equal(flat(run.method.models[0]), flat(one))
    with begun(groups=3) as run:
        before = [*run.method.models]
        run.method.average({})
        assert all(new is old for new, old in zip(run.method.models, before, strict=True))


def test_counters_of_a_network_are_not_scaled() -> None:
    method = FedGroup(eta_g=1.0, normalise=False)
    method.models = [
        {"w": np.float32([3.0, 4.0]), "seen": np.array(7)},
        {"w": np.float32([0.0, 2.0]), "seen": np.array(5)},
    ]
    method.average({})
    assert [model["seen"].tolist() for model in method.models] == [7, 7]
    assert method.models[0]["w"] == pytest.approx([3.0, 5.0])
    assert method.models[1]["w"] == pytest.approx([0.6, 2.8])


# Evaluation, drop-outs, resuming


def test_clients_without_a_group_have_no_model_and_w_waits_for_all_of_them() -> None:
    with begun(clients=12, groups=2, alpha_pre=2, fraction=0.34) as run:
        covered = []
        for t in range(1, 9):
            run.play(t)
            found, evaluation = run.method.groups(), run.evaluator.evaluate()
            for client in range(12):
                served = run.method.model_for(client)
                assert (served is None) == (client not in found)
                assert served is None or served is run.method.models[found[client]]
            assert run.evaluator.received.keys() == found.keys()
            scores = [run.evaluator.received[client] for client in sorted(found)]
            assert pytest.approx(np.mean([correct / samples for correct, samples in scores])) == evaluation.C
            assert (evaluation.W is None) == (len(found) < 12)
            covered.append(len(found))
        assert covered[0] < 12 == covered[-1]


def test_a_client_without_samples_is_in_no_group_and_does_not_keep_w_waiting() -> None:
    @coterie.partition("all-but-the-last")
    def all_but_the_last(data: Any, clients: int, rng: np.random.Generator) -> Any:
        """The last client gets nothing."""
        from coterie.data import Partition

        return Partition([*np.array_split(np.arange(len(data.train.y)), clients - 1), np.zeros(0, np.int64)])

    try:
        with begun(dataset="digits", partition="all-but-the-last", clients=5, groups=2) as run:
            assert sorted(run.method.groups()) == [0, 1, 2, 3]
            assert run.method.model_for(4) is run.method.models[0]
            run.play(1)
            assert run.evaluator.evaluate().W is not None
    finally:
        del PARTITIONS._items["all-but-the-last"]


@pytest.mark.integration
@pytest.mark.parametrize("options", [{}, {"eager": True}, {"measure": "madc", "direction": "latest", "eta_g": 0.1}])
def test_with_thirty_percent_drop_outs_in_every_round_everyone_finds_a_group(options: dict[str, Any]) -> None:
    settings = {"clients": 20, "groups": 4, "rounds": 12, "drop": 0.3, "fraction": 0.5}
    result = small_run("fedgroup", algorithm_options=options, **settings)
    assert {event["kind"] for event in result.events} == {"dropped"}
    assert result.groups is not None
    assert None not in result.groups
    assert result.ari is not None
    assert result.ari > 0.8
    assert result.accuracy["C"] > small_run("fedavg", **{**settings, "groups": None, "drop": 0.0}).accuracy["C"]


@pytest.mark.integration
@pytest.mark.parametrize(
    "options",
    [
        {"alpha_pre": 1, "direction": "latest", "eta_g": 0.3},
        {"alpha_pre": 1, "assignment": "random-each", "measure": "madc"},
        {"centres": "random", "normalise": False, "eta_g": 0.1},
    ],
)
def test_resumed_runs_are_the_same(options: dict[str, Any], tmp_path: Path) -> None:
    goes_on_after_an_interruption("fedgroup", tmp_path, algorithm_options=options, groups=3, rounds=5)


def test_all_of_the_state_comes_back_from_a_checkpoint(tmp_path: Path) -> None:
    from coterie.federation.checkpoint import load_checkpoint, save_checkpoint

    with begun(clients=12, groups=3, alpha_pre=2, measure="madc") as run:
        run.play(1)
        save_checkpoint(tmp_path / "state.safetensors", run.method.save())
        copy = FedGroup(measure="madc", alpha_pre=2)
        copy.load(load_checkpoint(tmp_path / "state.safetensors"))
        assert [*copy.member.items()] == [*run.method.member.items()]
        assert copy.cold == run.method.cold
        assert all(same(a, b) for a, b in zip(copy.models, run.method.models, strict=True))
        assert all(np.array_equal(a, b) for a, b in zip(copy.directions, run.method.directions, strict=True))
        assert copy.grouping is not None
        assert run.method.grouping is not None
        assert copy.grouping.summary() == run.method.grouping.summary()
        assert len(copy.save()["directions"]) == 3  # and no client's update
