"""A local training plan: data, not code.

A plan can be sent over a wire and executed by any trainer. Where it needs parameters (anchors, the server's
control, a mask) it names them; the arrays travel in the request beside it, or lie in the client's state.

One step of a plan, for a mini-batch b:

    g ← ∇f(w; b) + Σ_k μ_k (w − a_k)             anchors
    g ← g min(1, C / (‖m ⊙ g‖ + 10⁻⁶))           clipping, of what learns as a whole
    g ← g + λ w                                  weight decay
    g ← g + s sign(w)                            L1 penalty, on the tensors that it names
    v ← ρ v + g                                  momentum
    w ← w − η v
    w ← w − η c                                  correction, outside the momentum
    w ← m ⊙ w                                    mask

f is the loss that the network's specification names. By default that is the cross-entropy of the logits, or with a
label offset that of the logits plus the offset; with smoothing S its labels are 1 − S + S/K for the right one of K and
S/K for each other. Where a plan says what learns, no line of this is done to anything else.

With Adam the lines of momentum are, at step t = 1, 2, … of this training (moments start from zero in each):

    u ← β₁ u + (1 − β₁) g,   q ← β₂ q + (1 − β₂) g²
    w ← w − η (u / (1 − β₁ᵗ)) / (√(q / (1 − β₂ᵗ)) + ε)

AdamW takes the decay out of the gradient: w ← w − η λ w before the step. Everything else stays where it is: anchors and
the L1 penalty are part of g, the mask comes last. Momentum and a correction are not defined with either.

With a mixture (APFL) a part v of the client's own learns beside w, by v ← v − η α ∇f(α v + (1 − α) w; b); w learns as
without. With proximal steps (pFedMe) the gradient is λ (w − θ), θ being what K steps of the inner rate make of w on
f(θ; b) + λ/2 ‖θ − w‖². Either sends w, and leaves the client another model: the mixture, or the last θ.

With a meta-step α (Per-FedAvg) the gradient is taken on a second batch b₂ at w − α ∇f(w; b₁), or, where both
half-steps share the momentum, at w − α v with v ← ρ v + ∇f(w; b₁) before. The inner half-step is neither clipped nor
Adam's; the outer one is, as any step.

With private steps (DP-SGD, Abadi et al., 2016) each sample is in a batch by a coin of its own, of probability q (or in
one of the 1/q steps of a shuffled epoch, by a die of its own), and

    g ← (Σ_{i ∈ b} g_i min(1, C / (‖g_i‖ + 10⁻⁶)) + z C N(0, I)) / B

takes the place of ∇f(w; b), g_i being the gradient of sample i. B is the batch size that the plan names, not the number
that came; the number of steps is the plan's too, so that neither tells how many samples there are. All lines that
follow are post-processing.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from coterie.messages.params import SENT_IF_SET

Pacing = Literal["exponential", "step", "root", "linear", "quadratic"]
Order = Literal["curriculum", "anti", "random"]
Score = Literal["G", "L", "LG", "G-pred", "L-pred", "LG-pred", "E"]
LabelOffset = Literal["lacking", "prior"]
"""What a client adds to logits (`coterie.training.label_offsets`): minus log(n + 1) for labels that it lacks; with
``prior`` also the logarithm of its label frequencies for those that it has."""


@dataclass(frozen=True)
class Schedule:
    """The learning rate of local step s = 0, 1, …: ``rate · (1 + decay · s) ** −power``."""

    rate: float
    decay: float = 0.0
    power: float = 0.75

    def at(self, step: int) -> float:
        """Return the learning rate of a step.

        >>> Schedule(0.1).at(1000), round(Schedule(0.1, decay=0.001).at(1000), 6)
        (0.1, 0.05946)
        """
        return self.rate * (1.0 + self.decay * step) ** -self.power if self.decay else self.rate

    def path(self, steps: int) -> float:
        """Return Ση of so many steps, of which those beyond a million are estimated.

        >>> Schedule(0.5).path(4), round(Schedule(0.1, decay=0.001).path(1000), 3)
        (2.0, 75.703)
        """
        if not self.decay or not steps:
            return self.rate * steps
        few, d, p = min(steps, 10**6), self.decay, self.power
        total = self.rate * float(np.sum((1.0 + d * np.arange(few)) ** -p))
        if steps > few:
            a, b = math.log1p(d * few), math.log1p(d * steps)
            tail = b - a if p == 1 else (math.exp((1 - p) * b) - math.exp((1 - p) * a)) / (1 - p)
            total += self.rate * tail / d
        return total


@dataclass(frozen=True)
class Anchor:
    """A proximal term ``strength/2 · ‖w − a‖²``, with `a` the named model."""

    model: str
    strength: float


@dataclass(frozen=True)
class Curriculum:
    """Which samples step t may use: the first g(t) in order of a score (ALGORITHMS 6)."""

    score: Score = "G"
    """By the loss of the received model (G), its own (L), both, or the request's model ``expert`` (E); ``-pred``: by
    whether predictions are right, or agree."""
    pacing: Pacing = "linear"
    a: float = 0.8
    b: float = 0.2
    order: Order = "curriculum"


@dataclass(frozen=True)
class MetaStep:
    """Per-FedAvg's inner half-step, after which the gradient of the outer one is taken."""

    rate: float
    """α; the plan's own rate is then β."""
    shared_momentum: bool = False
    """Whether one buffer serves both half-steps, as in the authors' code: the inner gradient enters the outer step."""


@dataclass(frozen=True)
class Optimiser:
    """What makes steps of gradients instead of SGD."""

    name: Literal["adam", "adamw"]
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8


@dataclass(frozen=True)
class L1Penalty:
    """A term ``strength · Σ|w|`` over some tensors, which draws them to 0."""

    strength: float
    """s."""
    tensors: tuple[str, ...]


@dataclass(frozen=True)
class Mixture:
    """APFL's part of the client's own, which is trained beside the model that is sent, and never leaves the client."""

    alpha: float
    """α, its share in the model that the client uses; where that adapts, at first."""
    adaptive: bool = False
    """Whether the first batch of each training moves a client's α."""


@dataclass(frozen=True)
class ProximalSteps:
    """pFedMe's inner loop, after which a step is made towards what it found."""

    strength: float
    """λ; the plan's own rate is η."""
    steps: int
    """K."""
    rate: float


@dataclass(frozen=True)
class PrivateSteps:
    """DP-SGD: what bounds and hides the part of each sample in a step. The unit is one sample."""

    clip: float
    """C, the largest norm of a sample's gradient."""
    noise: float
    """z, the noise's standard deviation over C."""
    rate: float
    """q, the probability by which a sample is in a batch; 1: each is in all."""
    shuffled: bool = False
    """Whether a sample is in one of 1/q steps, rounded, instead of in each by a coin."""


@dataclass(frozen=True)
class UpdateNoise:
    """What bounds and hides all that a training has changed, before it is sent. The unit is one client."""

    clip: float
    """S, the longest update."""
    noise: float
    """z, the noise's standard deviation over 2S, by which two updates may differ."""


@dataclass(frozen=True)
class Plan:
    """What a client does with its training data."""

    lr: Schedule
    epochs: int = 1
    steps: int | None = None
    """If given, this many steps instead of `epochs` passes."""
    batch_size: int = 10
    momentum: float = 0.0
    weight_decay: float = 0.0
    anchors: tuple[Anchor, ...] = ()
    correction: str | None = None
    """Name of the server's control; the client subtracts its own and updates it (SCAFFOLD)."""
    mask: str | None = None
    """Name of a model of zeros and ones, or ``"own"`` for the client's; masked weights stay exactly 0."""
    curriculum: Curriculum | None = None
    meta_step: MetaStep | None = None
    snapshots: tuple[int, ...] = ()
    """Epochs after which the parameters are noted on the way."""
    holdout: float = 0.0
    """Share of the client's training samples that is kept out of training, always the same ones."""
    l1: L1Penalty | None = field(default=None, metadata=SENT_IF_SET)
    """Of BatchNorm's scales, for Sub-FedAvg."""
    label_offset: LabelOffset | None = field(default=None, metadata=SENT_IF_SET)
    """Made by the client of the labels that it trains on, and added to the logits before the softmax."""
    train: tuple[str, ...] | None = field(default=None, metadata=SENT_IF_SET)
    """What learns, by how names begin; nothing else changes by one bit, BatchNorm's statistics neither. None: all that
    the network does not freeze itself (`coterie.models.learning`)."""
    mixture: Mixture | None = field(default=None, metadata=SENT_IF_SET)
    """Of two models, of which one is the client's own; neither with anchors, nor with a mask or correction."""
    proximal: ProximalSteps | None = field(default=None, metadata=SENT_IF_SET)
    """An inner loop in place of the gradient; not with a mask or a meta-step."""
    optimiser: Optimiser | None = field(default=None, metadata=SENT_IF_SET)
    """None: SGD, with the momentum above."""
    clip: float | None = field(default=None, metadata=SENT_IF_SET)
    """C, the largest norm of a gradient."""
    smoothing: float | None = field(default=None, metadata=SENT_IF_SET)
    """S, the share of a label that is given to all labels alike."""
    private: PrivateSteps | None = field(default=None, metadata=SENT_IF_SET)
    """Per-sample clipping, noise, and batches by coins; only with `steps`, which then do not depend on samples."""
    hidden: UpdateNoise | None = field(default=None, metadata=SENT_IF_SET)
    """How a result is hidden when it is sent; what the client keeps is not. No private steps or correction beside."""


def error_in_plan(plan: Plan, loss: str | None = None) -> str | None:
    """Say which fields of a plan have no meaning together, or with a loss other than the cross-entropy; or None.

    >>> error_in_plan(Plan(Schedule(0.001), momentum=0.5, optimiser=Optimiser("adam")))
    "momentum = 0.5 is of SGD, which the optimiser 'adam' replaces: set it to 0"
    """
    if plan.clip is not None and not plan.clip > 0:
        return f"clip = {plan.clip} should be greater than 0: leave it out to clip no gradient"
    if plan.smoothing is not None and not 0 <= plan.smoothing < 1:
        return f"smoothing = {plan.smoothing} should be at least 0 and less than 1"
    if loss is not None and (plan.label_offset is not None or plan.smoothing):
        return f"label offsets and smoothing are of the cross-entropy: they are not defined with the loss '{loss}'"
    if plan.clip is not None and (plan.mixture is not None or plan.proximal is not None):
        return "clipping is of one gradient a step: it is not defined for APFL and pFedMe, leave it out"
    if plan.private is not None and (error := _error_in_private(plan, plan.private)):
        return error
    if plan.hidden is not None and (error := _error_in_hidden(plan, plan.hidden)):
        return error
    adam = plan.optimiser
    if adam is None:
        return None
    if not (0 <= adam.beta1 < 1 and 0 <= adam.beta2 < 1 and adam.eps > 0):
        return f"{adam} should have 0 <= beta < 1 and eps > 0"
    if plan.momentum:
        return f"momentum = {plan.momentum} is of SGD, which the optimiser '{adam.name}' replaces: set it to 0"
    if plan.mixture is not None or plan.proximal is not None:
        return f"steps of APFL and pFedMe are those of SGD: they are not defined with the optimiser '{adam.name}'"
    if plan.correction is not None:
        return f"a correction (SCAFFOLD) is one of SGD's steps: it is not defined with the optimiser '{adam.name}'"
    return None


def _error_in_private(plan: Plan, private: PrivateSteps) -> str | None:
    """Say why steps would not be private, or have no meaning."""
    if not (0 < private.clip < math.inf and 0 < private.noise < math.inf and 0 < private.rate <= 1):
        return f"{private} should have clip and noise greater than 0, and a rate of more than 0 and at most 1"
    if plan.steps is None:
        return "private steps are counted beforehand, since epochs tell how many samples there are: give steps"
    for name in ("clip", "mask", "correction", "curriculum", "meta_step", "label_offset", "mixture", "proximal"):
        if getattr(plan, name) is not None:
            return f"private steps have no '{name}', whose part in them nobody has accounted for: leave it out"
    if plan.holdout:
        return "private steps hold no samples out, whose number would depend on how many there are: leave holdout out"
    if plan.snapshots:
        return "private steps have no epochs after which snapshots could be taken: leave snapshots out"
    return None


def _error_in_hidden(plan: Plan, hidden: UpdateNoise) -> str | None:
    """Say why an update would not be hidden."""
    if not (0 < hidden.clip < math.inf and 0 < hidden.noise < math.inf):
        return f"{hidden} should have clip and noise greater than 0"
    if plan.private is not None:
        return "an update of private steps needs no other noise: leave hidden out"
    if plan.correction is not None:
        return "the change of a control would tell of a hidden update: leave correction out"
    return None


def with_epochs(plan: Plan, epochs: int) -> Plan:
    """Return a plan of other epochs; of private steps, whose number is given, there are as many more or fewer.

    >>> with_epochs(Plan(Schedule(0.1), epochs=10, steps=100, private=PrivateSteps(1.0, 1.0, 0.1)), 3).steps
    30
    """
    if plan.private is None or plan.steps is None:
        return replace(plan, epochs=epochs)
    return replace(plan, epochs=epochs, steps=max(1, round(plan.steps * epochs / plan.epochs)))


def steps_per_epoch(samples: int, plan: Plan) -> int:
    """Count the steps of one pass: ⌈n/B⌉, or half of it in pairs for meta-steps, at least one."""
    batches = math.ceil(samples / plan.batch_size)
    return batches if plan.meta_step is None else max(1, batches // 2)


def total_steps(samples: int, plan: Plan) -> int:
    """Count the steps of a whole plan.

    >>> total_steps(25, Plan(Schedule(0.1), epochs=2, batch_size=10))
    6
    """
    if samples == 0 and plan.private is None:  # private steps are made of noise alone, where there are no samples
        return 0
    return plan.epochs * steps_per_epoch(samples, plan) if plan.steps is None else plan.steps


def normaliser(steps: int, plan: Plan) -> float:
    """Return FedNova's a_i = Σ_k a_k, a_k = Σ_{s ≥ k} ρ^(s−k) η_s/η_0: how often local SGD counts its gradients.

    >>> normaliser(3, Plan(Schedule(0.1))), normaliser(2, Plan(Schedule(0.1), momentum=0.5))
    (3.0, 2.5)
    """
    rho, few = plan.momentum, min(steps, 10**6)
    if not plan.lr.decay:
        return (steps - rho * (1 - rho**steps) / (1 - rho)) / (1 - rho)
    first = sum(plan.lr.at(s) / plan.lr.at(0) * (1 - rho ** (s + 1)) / (1 - rho) for s in range(few))
    rest = plan.lr.path(steps) - plan.lr.path(few) if steps > few else 0.0  # where ρ^s is 0
    return first + rest / plan.lr.at(0) / (1 - rho)
