"""The server's step: from a model towards the mean of what clients trained from it (FedOpt, Reddi et al., ICLR 2021).

Δ = mean − model stands in for a negative gradient. Numbers that BatchNorm counts are no gradient: of these the mean is
taken. Moments belong to the model that they led to: whoever goes on from it goes on with them. So each group has its
own; of a group that is split, or of one that another inherits from, they go on with the model; θ⁰ has none. They are
forgotten with the model.
"""

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge, Gt, Lt

from coterie.federation.state import Resumable, saved
from coterie.messages import Array, Params, frozen
from coterie.messages.params import STATISTICS
from coterie.messages.wire import digest

OptimiserName = Literal["sgd", "adam", "yogi"]
ADAPTIVE_LR = 0.03
"""The rate of Adam and Yogi unless the user says otherwise; it is the longest step of a parameter, nearly."""


@dataclass(frozen=True)
class ServerStep:
    """How the server goes from a model towards a mean; by default it takes the mean."""

    optimiser: OptimiserName = "sgd"
    lr: float = 1.0
    momentum: float = 0.0
    beta2: float = 0.99
    tau: float = 1e-3

    @property
    def takes_means(self) -> bool:
        """Whether a step leads to the mean itself."""
        return self.optimiser == "sgd" and self.lr == 1 and not self.momentum

    @property
    def remembers(self) -> bool:
        """Whether a step depends on those before."""
        return self.optimiser != "sgd" or self.momentum > 0

    def moments(self, change: Array, m: Array, v: Array) -> tuple[Array, Array]:
        """Return m_t and v_t of Δ_t (Alg. 2); of plain SGD m ← ρ m + Δ, and v stays."""
        if self.optimiser == "sgd":
            return self.momentum * m + change, v
        m, square = self.momentum * m + (1 - self.momentum) * change, change * change
        if self.optimiser == "adam":
            return m, self.beta2 * v + (1 - self.beta2) * square
        return m, v - (1 - self.beta2) * square * np.sign(v - square)

    def direction(self, m: Array, v: Array) -> Array:
        """Return m/(√v + τ) (Alg. 2); of plain SGD m."""
        return m if self.optimiser == "sgd" else m / (np.sqrt(v) + self.tau)


@dataclass(kw_only=True, eq=False)
class ServerOptions:
    """Options that every method has: how the server goes from its models towards the means of what clients trained."""

    server_optimiser: Annotated[
        OptimiserName,
        "what takes the server's step from a model to the mean of what clients trained from it, in each group; sgd "
        "with server_lr = 1 takes the mean itself, with server_momentum = 0.9 it is FedAvgM; adam: FedAdam, yogi: "
        "FedYogi",
    ] = "sgd"
    server_lr: Annotated[
        float | None, Gt(0), f"rate of the server's step; by default 1 for sgd, {ADAPTIVE_LR:g} for adam and yogi"
    ] = None
    server_momentum: Annotated[
        float | None, Ge(0), Lt(1), "of the server's steps, β₁; by default 0 for sgd, 0.9 for adam and yogi"
    ] = None
    server_beta2: Annotated[
        float | None, Ge(0), Lt(1), "adam and yogi: how much of earlier squares is kept, β₂; by default 0.99"
    ] = None
    server_tau: Annotated[float | None, Gt(0), "adam and yogi: how adaptive they are, τ; by default 0.001"] = None

    @property
    def server_step(self) -> ServerStep:
        """How the server goes from a model towards a mean."""
        adaptive = self.server_optimiser != "sgd"
        given = {"lr": self.server_lr, "momentum": self.server_momentum} | self._of_adaptive
        usual = {"lr": ADAPTIVE_LR, "momentum": 0.9} if adaptive else {}
        return ServerStep(self.server_optimiser, **usual | {k: v for k, v in given.items() if v is not None})

    @property
    def _of_adaptive(self) -> dict[str, float | None]:
        return {"beta2": self.server_beta2, "tau": self.server_tau}

    def error_in_server_step(self) -> str | None:
        """Say why the step that is asked for can't be taken, or None.

        A method that has no mean, or a step of its own, overrides this to refuse more.
        """
        given = [f"server_{key}" for key, value in self._of_adaptive.items() if value is not None]
        if given and self.server_optimiser == "sgd":
            return f"{given[0]} is of server_optimiser = adam or yogi: write one of these, or leave it out"
        return None


@dataclass
class StepMoments:
    """What the steps that led to a model leave to the next."""

    round: int
    """In which the last was."""
    m: Params
    v: Params
    """Empty where there is none."""


@dataclass
class ServerOptimiser(Resumable):
    """Takes the server's steps, and remembers what the next ones need."""

    how: ServerStep
    now: Callable[[], int]
    """Says which round it is."""
    moments: dict[str, StepMoments] = saved(default_factory=dict)
    """By the digest of the model that they led to."""
    _models: dict[str, "weakref.ref[Array]"] = field(init=False, default_factory=dict, repr=False)
    """A tensor of each of these models: when nobody has it any more, nobody goes on from the model."""

    def step(self, model: Params, mean: dict[str, Array]) -> dict[str, Array]:
        """Return where a step leads that goes from a model towards the mean of what clients trained from it.

        The model may have more tensors than the mean.
        """
        learnt = [n for n, value in mean.items() if value.dtype.kind == "f" and not n.endswith(STATISTICS)]
        if self.how.takes_means or not learnt:
            return mean
        self._forget(self.now() - 1)
        before = self.moments.get(self._found({name: model[name] for name in mean}, learnt[0]))
        result, m, v = dict(mean), dict[str, Array](), dict[str, Array]()
        for name in learnt:
            start, dtype = model[name].astype(np.float64), mean[name].dtype
            last = (
                (np.zeros(()), np.square(self.how.tau)) if before is None else (before.m[name], before.v.get(name, 0))
            )
            moments = self.how.moments(mean[name] - start, *(np.asarray(value, np.float64) for value in last))
            result[name] = np.asarray(start + self.how.lr * self.how.direction(*moments), dtype)
            m[name], v[name] = (np.asarray(value, dtype) for value in moments)
        if self.how.remembers:
            reached = self._found(frozen(result), learnt[0])
            self.moments[reached] = StepMoments(self.now(), m, v if self.how.optimiser != "sgd" else {})
        return frozen(result)

    def _found(self, model: Params, tensor: str) -> str:
        """Return under which name the moments of a model are kept, as long as it is there."""
        key = digest({name: model[name] for name in sorted(model)})
        self._models[key] = weakref.ref(model[tensor])
        return key

    def _forget(self, before: int) -> None:
        """Forget the moments of models that nobody has any more, if the step to them was before a round.

        So a method may also keep a copy of its model, if it goes on from that in the next round.
        """
        gone = {key for key, tensor in self._models.items() if tensor() is None}
        self.moments = {k: m for k, m in self.moments.items() if k not in gone or m.round >= before}
        self._models = {k: tensor for k, tensor in self._models.items() if k not in gone or k in self.moments}

    def save(self) -> dict[str, Any]:
        """Return the moments of models that somebody still has, or that this round led to."""
        self._forget(self.now())
        return super().save()
