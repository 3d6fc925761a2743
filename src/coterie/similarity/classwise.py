"""FLAG's proximity: class-wise weighted data angles mixed with gradient angles (Eqs. 2 to 6).

The paper leaves cases open, such as classes of one sample; ALGORITHMS 5 decides them. A federation's matrices are
scaled by the range of its weights and the largest angle of each kind. `Scales` keeps these, so that newcomers are
measured on the same scale:

    V = classwise_angles(signatures, counts)
    G = gradient_angles(updates)
    scales = Scales.of(V, G, counts)
    A = mixed_proximity(V, G, beta)                                                    # old × old

    V = classwise_angles(signatures, counts, (new_signatures, new_counts), scales=scales)
    G = gradient_angles(updates, new_updates)
    A = mixed_proximity(V, G, beta, scales)                                            # old × new
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
import numpy.typing as npt

from coterie.similarity.angles import ZERO, principal_angles
from coterie.similarity.updates import update_cosines

Floats = npt.NDArray[np.float64]
Signatures = Sequence[Mapping[int, npt.ArrayLike]]
"""For each client, by label c, the first singular vectors U_ic of its samples of c, (features, p_ic)."""
EpsMode = Literal["log1p", "paper"]

EPSILON = 1e-6
"""The paper's ε, a small positive value."""


@dataclass(frozen=True)
class Scales:
    """The smallest and largest weight W, and the largest entries of V and G, over the clients of a federation."""

    weight_min: float
    weight_max: float
    angle_max: float
    gradient_max: float

    @classmethod
    def of(cls, V: npt.ArrayLike, G: npt.ArrayLike, counts: npt.ArrayLike, eps_mode: EpsMode = "log1p") -> Self:
        """Take them from the matrices V and G of the clients whose samples per class are `counts`, (clients, C)."""
        low, high = _weight_range(np.asarray(counts), eps_mode)
        return cls(low, high, float(np.max(V, initial=0.0)), float(np.max(G, initial=0.0)))


def classwise_angles(
    signatures: Signatures,
    counts: npt.ArrayLike,
    others: tuple[Signatures, npt.ArrayLike] | None = None,
    *,
    delta: float = 0.5,
    missing_angle: float = 180.0,
    eps_mode: EpsMode = "log1p",
    onesided_weight: float = 1.0,
    scales: Scales | None = None,
) -> Floats:
    """Return V_ij = (1/C) Σ_c V'_ijc W'_ijc in degrees, (clients, clients) or (clients, others) (Eqs. 3 to 6).

    V'_ijc is the smallest principal angle between what samples of class c span in clients i and j; `missing_angle` if
    only one of them has the class; and 0 if neither has it. W'_ijc, between 1 − δ and 1 + δ, grows with the ratio of
    the logarithms of the two sample counts. `counts` are samples per client and class, (clients, C), and `others`
    signatures and counts of other clients. Weights are scaled by the range that they have among `signatures`, or by
    that of `scales`.

    With `eps_mode` "log1p" logarithms are ln(n + 1), and a class of one client only has the weight `onesided_weight`.
    With "paper" they are ln(n + ε), and Eqs. 4 and 5 hold for all i, j and c as printed. Then a class of one sample
    weighs most against one of many. A class of one client only has a W below 0, as ln ε is: its W' is smaller than
    that of a class of both, and 1 − δ where it has most samples. Without `others` the matrix is symmetric with a
    diagonal of 0.
    """
    if not 0 <= delta <= 1:
        raise ValueError(f"delta = {delta} should be between 0 and 1")
    n_i = _checked(signatures, counts, "client")
    n_j = n_i if others is None else _checked(*others, "other client")
    if n_i.shape[1] != n_j.shape[1]:
        raise ValueError(f"counts have {n_i.shape[1]} classes, but those of others have {n_j.shape[1]}")
    w_min, w_max = (scales.weight_min, scales.weight_max) if scales else _weight_range(n_i, eps_mode)
    V = np.zeros((len(n_i), len(n_j)))
    for c in range(n_i.shape[1]):
        has_i, has_j = n_i[:, c] > 0, n_j[:, c] > 0
        one_sided = has_i[:, None] != has_j
        if eps_mode == "log1p":
            V += missing_angle * onesided_weight * one_sided
        else:
            W = _weights(n_i[:, c], n_j[:, c], eps_mode)
            V += missing_angle * one_sided * _normalised(W, w_min, w_max, delta)
        i, j = np.flatnonzero(has_i), np.flatnonzero(has_j)
        U_i = [signatures[int(k)][c] for k in i]
        U_j = None if others is None else [others[0][int(k)][c] for k in j]
        W = _weights(n_i[i, c], n_j[j, c], eps_mode)
        V[np.ix_(i, j)] += principal_angles(U_i, U_j, "theta1") * _normalised(W, w_min, w_max, delta)
    return np.asarray(V / max(1, n_i.shape[1]))


def gradient_angles(updates: npt.ArrayLike, others: npt.ArrayLike | None = None) -> Floats:
    """Return the angles in degrees between updates given in rows, (clients, clients) or (clients, others) (Eq. 2).

    An update of 0 is at 90° from all but itself.
    """
    angles = np.degrees(np.arccos(update_cosines(updates, others)))
    return np.where(angles < ZERO, 0.0, angles)


def mixed_proximity(V: npt.ArrayLike, G: npt.ArrayLike, beta: float = 0.5, scales: Scales | None = None) -> Floats:
    """Return A = β V̂ + (1 − β) Ĝ, in [0, 1]: data angles V and gradient angles G, each scaled to [0, 1].

    The smallest entry is the 0 of the diagonal, so that scaling is division by the largest; a matrix of zeros stays
    as it is. With `scales`, the largest are those of the federation, and larger entries become 1.

    >>> mixed_proximity([[0, 30], [30, 0]], [[0, 90], [90, 0]], beta=0.25)
    array([[0., 1.],
           [1., 0.]])
    """
    if not 0 <= beta <= 1:
        raise ValueError(f"beta = {beta} should be between 0 and 1")
    V, G = np.asarray(V, np.float64), np.asarray(G, np.float64)
    if V.shape != G.shape:
        raise ValueError(f"V has the shape {V.shape}, but G has {G.shape}")
    V_max = scales.angle_max if scales else V.max(initial=0.0)
    G_max = scales.gradient_max if scales else G.max(initial=0.0)
    return beta * _scaled(V, V_max) + (1 - beta) * _scaled(G, G_max)


def _scaled(x: Floats, largest: float) -> Floats:
    """Divide by the largest; if that is 0, every entry above 0 is at the maximum distance, 1."""
    return np.clip(x / largest, 0.0, 1.0) if largest > 0 else np.asarray(x > 0, np.float64)


def _logarithms(counts: npt.NDArray[np.integer], eps_mode: EpsMode) -> Floats:
    if eps_mode == "log1p":
        return np.asarray(np.log1p(counts))
    if eps_mode == "paper":
        return np.asarray(np.log(counts + EPSILON))
    raise ValueError(f"eps_mode = {eps_mode!r} is not one of log1p, paper")


def _weights(n_i: npt.NDArray[np.integer], n_j: npt.NDArray[np.integer], eps_mode: EpsMode) -> Floats:
    """Return W_ijc of clients with these samples of class c (Eq. 4)."""
    a, b = _logarithms(n_i, eps_mode)[:, None], _logarithms(n_j, eps_mode)
    return np.maximum(a, b) / np.minimum(a, b)


def _normalised(W: Floats, w_min: float, w_max: float, delta: float) -> Floats:
    """Return W'_ijc (Eq. 5)."""
    share = np.clip((W - w_min) / (w_max - w_min), 0, 1) if w_max > w_min else np.full(W.shape, 0.5)
    return np.asarray((1 - delta) + 2 * delta * share)


def _weight_range(counts: npt.NDArray[np.integer], eps_mode: EpsMode) -> tuple[float, float]:
    """Return the smallest and largest W_ijc over classes c and clients i ≠ j that have it, without all pairs.

    As printed, it is over all i, j and c: W is 1 for i = j, and lowest for the largest class that a client lacks.
    """
    if eps_mode == "paper":
        logs = _logarithms(counts, eps_mode)
        present = [column[column > 0] for column in logs.T]
        highest = max((float(own.max() / own.min()) for own in present if len(own)), default=1.0)
        one_sided = [float(own.max() / np.log(EPSILON)) for own in present if 0 < len(own) < len(counts)]
        return min([1.0, *one_sided]), highest
    ratios: list[Floats] = []
    for n in counts.T:
        logs = np.sort(_logarithms(n[n > 0], eps_mode))
        if len(logs) > 1:
            ratios += [logs[1:] / logs[:-1], logs[-1:] / logs[0]]
    every = np.concatenate(ratios) if ratios else np.ones(1)
    return float(every.min()), float(every.max())


def _checked(signatures: Signatures, counts: npt.ArrayLike, who: str) -> npt.NDArray[np.integer]:
    n = np.asarray(counts)
    if n.ndim != 2 or len(n) != len(signatures):
        raise ValueError(f"counts should have the shape ({len(signatures)} clients, classes), but have {n.shape}")
    if not np.issubdtype(n.dtype, np.integer) or (n < 0).any():
        raise ValueError("counts should be whole numbers, 0 or more")
    for i, (own, row) in enumerate(zip(signatures, n, strict=True)):
        missing = sorted(set(np.flatnonzero(row).tolist()) ^ {int(c) for c in own})
        if missing:
            raise ValueError(f"{who} {i}: class {missing[0]} has a count without a signature, or the reverse")
    return n
