"""Every field of a plan, one at a time and all together, against softmax regression in NumPy and float64."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy_reference as reference
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.messages import Anchor, Curriculum, L1Penalty, MetaStep, ModelSpec, Optimiser, Plan, Schedule
from coterie.training import Job, Outcome, Trainer, steps
from coterie.training.torch_trainer import TorchTrainer

FEATURES, CLASSES = 5, 3
SPEC = ModelSpec("mclr", (FEATURES,), CLASSES)


def model(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "fc.weight": rng.normal(size=(CLASSES, FEATURES)).astype(np.float32),
        "fc.bias": rng.normal(size=CLASSES).astype(np.float32),
    }


@dataclass
class Task:
    """A plan with data and arrays, for a trainer and for the reference alike."""

    plan: Plan
    samples: int = 23
    seed: int = 0
    arrays: dict[str, Any] = field(default_factory=dict)
    """anchors, correction, mask, label_offset."""
    order: np.ndarray | None = None

    def __post_init__(self) -> None:
        rng = np.random.default_rng([self.seed, 99])
        self.x = rng.normal(size=(self.samples, FEATURES)).astype(np.float32)
        self.y = rng.integers(CLASSES, size=self.samples)
        self.start = model(self.seed)

    def rng(self) -> np.random.Generator:
        return np.random.default_rng([self.seed, 7])

    def outcome(self, trainer: Trainer) -> Outcome:
        job = Job(SPEC, self.plan, self.start, self.x, self.y, self.rng(), order=self.order, **self.arrays)
        return trainer.train(job)

    def expected(self) -> reference.Result:
        batches = list(steps(self.samples, self.plan, self.rng(), self.order))
        return reference.train(self.plan, self.start, self.x, self.y, batches, **self.arrays)


def check(trainer: Trainer, task: Task, count: int) -> Outcome:
    """Execute a task, and compare all that comes of it; `count` is how many steps there must have been."""
    outcome, expected = task.outcome(trainer), task.expected()
    assert outcome.steps == count
    reference.assert_close(outcome.params, expected.params)
    assert outcome.loss == pytest.approx(expected.loss, rel=1e-5)
    assert len(outcome.snapshots) == len(expected.snapshots)
    for actual, wanted in zip(outcome.snapshots, expected.snapshots, strict=True):
        reference.assert_close(actual, wanted)
    return outcome


def gap(a: Mapping[str, np.ndarray], b: Mapping[str, np.ndarray]) -> float:
    return max(float(np.abs(a[name] - b[name]).max()) for name in a)


PLAIN = Plan(Schedule(0.2), batch_size=6)
"""4 steps in an epoch of 23 samples, the last with 5 samples."""


def test_one_epoch_of_plain_sgd_with_a_last_partial_batch(trainer: Trainer) -> None:
    task = Task(PLAIN)
    assert [len(batch) for (batch,) in steps(23, PLAIN, task.rng())] == [6, 6, 6, 5]
    check(trainer, task, count=4)


@pytest.mark.parametrize(
    ("without", "field", "count"),
    [
        ({}, {"epochs": 3}, 12),
        ({}, {"epochs": 0}, 0),
        ({}, {"steps": 7}, 7),
        ({"epochs": 5}, {"steps": 1}, 1),
        ({}, {"batch_size": 1}, 23),
        ({}, {"batch_size": 23}, 1),
        ({}, {"batch_size": 100}, 1),
        ({}, {"lr": Schedule(0.05)}, 4),
        ({"epochs": 2}, {"lr": Schedule(0.2, decay=0.5)}, 8),
        ({"epochs": 2, "lr": Schedule(0.2, decay=0.5)}, {"lr": Schedule(0.2, decay=0.5, power=2.0)}, 8),
        ({"epochs": 3}, {"momentum": 0.9}, 12),
        ({"epochs": 2}, {"weight_decay": 0.3}, 8),
        ({"epochs": 2, "momentum": 0.5}, {"weight_decay": 0.3}, 8),
        ({"epochs": 2}, {"l1": L1Penalty(0.1, ("fc.weight",))}, 8),
        ({"epochs": 2, "momentum": 0.5, "weight_decay": 0.1}, {"l1": L1Penalty(0.1, ("fc.bias",))}, 8),
        ({"epochs": 2}, {"meta_step": MetaStep(0.4)}, 4),
        ({"epochs": 2, "batch_size": 5}, {"meta_step": MetaStep(0.4)}, 4),
        ({"epochs": 2, "batch_size": 30}, {"meta_step": MetaStep(0.4)}, 2),
        ({"epochs": 3, "momentum": 0.7, "weight_decay": 0.1}, {"meta_step": MetaStep(0.4)}, 6),
        (
            {"epochs": 3, "momentum": 0.7, "meta_step": MetaStep(0.4)},
            {"meta_step": MetaStep(0.4, shared_momentum=True)},
            6,
        ),
        ({"epochs": 2, "weight_decay": 0.3}, {"optimiser": Optimiser("adam", eps=1e-3)}, 8),
        (
            {"epochs": 2, "weight_decay": 0.3, "optimiser": Optimiser("adam", eps=1e-3)},
            {"optimiser": Optimiser("adamw", eps=1e-3)},
            8,
        ),
        ({"epochs": 2, "optimiser": Optimiser("adam")}, {"optimiser": Optimiser("adam", 0.5, 0.8, 0.1)}, 8),
        ({"epochs": 2, "optimiser": Optimiser("adam", eps=1e-3)}, {"meta_step": MetaStep(0.4)}, 4),
        ({"epochs": 2, "momentum": 0.5, "weight_decay": 0.1}, {"clip": 0.2}, 8),
        ({"epochs": 2, "meta_step": MetaStep(0.4)}, {"clip": 0.2}, 4),
        ({"epochs": 2}, {"smoothing": 0.3}, 8),
        ({"epochs": 2, "meta_step": MetaStep(0.4)}, {"smoothing": 0.3}, 4),
    ],
    ids=str,
)
def test_a_field_does_what_its_documentation_says(
    trainer: Trainer, without: dict[str, Any], field: dict[str, Any], count: int
) -> None:
    outcome = check(trainer, Task(replace(PLAIN, **(without | field))), count)
    before = Task(replace(PLAIN, **without)).outcome(trainer)
    assert gap(outcome.params, before.params) > 1e-3


@pytest.mark.parametrize(
    ("plan", "noted_after"),
    [
        (replace(PLAIN, epochs=3, snapshots=(1,)), [4]),
        (replace(PLAIN, epochs=3, snapshots=(1, 3), momentum=0.5), [4, 12]),
        (replace(PLAIN, epochs=3, snapshots=(3, 1)), [4, 12]),
        (replace(PLAIN, steps=6, snapshots=(1, 2)), [4]),
        (replace(PLAIN, epochs=2, snapshots=(1, 2), meta_step=MetaStep(0.1)), [2, 4]),
        (replace(PLAIN, epochs=2, snapshots=(1, 2, 5)), [4, 8]),
    ],
    ids=str,
)
def test_snapshots_are_what_training_of_so_many_steps_would_have_led_to(
    trainer: Trainer, plan: Plan, noted_after: list[int]
) -> None:
    outcome = check(trainer, Task(plan), count=plan.steps or plan.epochs * (2 if plan.meta_step else 4))
    assert gap(outcome.params, Task(replace(plan, snapshots=())).outcome(trainer).params) == 0
    shorter = [Task(replace(plan, steps=count, snapshots=())).outcome(trainer).params for count in noted_after]
    assert [gap(a, b) for a, b in zip(outcome.snapshots, shorter, strict=True)] == [0] * len(noted_after)


def test_rate_of_a_step_by_hand() -> None:
    curriculum_chapter = Schedule(0.001, decay=0.001)
    for s in (0, 1, 17, 1000):
        assert curriculum_chapter.at(s) == pytest.approx(0.001 * (1 + 0.001 * s) ** -0.75, rel=1e-12)
    assert [Schedule(0.3).at(s) for s in (0, 5)] == [0.3, 0.3]
    assert Schedule(0.3, decay=1.0, power=1.0).at(2) == pytest.approx(0.1)


def test_the_schedule_counts_steps_over_epochs_and_begins_anew_with_each_job(trainer: Trainer) -> None:
    task = Task(replace(PLAIN, lr=Schedule(0.3, decay=2.0, power=1.0), epochs=2))
    first = check(trainer, task, count=8)
    again = task.outcome(trainer)
    assert gap(first.params, again.params) == 0


def test_momentum_begins_at_zero_with_each_job(trainer: Trainer) -> None:
    task = Task(replace(PLAIN, momentum=0.9, epochs=3))
    first = task.outcome(trainer)
    assert gap(first.params, task.outcome(trainer).params) == 0


def anchors(*strengths: float) -> tuple[tuple[dict[str, np.ndarray], float], ...]:
    return tuple((model(100 + k), strength) for k, strength in enumerate(strengths))


@pytest.mark.parametrize("strengths", [(), (0.0,), (0.5,), (0.5, 0.2, 0.1)], ids=str)
@pytest.mark.parametrize("momentum", [0.0, 0.8])
def test_anchors_pull(trainer: Trainer, strengths: tuple[float, ...], momentum: float) -> None:
    named = tuple(Anchor(str(k), strength) for k, strength in enumerate(strengths))
    plan = replace(PLAIN, anchors=named, momentum=momentum, epochs=2)
    outcome = check(trainer, Task(plan, arrays={"anchors": anchors(*strengths)}), count=8)
    free = Task(replace(plan, anchors=())).outcome(trainer)
    assert (gap(outcome.params, free.params) > 1e-2) == any(strengths)
    if not any(strengths):
        assert gap(outcome.params, free.params) == 0


def test_an_anchor_at_the_start_is_felt_from_the_second_step_on(trainer: Trainer) -> None:
    task = Task(replace(PLAIN, steps=1), arrays={"anchors": ((model(0), 5.0),)})
    free = Task(replace(PLAIN, steps=1))
    assert gap(task.outcome(trainer).params, free.outcome(trainer).params) == 0
    longer = Task(replace(PLAIN, steps=2), arrays={"anchors": ((model(0), 0.5),)})
    check(trainer, longer, count=2)
    assert gap(longer.outcome(trainer).params, Task(replace(PLAIN, steps=2)).outcome(trainer).params) > 1e-3


def test_an_anchor_of_some_layers_pulls_only_these(trainer: Trainer) -> None:
    """strength/2 · ‖w − a‖² over the tensors that `a` has: what it does not name is free."""
    bias_only = {"fc.bias": model(100)["fc.bias"]}
    task = Task(replace(PLAIN, steps=1), arrays={"anchors": ((bias_only, 0.5),)})
    free = Task(replace(PLAIN, steps=1)).outcome(trainer).params
    outcome = task.outcome(trainer).params
    pull = 0.2 * 0.5 * (task.start["fc.bias"] - bias_only["fc.bias"])
    np.testing.assert_allclose(outcome["fc.bias"], free["fc.bias"] - pull, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(outcome["fc.weight"], free["fc.weight"], rtol=1e-6)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_the_correction_stands_outside_the_momentum(trainer: Trainer, momentum: float) -> None:
    correction = model(200)
    plan = replace(PLAIN, correction="c", momentum=momentum, lr=Schedule(0.1, decay=0.2), epochs=2)
    check(trainer, Task(plan, arrays={"correction": correction}), count=8)


def test_a_correction_moves_each_step_by_its_rate_and_no_more(trainer: Trainer) -> None:
    """With a gradient that is always zero, momentum would show: w must move by −Σ η_s · c exactly."""
    plan = replace(PLAIN, correction="c", momentum=0.9, lr=Schedule(0.1), steps=5)
    task = Task(plan, arrays={"correction": model(200)})
    task.x[:] = 0  # then the weights have no gradient
    moved = task.outcome(trainer).params["fc.weight"] - task.start["fc.weight"]
    np.testing.assert_allclose(moved, -0.5 * model(200)["fc.weight"], rtol=1e-5, atol=1e-6)


def test_a_correction_may_name_some_layers_only(trainer: Trainer) -> None:
    plan = replace(PLAIN, correction="c", momentum=0.5)
    some = Task(plan, arrays={"correction": {"fc.bias": model(200)["fc.bias"]}}).outcome(trainer)
    full = {"fc.bias": model(200)["fc.bias"], "fc.weight": np.zeros((CLASSES, FEATURES), np.float32)}
    reference.assert_close(some.params, Task(plan, arrays={"correction": full}).expected().params)


@pytest.mark.parametrize("meta_step", [None, MetaStep(0.3), MetaStep(0.3, shared_momentum=True)])
def test_a_label_offset_is_added_to_the_logits_of_every_batch(trainer: Trainer, meta_step: MetaStep | None) -> None:
    offset = np.float32([0.5, -1.0, -4.0])
    plan = replace(PLAIN, epochs=2, momentum=0.5, weight_decay=0.1, meta_step=meta_step, label_offset="prior")
    outcome = check(trainer, Task(plan, arrays={"label_offset": offset}), count=8 if meta_step is None else 4)
    without = Task(replace(plan, label_offset=None)).outcome(trainer)
    assert gap(outcome.params, without.params) > 1e-2
    shifted = Task(plan, arrays={"label_offset": offset + np.float32(3)}).outcome(trainer)
    assert gap(outcome.params, shifted.params) < 1e-5  # one number for all labels does nothing


def test_training_with_an_offset_is_training_with_a_shifted_bias(trainer: Trainer) -> None:
    """θ trained with o is θ' trained without, where θ' has b + o at the start, less o at the end."""
    offset, plan = np.float32([0.5, -1.0, -4.0]), replace(PLAIN, epochs=2, momentum=0.5)
    ours = Task(plan, arrays={"label_offset": offset}).outcome(trainer).params
    moved = Task(plan)
    moved.start["fc.bias"] += offset
    theirs = moved.outcome(trainer).params
    reference.assert_close(ours, {**theirs, "fc.bias": theirs["fc.bias"] - offset})


def test_what_a_mask_hides_does_not_count_for_clipping(trainer: Trainer) -> None:
    plan = replace(PLAIN, epochs=2, mask="m", clip=0.3, anchors=(Anchor("a", 0.3),))
    outcome = check(trainer, Task(plan, arrays={"mask": mask(5), "anchors": anchors(0.3)}), count=8)
    everywhere = Task(plan, arrays={"mask": {}, "anchors": anchors(0.3)}).outcome(trainer)
    assert gap(outcome.params, everywhere.params) > 1e-3


def test_no_gradient_is_longer_than_the_clip(trainer: Trainer) -> None:
    """w moves by η C in a step whose gradient is longer, and as without clipping where none is."""
    task = Task(replace(PLAIN, steps=1, clip=0.01))
    moved = [task.outcome(trainer).params[name] - task.start[name] for name in task.start]
    assert np.sqrt(sum(np.square(part).sum() for part in moved)) == pytest.approx(0.2 * 0.01, rel=1e-3)
    longest = Task(replace(PLAIN, clip=1e6)).outcome(trainer)
    assert gap(longest.params, Task(PLAIN).outcome(trainer).params) == 0


def mask(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "fc.weight": (rng.random((CLASSES, FEATURES)) < 0.6).astype(np.float32),
        "fc.bias": np.float32([1, 0, 1]),
    }


@pytest.mark.parametrize("meta_step", [None, MetaStep(0.3), MetaStep(0.3, shared_momentum=True)])
def test_masked_weights_are_exactly_zero_under_everything_that_could_move_them(
    trainer: Trainer, meta_step: MetaStep | None
) -> None:
    plan = Plan(
        Schedule(0.2), epochs=3, batch_size=6, momentum=0.9, weight_decay=0.1, mask="m", meta_step=meta_step,
        correction="c", anchors=(Anchor("a", 0.3),), snapshots=(1, 2),
    )  # fmt: skip
    arrays = {"mask": mask(5), "correction": model(200), "anchors": anchors(0.3)}
    outcome = check(trainer, Task(plan, arrays=arrays), count=12 if meta_step is None else 6)
    assert len(outcome.snapshots) == 2
    for params in (outcome.params, *outcome.snapshots):
        for name, kept in mask(5).items():
            assert np.all(params[name][kept == 0] == 0.0)
            assert np.all(params[name][kept == 1] != 0.0)


def test_a_mask_holds_even_where_there_is_no_step(trainer: Trainer) -> None:
    outcome = Task(replace(PLAIN, epochs=0, mask="m"), arrays={"mask": mask(5)}).outcome(trainer)
    np.testing.assert_array_equal(outcome.params["fc.weight"], model(0)["fc.weight"] * mask(5)["fc.weight"])


def test_a_mask_of_some_layers_leaves_the_others_alone(trainer: Trainer) -> None:
    task = Task(replace(PLAIN, mask="m"), arrays={"mask": {"fc.weight": mask(5)["fc.weight"]}})
    outcome = check(trainer, task, count=4)
    assert np.all(outcome.params["fc.bias"] != 0)


def test_masked_training_does_not_depend_on_what_the_mask_hides(trainer: Trainer) -> None:
    task = Task(replace(PLAIN, mask="m", momentum=0.9), arrays={"mask": mask(5)})
    clean = task.outcome(trainer)
    task.start = {name: np.where(mask(5)[name] == 0, np.float32(7), value) for name, value in task.start.items()}
    assert gap(task.outcome(trainer).params, clean.params) == 0


@pytest.mark.parametrize("pacing", ["exponential", "step", "root", "linear", "quadratic"])
@pytest.mark.parametrize("meta_step", [None, MetaStep(0.3), MetaStep(0.3, shared_momentum=True)])
def test_a_curriculum_trains_on_its_pools(trainer: Trainer, pacing: Any, meta_step: MetaStep | None) -> None:
    plan = replace(PLAIN, curriculum=Curriculum(pacing=pacing, a=0.8, b=0.3), epochs=3, meta_step=meta_step)
    order = np.random.default_rng(3).permutation(23)
    outcome = check(trainer, Task(plan, order=order), count=12 if meta_step is None else 6)
    assert gap(outcome.params, Task(replace(plan, curriculum=None)).outcome(trainer).params) > 1e-3


@pytest.mark.parametrize(("a", "b"), [(0.0, 0.2), (0.0, 0.0), (0.8, 1.0), (1.0, 1.0)])
@pytest.mark.parametrize("pacing", ["exponential", "step", "root", "linear", "quadratic"])
@pytest.mark.parametrize("meta_step", [None, MetaStep(0.3), MetaStep(0.3, shared_momentum=True)])
def test_a_curriculum_that_hides_nothing_is_bit_for_bit_ordinary_training(
    trainer: Trainer, a: float, b: float, pacing: Any, meta_step: MetaStep | None
) -> None:
    plan = replace(PLAIN, epochs=3, momentum=0.5, meta_step=meta_step)
    ordinary = Task(plan).outcome(trainer)
    order = np.random.default_rng(3).permutation(23)
    shown = Task(replace(plan, curriculum=Curriculum(pacing=pacing, a=a, b=b)), order=order).outcome(trainer)
    assert shown.loss == ordinary.loss
    assert all(shown.params[name].tobytes() == value.tobytes() for name, value in ordinary.params.items())


def test_snapshots_are_copies(trainer: Trainer) -> None:
    """A later job of the same network must not change what an earlier one returned."""
    task = Task(replace(PLAIN, epochs=2, snapshots=(1,)))
    outcome = task.outcome(trainer)
    before = [{name: value.copy() for name, value in m.items()} for m in (outcome.params, *outcome.snapshots)]
    Task(PLAIN, seed=1).outcome(trainer)
    for kept, now in zip(before, (outcome.params, *outcome.snapshots), strict=True):
        assert gap(kept, now) == 0


def test_a_job_changes_nothing_of_what_it_was_given(trainer: Trainer) -> None:
    plan = replace(PLAIN, momentum=0.9, correction="c", mask="m", anchors=(Anchor("a", 0.3),))
    arrays = {"mask": mask(5), "correction": model(200), "anchors": anchors(0.3)}
    task = Task(plan, arrays=arrays)
    given_arrays = [task.x, *task.start.values(), *arrays["mask"].values(), *arrays["correction"].values()]
    given_arrays += list(arrays["anchors"][0][0].values())
    before = [array.copy() for array in given_arrays]
    task.outcome(trainer)
    for array, kept in zip(given_arrays, before, strict=True):
        np.testing.assert_array_equal(array, kept)


def test_what_was_received_may_be_read_only(trainer: Trainer) -> None:
    plan = replace(PLAIN, correction="c", mask="m", anchors=(Anchor("a", 0.3),))
    task = Task(plan, arrays={"mask": mask(5), "correction": model(200), "anchors": anchors(0.3)})
    writable = task.outcome(trainer)
    for params in (task.start, task.arrays["mask"], task.arrays["correction"], task.arrays["anchors"][0][0]):
        for array in params.values():
            array.flags.writeable = False
    assert gap(task.outcome(trainer).params, writable.params) == 0


def test_without_samples_there_is_nothing_to_do(trainer: Trainer) -> None:
    outcome = Task(replace(PLAIN, epochs=3, snapshots=(1,)), samples=0).outcome(trainer)
    assert (outcome.steps, outcome.loss) == (0, 0.0)
    assert gap(outcome.params, model(0)) == 0


@st.composite
def tasks(draw: st.DrawFn) -> Task:
    samples = draw(st.integers(1, 17))
    names = draw(st.lists(st.floats(0, 0.5), max_size=3))
    curriculum = st.builds(
        Curriculum,
        pacing=st.sampled_from(["exponential", "step", "root", "linear", "quadratic"]),
        a=st.floats(0, 1),
        b=st.floats(0, 1),
    )
    optimiser = draw(
        st.none()
        | st.builds(Optimiser, st.sampled_from(["adam", "adamw"]), st.sampled_from([0.0, 0.9]), eps=st.just(0.01))
    )
    plan = Plan(
        lr=draw(
            st.builds(Schedule, st.floats(0.01, 0.2), decay=st.sampled_from([0.0, 0.1]), power=st.floats(0.5, 1.5))
        ),
        epochs=draw(st.integers(0, 3)),
        steps=draw(st.none() | st.integers(0, 12)),
        batch_size=draw(st.integers(1, 8)),
        momentum=0.0 if optimiser else draw(st.sampled_from([0.0, 0.5, 0.9])),
        weight_decay=draw(st.sampled_from([0.0, 0.05, 0.3])),
        anchors=tuple(Anchor(str(k), strength) for k, strength in enumerate(names)),
        correction=None if optimiser else draw(st.sampled_from([None, "c"])),
        mask=draw(st.sampled_from([None, "m"])),
        curriculum=draw(st.none() | curriculum),
        meta_step=draw(st.none() | st.builds(MetaStep, st.floats(0.0, 0.5), st.booleans())),
        snapshots=tuple(draw(st.sets(st.integers(1, 4), max_size=3))),
        l1=draw(st.none() | st.builds(L1Penalty, st.floats(0.0, 0.1), st.just(("fc.weight",)))),
        optimiser=optimiser,
        clip=draw(st.sampled_from([None, 0.1, 3.0])),
        smoothing=draw(st.sampled_from([None, 0.2])),
    )
    seed = draw(st.integers(0, 2**16))
    arrays: dict[str, Any] = {"anchors": anchors(*names)}
    if plan.correction:
        arrays["correction"] = model(seed + 1)
    if plan.mask:
        arrays["mask"] = mask(seed)
    order = np.random.default_rng(seed).permutation(samples) if plan.curriculum else None
    return Task(plan, samples, seed, arrays, order)


RANDOM_PLANS = TorchTrainer()


@pytest.mark.integration
@given(tasks())
def test_any_plan_at_all(task: Task) -> None:
    plan = task.plan
    epochs = plan.epochs * reference.per_epoch(task.samples, plan)
    outcome = check(RANDOM_PLANS, task, count=epochs if plan.steps is None else plan.steps)
    if plan.mask:
        hidden = task.arrays["mask"]
        assert all(np.all(outcome.params[name][hidden[name] == 0] == 0.0) for name in hidden)
