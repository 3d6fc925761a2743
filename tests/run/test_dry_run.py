"""What the forecast of a run is made of: states as large as they will be, and trainings as long as the run's."""

import numpy as np
import pytest

from coterie.messages import ModelSpec, Plan, Schedule
from coterie.run import dry_run
from coterie.run.dry_run import CountingStore, estimate, measure_speed
from coterie.run.settings import settings_to_config
from coterie.training.rehearsal import RehearsalTrainer

TINY = {
    "dataset": "digits-rotated", "clients": 5, "fraction": 1.0, "rounds": 3, "epochs": 1, "eval_every": 2,
    "model": "mlp", "model_options": {"hidden": 8}, "workers": 1,
}  # fmt: skip
MODEL = 4 * (64 * 8 + 8 + 8 * 10 + 10)
"""Bytes."""


def test_states_are_counted_as_large_as_they_will_be() -> None:
    store, shared = CountingStore(), np.zeros(10, np.float32)
    for client, rounds in {3: [1], 5: [1, 2, 4]}.items():
        for t in rounds:
            store.save(client, t, {"model": {"w": shared}, "control": {"w": shared[:5]}})
    assert store.nbytes == (1 + 2) * 60  # the last two of each client


def test_the_time_to_write_states_is_that_of_a_few_times_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]

    class Disk:
        def __init__(self, folder: object) -> None: ...

        def save(self, client: int, round: int, state: object) -> None:
            clock[0] += 0.5

    monkeypatch.setattr(dry_run, "DiskStore", Disk)
    monkeypatch.setattr(dry_run.time, "thread_time", lambda: clock[0])
    store = CountingStore()
    assert store.seconds_to_write() == 0
    for t in range(20):
        store.save(3, t, {"model": {"w": np.zeros(2, np.float32)}})
    assert store.seconds_to_write(few=4) == 10.0
    assert clock == [2.0]


@pytest.mark.integration
def test_memory_is_that_of_the_rehearsal_and_of_what_it_does_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    peaks = iter([1e9, 2e9, 3e9, 3e9])
    monkeypatch.setattr(dry_run, "peak_memory", lambda: next(peaks))
    config = settings_to_config(None, {**TINY, "algorithm": "lg-fedavg"})
    said = estimate(config)
    states = said.disk - 2 * MODEL
    assert states == 5 * 2 * MODEL  # all clients keep the models of two rounds
    assert said.memory == 2e9 + states + dry_run.MODELS_AT_ONCE * MODEL
    assert estimate(config).memory < 1e9  # the peak was there before, and tells nothing


@pytest.mark.parametrize(("per_training", "trainings"), [(2, 3 + 20), (7, 1 + 6), (100, 1 + 1), (None, 1 + 1)])
def test_steps_are_timed_in_trainings_as_long_as_the_runs(per_training: int | None, trainings: int) -> None:
    trainer, x = RehearsalTrainer(), np.zeros((50, 6), np.float32)
    spec, plan = ModelSpec("mlp", (6,), 3, {"hidden": 4}), Plan(lr=Schedule(0.1), epochs=1, batch_size=10)
    y = np.arange(50) % 3
    measure_speed(trainer, spec, plan, x, y, per_training=per_training, per_evaluation=5)
    assert trainer.trainings == trainings
    assert trainer.evaluated == 5 * trainer.evaluations == 5 * 11
