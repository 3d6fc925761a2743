"""The compiled trainer for small networks: what can be compiled to it, and the binding.

A network that is a sequence of convolutions (stride 1, kernel up to 7), linear layers, ReLU, max-pooling and
flattening runs here; others run on PyTorch. The library is built when Coterie is installed; where there was no
C++ compiler it is missing, and `available` says so.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from torch import nn

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]
LARGEST_KERNEL = 7


@dataclass
class Stage:
    """A convolution or a linear layer, then perhaps ReLU, then perhaps max-pooling; as in ``network.h``."""

    conv: bool
    channels: int
    height: int
    width: int
    outputs: int
    kernel: int = 1
    padding: int = 0
    relu: bool = False
    pool: int = 1
    flat_channels: int = 1
    flat_positions: int = 1

    @property
    def positions(self) -> int:
        """Places that the kernel visits, before pooling."""
        around = 2 * self.padding - self.kernel + 1
        return (self.height + around) * (self.width + around)


def stages(module: nn.Module, shape: tuple[int, ...]) -> list[Stage] | None:
    """Return a network as stages, or None if it is not such a sequence."""
    from torch import nn

    if type(module) is not nn.Sequential:
        return None
    found: list[Stage] = []
    channels, height, width = shape if len(shape) == 3 else (int(np.prod(shape)), 1, 1)
    flat = len(shape) != 3
    for layer in module:
        last = found[-1] if found else None
        if type(layer) is nn.Conv2d and not flat:
            kernel, padding = layer.kernel_size[0], layer.padding
            plain = (layer.stride, layer.dilation, layer.groups, layer.padding_mode) == ((1, 1), (1, 1), 1, "zeros")
            square = layer.kernel_size == (kernel, kernel) and isinstance(padding, tuple) and len({*padding}) == 1
            if not (plain and square and layer.bias is not None) or isinstance(padding, str):
                return None
            if kernel > LARGEST_KERNEL or padding[0] >= kernel:
                return None
            side = 2 * int(padding[0]) - kernel + 1
            if min(height, width) + side < 1:
                return None
            found.append(Stage(True, channels, height, width, layer.out_channels, kernel, int(padding[0])))
            channels, height, width = layer.out_channels, height + side, width + side
        elif type(layer) is nn.Linear and flat and layer.bias is not None:
            positions = height * width
            if layer.in_features != channels * positions:  # applied along the last of several dimensions
                return None
            found.append(
                Stage(
                    False,
                    channels * positions,
                    1,
                    1,
                    layer.out_features,
                    flat_channels=channels,
                    flat_positions=positions,
                )
            )
            channels, height, width = layer.out_features, 1, 1
        elif type(layer) is nn.ReLU and last is not None:
            last.relu = True  # before or behind max-pooling is the same
        elif type(layer) is nn.MaxPool2d and last is not None and last.conv and last.pool == 1 and not flat:
            size = layer.kernel_size
            if (
                not isinstance(size, int)
                or layer.stride != size
                or layer.padding
                or layer.dilation != 1
                or layer.ceil_mode
            ):
                return None
            if not 1 <= size <= 15 or min(height, width) < size:
                return None
            last.pool, height, width = size, height // size, width // size
        elif type(layer) is nn.Flatten and layer.start_dim == 1 and layer.end_dim == -1:
            flat = True
        else:
            return None
    ends_well = bool(found) and not found[-1].conv and not found[-1].relu
    return found if ends_well else None


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
    found = sorted(Path(__file__).parent.glob("_library*.so")) + sorted(Path(__file__).parent.glob("_library*.pyd"))
    if not found:
        return None
    try:
        lib = ctypes.CDLL(str(found[0]))
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
        meta_step: float | None,
        anchors: Sequence[tuple[Floats, Floats]],
        correction: Floats | None,
        mask: Floats | None,
        snapshot_steps: Sequence[int],
    ) -> tuple[Floats, list[Floats], float, int, int | None]:
        """Train; return the model, snapshots, mean loss, steps done, and the step at which it diverged, if it did.

        `batches` has one entry per step, or two with a meta-step. An anchor is a model and its strength for each
        parameter.
        """
        (x, channels_last), y = _in_order(x), np.ascontiguousarray(y, np.int64)
        packed = self.pack(model)
        samples = np.concatenate(batches) if batches else np.zeros(0, np.int64)
        self._check(x, len(y))
        self._check_batches(samples, y)
        if len(batches) != len(rates) * (1 if meta_step is None else 2):
            raise ValueError(f"{len(batches)} batches do not go with {len(rates)} learning rates")
        offsets = np.cumsum([0, *map(len, batches)], dtype=np.int64)
        rates = np.ascontiguousarray(rates, np.float32)
        tied = [(self.pack(model), self.pack(strength)) for model, strength in anchors]
        anchor, strength = ((ctypes.c_void_p * max(len(tied), 1))(*[t[k].ctypes.data for t in tied]) for k in (0, 1))
        fixed = [None if value is None else self.pack(value) for value in (correction, mask)]
        moments = np.array(sorted(snapshot_steps), np.int64)
        snapshots = np.zeros((len(moments), self._size), np.float32)
        plan = _Plan(
            steps=len(rates),
            samples=samples.ctypes.data,
            offsets=offsets.ctypes.data,
            rates=rates.ctypes.data,
            momentum=momentum,
            weight_decay=weight_decay,
            meta_step=meta_step or 0.0,
            meta=meta_step is not None,
            anchors=len(tied),
            anchor=ctypes.addressof(anchor),
            strength=ctypes.addressof(strength),
            correction=None if fixed[0] is None else fixed[0].ctypes.data,
            mask=None if fixed[1] is None else fixed[1].ctypes.data,
            snapshots=len(moments),
            snapshot_steps=moments.ctypes.data,
            snapshot=snapshots.ctypes.data,
        )
        outcome = _Outcome()
        self._lib.coterie_train(
            self._handle,
            x.ctypes.data,
            channels_last,
            y.ctypes.data,
            len(y),
            ctypes.addressof(plan),
            packed.ctypes.data,
            ctypes.addressof(outcome),
        )
        size = len(model)
        taken = [
            self.unpack(snapshot, size) for snapshot, at in zip(snapshots, moments, strict=True) if at <= outcome.steps
        ]
        diverged = None if outcome.diverged < 0 else int(outcome.diverged)
        return self.unpack(packed, size), taken, float(outcome.loss), int(outcome.steps), diverged

    def _check(self, x: Floats, count: int) -> None:
        """Refuse what compiled code would read beyond the end of."""
        if x.size != count * self._inputs or len(x) != count:
            raise ValueError(f"{count} inputs of {self._inputs} numbers each are wanted, got shape {x.shape}")

    def _check_batches(self, samples: Integers, y: Integers) -> None:
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


def _in_order(x: Floats) -> tuple[Floats, bool]:
    """Return inputs as they lie in memory where that is channels last, as most images do, else channels first."""
    x = np.asarray(x, np.float32)
    if x.ndim == 4 and not x.flags.c_contiguous and (last := x.transpose(0, 2, 3, 1)).flags.c_contiguous:
        return last, True
    return np.ascontiguousarray(x), False
