"""The compiled trainer for small networks: what can be compiled to it, and the binding.

A network that is a sequence of convolutions (stride 1, kernel up to 7), linear layers, ReLU, max-pooling and
flattening runs here; others run on PyTorch. The library is built when Coterie is installed; where there was no
C++ compiler it is missing, and `available` says so.
"""

import ctypes
from collections.abc import Sequence
from dataclasses import astuple
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from coterie.native.stage import Stage, stages

__all__ = ["CompiledTraining", "Network", "Stage", "available", "library", "stages"]

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]


class _Plan(ctypes.Structure):
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
        ("snapshots", ctypes.c_int32),
        ("snapshot_steps", ctypes.c_void_p),
        ("snapshot", ctypes.c_void_p),
    ]


class _Outcome(ctypes.Structure):
    _fields_ = [("steps", ctypes.c_int64), ("diverged", ctypes.c_int64), ("loss", ctypes.c_double)]


@cache
def library() -> ctypes.CDLL | None:
    """Return the compiled library, or None where it was not built."""
    built = sorted(Path(__file__).parent.glob("_library*.so")) + sorted(Path(__file__).parent.glob("_library*.pyd"))
    if not built:
        return None
    try:
        lib = ctypes.CDLL(str(built[0]))
    except OSError:
        return None
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    lib.coterie_network.argtypes, lib.coterie_network.restype = [pointer, ctypes.c_int32, ctypes.c_int32], pointer
    lib.coterie_size.argtypes, lib.coterie_size.restype = [pointer], number
    lib.coterie_free.argtypes = [pointer]
    lib.coterie_pack.argtypes = lib.coterie_unpack.argtypes = [pointer, pointer, pointer]
    flag = ctypes.c_int32
    lib.coterie_train.argtypes = [pointer, pointer, flag, pointer, number, pointer, pointer, pointer]
    lib.coterie_logits.argtypes = [pointer, pointer, flag, number, pointer, pointer]
    return lib


def available() -> bool:
    """Say whether the library is here."""
    return library() is not None


class CompiledTraining(NamedTuple):
    """What a training by the library led to."""

    model: Floats
    snapshots: list[Floats]
    loss: float
    """Mean over the steps."""
    steps: int
    """How many were done."""
    diverged: int | None
    """The step at which it diverged, if it did."""


class Network:
    """A network in the compiled library, with the memory to run it; for one thread at a time.

    Models are plain vectors: PyTorch's parameters one after the other.
    """

    def __init__(self, plan: Sequence[Stage], lanes: int = 0) -> None:
        """`lanes` asks for an instruction set (4: any machine, 8: AVX2, 16: AVX-512); 0 takes the widest here."""
        lib = library()
        if lib is None:
            raise RuntimeError("the compiled trainer is not here")
        self._lib = lib
        numbers = np.array([astuple(stage) for stage in plan], np.int32)
        self._handle = lib.coterie_network(numbers.ctypes.data, len(plan), lanes)
        if not self._handle:
            raise RuntimeError(f"this machine has no vectors of {lanes} floats")
        self.classes = plan[-1].outputs
        self._inputs = plan[0].channels * plan[0].height * plan[0].width
        self._parameters = sum((stage.channels * stage.kernel**2 + 1) * stage.outputs for stage in plan)
        self._size = int(lib.coterie_size(self._handle))

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self._lib.coterie_free(self._handle)

    def pack(self, model: Floats) -> Floats:
        """Return a model in the library's own layout."""
        model = np.ascontiguousarray(model, np.float32)
        if model.shape != (self._parameters,):
            raise ValueError(f"a model is a vector of {self._parameters} numbers, got shape {model.shape}")
        packed = np.empty(self._size, np.float32)
        self._lib.coterie_pack(self._handle, model.ctypes.data, packed.ctypes.data)
        return packed

    def unpack(self, packed: Floats, size: int) -> Floats:
        """Return a model of the library's layout as a plain vector."""
        model = np.empty(size, np.float32)
        self._lib.coterie_unpack(self._handle, packed.ctypes.data, model.ctypes.data)
        return model

    def train(
        self,
        x: Floats,
        y: Integers,
        model: Floats,
        *,
        batches: Sequence[Integers],
        rates: Floats,
        momentum: float,
        weight_decay: float,
        meta_step: tuple[float, bool] | None,
        anchors: Sequence[tuple[Floats, Floats]],
        correction: Floats | None,
        mask: Floats | None,
        snapshot_steps: Sequence[int],
    ) -> CompiledTraining:
        """Train a model.

        `batches` has one entry per step, or two with a meta-step, which is its rate and whether it shares the momentum.
        An anchor is a model and its strength for each parameter.
        """
        (x, channels_last), y = _in_order(x), np.ascontiguousarray(y, np.int64)
        packed = self.pack(model)
        samples = np.concatenate(batches) if batches else np.zeros(0, np.int64)
        self._check(x, len(y))
        self._check_batches(samples, y, len(batches), len(rates) * (1 if meta_step is None else 2))
        moments = np.array(sorted(snapshot_steps), np.int64)
        snapshots = np.zeros((len(moments), self._size), np.float32)
        offsets, rates = np.cumsum([0, *map(len, batches)], dtype=np.int64), np.ascontiguousarray(rates, np.float32)
        tied = [(self.pack(model), self.pack(strength)) for model, strength in anchors]
        anchor, strength = (_addresses([pair[k] for pair in tied]) for k in (0, 1))
        given = {"correction": correction, "mask": mask}
        fixed = {name: self.pack(vector) for name, vector in given.items() if vector is not None}
        plan = _Plan(
            steps=len(rates),
            samples=samples.ctypes.data,
            offsets=offsets.ctypes.data,
            rates=rates.ctypes.data,
            momentum=momentum,
            weight_decay=weight_decay,
            meta_step=meta_step[0] if meta_step else 0.0,
            meta=meta_step is not None,
            shared=meta_step is not None and meta_step[1],
            anchors=len(tied),
            anchor=ctypes.addressof(anchor),
            strength=ctypes.addressof(strength),
            snapshots=len(moments),
            snapshot_steps=moments.ctypes.data,
            snapshot=snapshots.ctypes.data,
            **{name: vector.ctypes.data for name, vector in fixed.items()},
        )
        outcome = _Outcome()
        self._lib.coterie_train(
            self._handle, x.ctypes.data, channels_last, y.ctypes.data, len(y),
            ctypes.addressof(plan), packed.ctypes.data, ctypes.addressof(outcome),
        )  # fmt: skip
        done = [snapshot for snapshot, step in zip(snapshots, moments, strict=True) if step <= outcome.steps]
        trained, *taken = (self.unpack(vector, len(model)) for vector in (packed, *done))
        diverged = None if outcome.diverged < 0 else int(outcome.diverged)
        return CompiledTraining(trained, taken, float(outcome.loss), int(outcome.steps), diverged)

    def _check(self, x: Floats, count: int) -> None:
        """Refuse what compiled code would read beyond the end of."""
        if x.size != count * self._inputs or len(x) != count:
            raise ValueError(f"{count} inputs of {self._inputs} numbers each are wanted, got shape {x.shape}")

    def _check_batches(self, samples: Integers, y: Integers, batches: int, expected: int) -> None:
        if batches != expected:
            raise ValueError(f"{batches} batches do not go with learning rates for {expected}")
        if len(samples) and not 0 <= samples.min() <= samples.max() < len(y):
            raise ValueError("a batch names a sample that is not there")
        if len(y) and not 0 <= y.min() <= y.max() < self.classes:
            raise ValueError(f"labels must lie between 0 and {self.classes - 1}")

    def logits(self, x: Floats, model: Floats) -> Floats:
        """Return the outputs, (samples, classes)."""
        x, channels_last = _in_order(x)
        self._check(x, len(x))
        packed = self.pack(model)
        outputs = np.empty((len(x), self.classes), np.float32)
        self._lib.coterie_logits(
            self._handle, x.ctypes.data, channels_last, len(x), packed.ctypes.data, outputs.ctypes.data
        )
        return outputs


def _addresses(vectors: Sequence[Floats]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * max(len(vectors), 1))(*[vector.ctypes.data for vector in vectors])


def _in_order(x: Floats) -> tuple[Floats, bool]:
    """Return inputs as they lie in memory where that is channels last, as most images do, else channels first."""
    x = np.asarray(x, np.float32)
    if x.ndim == 4 and not x.flags.c_contiguous and (last := x.transpose(0, 2, 3, 1)).flags.c_contiguous:
        return last, True
    return np.ascontiguousarray(x), False
