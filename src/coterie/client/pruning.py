"""What a client prunes: proposals, their distance, and the decision (Sub-FedAvg, ALGORITHMS 7).

A mask has booleans by name, of the shapes of the tensors that can be pruned: true is what is left.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from coterie.messages import Array, Channels, Params, Prune, Verdict

Booleans: TypeAlias = npt.NDArray[np.bool_]
Mask: TypeAlias = dict[str, Booleans]


class Decision(NamedTuple):
    """The mask from now on, and how it came about."""

    mask: Mask
    weights: Verdict
    channels: Verdict | None


def decide(
    verb: Prune, first: Params, last: Params, mask: Mask, accuracy: Callable[[Params], float | None]
) -> Decision:
    """Prune channels, then weights, each if that pays; `first` and `last` are the models after these epochs.

    `accuracy` measures a model; None says that it can't, and NaN is never enough.
    """

    def good_enough(candidate: Mask) -> bool:
        reached = accuracy(under(last, candidate))
        return reached is None or reached > verb.accuracy

    channels: Verdict | None = None
    if verb.channels:
        channels, mask = _prune_channels(verb, first, last, mask, good_enough)
    weights, mask = _prune_weights(verb, first, last, mask, good_enough)
    return Decision(mask, weights, channels)


def _prune_weights(
    verb: Prune, first: Params, last: Params, mask: Mask, good_enough: Callable[[Mask], bool]
) -> tuple[Verdict, Mask]:
    """M ← M'' if Δ(M', M'') > ε, too little is pruned, and the model still works (Un; the linear layers of Hy)."""
    pruned = pruned_share(mask, verb.weights)
    if pruned >= verb.target:
        return "target", mask
    early, late = (propose_weights(model, mask, verb.weights, verb.rate) for model in (first, last))
    if not hamming(early, late) > verb.distance:
        return "unchanged", mask
    if verb.target - pruned < verb.rate:
        late = propose_weights(last, mask, verb.weights, last_rate(verb.target, pruned, verb.last_rate))
    if _alike(late, mask):
        return "unchanged", mask
    candidate = mask | late
    return ("pruned", candidate) if good_enough(candidate) else ("reverted", mask)


def _prune_channels(
    verb: Prune, first: Params, last: Params, mask: Mask, good_enough: Callable[[Mask], bool]
) -> tuple[Verdict, Mask]:
    """Remove channels if the two proposals differ enough, and the model still works (Hy)."""
    early, late = (_proposed_channels(verb, model, mask) for model in (first, last))
    changed = np.mean(np.concatenate([early[norm] != late[norm] for norm in late]))
    candidate = without_channels(mask, verb.channels, late)
    if not changed > verb.channel_distance or _alike(candidate, mask):
        return "unchanged", mask
    return ("pruned", candidate) if good_enough(candidate) else ("reverted", mask)


def whole(model: Params, names: Iterable[str]) -> Mask:
    """Return the mask of a client that has pruned nothing."""
    return {name: np.ones(model[name].shape, bool) for name in names}


def under(model: Params, mask: Mapping[str, Array]) -> dict[str, Array]:
    """Return M ⊙ θ; what the mask does not name stays as it is. Variances that are gone are 1, to divide by nothing."""
    return {
        name: np.where(mask[name], value, value.dtype.type(name.endswith("running_var"))) if name in mask else value
        for name, value in model.items()
    }


def propose_weights(model: Params, mask: Mask, names: Iterable[str], rate: float) -> Mask:
    """Keep, tensor by tensor, what is left and not below the percentile `rate` of the magnitudes that are left."""
    return {name: _largest(np.abs(model[name].astype(np.float64)), mask[name], rate) for name in names}


def _largest(magnitude: npt.NDArray[np.float64], alive: Booleans, rate: float) -> Booleans:
    """Return what stays of a tensor: at least the largest weight of each output unit that had one.

    >>> _largest(np.array([[4.0, 3.0, 2.0], [0.2, 0.1, 9.0]]), np.array([[True] * 3, [True, True, False]]), 0.5)
    array([[ True,  True,  True],
           [ True, False, False]])
    """
    if not alive.any():
        return alive
    kept = alive & (magnitude >= np.percentile(magnitude[alive], 100 * rate))
    rows, alive_rows = kept.reshape(len(kept), -1), alive.reshape(len(kept), -1)
    empty = np.flatnonzero(alive_rows.any(axis=1) & ~rows.any(axis=1))
    left = np.where(alive_rows, magnitude.reshape(rows.shape), -1.0)
    rows[empty, left[empty].argmax(axis=1)] = True
    return rows.reshape(kept.shape)


def _proposed_channels(verb: Prune, model: Params, mask: Mask) -> Mask:
    """Return which channels would stay, by BatchNorm."""
    scales = np.concatenate([model[f"{layer.norm}.weight"] for layer in verb.channels])
    among = scales if verb.scales_of == "network" else None
    return {layer.norm: propose_channels(model, mask, layer, verb.channel_rate, among) for layer in verb.channels}


def propose_channels(model: Params, mask: Mask, layer: Channels, rate: float, among: Array | None = None) -> Booleans:
    """Keep the channels with |γ| above the one at index ⌊rate · C⌋ in increasing order: (channels,).

    That is the order of the layer's own scales, or of all those `among` which they are. Where fewer than the floor
    would stay, or a unit of the layer behind would lose all its inputs, all stay.
    """
    alive = mask[f"{layer.norm}.weight"]
    scale = np.abs(model[f"{layer.norm}.weight"])
    ordered = np.sort(scale if among is None else np.abs(among))
    kept = alive & (scale > ordered[int(rate * len(ordered) + 1e-9)])
    inputs: Booleans = np.any(_by_channel(mask[layer.read], len(scale)), axis=2)
    starved = np.any(np.any(inputs, axis=1) > np.any(inputs & kept, axis=1))
    return alive if np.count_nonzero(kept) < layer.floor or starved else kept


def without_channels(mask: Mask, layers: Iterable[Channels], kept: Mapping[str, Booleans]) -> Mask:
    """Remove all that belongs to channels which do not stay; `kept` says by BatchNorm which do.

    These are the rows of the convolution, its biases, the scales, shifts and statistics, and the columns of the
    layer that reads them: where that is linear, h·w of each channel.
    """
    result = dict(mask)
    for layer in layers:
        stays = kept[layer.norm]
        for name in layer.own:
            if name in result:
                result[name] = result[name] & stays.reshape(-1, *[1] * (result[name].ndim - 1))
        read = result[layer.read]
        result[layer.read] = (_by_channel(read, len(stays)) & stays[:, None]).reshape(read.shape)
    return result


def _by_channel(read: Booleans, channels: int) -> Booleans:
    """See a kernel (outputs, channels, h, w), or the matrix behind flattening, as (outputs, channels, h·w)."""
    return read.reshape(len(read), channels, -1)


def hamming(a: Mask, b: Mask) -> float:
    """Return Δ, the mean over tensors of the share of positions in which two masks differ.

    >>> hamming({"a": np.array([True, True]), "b": np.ones(3, bool)}, {"a": np.array([True, False]), "b": np.ones(3)})
    0.25
    """
    return float(np.mean([np.mean(a[name] != b[name]) for name in a])) if a else 0.0


def pruned_share(mask: Mask, names: Iterable[str]) -> float:
    """Return which share of the positions of some tensors is pruned."""
    positions = [mask[name] for name in names]
    total = sum(m.size for m in positions)
    return 1.0 - sum(int(m.sum()) for m in positions) / total if total else 0.0


def last_rate(target: float, pruned: float, largest: float | None) -> float:
    """Return r', the rate that ends at the target; the paper's code takes at most 0.05.

    >>> round(last_rate(0.7, 0.6, None), 9), last_rate(0.7, 0.6, 0.05)
    (0.25, 0.05)
    """
    rate = (target - pruned) / (1.0 - pruned)
    return rate if largest is None else min(rate, largest)


def _alike(a: Mask, b: Mask) -> bool:
    """Say whether one mask has what another has."""
    return all(np.array_equal(value, b[name]) for name, value in a.items())
