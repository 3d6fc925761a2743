"""Softmax regression trained by a plan, in NumPy and float64: the oracle for what trainers do with 'mclr'.

Written from the step rule in the documentation of plans, not from any trainer:

    g = grad f(w; b) + sum_k mu_k (w - a_k), no longer than C, + lambda w + s sign(w)
    v = rho v + g;  w = w - eta v;  w = w - eta c;  w = m * w
    or Adam: u = b1 u + (1 - b1) g;  q = b2 q + (1 - b2) g g;  w = w - eta (u / (1 - b1^t)) / (sqrt(q / (1 - b2^t)) + e)
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
    w: Mapping[str, np.ndarray],
    x: np.ndarray,
    y: np.ndarray,
    offset: np.ndarray | float = 0.0,
    smoothing: float | None = None,
) -> tuple[float, Vectors]:
    """Mean cross-entropy of softmax(x W' + b + o), and its derivatives in closed form."""
    scores = x.astype(np.float64) @ w["fc.weight"].T + w["fc.bias"] + offset
    scores = scores - scores.max(axis=1, keepdims=True)
    probability = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    classes, share = len(w["fc.bias"]), smoothing or 0.0
    wanted = (1 - share) * np.eye(classes)[y] + share / classes
    loss = -(wanted * np.log(probability)).sum(axis=1).mean()
    error = (probability - wanted) / len(y)
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
    moments = {name: (np.zeros_like(value), np.zeros_like(value)) for name, value in w.items()}
    wanted = [epoch * per_epoch(len(y), plan) for epoch in sorted(set(plan.snapshots))]
    snapshots, losses = [], []
    for s, batch in enumerate(batches):
        rate = plan.lr.rate / (1 + plan.lr.decay * s) ** plan.lr.power
        place = w
        if plan.meta_step is not None:
            _, inner = loss_and_gradient(w, x[batch[0]], y[batch[0]], label_offset, plan.smoothing)
            if plan.meta_step.shared_momentum:
                inner = v = {name: plan.momentum * v[name] + inner[name] for name in w}
            place = {name: m[name] * (w[name] - plan.meta_step.rate * inner[name]) for name in w}
        loss, gradient = loss_and_gradient(place, x[batch[-1]], y[batch[-1]], label_offset, plan.smoothing)
        for name in w:
            gradient[name] = gradient[name] + sum(mu * (w[name] - anchor[name]) for anchor, mu in anchors)
        if plan.clip is not None:
            norm = np.sqrt(sum(float(np.square(m[name] * gradient[name]).sum()) for name in w))
            gradient = {name: g * min(1.0, plan.clip / (norm + 1e-6)) for name, g in gradient.items()}
        after, velocity = {}, {}
        for name in w:
            decoupled = plan.optimiser is not None and plan.optimiser.name == "adamw"
            g = gradient[name] + (0.0 if decoupled else plan.weight_decay) * w[name]
            if plan.l1 is not None and name in plan.l1.tensors:
                g = g + plan.l1.strength * np.sign(w[name])
            velocity[name] = plan.momentum * v[name] + g
            after[name] = w[name] - rate * velocity[name]
            if (adam := plan.optimiser) is not None:
                u, q = moments[name]
                moments[name] = u, q = adam.beta1 * u + (1 - adam.beta1) * g, adam.beta2 * q + (1 - adam.beta2) * g * g
                u, q = u / (1 - adam.beta1 ** (s + 1)), q / (1 - adam.beta2 ** (s + 1))
                after[name] = w[name] - rate * (plan.weight_decay if decoupled else 0.0) * w[name]
                after[name] = after[name] - rate * u / (np.sqrt(q) + adam.eps)
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
