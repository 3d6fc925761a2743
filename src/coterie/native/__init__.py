"""The compiled trainer for small networks: what can be compiled to it, and the binding.

A network that is a sequence of convolutions (stride 1, kernel up to 7), linear layers, batch normalisation behind
either, ReLU, max-pooling and flattening runs here; others run on PyTorch. The library is built when Coterie is
installed; where there was no C++ compiler it is missing, and `available` says so.

`Network` is the border: compiled code trusts what it is given, so that all of it is checked here, once, and indices are
copied before, lest somebody changes them meanwhile. No input ends the process.
"""

import ctypes
import os
import threading
import weakref
from collections.abc import Sequence
from dataclasses import astuple, replace
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from coterie.native.stage import Stage, error_in, stages
from coterie.native.structures import CompiledPrivacy, OutcomeStructure, PlanStructure, private_fields

__all__ = ["CompiledPrivacy", "CompiledTraining", "Network", "Stage", "available", "library", "stages"]

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]

LIBRARY = Path(__file__).with_name("_library.dll" if os.name == "nt" else "_library.so")
"""Where setup.py puts it."""
INTERFACE = 8
"""Of the library, by its own count."""
LANES = (0, 4, 8, 16)
OPTIMISERS = ("sgd", "adam", "adamw")
"""As the library counts them."""


@cache
def library() -> ctypes.CDLL | None:
    """Return the compiled library, or None where it was not built, or from other sources than these."""
    try:
        lib = ctypes.CDLL(str(LIBRARY))
        if lib.coterie_interface() != INTERFACE:
            return None
    except (OSError, AttributeError):
        return None
    pointer, number, flag = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32
    lib.coterie_network.argtypes = [pointer, flag, flag, pointer]
    lib.coterie_size.argtypes, lib.coterie_size.restype = [pointer], number
    lib.coterie_free.argtypes, lib.coterie_free.restype = [pointer], None
    for convert in (lib.coterie_pack, lib.coterie_unpack):
        convert.argtypes, convert.restype = [pointer, pointer, pointer], None
    lib.coterie_train.argtypes = [pointer, pointer, flag, pointer, number, pointer, pointer, pointer]
    lib.coterie_logits.argtypes = [pointer, pointer, flag, number, pointer, pointer]
    lib.coterie_leading.argtypes, lib.coterie_leading.restype = [pointer, number, flag, flag, pointer, pointer], None
    for work in (lib.coterie_network, lib.coterie_train, lib.coterie_logits):
        work.restype, work.errcheck = flag, _raise_failure
    return lib


def _raise_failure(status: Any, function: Any, arguments: Any) -> Any:
    if status == 1:
        raise RuntimeError(f"this machine has no vectors of {arguments[2]} floats")
    if status == 2:
        raise MemoryError("there is not enough memory for this network and these samples")
    if status:
        raise RuntimeError("the compiled trainer failed")
    return status


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


class _Engine:
    """A network in the library, which goes when nobody refers to it; one call at a time."""

    def __init__(self, lib: ctypes.CDLL, plan: Sequence[Stage], lanes: int) -> None:
        self._lib, self.lock = lib, threading.RLock()
        numbers, pointer = np.array([astuple(stage) for stage in plan], np.float64), ctypes.c_void_p()
        lib.coterie_network(numbers.ctypes.data, len(plan), lanes, ctypes.addressof(pointer))
        self.pointer = pointer.value
        self.size = int(lib.coterie_size(self.pointer))

    def __del__(self) -> None:
        if pointer := getattr(self, "pointer", None):
            self.pointer = None
            self._lib.coterie_free(pointer)


class Network:
    """A network in the compiled library, with the memory to run it; it is used by one thread at a time, others wait.

    Models are plain vectors: PyTorch's parameters one after the other, and behind a norm's its running means and
    variances. A copy, pickled or not, is made anew from the stages.
    """

    def __init__(self, plan: Sequence[Stage], lanes: int = 0) -> None:
        """`lanes` asks for an instruction set (4: any machine, 8: AVX2, 16: AVX-512); 0 takes the widest here."""
        lib = library()
        if lib is None:
            raise RuntimeError("the compiled trainer is not here")
        if not all(isinstance(stage, Stage) for stage in plan):
            raise TypeError("a network is made of stages")
        own = tuple(replace(stage) for stage in plan)
        if error := error_in(own):
            raise ValueError(f"this is no network for the compiled trainer: {error}")
        if type(lanes) is not int or lanes not in LANES:
            raise ValueError(f"lanes = {lanes!r}, expected one of {LANES}")
        self._lib, self._made_of = lib, (own, lanes)
        self._classes = int(own[-1].outputs)
        self._inputs = int(own[0].channels * own[0].height * own[0].width)
        self._parameters = int(sum(stage.parameters for stage in own))
        self._engine = _Engine(lib, own, lanes)

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return Network, self._made_of

    @property
    def classes(self) -> int:
        """How many outputs there are."""
        return self._classes

    def pack(self, model: Floats) -> Floats:
        """Return a model in the library's own layout."""
        model, pins = _vector(model, self._parameters, "a model")
        packed = np.empty(self._engine.size, np.float32)
        self._lib.coterie_pack(self._engine.pointer, model.ctypes.data, packed.ctypes.data)
        del pins
        return packed

    def unpack(self, packed: Floats, size: int) -> Floats:
        """Return a model of the library's layout as a plain vector, of this size."""
        packed, pins = _vector(packed, self._engine.size, "a packed model")
        if size != self._parameters:
            raise ValueError(f"a model is a vector of {self._parameters} numbers, not of {size}")
        model = self._unpacked(packed)
        del pins
        return model

    def _unpacked(self, packed: Floats) -> Floats:
        model = np.empty(self._parameters, np.float32)
        self._lib.coterie_unpack(self._engine.pointer, packed.ctypes.data, model.ctypes.data)
        return model

    def _trained(self, x: tuple[Floats, bool], y: Integers, plan: PlanStructure, model: Floats) -> OutcomeStructure:
        """Execute a plan on a packed model, which is changed."""
        outcome = OutcomeStructure()
        with self._engine.lock:
            self._lib.coterie_train(
                self._engine.pointer, x[0].ctypes.data, x[1], y.ctypes.data, len(y),
                ctypes.addressof(plan), model.ctypes.data, ctypes.addressof(outcome),
            )  # fmt: skip
        return outcome

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
        l1: Floats | None = None,
        label_offset: Floats | None = None,
        learns: Sequence[bool] | None = None,
        clip: float | None = None,
        smoothing: float = 0.0,
        adam: tuple[str, float, float, float] | None = None,
        privacy: CompiledPrivacy | None = None,
    ) -> CompiledTraining:
        """Train a model.

        `batches` has one entry per step, or two with a meta-step, which is its rate and whether it shares the momentum.
        An anchor is a model and its strength for each parameter; a label offset, (classes,), is added to the outputs.
        `learns` has the flags of each stage (`Stage.flags`). `l1` is the strength of a penalty on the absolute value of
        each parameter. `adam`: adam or adamw, two betas and eps. With `privacy` a step has one batch, which may be
        empty, and neither a meta-step nor a clip, and no stage a norm.
        """
        (x, channels_last), y = _in_order(x), self._labels(y)
        pins = _pins(x)
        self._check(x, len(y))
        packed, (samples, offsets) = self.pack(model), _samples(batches, len(y))
        rates = _rates(rates, len(offsets) - 1, 1 if meta_step is None else 2)
        moments = _moments(snapshot_steps, len(rates))
        snapshots = np.zeros((len(moments), self._engine.size), np.float32)
        tied = [(self.pack(model), self.pack(strength)) for model, strength in anchors]
        anchor, strength = (_addresses([pair[k] for pair in tied]) for k in (0, 1))
        vectors = {"correction": correction, "mask": mask, "l1": l1}
        fixed = {key: self.pack(vector) for key, vector in vectors.items() if vector is not None}
        flags, (step, shared) = self._flags(learns), meta_step or (0.0, False)
        private, noise = private_fields(privacy, self._parameters)
        if noise and (meta_step or clip or any(stage.norm for stage in self._made_of[0])):
            raise ValueError("private steps have neither a meta-step nor a clip, nor a norm, which mixes samples")
        self._check_norms(flags, int(np.diff(offsets).min(initial=2)))
        numbers: dict[str, npt.NDArray[Any]] = {
            "samples": samples, "offsets": offsets, "rates": rates, "snapshot_steps": moments, "snapshot": snapshots,
            "learns": flags, **fixed, **({} if label_offset is None else {"label_offset": self._shift(label_offset)}),
        }  # fmt: skip
        plan = PlanStructure(
            steps=len(rates),
            **{name: array.ctypes.data for name, array in numbers.items()},
            **_optimiser(*(adam or (OPTIMISERS[0], 0.0, 0.0, 0.0))),
            momentum=_number(momentum), weight_decay=_number(weight_decay),
            clip=_number(clip or 0.0), smoothing=_number(smoothing),
            meta=meta_step is not None, meta_step=_number(step), shared=bool(shared),
            anchors=len(tied), anchor=ctypes.addressof(anchor), strength=ctypes.addressof(strength),
            snapshots=len(moments), **private,
        )  # fmt: skip
        try:
            outcome = self._trained((x, channels_last), y, plan, packed)
        except RuntimeError:
            raise (noise and noise.error) or RuntimeError("the compiled trainer failed") from None
        del pins
        done = [snapshot for snapshot, step in zip(snapshots, moments, strict=True) if step <= outcome.steps]
        return self._led_to(outcome, packed, done)

    def _led_to(self, outcome: OutcomeStructure, packed: Floats, snapshots: Sequence[Floats]) -> CompiledTraining:
        trained, *taken = map(self._unpacked, (packed, *snapshots))
        diverged = None if outcome.diverged < 0 else outcome.diverged
        return CompiledTraining(trained, taken, outcome.loss, outcome.steps, diverged)

    def logits(self, x: Floats, model: Floats) -> Floats:
        """Return the outputs, (samples, classes)."""
        x, channels_last = _in_order(x)
        pins = _pins(x)
        self._check(x, len(x))
        packed = self.pack(model)
        outputs = np.empty((len(x), self._classes), np.float32)
        with self._engine.lock:
            self._lib.coterie_logits(
                self._engine.pointer, x.ctypes.data, channels_last, len(x), packed.ctypes.data, outputs.ctypes.data
            )
        del pins
        return outputs

    def _check(self, x: Floats, count: int) -> None:
        """Refuse what compiled code would read beyond the end of."""
        if x.size != count * self._inputs or len(x) != count:
            raise ValueError(f"{count} inputs of {self._inputs} numbers each are wanted, got shape {x.shape}")

    def _shift(self, label_offset: Floats) -> Floats:
        vector, pins = _vector(label_offset, self._classes, "a label offset")
        shift = np.array(vector)
        del pins
        if not np.isfinite(shift).all():
            raise ValueError("a label offset holds a NaN or an infinity")
        return shift

    def _flags(self, learns: Sequence[bool] | None) -> npt.NDArray[np.uint8]:
        tensors = sum(stage.flags for stage in self._made_of[0])
        flags = np.ones(tensors, np.bool_) if learns is None else np.array(learns)
        if flags.shape != (tensors,) or flags.dtype != np.bool_:
            raise ValueError(f"{tensors} tensors are each True or False, got shape {flags.shape} of {flags.dtype}")
        return flags.astype(np.uint8)

    def _check_norms(self, flags: npt.NDArray[np.uint8], smallest: int) -> None:
        """Refuse batches whose variance a norm that counts them would not know."""
        ends = accumulate(stage.flags for stage in self._made_of[0])
        for number, (stage, end) in enumerate(zip(self._made_of[0], ends, strict=True)):
            if stage.norm and flags[end - 1] and smallest * stage.positions < 2:
                raise ValueError(
                    f"the norm of stage {number} got a batch of {smallest} with {stage.positions} values per channel: "
                    "it expects more than 1 value per channel when training"
                )

    def _labels(self, y: Integers) -> Integers:
        y = _whole_numbers(y, "labels")
        if not _below(y, self._classes):
            raise ValueError(f"labels must lie between 0 and {self._classes - 1}")
        return y


def _floats(values: Any) -> Floats:
    try:
        return np.asarray(values, np.float32)
    except OverflowError:
        raise ValueError("a number is too large for a float") from None


def _vector(values: Floats, size: int, what: str) -> tuple[Floats, list[Any]]:
    """Return a vector of this size, and what keeps it so."""
    vector = np.ascontiguousarray(_floats(values))
    pins = _pins(vector)
    if vector.shape != (size,):
        raise ValueError(f"{what} is a vector of {size} numbers, got shape {vector.shape}")
    return vector, pins


def _whole_numbers(values: Any, what: str) -> Integers:
    """Return whole numbers as a vector of int64 that nobody else has."""
    numbers = np.asarray(values)
    if numbers.ndim != 1 or (numbers.dtype.kind not in "iu" and len(numbers)):
        raise TypeError(f"{what} must be a vector of whole numbers, got shape {numbers.shape} of {numbers.dtype}")
    return np.array(numbers, np.int64)  # beyond 2^63 numbers become negative, which are refused where they matter


def _below(numbers: Integers, limit: int) -> bool:
    """Say whether all lie between 0 and below a limit; negative ones are larger than any."""
    return not len(numbers) or bool(np.maximum.reduce(numbers.view(np.uint64)) < limit)


def _number(value: float) -> float:
    try:
        return ctypes.c_float(value).value
    except OverflowError:
        raise ValueError(f"{value!r:.40} is too large for a float") from None


def _optimiser(name: str, beta1: float, beta2: float, eps: float) -> dict[str, float]:
    return {"optimiser": OPTIMISERS.index(name), "beta1": beta1, "beta2": beta2, "eps": eps}


def _samples(batches: Sequence[Integers], count: int) -> tuple[Integers, Integers]:
    """Return the samples of all batches, one after the other, and where each batch begins and ends."""
    arrays = [np.asarray(batch) for batch in batches]
    samples = _whole_numbers(np.concatenate(arrays) if arrays else (), "a batch")
    lengths = [len(array) for array in arrays]
    if not _below(samples, count):
        raise ValueError("a batch names a sample that is not there")
    if max(lengths, default=0) > count:
        raise ValueError(f"a batch is larger than the {count} samples that there are")
    return samples, np.array([0, *accumulate(lengths)], np.int64)


def _rates(values: Floats, batches: int, per_step: int) -> Floats:
    rates = np.array(_floats(values))
    if rates.ndim != 1:
        raise ValueError(f"learning rates are a vector, got shape {rates.shape}")
    if batches != len(rates) * per_step:
        raise ValueError(f"{batches} batches do not go with learning rates for {len(rates) * per_step}")
    return rates


def _moments(snapshot_steps: Sequence[int], steps: int) -> Integers:
    ordered = sorted(snapshot_steps)
    if not ordered:
        return np.zeros(0, np.int64)
    moments = _whole_numbers(ordered, "steps of snapshots")
    if not 1 <= moments[0] <= moments[-1] <= steps:
        raise ValueError(f"snapshots are taken after steps 1 to {steps}, not {moments[0]} to {moments[-1]}")
    return moments


def _pins(array: Any) -> list[Any]:
    """Return what keeps an array, and those that it is a view of, from being resized while it is held.

    It is taken before the array's size is checked: another thread may resize it between any two lines.
    """
    pins = []
    while isinstance(array, np.ndarray):
        pins.append(weakref.ref(array))
        array = array.base
    return pins


def _addresses(vectors: Sequence[Floats]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * max(len(vectors), 1))(*[vector.ctypes.data for vector in vectors])


def _in_order(x: Floats) -> tuple[Floats, bool]:
    """Return inputs as they lie in memory where that is channels last, as most images do, else channels first."""
    x = _floats(x)
    if x.ndim == 4 and not x.flags.c_contiguous and (last := x.transpose(0, 2, 3, 1)).flags.c_contiguous:
        return last, True
    return np.ascontiguousarray(x), False
