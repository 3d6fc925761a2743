"""What compiled code is handed: its structures, and what it calls for the noise of private steps."""

import ctypes
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

NOISE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
"""Fills a plain model with noise; says 0 if that went well."""


class CompiledPrivacy(NamedTuple):
    """Private steps of a training by the library."""

    clip: float
    """The largest norm of a sample's gradient."""
    deviation: float
    """Of the noise on the sum."""
    divisor: float
    """Of the noised sum."""
    noise: Callable[[], npt.NDArray[np.float32]]
    """Returns normal numbers, as many as a model has; called once per step."""


class NoiseSource:
    """What compiled code calls for noise; no error may go through it, so that one is kept for who called it."""

    def __init__(self, draw: Callable[[], npt.NDArray[np.float32]], size: int) -> None:
        self._draw, self._size = draw, size
        self.error: BaseException | None = None
        self.function = NOISE(self._fill)

    def _fill(self, place: Any) -> int:
        try:
            noise = np.array(self._draw(), np.float32)
            if noise.shape != (self._size,):
                raise ValueError(f"noise is a vector of {self._size} numbers, got shape {noise.shape}")
            ctypes.memmove(place, noise.ctypes.data, noise.nbytes)
        except BaseException as error:
            self.error = error
            return 1
        return 0


def private_fields(privacy: CompiledPrivacy | None, size: int) -> tuple[dict[str, Any], NoiseSource | None]:
    """Return a plan's fields for private steps, and what must be kept as long as it is executed."""
    if privacy is None:
        return {}, None
    clip, deviation, divisor = (float(ctypes.c_float(number).value) for number in privacy[:3])
    if not (0 < clip < float("inf") and 0 < deviation < float("inf") and 0 < divisor < float("inf")):
        raise ValueError(f"private steps have a clip, deviation and divisor greater than 0, not {privacy[:3]}")
    source = NoiseSource(privacy.noise, size)
    return {"sample_clip": clip, "deviation": deviation, "divisor": divisor, "noise": source.function}, source


class PlanStructure(ctypes.Structure):
    """A plan, as ``network.h`` has it."""

    _fields_ = [
        ("steps", ctypes.c_int64),
        ("samples", ctypes.c_void_p),
        ("offsets", ctypes.c_void_p),
        ("rates", ctypes.c_void_p),
        ("momentum", ctypes.c_float),
        ("weight_decay", ctypes.c_float),
        ("meta_step", ctypes.c_float),
        ("meta", ctypes.c_int32),
        ("shared", ctypes.c_int32),
        ("anchors", ctypes.c_int32),
        ("anchor", ctypes.c_void_p),
        ("strength", ctypes.c_void_p),
        ("correction", ctypes.c_void_p),
        ("mask", ctypes.c_void_p),
        ("l1", ctypes.c_void_p),
        ("snapshots", ctypes.c_int32),
        ("snapshot_steps", ctypes.c_void_p),
        ("snapshot", ctypes.c_void_p),
        ("label_offset", ctypes.c_void_p),
        ("learns", ctypes.c_void_p),
        ("clip", ctypes.c_float),
        ("smoothing", ctypes.c_float),
        ("optimiser", ctypes.c_int32),
        ("beta1", ctypes.c_double),
        ("beta2", ctypes.c_double),
        ("eps", ctypes.c_double),
        ("sample_clip", ctypes.c_float),
        ("deviation", ctypes.c_float),
        ("divisor", ctypes.c_float),
        ("noise", NOISE),
    ]


class OutcomeStructure(ctypes.Structure):
    """What a training led to, as ``network.h`` has it."""

    _fields_ = [("steps", ctypes.c_int64), ("diverged", ctypes.c_int64), ("loss", ctypes.c_double)]
