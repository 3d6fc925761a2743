"""Personal sub-networks by pruning (Sub-FedAvg, Vahidian, Morafah and Lin, 2021): unstructured, hybrid, structured."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from annotated_types import Ge, Gt, Le, Lt

from coterie.algorithms import algorithm
from coterie.errors import CoterieError
from coterie.federation import (
    Aggregator,
    Algorithm,
    ClientSampler,
    Contribution,
    Federation,
    SharedLayers,
    Traits,
    as_request,
    saved,
)
from coterie.federation.aggregation import middle
from coterie.messages import Array, Channels, ClientId, L1Penalty, ModelSpec, Params, Prune, PruneReply, Train, frozen
from coterie.messages.verbs.prune import transfers_when_pruned
from coterie.models import build, initial
from coterie.models.flops import Size, size
from coterie.models.learning import learning

if TYPE_CHECKING:
    from torch import nn


@algorithm("sub-fedavg-un")
@dataclass(kw_only=True)
class SubFedAvgUn(Algorithm):
    """Each client prunes its smallest weights over the rounds; each weight is averaged over those who have it."""

    not_private = "its clients prune by what they have trained and measured, which is told without noise"
    not_summed = (
        "it makes the mean of each weight over the clients that have not pruned it, so the server sees who pruned what"
    )
    traits = Traits(
        of_labels=True,
        battery={"epochs": 2, "algorithm_options": {"distance": 0.0, "accuracy": 0.0}},  # always prunes
    )

    rate: Annotated[float, Gt(0), Lt(1), "share of a layer's remaining weights that goes at a time"] = 0.1
    target: Annotated[float, Ge(0), Lt(1), "share of all weights up to which a client prunes"] = 0.5
    distance: Annotated[
        float, Ge(0), Le(1), "prune only if the masks after the first and the last epoch differ in more than this share"
    ] = 1e-4
    accuracy: Annotated[float, Ge(0), Le(1), "and only if more than this share of samples is right afterwards"] = 0.5
    validation: Annotated[
        Literal["holdout", "test"],
        "those samples: a tenth of the training samples, kept out of training; or, as the paper's code does, the test "
        "samples (a leak)",
    ] = "holdout"
    last_rate: Annotated[
        float | None, Gt(0), Lt(1), "largest rate of the last steps, which end at the target; the paper's code: 0.05"
    ] = None

    model: Params = saved()
    """θ_g, which is dense."""
    prune: Prune = saved()
    whole: Size = saved()
    """Of the network."""
    sizes: dict[ClientId, Size] = saved(default_factory=dict)
    """Of each client's sub-network, when it last answered."""
    trained: dict[ClientId, int] = saved(default_factory=dict)
    """The round in which that was."""
    verdicts: dict[str, int] = saved(default_factory=dict)
    """How often clients came to each verdict."""
    notes: list[str] = saved(default_factory=list)

    def begin(self, fed: Federation) -> None:
        """θ_g ← θ⁰; all masks are whole."""
        self.model, self.whole, self.prune = fed.initial(), size(fed.spec), self.asked(fed.spec)
        if fed.plan.epochs == 1:
            self.notes.append(
                "one local epoch: nothing is pruned, since the masks after the first and the last epoch are compared; "
                "use more epochs"
            )

    def asked(self, spec: ModelSpec) -> Prune:
        """What clients prune: kernels and matrices that learn; biases and normalisations never."""
        return Prune(
            weights=weights_that_learn(spec),
            rate=self.rate,
            target=self.target,
            distance=self.distance,
            accuracy=self.accuracy,
            last_rate=self.last_rate,
            on=self.validation,
        )

    def check(self, spec: ModelSpec, sampler: ClientSampler) -> None:
        """Refuse a network of which nothing can be pruned in this way."""
        self.asked(spec)

    def round(self, fed: Federation, cohort: Sequence[ClientId]) -> None:
        """θ_i ← LocalSGD(M_i ⊙ θ_g), where M_i is then pruned further; θ_g ← Σ M_i θ_i / Σ M_i."""
        prunes = fed.plan.epochs > 1 and (self.target > 0 or self.prune.channels)
        held_out = self.prune.share if prunes and self.validation == "holdout" else 0.0
        plan = replace(fed.plan, mask="own", snapshots=(1,), holdout=held_out, l1=self.penalty())
        _, start, models = as_request(self.model_for(0))  # all receive the same
        request = fed.request(Train(plan, start=start, send=False), self.prune, models=models)
        mean, held = OwnerMean(self.model), dict[ClientId, PruneReply]()
        for reply in fed.replies(dict.fromkeys(cohort, request)):
            answer = reply.answer(PruneReply)
            if fed.settings.aggregation.rule == "mean":
                mean.add(answer)
            else:
                held[reply.client] = answer
            self.note(fed, reply.client, answer)
        if held or mean.answers:
            reached = owner_average(fed.aggregator, self.model, held) if held else mean.mean()
            self.model = fed.aggregator.optimiser.step(self.model, {**reached})

    def note(self, fed: Federation, client: ClientId, answer: PruneReply) -> None:
        """Note how much a client has left, and what it decided."""
        mask = {name: answer.mask(name, self.model[name].shape) for name in answer.bitmaps}
        self.sizes[client], self.trained[client] = size(fed.spec, mask), fed.round
        verdicts = {"weights": answer.weights if self.prune.weights else None, "channels": answer.channels}
        for verdict in (f"{what} {verdict}" for what, verdict in verdicts.items() if verdict is not None):
            self.verdicts[verdict] = self.verdicts.get(verdict, 0) + 1

    def penalty(self) -> L1Penalty | None:
        """What else clients minimise: nothing."""
        return None

    def model_for(self, client: ClientId) -> Params | SharedLayers:
        """Everyone receives θ_g, and applies its own mask to it."""
        return self.model

    @property
    def pruned(self) -> float:
        """Mean share of weights pruned, over the clients that ever answered."""
        return float(np.mean([self.pruned_by(client) for client in self.sizes])) if self.sizes else 0.0

    def pruned_by(self, client: ClientId) -> float:
        """Return the share of weights that a client has pruned."""
        return 1 - self.sizes[client].weights / self.whole.weights

    @property
    def transfers(self) -> float:
        """A whole model down; up, what is left of it and a bit for each pruned weight."""
        return transfers_when_pruned(self.pruned)

    def observed(self, scores: Mapping[ClientId, tuple[float, int]], since: int) -> dict[str, Any]:
        """How far clients have pruned and how well they then do: on average, and each that has trained since."""
        accuracy = {c: scores[c][0] / scores[c][1] for c in self.sizes if scores.get(c, (0, 0))[1]}
        recent = [client for client in sorted(accuracy) if self.trained[client] > since]
        return {
            "pruned": self.pruned,
            "pruned_L": float(np.mean([*accuracy.values()])) if accuracy else None,
            "pruning": {str(client): [self.pruned_by(client), accuracy[client]] for client in recent},
        }

    def details(self) -> dict[str, Any]:
        """Say how much was pruned, and what that saves."""
        sizes = [*self.sizes.values()] or [self.whole]
        parameters = float(np.mean([s.parameters for s in sizes]))
        multiply_adds = float(np.mean([s.multiply_adds for s in sizes]))
        return {
            "pruned": self.pruned,
            "pruned_by_client": {str(client): self.pruned_by(client) for client in sorted(self.sizes)},
            "parameters": {"whole": self.whole.parameters, "left": parameters},
            "multiply_adds": {
                "whole": self.whole.multiply_adds,
                "left": multiply_adds,
                "reduction": self.whole.multiply_adds / multiply_adds if multiply_adds else None,
            },
            "verdicts": dict(sorted(self.verdicts.items())),
            "notes": list(self.notes),
        }


@algorithm("sub-fedavg-hy")
@dataclass(kw_only=True)
class SubFedAvgHy(SubFedAvgUn):
    """Each client prunes channels of convolutions by the scales of BatchNorm, and linear layers by their weights."""

    traits = Traits(
        default_model="lenet5-bn",
        of_labels=True,
        battery={
            "model": "lenet5-bn",
            "model_options": {},
            "epochs": 2,
            "batch_size": 60,
            "lr": 0.2,
            "server_share": 0.5,  # for the sake of time
            "algorithm_options": {"distance": 0.0, "channel_distance": 0.0, "accuracy": 0.0},
        },
    )

    target: Annotated[float, Ge(0), Lt(1), "share of the linear layers' weights up to which a client prunes"] = 0.5
    distance: Annotated[
        float,
        Ge(0),
        Le(1),
        "prune weights only if their masks after the first and the last epoch differ in more than this share; the "
        "paper: 0.05, at which hardly any go",
    ] = 5e-4
    channel_rate: Annotated[float, Gt(0), Lt(1), "share of a convolution's channels that goes"] = 0.45
    channel_distance: Annotated[
        float,
        Ge(0),
        Le(1),
        "remove channels only if those proposed after the first and the last epoch differ in more than this share; the "
        "paper's code: 0.01",
    ] = 0.05
    channel_floor: Annotated[float, Gt(0), Le(1), "share of each convolution's channels that stays at least"] = 0.5
    statistics: Annotated[
        Literal["shared", "local"], "BatchNorm's means and variances: averaged as all else is, or each client's own"
    ] = "shared"
    scale: Annotated[float, Gt(0), "of BatchNorm at the start (γ)"] = 0.5
    threshold: Annotated[
        Literal["layer", "network"],
        "channels whose scales are in the lowest share go: of their layer's scales, as in the paper's code, or of all, "
        "as in its text",
    ] = "layer"
    l1: Annotated[float, Ge(0), "strength of an L1 penalty on BatchNorm's scales in training; the paper: 0.0001"] = 0.0

    def begin(self, fed: Federation) -> None:
        """θ_g ← θ⁰ with γ = 0.5; all masks are whole."""
        super().begin(fed)
        gamma = {f"{layer.norm}.weight" for layer in self.prune.channels}
        start = {name: np.full_like(v, self.scale) if name in gamma else v for name, v in self.model.items()}
        self.model = frozen({name: start[name] for name in self.prune.sent(start)})

    def asked(self, spec: ModelSpec) -> Prune:
        """What clients prune: channels behind which there is a BatchNorm, and matrices."""
        fixed, found = initial(spec, 0).keys() - learning(spec), prunable_channels(spec, self.channel_floor)
        channels = tuple(layer for layer in found if not fixed & {*layer.own, layer.read})
        if not channels:
            raise CoterieError(
                f"Sub-FedAvg (Hy) and (St) remove channels by BatchNorm's scales, but the network '{spec.name}' has no "
                "convolution with a BatchNorm2d behind it in a torch.nn.Sequential, or freezes them: use the model "
                "'lenet5-bn', or sub-fedavg-un"
            )
        return replace(
            super().asked(spec),
            weights=self.matrices(spec),
            channels=channels,
            channel_rate=self.channel_rate,
            channel_distance=self.channel_distance,
            statistics=self.statistics == "shared",
            scales_of="network" if self.threshold == "network" else None,
        )

    def matrices(self, spec: ModelSpec) -> tuple[str, ...]:
        """Return the linear layers' weights, which go by their size."""
        return weights_that_learn(spec, matrices_only=True)

    def penalty(self) -> L1Penalty | None:
        """What else clients minimise: s Σ|γ|, so that scales which matter little go to 0."""
        return L1Penalty(self.l1, tuple(f"{layer.norm}.weight" for layer in self.prune.channels)) if self.l1 else None

    def model_for(self, client: ClientId) -> Params | SharedLayers:
        """Everyone receives θ_g; where statistics are local, to be laid over its own."""
        return self.model if self.statistics == "shared" else SharedLayers(self.model)


@algorithm("sub-fedavg-st")
@dataclass(kw_only=True)
class SubFedAvgSt(SubFedAvgHy):
    """Each client prunes channels of convolutions by the scales of BatchNorm; linear layers lose what reads those."""

    def matrices(self, spec: ModelSpec) -> tuple[str, ...]:
        """Return none: no weight goes by its size (4.3.3)."""
        return ()


def owner_average(aggregator: Aggregator, model: Params, answers: Mapping[ClientId, PruneReply]) -> Params:
    """Put together what clients have left, position by position over those that have it, by the rule of the run."""
    rule = aggregator.options.rule
    if rule == "mean" or not answers:
        return owner_mean(model, [*answers.values()])
    masks = {c: {name: a.mask(name, value.shape) for name, value in model.items()} for c, a in answers.items()}
    whole = [Contribution(c, _laid_over(model, a, masks[c]), model, 1.0) for c, a in answers.items()]
    cut = aggregator.screened({0: whole}, always=True)[0]  # a position may have few owners, of whom half lie
    if rule == "clipped":
        short = {new.client: new.params for new, old in zip(cut, whole, strict=True) if new is not old}
        left = {c: {name: short[c][name][masks[c][name]] for name in answers[c].bitmaps} for c in short}
        sent = {c: {name: short[c][name] for name in answers[c].params} | left[c] for c in short}
        return owner_mean(model, [replace(a, params=sent[c]) if c in sent else a for c, a in answers.items()])
    models = [member.params for member in cut]
    if rule == "krum":
        return models[aggregator.nearest(models)]
    result: dict[str, Array] = {}
    for name, old in model.items():
        owners, stack = np.stack([mask[name] for mask in masks.values()]), np.stack([m[name] for m in models])
        result[name] = np.where(owners.any(axis=0), middle(stack, aggregator.left_out(len(models)), owners), old)
    return frozen(result)


def _laid_over(model: Params, answer: PruneReply, mask: Mapping[str, Array]) -> dict[str, Array]:
    """Return a model with what a client has left in its place."""
    result = {name: value.copy() for name, value in model.items()}
    for name in result:
        result[name][mask[name]] = answer.params[name].ravel()
    return frozen(result)


class OwnerMean:
    """Σ M_i θ_i / Σ M_i of what clients have left, position by position, as it comes.

    Clients count alike, however many samples they have. Of integers (BatchNorm's counters) the largest is taken.
    """

    def __init__(self, model: Params) -> None:
        self._model, self.answers = model, 0
        self._totals: dict[str, Array] = {}
        self._owners: dict[str, Array] = {}

    def add(self, answer: PruneReply) -> None:
        """Add what a client has left."""
        self.answers += 1
        for name, old in self._model.items():
            value = answer.params[name]
            if not np.issubdtype(old.dtype, np.floating):
                self._totals[name] = np.asarray(np.maximum(self._totals.get(name, value), value))
                continue
            mask = answer.mask(name, old.shape)
            self._totals.setdefault(name, np.zeros(old.shape, np.float64))[mask] += value.ravel()
            self._owners[name] = self._owners.get(name, np.zeros(old.shape, np.int64)) + mask

    def mean(self) -> Params:
        """Return the mean; where nobody has a weight, the server's value stays."""
        mean = {}
        for name, old in self._model.items() if self.answers else ():
            mean[name], owners = self._totals[name], self._owners.get(name)
            if owners is not None:
                mean[name] = np.where(owners > 0, mean[name] / np.maximum(owners, 1), old).astype(old.dtype)
        return frozen(mean) if self.answers else self._model


def owner_mean(model: Params, answers: Iterable[PruneReply]) -> Params:
    """Return the `OwnerMean` of answers."""
    mean = OwnerMean(model)
    for answer in answers:
        mean.add(answer)
    return mean.mean()


def weights_that_learn(spec: ModelSpec, matrices_only: bool = False) -> tuple[str, ...]:
    """Name the matrices of a network, and its kernels; what is frozen is not pruned."""
    learns, named = learning(spec), build(spec).named_parameters()
    return tuple(name for name, p in named if name in learns and (p.ndim == 2 or (p.ndim > 2 and not matrices_only)))


def prunable_channels(spec: ModelSpec, floor: float) -> Iterator[Channels]:
    """Find the convolutions whose channels go straight to a BatchNorm2d, and who reads these channels.

    Only in a sequence of layers is that known: there it is the next layer with parameters.
    """
    from torch import nn

    layers = [*_sequence(build(spec))]
    for at, ((conv, before), (norm, scales)) in enumerate(pairwise(layers)):
        if not (isinstance(before, nn.Conv2d) and isinstance(scales, nn.BatchNorm2d) and scales.affine):
            continue
        channels, behind = before.out_channels, layers[at + 2 :]
        between = [*takewhile(lambda item: next(item[1].parameters(), None) is None, behind)]
        reader, layer = next(iter(behind[len(between) :]), ("", None))
        if any(isinstance(passed, nn.Flatten) for _, passed in between):
            reads = isinstance(layer, nn.Linear) and layer.in_features % channels == 0
        else:
            reads = isinstance(layer, nn.Conv2d) and layer.groups == 1 and layer.in_channels == channels
        if reads:
            yield Channels(conv, norm, reader, max(1, math.ceil(floor * channels - 1e-9)))


def _sequence(module: nn.Module, name: str = "") -> Iterable[tuple[str, nn.Module]]:
    """Go through the layers of nested sequences in the order in which they are run."""
    from torch import nn

    if not isinstance(module, nn.Sequential):
        yield name, module
        return
    for child, layer in module.named_children():
        yield from _sequence(layer, f"{name}.{child}" if name else child)
