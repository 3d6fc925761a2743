"""Adam, AdamW, clipping and label smoothing of both trainers against torch.optim, torch.nn.utils and torch itself."""

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_

from coterie.errors import CoterieError
from coterie.federation.request_checks import check_learning
from coterie.messages import MetaStep, ModelSpec, Optimiser, Params, Plan, Request, Schedule, Train
from coterie.messages.plan import error_in_plan
from coterie.messages.wire import decode, encode, size
from coterie.models import build, initial
from coterie.native import available
from coterie.training import Job, Trainer, steps
from coterie.training.native_trainer import NativeTrainer
from coterie.training.torch_trainer import TorchTrainer

SPEC = ModelSpec("mlp", (1, 4, 4), 5, {"hidden": 12})
SAMPLES = 20
ADAM = Optimiser("adam")


class NoFallback(TorchTrainer):
    """Stands where PyTorch would: what is tested here runs compiled."""

    def train(self, job: Job) -> object:  # type: ignore[override]
        raise AssertionError("this plan was not compiled")


compiled = pytest.mark.skipif(not available(), reason="Coterie was installed without a C++ compiler")


@pytest.fixture(params=["torch", pytest.param("native", marks=compiled)])
def either(request: pytest.FixtureRequest) -> Trainer:
    return TorchTrainer() if request.param == "torch" else NativeTrainer(NoFallback())


def task() -> tuple[Params, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(8)
    return initial(SPEC, 3), rng.normal(size=(SAMPLES, 1, 4, 4)).astype(np.float32), rng.integers(5, size=SAMPLES)


def by_torch(plan: Plan, start: Params, x: np.ndarray, y: np.ndarray) -> tuple[dict[str, np.ndarray], float]:
    """Train as one would by hand, in double precision."""
    module = build(SPEC).double()
    module.load_state_dict({name: torch.tensor(value, dtype=torch.float64) for name, value in start.items()})
    learns = [p for name, p in module.named_parameters() if plan.train is None or name.startswith(plan.train)]
    if plan.optimiser is None:
        optimiser: torch.optim.Optimizer = torch.optim.SGD(
            learns, plan.lr.rate, plan.momentum, weight_decay=plan.weight_decay
        )
    else:
        kind = torch.optim.Adam if plan.optimiser.name == "adam" else torch.optim.AdamW
        betas = plan.optimiser.beta1, plan.optimiser.beta2
        optimiser = kind(learns, plan.lr.rate, betas, plan.optimiser.eps, weight_decay=plan.weight_decay)
    losses = []
    for s, (batch,) in enumerate(steps(SAMPLES, plan, np.random.default_rng(1))):
        for group in optimiser.param_groups:
            group["lr"] = plan.lr.at(s)
        optimiser.zero_grad()
        outputs = module(torch.tensor(x[batch], dtype=torch.float64))
        loss = cross_entropy(outputs, torch.tensor(y[batch]), label_smoothing=plan.smoothing or 0.0)
        loss.backward()
        if plan.clip is not None:
            clip_grad_norm_(learns, plan.clip)
        optimiser.step()
        losses.append(loss.item())
    return {name: value.numpy() for name, value in module.state_dict().items()}, float(np.mean(losses))


PLAIN = Plan(Schedule(0.01), epochs=3, batch_size=6)
PLANS = {
    "adam": Plan(Schedule(0.01), epochs=3, batch_size=6, optimiser=ADAM),
    "adam with decay": Plan(Schedule(0.01), epochs=3, batch_size=6, optimiser=ADAM, weight_decay=0.1),
    "adam's options": Plan(Schedule(0.01, 0.2), epochs=3, batch_size=6, optimiser=Optimiser("adam", 0.5, 0.9, 1e-3)),
    "adamw": Plan(Schedule(0.01, 0.2), epochs=3, batch_size=6, optimiser=Optimiser("adamw"), weight_decay=0.3),
    "clip": Plan(Schedule(0.1), epochs=3, batch_size=6, clip=0.5, momentum=0.9, weight_decay=0.1),
    "smoothing": Plan(Schedule(0.1), epochs=3, batch_size=6, smoothing=0.3, momentum=0.5),
    "all of it": Plan(
        Schedule(0.02), epochs=3, batch_size=6, optimiser=Optimiser("adamw", eps=1e-4), weight_decay=0.2, clip=0.5,
        smoothing=0.1,
    ),
    "of some layers": Plan(Schedule(0.1), epochs=3, batch_size=6, clip=0.2, train=("fc2",), momentum=0.5),
}  # fmt: skip


@pytest.mark.integration
@pytest.mark.parametrize("name", PLANS)
def test_training_is_that_of_pytorch(either: Trainer, name: str) -> None:
    plan, (start, x, y) = PLANS[name], task()
    expected, loss = by_torch(plan, start, x, y)
    outcome = either.train(Job(SPEC, plan, start, x, y, np.random.default_rng(1)))
    assert outcome.steps == 12
    assert outcome.loss == pytest.approx(loss, rel=1e-5)
    for layer, value in expected.items():
        np.testing.assert_allclose(outcome.params[layer], value, rtol=1e-4, atol=2e-5, err_msg=layer)


@pytest.mark.parametrize("name", PLANS)
def test_moments_start_anew_in_each_local_training(either: Trainer, name: str) -> None:
    start, x, y = task()
    first, again = (either.train(Job(SPEC, PLANS[name], start, x, y, np.random.default_rng(1))) for _ in range(2))
    assert all(first.params[layer].tobytes() == value.tobytes() for layer, value in again.params.items())


def test_plain_training_is_as_it_was(either: Trainer) -> None:
    """No smoothing is a smoothing of 0, and no clip one that nothing reaches."""
    start, x, y = task()
    plain = either.train(Job(SPEC, PLAIN, start, x, y, np.random.default_rng(1)))
    neutral = Plan(Schedule(0.01), epochs=3, batch_size=6, clip=1e9, smoothing=0.0)
    other = either.train(Job(SPEC, neutral, start, x, y, np.random.default_rng(1)))
    assert all(plain.params[layer].tobytes() == value.tobytes() for layer, value in other.params.items())


WITHOUT_MEANING = {
    "momentum": (Plan(Schedule(0.01), momentum=0.5, optimiser=ADAM), "momentum = 0.5"),
    "correction": (Plan(Schedule(0.01), correction="c", optimiser=ADAM), "SCAFFOLD"),
    "beta": (Plan(Schedule(0.01), optimiser=Optimiser("adam", beta2=1.0)), "beta2=1.0"),
    "eps": (Plan(Schedule(0.01), optimiser=Optimiser("adam", eps=float("nan"))), "eps"),
    "clip": (Plan(Schedule(0.01), clip=0.0), "clip = 0.0"),
    "smoothing": (Plan(Schedule(0.01), smoothing=1.0), "smoothing = 1.0"),
}


@pytest.mark.parametrize("what", WITHOUT_MEANING)
def test_a_plan_without_meaning_is_refused_where_it_is_asked_for(what: str) -> None:
    plan, said = WITHOUT_MEANING[what]
    with pytest.raises(CoterieError, match=said):
        check_learning([Train(plan)], SPEC)


@pytest.mark.parametrize("plan", [PLAIN, *PLANS.values(), Plan(Schedule(0.1), optimiser=ADAM, meta_step=MetaStep(0.1))])
def test_other_plans_have_one(plan: Plan) -> None:
    assert error_in_plan(plan) is None


def test_a_plan_travels_and_costs_nothing_where_it_has_none_of_it() -> None:
    def request(plan: Plan) -> Request:
        return Request(1, 0, SPEC, (Train(plan),), {}, "train")

    message = request(PLANS["all of it"])
    assert decode(encode(message)) == message
    assert size(message) == len(encode(message))
    assert b"optimiser" not in encode(request(PLAIN))
    assert not {"optimiser", "clip", "smoothing"} & Train(PLAIN).restricted().keys()
    assert Train(PLANS["all of it"]).restricted()["optimiser"] == Optimiser("adamw", eps=1e-4)
