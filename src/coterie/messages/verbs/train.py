"""Train: local training by a plan."""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np

from coterie.messages.envelope import Answer, Request, Verb, kinds_of_models
from coterie.messages.limits import (
    Limits,
    bytes_of,
    error_in_counts,
    error_in_declared,
    error_in_losses,
    error_in_tensors,
)
from coterie.messages.params import Array, Params
from coterie.messages.plan import (
    Anchor,
    Curriculum,
    L1Penalty,
    MetaStep,
    Mixture,
    Optimiser,
    Plan,
    PrivateSteps,
    ProximalSteps,
    Schedule,
    UpdateNoise,
    total_steps,
)

PASSES = 4
"""A batch is seen so often at most; twice where a step is a meta-step. Proximal steps see it once each."""
ADAPTING = "adapt"
"""The purpose by which a model is adapted before it is measured: shuffled alike in every round, so that the same model
always has the same score."""
ADDED_LATER = ("train", "mixture", "proximal", "optimiser", "clip", "smoothing", "private", "hidden")
"""Fields of plans that the policies which sites hold since before do not name."""


@dataclass(frozen=True)
class TrainReply(Answer):
    """The outcome of ``Train``."""

    wire_name = "Trained"

    samples: int
    """1 where steps are private or the result is hidden: how many there are is not told."""
    steps: int
    """Where the result is hidden, those of one sample."""
    loss: float
    """Mean over the training steps; 0 where they are private, or the result is hidden."""
    params: Params = field(default_factory=dict)
    control: Params = field(default_factory=dict)
    """Change of the client's control, where the plan has a correction."""


@dataclass(frozen=True)
class Train(Verb):
    """Train locally by a plan."""

    answer_type: ClassVar[type[Answer]] = TrainReply
    parts: ClassVar[tuple[type, ...]] = (
        *(Plan, Schedule, Anchor, Curriculum, MetaStep),
        *(L1Penalty, Mixture, ProximalSteps, Optimiser, PrivateSteps, UpdateNoise),
    )
    makes: ClassVar[dict[str, str]] = {
        "trained": "put a Train before it into the same request",
        "epoch": "let the plan of the Train before it have snapshots=({},)",
    }

    plan: Plan
    start: tuple[str, ...] = ("model",)
    """Models laid over each other, the last on top: ``("own", "model")`` is the client's own with the sent layers."""
    keep: bool = True
    """Whether the result becomes the client's own model."""
    send: bool | tuple[str, ...] = True
    """Send back all parameters, none, or those whose names begin so."""
    purpose: str = "train"
    """Part of the address of the random stream that shuffles the samples."""

    def sent(self, params: Params) -> dict[str, Array]:
        """Return the parameters that are sent back, but for those that the network freezes."""
        if isinstance(self.send, bool):
            return dict(params) if self.send else {}
        return {name: value for name, value in params.items() if name.startswith(self.send)}

    def error_in(self, answer: Any, request: Request, limits: Limits) -> str | None:
        """Check the numbers, the steps against the plan, the tensors, and the control against what was trained."""
        samples, steps, plan = answer.samples, answer.steps, self.plan
        if error := error_in_counts(samples=samples, steps=steps) or error_in_losses(answer.loss):
            return error
        if steps != (expected := total_steps(samples, plan)):
            return f"{steps} steps, where the plan has {expected} for {samples} samples"
        if self.send and samples == 0:
            return "a model trained on 0 samples, expected at least 1"
        if error := error_in_declared(samples, limits.samples - limits.held_out(plan.holdout)):
            return error
        controls, template = request.models[plan.correction] if plan.correction and steps else (), limits.template
        return (
            error_in_tensors(answer.params, self.sent(template).keys() - limits.frozen, template)
            or error_in_tensors(answer.control, controls, template)
            or self._error_in_control(answer, request)
            or self.error_in_counters(answer.params, request, limits, steps)
        )

    def error_in_counters(self, params: Params, request: Request, limits: Limits, steps: int) -> str | None:
        """Say which counter of BatchNorm has grown by more than the steps; the largest becomes everybody's.

        What a client's own model had is not known.
        """
        sources = self.start[self.start.index("own") + 1 :] if "own" in self.start else self.start
        known = {"initial": limits.template, **request.models}
        for name, value in params.items():
            if value.dtype.kind == "f":
                continue
            received = (
                [known[model] for model in sources if model in known] if "best" not in sources else known.values()
            )
            counts = [int(model[name].max()) for model in received if name in model]
            passes = PASSES if self.plan.proximal is None else max(PASSES, self.plan.proximal.steps)
            if counts and int(value.max()) > max(counts) + passes * steps:
                return f"'{name}' is {value.max()}, from {max(counts)} in {steps} steps"
        return None

    def _error_in_control(self, answer: TrainReply, request: Request) -> str | None:
        """Compare a control with what it follows from, (θ_t − θ_i)/Σηₛ − c, where the server knows that."""
        if not answer.control or not all(name in request.models for name in self.start):
            return None
        start = {name: value for model in self.start for name, value in request.models[model].items()}
        server, path = request.models[str(self.plan.correction)], np.float32(self.plan.lr.path(answer.steps))
        for name, change in answer.control.items():
            if name not in answer.params or name not in start:
                continue
            expected = (start[name] - answer.params[name]) / path - server[name]
            if np.array_equal(change, expected):  # as it is unless somebody rounds otherwise
                continue
            began, ended = np.abs(start[name]).max(initial=0.0), np.abs(answer.params[name]).max(initial=0.0)
            rounding = 1e-5 * ((began + ended) / path + np.abs(server[name]).max(initial=0.0))
            allowed = float(1e-3 * np.abs(expected).max(initial=0.0) + rounding)
            if not float(np.abs(change - expected).max(initial=0.0)) <= allowed:
                return f"the control of '{name}' does not follow from the model that was trained"
        return None

    def largest_answer(self, request: Request, limits: Limits) -> int:
        """Return the bytes of a model, and of a control."""
        return bytes_of(limits.template) * (bool(self.send) + (self.plan.correction is not None))

    def keeps_state(self) -> bool:
        """Say whether the result is kept."""
        return self.keep

    def trains(self) -> bool:
        """Say whether steps are made whose result is kept."""
        return self.keep and self.plan.steps != 0

    def needs_expert(self) -> bool:
        """Say whether an expert's losses order the samples."""
        return self.plan.curriculum is not None and self.plan.curriculum.score == "E"

    def is_noised(self) -> bool:
        """Say whether its steps are private, or its result is hidden."""
        return self.plan.private is not None or self.hides()

    def hides(self) -> bool:
        """Say whether its result is hidden as a whole, and with it how many samples and which loss there were."""
        return self.plan.hidden is not None

    def restricted(self) -> dict[str, Any]:
        """Return the whole plan, where it starts and what is sent; the purpose only names a random stream."""
        plan = {field.name: getattr(self.plan, field.name) for field in fields(self.plan)}
        plan = {name: value for name, value in plan.items() if value is not None or name not in ADDED_LATER}
        plan["anchors"] = tuple((*kinds_of_models([anchor.model]), anchor.strength) for anchor in self.plan.anchors)
        return {**plan, "start": kinds_of_models(self.start), "keep": self.keep, "send": self.send}

    def models_needed(self) -> tuple[str, ...]:
        """Name the start and the anchors."""
        if isinstance(self.start, str):
            raise TypeError(f"Train.start is a tuple of names: write ({self.start!r},)")
        return (*self.start, *(anchor.model for anchor in self.plan.anchors))

    def models_to_send(self) -> tuple[str, ...]:
        """Name the server's control and mask."""
        mask = None if self.plan.mask == "own" else self.plan.mask
        return tuple(name for name in (self.plan.correction, mask) if name is not None)

    def models_after(self, made: AbstractSet[str]) -> AbstractSet[str]:
        """Replace what an earlier training made."""
        others = {name for name in made if name.partition(" ")[0] not in self.makes}
        return others | {"trained", *(f"epoch {epoch}" for epoch in self.plan.snapshots)}
