"""Private steps (DP-SGD) of both trainers against gradients of single samples, and what they must not tell."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from coterie.errors import CoterieError
from coterie.messages import Curriculum, ModelSpec, Optimiser, Params, Plan, PrivateSteps, Schedule, Train
from coterie.messages.plan import error_in_plan, total_steps
from coterie.models import build, initial
from coterie.native import available
from coterie.privacy import SecretRandomness, gaussian_sigma
from coterie.training import Job, Trainer
from coterie.training.batches import batches_of
from coterie.training.native_trainer import NativeTrainer
from coterie.training.torch_trainer import TorchTrainer

MLP = ModelSpec("mlp", (1, 4, 4), 5, {"hidden": 12})
LENET = ModelSpec("lenet5", (1, 28, 28), 10)
PRIVATE = PrivateSteps(clip=0.5, noise=0.7, rate=0.3)
PLAN = Plan(Schedule(0.2), steps=4, batch_size=6, private=PRIVATE, momentum=0.5, weight_decay=0.1)
compiled = pytest.mark.skipif(not available(), reason="Coterie was installed without a C++ compiler")


class Forbidden(TorchTrainer):
    """Stands where PyTorch would: what is tested here runs compiled."""

    def train(self, job: Job) -> object:  # type: ignore[override]
        raise AssertionError("this plan was not compiled")


@pytest.fixture(params=["torch", pytest.param("native", marks=compiled)])
def either(request: pytest.FixtureRequest) -> Trainer:
    return TorchTrainer() if request.param == "torch" else NativeTrainer(Forbidden())


def job(plan: Plan = PLAN, spec: ModelSpec = MLP, samples: int = 20, seed: int = 1) -> Job:
    rng = np.random.default_rng(8)
    x = rng.normal(size=(samples, *spec.shape)).astype(np.float32)
    return Job(spec, plan, initial(spec, 3), x, rng.integers(spec.classes, size=samples), np.random.default_rng(seed))


def by_hand(job: Job) -> dict[str, np.ndarray]:
    """Train in double precision, a sample at a time."""
    plan, private, rng = job.plan, job.plan.private, job.rng
    assert private is not None
    module = build(job.spec).double()
    module.load_state_dict({name: torch.tensor(value, dtype=torch.float64) for name, value in job.start.items()})
    learns = [p for name, p in module.named_parameters() if plan.train is None or name.startswith(plan.train)]
    if plan.optimiser is None:
        rule: torch.optim.Optimizer = torch.optim.SGD(
            learns, plan.lr.rate, plan.momentum, weight_decay=plan.weight_decay
        )
    else:
        rule = torch.optim.Adam(learns, plan.lr.rate, eps=plan.optimiser.eps, weight_decay=plan.weight_decay)
    drawn = [np.flatnonzero(rng.random(len(job.y)) < private.rate) for _ in range(total_steps(len(job.y), plan))]
    for batch in drawn:
        total = torch.zeros(sum(p.numel() for p in learns), dtype=torch.float64)
        for i in batch:
            outputs = module(torch.tensor(job.x[i : i + 1], dtype=torch.float64))
            loss = cross_entropy(outputs, torch.tensor(job.y[i : i + 1]), label_smoothing=plan.smoothing or 0.0)
            gradient = torch.cat([piece.reshape(-1) for piece in torch.autograd.grad(loss, learns)])
            total += gradient * min(1.0, private.clip / (float(gradient.norm()) + 1e-6))
        total += private.noise * private.clip * torch.from_numpy(rng.standard_normal(len(total)))
        for parameter, piece in zip(learns, total.split([p.numel() for p in learns]), strict=True):
            parameter.grad = piece.view_as(parameter) / plan.batch_size
        rule.step()
    return {name: value.numpy() for name, value in module.state_dict().items()}


def assert_close(ours: Params, theirs: Params, tolerance: float = 1e-5) -> None:
    for name, value in theirs.items():
        assert np.linalg.norm(ours[name] - value) <= tolerance * (np.linalg.norm(value) + 1e-3), name


PLANS = {
    "plain": PLAN,
    "adam and smoothing": replace(
        PLAN, momentum=0.0, optimiser=Optimiser("adam", eps=1e-3), smoothing=0.2, lr=Schedule(0.01)
    ),
    "some layers": replace(PLAN, train=("fc2.bias", "fc1.weight")),
    "all samples, hardly clipped": replace(PLAN, private=PrivateSteps(50.0, 0.01, 1.0)),
    "batches without samples": replace(PLAN, steps=8, private=PrivateSteps(0.5, 0.7, 0.02)),
}


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS.keys())
def test_steps_are_those_of_the_definition(either: Trainer, plan: Plan) -> None:
    outcome = either.train(job(plan))
    assert outcome.steps == plan.steps
    assert_close(outcome.params, by_hand(job(plan)))


@pytest.mark.integration
@pytest.mark.parametrize("train", [None, ("conv2", "fc1.bias")])
def test_convolutions(either: Trainer, train: tuple[str, ...] | None) -> None:
    plan = replace(PLAN, train=train, steps=2)
    assert_close(either.train(job(plan, LENET, samples=12)).params, by_hand(job(plan, LENET, samples=12)))


def test_one_sample_moves_a_step_by_its_clip_at_most(either: Trainer) -> None:
    """Brute force: one step at rate 1 without momentum, with and without each sample, however large it is."""
    plan = Plan(Schedule(1.0), steps=1, batch_size=1, private=PrivateSteps(0.5, 1e-6, 1.0))
    whole = job(plan, samples=6)
    x = whole.x * np.array([1, 30, 1e6, 1e30, np.inf, 1], np.float32).reshape(6, 1, 1, 1)

    def made(kept: list[int]) -> np.ndarray:
        part = replace(whole, x=x[kept], y=whole.y[kept], rng=np.random.default_rng(0))
        return np.concatenate([value.ravel() for value in either.train(part).params.values()])

    everyone = made([*range(6)])
    moved = [np.linalg.norm(everyone - made([i for i in range(6) if i != left])) for left in range(6)]
    assert max(moved) <= 0.5 + 1e-3
    assert sum(length > 0.4 for length in moved) >= 3  # the bound is reached
    assert moved[4] <= 1e-3  # a sample whose gradient is not finite has no part


@compiled
@pytest.mark.integration
@pytest.mark.parametrize("share", [1.0, 0.5])
def test_a_step_is_private_and_one_with_half_the_noise_is_not(share: float) -> None:
    """Who sees the model guesses whether there was a sample, which a coin of q lets take part.

    What is (ε, δ)-private without the coin is (log(1 + q (e^ε − 1)), q δ)-private with it, and no better.
    """
    rate, inner, delta, count = 0.8, 1.0, 0.1, 3000
    odds, allowed = 1 + rate * math.expm1(inner), rate * delta
    trainer, one = NativeTrainer(Forbidden()), job(samples=1)
    x = one.x * np.float32(30)  # whose gradient is cut

    def models(private: PrivateSteps, samples: int, seeds: range) -> np.ndarray:
        plan = Plan(Schedule(1.0), steps=1, batch_size=1, private=private)
        part = replace(one, plan=plan, x=x[:samples], y=one.y[:samples])
        made = [trainer.train(replace(part, rng=np.random.default_rng(seed))).params for seed in seeds]
        return np.array([np.concatenate([value.ravel() for value in params.values()]) for params in made])

    still = PrivateSteps(0.5, 1e-6, 1.0)
    direction = (models(still, 1, range(1)) - models(still, 0, range(1)))[0]
    assert np.linalg.norm(direction) == pytest.approx(0.5, rel=1e-3)
    noised = PrivateSteps(0.5, share * gaussian_sigma(inner, delta), rate)
    there = models(noised, 1, range(count)) @ direction
    absent = models(noised, 0, range(count, 2 * count)) @ direction
    cuts = np.linspace(absent.min(), there.max(), 80)
    excess = max((there > t).mean() - odds * (absent > t).mean() for t in cuts)
    chance = 4 * math.sqrt((1 + odds**2) * 0.1 / count)
    assert (excess <= allowed + chance) == (share == 1.0)


def test_nothing_else_is_told(either: Trainer) -> None:
    """No loss, and a number of steps that is the same for clients of any size, also of none."""
    for samples in (0, 1, 20):
        outcome = either.train(job(samples=samples))
        assert (outcome.loss, outcome.steps) == (0.0, PLAN.steps)
        assert not np.array_equal(outcome.params["fc1.weight"], initial(MLP, 3)["fc1.weight"])


def test_a_secret_takes_the_place_of_the_stream(either: Trainer) -> None:
    one, same, other = (
        either.train(replace(job(seed=seed), secret=SecretRandomness(key))).params["fc1.weight"]
        for key, seed in ((bytes(16), 1), (bytes(16), 2), (bytes(range(16)), 1))
    )
    assert np.array_equal(one, same)  # the seed has no part in it
    assert not np.allclose(one, other)


def test_batches_are_drawn_by_coins() -> None:
    plan = replace(PLAN, steps=400)
    sizes = np.array([len(batch) for (batch,) in batches_of(job(plan, samples=50))])
    assert sizes.mean() == pytest.approx(15, abs=4 * np.sqrt(50 * 0.3 * 0.7 / 400))
    assert sizes.var() == pytest.approx(50 * 0.3 * 0.7, rel=0.3)


def test_an_error_of_the_secret_comes_through(either: Trainer) -> None:
    class Broken(SecretRandomness):
        def standard_normal(self, size: int) -> np.ndarray:
            raise OSError("the secret is gone")

    with pytest.raises(OSError, match="the secret is gone"):
        either.train(replace(job(), secret=Broken(bytes(16))))


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"steps": None}, "give steps"),
        ({"clip": 1.0}, "no 'clip'"),
        ({"label_offset": "prior"}, "no 'label_offset'"),
        ({"curriculum": Curriculum()}, "no 'curriculum'"),
        ({"mask": "own"}, "no 'mask'"),
        ({"snapshots": (1,)}, "leave snapshots out"),
        ({"private": PrivateSteps(0.0, 1.0, 0.1)}, "greater than 0"),
        ({"private": PrivateSteps(1.0, 0.0, 0.1)}, "greater than 0"),
        ({"private": PrivateSteps(1.0, 1.0, 1.5)}, "at most 1"),
    ],
)
def test_plans_that_would_not_be_private_are_refused(change: dict[str, object], error: str) -> None:
    assert error_in_plan(PLAN) is None
    assert error in str(error_in_plan(replace(PLAN, **change)))  # type: ignore[arg-type]


def test_networks_that_mix_samples_are_refused(network) -> None:  # type: ignore[no-untyped-def]
    spec = network(
        lambda inputs, classes: nn.Sequential(nn.Linear(inputs, 4), nn.BatchNorm1d(4), nn.Linear(4, classes))
    )
    with pytest.raises(CoterieError, match="layer '1' normalises a sample by the others"):
        TorchTrainer().train(job(spec=spec))
    frozen = replace(PLAN, train=("2",))  # its statistics stay, so that samples do not see each other
    assert TorchTrainer().train(job(frozen, spec)).steps == 4


def test_layers_that_are_not_vectorised_are_gone_through_one_by_one(network) -> None:  # type: ignore[no-untyped-def]
    class Odd(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) * (1.0 if float(x.sum()) > 0 else 2.0)

    spec = network(Odd)
    assert_close(TorchTrainer().train(job(spec=spec)).params, by_hand(job(spec=spec)))


def test_older_sites_see_no_new_field() -> None:
    assert "private" not in Train(Plan(Schedule(0.1))).restricted()
