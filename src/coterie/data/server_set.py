"""Samples of another data set for the server, brought to the shape of a federation's own (FLIS)."""

from dataclasses import replace

import numpy as np

from coterie.data.dividing import balanced
from coterie.data.federated import Array, FederatedData, Normalisation, Normaliser, Samples
from coterie.data.loading import check, read_pooled
from coterie.data.registries import DATASETS, traits
from coterie.errors import CoterieError
from coterie.streams import stream

SAMPLES = 2500
"""As in FLIS."""


def check_other(name: str) -> None:
    """Refuse a data set, by name or path, of which the server can't have samples; no data are read."""
    check(name)
    if name in DATASETS and traits(name).divided:
        raise CoterieError(
            f"server_data = '{name}' comes divided among clients: name one that does not, or the path of a file"
        )


def with_other_server_set(data: FederatedData, name: str, seed: int) -> FederatedData:
    """Give the server samples of another data set, at most 2,500, as even over its classes as these allow.

    Images get the shape and the unit of the federation's: smaller ones are padded with black, of larger ones the middle
    is taken, grey ones are repeated in all channels, and of colours the mean is taken where these are grey. Other
    inputs must have its shape. Labels stay those of the other data set.
    """
    other = read_pooled(name)
    chosen = other.train[balanced(other.train.y, min(SAMPLES, len(other.train)), stream(seed, "server set"))]
    x, here = chosen.x, data.server.x if len(data.server) else data.train.x
    if x.shape[1:] != here.shape[1:]:
        if x.ndim != 4 or here.ndim != 4:
            raise CoterieError(
                f"server_data = '{name}' has inputs of shape {x.shape[1:]}, but clients have {here.shape[1:]}: only "
                "images are brought to another shape"
            )
        x = _framed(_in_channels(x, here.shape[1]), (here.shape[2], here.shape[3]))
    if (theirs := _white(other.normalisation, x)) != (ours := _white(data.normalise, here)):
        x = x.astype(np.float32) * np.float32(ours / theirs)
    if here.dtype == np.uint8 and x.dtype != np.uint8:
        x = np.clip(np.round(x), 0, 255)
    return replace(data, server=Samples(np.ascontiguousarray(x, here.dtype), chosen.y))


def _white(normaliser: Normaliser | None, x: Array) -> float:
    """Return the number that stands for white in images of this kind; 1 for inputs in other units."""
    if isinstance(normaliser, Normalisation):
        return normaliser.scale
    return 255.0 if x.dtype == np.uint8 else 1.0


def _in_channels(x: Array, channels: int) -> Array:
    """Repeat grey in all channels, or take the mean of colours."""
    if x.shape[1] == channels:
        return x
    return np.repeat(x.mean(axis=1, keepdims=True).astype(x.dtype), channels, axis=1)


def _framed(x: Array, size: tuple[int, int]) -> Array:
    """Cut the middle out of images, or pad them with black, to this height and width."""
    for axis, wanted in ((2, size[0]), (3, size[1])):
        more = wanted - x.shape[axis]
        if more < 0:
            x = np.take(x, np.arange(-more // 2, -more // 2 + wanted), axis)
        elif more > 0:
            padding = [(0, 0)] * 4
            padding[axis] = more // 2, more - more // 2
            x = np.pad(x, padding)
    return x
