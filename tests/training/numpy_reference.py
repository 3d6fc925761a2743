"""Softmax regression trained by a plan, in NumPy and float64: the oracle for what trainers do with 'mclr'.

Written from the step rule in the documentation of plans, not from any trainer:

    g = grad f(w; b) + sum_k mu_k (w - a_k) + lambda w + s sign(w)
    v = rho v + g;  w = w - eta v;  w = w - eta c;  w = m * w
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from coterie.messages import Plan

Vectors = dict[str, np.ndarray]


@dataclass
class Result:
    params: Vectors
    loss: float
    snapshots: list[Vectors]


def loss_and_gradient(
    w: Mapping[str, np.ndarray], x: np.ndarray, y: np.ndarray, offset: np.ndarray | float = 0.0
) -> tuple[float, Vectors]:
    """Mean cross-entropy of softmax(x W' + b + o), and its derivatives in closed form."""
    scores = x.astype(np.float64) @ w["fc.weight"].T + w["fc.bias"] + offset
    scores = scores - scores.max(axis=1, keepdims=True)
    probability = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    loss = -np.log(probability[np.arange(len(y)), y]).mean()
    error = (probability - np.eye(len(w["fc.bias"]))[y]) / len(y)
    return float(loss), {"fc.weight": error.T @ x, "fc.bias": error.sum(axis=0)}


def per_epoch(samples: int, plan: Plan) -> int:
    batches = (samples + plan.batch_size - 1) // plan.batch_size
    return batches if plan.meta_step is None else max(batches // 2, 1)


def train(
    plan: Plan,
    start: Mapping[str, np.ndarray],
    x: np.ndarray,
    y: np.ndarray,
    batches: Sequence[tuple[np.ndarray, ...]],
    anchors: Sequence[tuple[Mapping[str, np.ndarray], float]] = (),
    correction: Mapping[str, Any] | None = None,
    mask: Mapping[str, np.ndarray] | None = None,
    label_offset: np.ndarray | float = 0.0,
) -> Result:
    m = {name: (mask or {}).get(name, np.ones_like(value)) for name, value in start.items()}
    w = {name: m[name] * np.asarray(value, np.float64) for name, value in start.items()}
    v = {name: np.zeros_like(value) for name, value in w.items()}
    wanted = [epoch * per_epoch(len(y), plan) for epoch in sorted(set(plan.snapshots))]
    snapshots, losses = [], []
    for s, batch in enumerate(batches):
        rate = plan.lr.rate / (1 + plan.lr.decay * s) ** plan.lr.power
        place = w
        if plan.meta_step is not None:
            _, inner = loss_and_gradient(w, x[batch[0]], y[batch[0]], label_offset)
            if plan.meta_step.shared_momentum:
                inner = v = {name: plan.momentum * v[name] + inner[name] for name in w}
            place = {name: m[name] * (w[name] - plan.meta_step.rate * inner[name]) for name in w}
        loss, gradient = loss_and_gradient(place, x[batch[-1]], y[batch[-1]], label_offset)
        after, velocity = {}, {}
        for name in w:
            g = gradient[name] + plan.weight_decay * w[name]
            g = g + sum(strength * (w[name] - anchor[name]) for anchor, strength in anchors)
            if plan.l1 is not None and name in plan.l1.tensors:
                g = g + plan.l1.strength * np.sign(w[name])
            velocity[name] = plan.momentum * v[name] + g
            after[name] = w[name] - rate * velocity[name]
            if correction is not None:
                after[name] = after[name] - rate * correction[name]
            after[name] = m[name] * after[name]
        w, v = after, velocity
        losses.append(loss)
        if s + 1 in wanted:
            snapshots.append(w)
    return Result(w, float(np.mean(losses)) if losses else 0.0, snapshots)


def assert_close(actual: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray], rtol: float = 1e-5) -> None:
    """Compare tensors of float32 with those of the oracle, relative to the size of the whole tensor."""
    assert set(actual) == set(expected)
    for name, value in expected.items():
        assert actual[name].dtype == np.float32
        scale = max(float(np.abs(value).max()), 1e-2)
        np.testing.assert_allclose(actual[name], value, rtol=rtol, atol=rtol * scale, err_msg=name)
