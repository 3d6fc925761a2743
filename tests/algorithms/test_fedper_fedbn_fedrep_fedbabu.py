"""FedPer, FedBN, FedRep and FedBABU: which layers are shared, and what they come to at the ends of their options."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from torch import nn

from coterie.algorithms.fedbn import FedBN, normalisations
from coterie.algorithms.fedper import FedPer
from coterie.algorithms.shared_layers import check_division, cuts
from coterie.client import MemoryStore
from coterie.errors import CoterieError
from coterie.federation.loop import rounds
from coterie.federation.served_model import SharedLayers
from coterie.messages import ModelSpec, Params, Train
from coterie.models import MODELS, initial, model
from coterie.run.building import Session
from coterie.testing import RecordingEngine, small_federation, small_run

EVERYONE: dict[str, Any] = {"fraction": 1.0, "rounds": 2, "eval_every": 1}


def one_round(run: Session, t: int) -> None:
    run.fed.start_round(t)
    run.algorithm.round(run.fed, run.fed.cohort(t))


def changed(before: Params, after: Params) -> set[str]:
    return {name for name in before if not np.array_equal(before[name], after[name])}


# Which layers


@pytest.mark.parametrize(
    ("name", "shape", "head", "first"),
    [
        ("lenet5", (3, 32, 32), 1, "fc3.weight"),
        ("lenet5-bn", (3, 32, 32), 4, "conv2.weight"),
        ("resnet9", (3, 32, 32), 2, "residual2.blocks.1.conv.weight"),
        ("mlp", (1, 8, 8), 2, "fc1.weight"),
    ],
)
def test_the_head_is_the_last_layers_and_the_rest_is_shared(
    name: str, shape: tuple[int, ...], head: int, first: str
) -> None:
    spec = ModelSpec(name, shape, 10)
    names = list(initial(spec, 0))
    assert FedPer(head=head).shared_names(spec) == names[: names.index(first)]
    assert FedPer(head=0).shared_names(spec) == names


def test_normalisations_of_all_kinds_stay_with_clients_statistics_included() -> None:
    batch, group = ModelSpec("lenet5-bn", (3, 32, 32), 10), ModelSpec("resnet9", (3, 32, 32), 10)
    assert {name.rpartition(".")[2] for name in normalisations(batch)} == {
        "weight", "bias", "running_mean", "running_var", "num_batches_tracked",
    }  # fmt: skip
    for spec in (batch, group):
        shared = FedBN().shared_names(spec)
        assert not any("norm" in name or "bn" in name for name in shared)
        assert {*shared} | normalisations(spec) == {*initial(spec, 0)}


class Odd(nn.Module):
    """A body that is frozen, a parameter on its own whose name begins as another does, and tied weights."""

    def __init__(self, shape: tuple[int, ...], classes: int, kind: str) -> None:
        super().__init__()
        inputs = int(np.prod(shape))
        self.first = nn.Linear(inputs, inputs, bias=False)
        self.second = nn.Linear(inputs, inputs, bias=False)
        self.last = nn.Linear(inputs, classes)
        if kind == "frozen":
            self.first.requires_grad_(False)
            self.second.requires_grad_(False)
        if kind == "tied":
            self.second.weight = self.first.weight
        if kind == "names":
            self.first.weight_of_all = nn.Parameter(self.first.weight.detach()[0].clone())


@pytest.fixture
def odd_networks() -> Any:
    for kind in ("frozen", "tied", "names"):
        model(f"odd-{kind}")(lambda shape, classes, kind=kind: Odd(shape, classes, kind))
    yield
    for kind in ("frozen", "tied", "names"):
        del MODELS._items[f"odd-{kind}"]


def test_layers_that_a_network_freezes_do_not_count(odd_networks: None) -> None:
    spec = ModelSpec("odd-frozen", (4,), 3)
    assert len(cuts(spec)) == 1
    with pytest.raises(CoterieError, match="head = 1 leaves nothing to share, as of the network's layers 1 can learn"):
        FedPer().shared_names(spec)


def test_a_cut_through_tied_weights_or_alike_names_is_refused(odd_networks: None) -> None:
    check_division(ModelSpec("odd-tied", (4,), 3), ["first.weight", "second.weight"])
    with pytest.raises(CoterieError, match=r"'second.weight' .* other side of the cut"):
        check_division(ModelSpec("odd-tied", (4,), 3), ["first.weight"])
    with pytest.raises(CoterieError, match=r"'first.weight_of_all' .* a name that begins so"):
        check_division(ModelSpec("odd-names", (4,), 3), ["first.weight"])


@pytest.mark.parametrize(
    ("method", "settings", "told"),
    [
        ("fedbn", {"model": "mlp", "model_options": {}}, "the network 'mlp' has none that learns: use fedavg"),
        ("fedper", {"algorithm_options": {"head": 3}}, "head = 3, but the network has 2 that learn"),
        ("fedper", {"model": "mclr", "model_options": {}}, "fedper: head = 1 leaves nothing to share.*fedavg or solo"),
        ("fedrep", {"algorithm_options": {"head": 2}}, "fedrep: head = 2 leaves nothing to share.*fedavg or solo"),
        ("fedbabu", {"algorithm_options": {"head": 2}}, "fedbabu: head = 2 leaves nothing to share.*fedavg or solo"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(method: str, settings: dict[str, Any], told: str) -> None:
    with pytest.raises(CoterieError, match=told):
        small_run(method, **settings)


# What they are at the ends of their options


def test_fedper_that_shares_all_is_fedavg() -> None:
    ours, fedavg = (
        small_run(method, **{**EVERYONE, "fraction": 0.5, "momentum": 0.5}, algorithm_options=options)
        for method, options in (("fedper", {"head": 0}), ("fedavg", {}))
    )
    assert ours.per_client == fedavg.per_client
    assert [row["loss"] for row in ours.history] == [row["loss"] for row in fedavg.history]
    assert ours.traffic["paper_megabits"] == fedavg.traffic["paper_megabits"]


def test_fedper_that_shares_nothing_is_solo() -> None:
    settings = {**EVERYONE, "epochs": 2, "momentum": 0.5}
    ours = small_run("fedper", **settings, algorithm_options={"head": 2})
    solo = small_run("solo", **settings, algorithm_options={"epochs": 4})
    assert ours.per_client["L"] == solo.per_client["L"]
    assert [row["loss"] for row in ours.history] == [row["loss"] for row in solo.history]
    assert ours.traffic["paper_megabits"] == 0


def test_fedper_averages_the_body_and_leaves_heads_with_clients() -> None:
    store = MemoryStore()
    with small_federation("fedper", store, **EVERYONE) as (run, data):
        run.algorithm.begin(run.fed)
        one_round(run, 1)
        own = [store.load(client, before=2)["model"] for client in run.fed.clients]
        mean = np.average([m["fc1.weight"] for m in own], axis=0, weights=[len(part) for part in data.train_parts])
        served = run.algorithm.model_for(0)
        assert isinstance(served, SharedLayers)
        assert set(served.params) == {"fc1.weight", "fc1.bias"}
        assert served.params["fc1.weight"] == pytest.approx(mean, abs=1e-6)
        assert not np.array_equal(own[0]["fc2.weight"], own[1]["fc2.weight"])
        assert run.algorithm.transfers == pytest.approx(2 * (64 * 16 + 16) / (64 * 16 + 16 + 16 * 10 + 10))


@pytest.mark.integration
def test_fedbn_shares_all_but_norms() -> None:
    store = MemoryStore()
    with small_federation("fedbn", store, **EVERYONE) as (run, _):
        engine = run.fed.wrap_engine(RecordingEngine)
        run.algorithm.begin(run.fed)
        one_round(run, 1)
        norms = normalisations(run.fed.spec)
        own = [store.load(client, before=2)["model"] for client in run.fed.clients]
        assert all(not np.array_equal(own[0][name], own[1][name]) for name in norms if "tracked" not in name)
        sent = {name for reply in engine.replies.values() for name in reply.answers[-1].params}
        assert sent == own[0].keys() - norms


# FedRep: the head, then the body


def test_fedrep_trains_the_head_on_the_received_body_then_the_body_under_that_head() -> None:
    """Two plain runs of the trainer, by hand: head alone, then body alone; on all samples, so that no order matters."""
    plan = {"batch_size": 4096, "lr": 0.1, "epochs": 2, "trainer": "torch"}
    store = MemoryStore()
    options = {"algorithm_options": {"head_epochs": 3}}
    with small_federation("fedrep", store, **EVERYONE, **plan, **options) as (run, _):
        engine = run.fed.wrap_engine(RecordingEngine)
        run.algorithm.begin(run.fed)
        one_round(run, 1)
        theta = run.fed.initial()
        request = engine.requests[1, 0, "train"]
        head, trunk = request.verbs
        assert isinstance(head, Train)
        assert isinstance(trunk, Train)
        assert (head.plan.epochs, trunk.plan.epochs) == (3, 2)
        now = store.load(0, before=2)["model"]
        with small_federation("fedavg", **plan) as (other, _):
            fed = other.fed
            fed.start_round(1)

            def trained(params: Params, names: tuple[str, ...], epochs: int) -> Params:
                verb = Train(replace(fed.plan, train=names, epochs=epochs), keep=False)
                return fed.ask({0: fed.request(verb, model=params)})[0].answers[0].params  # type: ignore[attr-defined]

            first = trained(theta, ("fc2",), 3)
            assert changed(theta, first) == {"fc2.weight", "fc2.bias"}
            second = trained(first, ("fc1",), 2)
        for name, value in now.items():
            assert value == pytest.approx(second[name], abs=1e-6)
        losses = [client for client, _ in run.fed.training.losses]
        assert tuple(sorted(losses)) == run.fed.clients  # each counts once


def test_a_newcomer_of_fedrep_fits_a_head_only() -> None:
    with small_federation("fedrep") as (run, _):
        run.algorithm.begin(run.fed)
        assert run.algorithm.newcomer_plan(run.fed).train == ("fc2.weight", "fc2.bias")


# FedBABU: the head stays


@pytest.mark.integration
def test_fedbabus_head_does_not_move_in_training_and_the_body_is_fedavgs_under_it() -> None:
    store = MemoryStore()
    settings = {**EVERYONE, "rounds": 3, "fraction": 0.5, "newcomers": 0.34, "join_at": 1, "momentum": 0.9}
    with small_federation("fedbabu", store, **settings) as (run, _):
        engine = run.fed.wrap_engine(RecordingEngine)
        for _ in rounds(run.fed, run.algorithm, run.evaluator, every=1):
            pass
        theta, served = run.fed.initial(), run.algorithm.model_for(0)
        assert changed(theta, served) == {"fc1.weight", "fc1.bias"}
        drawn = [client for t in (2, 3) for client in run.fed.cohort(t)]
        joined = [client for client in drawn if client in run.fed.joined]
        assert joined  # who had tuned the head when it came
        for client in drawn:
            assert changed(theta, store.load(client, before=4)["model"]) == {"fc1.weight", "fc1.bias"}
        sent = {name for (_, _, kind), r in engine.replies.items() if kind == "train" for name in r.answers[0].params}
        assert sent == {"fc1.weight", "fc1.bias"}


def test_fedbabu_is_measured_after_fine_tuning_as_the_paper_says() -> None:
    tuned = small_run("fedbabu", **EVERYONE, algorithm_options={"tune_epochs": 5})
    plain = small_run("fedbabu", **EVERYONE, algorithm_options={"tune_epochs": 0})
    assert tuned.unadapted == {"L": plain.accuracy["L"], "C": plain.accuracy["C"]}
    assert plain.unadapted is None
    assert tuned.accuracy["C"] > plain.accuracy["C"]  # type: ignore[operator]
    with small_federation("fedbabu", algorithm_options={"tuned": "head"}) as (run, _):
        run.algorithm.begin(run.fed)
        plan = run.algorithm.adaptation(run.fed)
        assert plan is not None
        assert (plan.train, plan.epochs) == (("fc2.weight", "fc2.bias"), 5)
