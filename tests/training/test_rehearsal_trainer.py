"""The trainer of rehearsals: what it returns looks like a model that was trained."""

import numpy as np

from coterie.messages import ModelSpec, Plan, Schedule
from coterie.models import initial
from coterie.training.job import Job
from coterie.training.rehearsal import RehearsalTrainer


def test_one_tensor_that_is_learnt_moves_and_counters_stay_arrays() -> None:
    spec = ModelSpec("lenet5-bn", (1, 28, 28), 10)
    start = initial(spec, seed=0)
    x, y = np.zeros((20, 1, 28, 28), np.float32), np.zeros(20, np.int64)
    plan = Plan(epochs=2, batch_size=10, lr=Schedule(0.1))
    trained = RehearsalTrainer().train(Job(spec, plan, start, x, y, np.random.default_rng(0))).params
    assert all(isinstance(value, np.ndarray) and value.dtype == start[name].dtype for name, value in trained.items())
    moved = [name for name, value in trained.items() if not np.array_equal(value, start[name])]
    assert [start[name].dtype.kind for name in moved] == ["f"]
