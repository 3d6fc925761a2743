"""Hostile calls of the compiled trainer's binding: whatever it is given, it answers or raises, and the process lives.

    python tests/native/hostile_calls.py --calls 20000 --seed 0
    python tests/native/hostile_calls.py --seed 0 --call 1234     (one of them again, in this process)

A call follows from the seed and its number. Calls run in a process that is replaced when one kills it; memory is
limited there, so that what asks for too much is told so.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import faulthandler
import os
import pickle
import resource
import signal
import sys
import threading
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np

from coterie.native import Network, Stage, available

PROPER = (ValueError, TypeError, MemoryError, RuntimeError)
"""How a call may be refused."""
SIZES = (-(2**31), -1, 0, 1, 1, 2, 2, 3, 3, 5, 7, 8, 15, 17, 40, 2**12, 2**16, 2**28, 2**31 - 1, 2**31, 2**63, 2**80)
TYPES = ("i1", "i4", "u1", "u8", "f4", "f8", "f2", ">i8", ">f4", "c16", "?", "O", "U9", "M8[s]", "V8")
ODD = (None, "3", b"3", 1.5, float("nan"), True, [], (), {}, np.int8(3), np.array(3), 3 + 0j, object())


def network(luck: Random) -> tuple[list[Stage], tuple[int, ...], int, int, list[bool]]:
    """Return a small network: stages, shape of inputs, number of parameters, classes, and flags of what learns."""
    classes, hidden = luck.choice([1, 2, 3, 10, 17]), luck.choice([1, 4, 17])
    norm = luck.choice([{}, {}, {"norm": True}, {"norm": True, "momentum": 0.5, "eps": 0.0}])
    flags = [False, True, *([True, False, luck.choice([True, False])] if norm else []), True, False]
    more = 4 * hidden if norm else 0
    if luck.random() < 0.5:
        inputs = luck.choice([1, 6, 33])
        last = Stage(False, hidden, 1, 1, classes, flat_channels=hidden)
        plan = [Stage(False, inputs, 1, 1, hidden, relu=True, flat_channels=inputs, **norm), last]
        return plan, (inputs,), (inputs + 1) * hidden + more + (hidden + 1) * classes, classes, flags
    side, kernel, pool, channels = luck.choice([6, 9]), luck.choice([1, 3, 5]), luck.choice([1, 2]), luck.choice([1, 3])
    places = ((side - kernel + 1) // pool) ** 2
    plan = [
        Stage(True, channels, side, side, hidden, kernel, 0, True, pool, **norm),
        Stage(False, hidden * places, 1, 1, classes, flat_channels=hidden, flat_positions=places),
    ]
    size = (channels * kernel**2 + 1) * hidden + more + (hidden * places + 1) * classes
    return plan, (channels, side, side), size, classes, flags


def sound(luck: Random, shape: Sequence[int], size: int, classes: int, flags: list[bool]) -> dict[str, Any]:
    """Return arguments for a training that runs."""
    least = 1 if len(flags) == 4 else 2  # a norm wants more than one value
    rng, n = np.random.default_rng(luck.randrange(10**6)), luck.choice([least, 5, 23])
    steps, meta = luck.choice([0, 1, 4]), luck.random() < 0.2
    vector = lambda: rng.standard_normal(size).astype(np.float32)  # noqa: E731
    return {
        "x": rng.standard_normal((n, *shape)).astype(np.float32),
        "y": rng.integers(0, classes, n),
        "model": vector(),
        "batches": [rng.integers(0, n, luck.choice([least, n])) for _ in range(steps * (2 if meta else 1))],
        "rates": np.full(steps, 0.1, np.float32),
        "momentum": 0.9,
        "weight_decay": 0.0,
        "meta_step": (0.1, True) if meta else None,
        "anchors": [(vector(), vector())] if luck.random() < 0.3 else [],
        "correction": vector() if luck.random() < 0.3 else None,
        "mask": vector() if luck.random() < 0.3 else None,
        "snapshot_steps": [steps] if steps and luck.random() < 0.3 else [],
        "label_offset": rng.standard_normal(classes).astype(np.float32) if luck.random() < 0.3 else None,
        "learns": luck.choice([None, flags]),
        "l1": vector() if luck.random() < 0.3 else None,
    }


def twisted(value: Any, luck: Random) -> Any:
    """Return a value that is not what it should be: another type, shape, order, length, or content."""
    if isinstance(value, np.ndarray) and value.ndim and luck.random() < 0.85:
        return luck.choice(ARRAYS)(value, luck)
    if isinstance(value, list | tuple) and len(value) and luck.random() < 0.85:
        items, at = list(value), luck.randrange(len(value))
        match luck.randrange(4):
            case 0:
                del items[at]
            case 1:
                items *= luck.choice([2, 50])
            case _:
                items[at] = twisted(items[at], luck)
        return luck.choice([list, tuple, iter])(items) if luck.random() < 0.1 else items
    if isinstance(value, float):
        return luck.choice([float("nan"), float("inf"), -1e308, 1e39, 10**400, *ODD])
    return luck.choice([*ODD, luck.choice(SIZES), np.zeros((3, 3)), [[1]], [luck.choice(SIZES)], [0.5], value])


def _poked(array: np.ndarray, luck: Random) -> np.ndarray:
    changed = array.copy()
    if changed.size and changed.dtype.kind in "if":
        whole = [0, 1, -1, len(changed), 2**31, 2**62, -(2**63)]
        value = luck.choice(whole if changed.dtype.kind == "i" else [np.nan, np.inf, 3e38])
        changed.reshape(-1)[luck.randrange(changed.size)] = value
    return changed


ARRAYS: tuple[Callable[[np.ndarray, Random], Any], ...] = (
    _poked, _poked, _poked,
    lambda a, luck: a.astype(luck.choice(TYPES)),
    lambda a, luck: a[: luck.randrange(len(a) + 1)],
    lambda a, luck: np.concatenate([a] * luck.choice([2, 9])),
    lambda a, luck: a[::-1],
    lambda a, luck: np.repeat(a, 2, axis=0)[::2],
    lambda a, luck: np.asfortranarray(a),
    lambda a, luck: a.T,
    lambda a, luck: a[None],
    lambda a, luck: a[..., None],
    lambda a, luck: a.reshape(-1),
    lambda a, luck: np.moveaxis(np.ascontiguousarray(np.moveaxis(a, -1, 0)), 0, -1),
    lambda a, luck: np.broadcast_to(a, (luck.choice([1, 3, 10**6, 10**9]), *a.shape)),
    lambda a, luck: np.broadcast_to(a[:1], (luck.choice([10**5, 10**10]), *a.shape[1:])),
    lambda a, luck: np.frombuffer(bytearray(a.tobytes() + b"x"), np.uint8),
    lambda a, luck: np.ma.masked_array(a, mask=True),
    lambda a, luck: a.tolist(),
    lambda a, luck: memoryview(np.ascontiguousarray(a)),
    lambda a, luck: Liar(a),
    lambda a, luck: np.zeros((0, *a.shape[1:]), a.dtype),
    lambda a, luck: a[0] if len(a) else a,
)  # fmt: skip


class Liar:
    """Has another length whenever it is asked, and another content."""

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.asked = array, 0

    def __len__(self) -> int:
        self.asked += 1
        return len(self.array) * self.asked

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        self.asked += 1
        return np.concatenate([self.array] * (self.asked % 4 or 1)).astype(dtype or self.array.dtype)

    def __getitem__(self, at: Any) -> Any:
        return self.array[at]


def build_and_use(luck: Random) -> None:
    """Make a network of odd stages, and run it if that went well."""
    plan = network(luck)[0]
    for _ in range(luck.choice([1, 1, 2, 4])):
        stage = luck.choice(plan)
        field = luck.choice(list(vars(stage)))
        setattr(stage, field, luck.choice(ODD if luck.random() < 0.15 else SIZES))
    match luck.randrange(6):
        case 0:
            plan = plan[: luck.randrange(3)]
        case 1:
            plan = plan * luck.choice([2, 300])
        case 2:
            luck.shuffle(plan)
    made = Network(plan, luck.choice([0, 0, 0, 4, 8, 16, 1, -1, 2**31, 2**40, "0", None, 4.0]))
    made.logits(np.zeros((luck.choice([0, 1, 65]), made._inputs), np.float32), np.zeros(made._parameters, np.float32))


def train(luck: Random) -> None:
    plan, *rest = network(luck)
    made, given = Network(plan, luck.choice([0, 4])), sound(luck, *rest)
    for _ in range(luck.choice([1, 1, 2, 3])):
        name = luck.choice([*given, "batches", "x", "y"])
        given[name] = twisted(given[name], luck)
    try:
        made.train(**given)
    finally:  # what was refused has left nothing behind
        made.train(**sound(luck, *rest))


def logits(luck: Random) -> None:
    plan, *rest = network(luck)
    made, given = Network(plan), sound(luck, *rest)
    made.logits(twisted(given["x"], luck), given["model"])
    made.logits(given["x"], twisted(given["model"], luck))


def convert(luck: Random) -> None:
    plan, _, size, *_ = network(luck)
    made, model = Network(plan), np.arange(size, dtype=np.float32)
    packed = made.pack(twisted(model, luck)) if luck.random() < 0.5 else twisted(made.pack(model), luck)
    made.unpack(packed, luck.choice([size, size, size - 1, size + 1, *SIZES[:-4], *ODD]))


def duplicate(luck: Random) -> None:
    """Copy a network in every way, drop one of both, and use the other."""
    plan, *rest = network(luck)
    made = Network(plan)
    again = luck.choice([copy.copy, copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net)), _adopted])(made)
    for keeps in (again, made) if luck.random() < 0.5 else (made, again):
        keeps.train(**sound(luck, *rest))
    del made, keeps
    again.train(**sound(luck, *rest))
    for stage in plan:
        stage.outputs = 10**6  # those of the network are its own
    again.train(**sound(luck, *rest))


def _adopted(made: Network) -> Network:
    new = Network.__new__(Network)
    new.__dict__.update(made.__dict__)
    return new


def unborn(luck: Random) -> None:
    """Use what was never made, or made and failed."""
    new = Network.__new__(Network)
    with contextlib.suppress(*PROPER):
        new.__init__(luck.choice([[], [None], None, 3, [Stage(False, 0, 1, 1, 0)]]))  # type: ignore[misc]
    _, shape, size, *rest = network(luck)
    with contextlib.suppress(AttributeError):
        match luck.randrange(3):
            case 0:
                new.train(**sound(luck, shape, size, *rest))
            case 1:
                copy.copy(new)
            case _:
                new.pack(np.zeros(size))


def at_once(luck: Random) -> None:
    """Use one network from several threads, with batches of other sizes, while their inputs are resized and changed."""
    plan, shape, size, *rest = network(luck)
    made, errors = Network(plan), list[BaseException]()
    model = np.zeros(size, np.float32)
    shared = {**sound(luck, shape, size, *rest), "batches": [np.arange(40)] * 30, "rates": np.full(30, 0.01)}
    shared |= {"x": np.zeros((40, *shape), np.float32), "y": np.zeros(40, np.int64)}
    shared |= {"meta_step": None, "snapshot_steps": []}

    def worker(number: int) -> None:
        try:
            for k in range(4):
                made.logits(np.zeros((1 + 40 * (number + k) % 97, *shape), np.float32), model)
                made.train(**shared)
        except PROPER:
            pass
        except BaseException as error:
            errors.append(error)

    def vandal() -> None:
        for _ in range(200):
            shared["y"][:] = luck.choice([0, 2**40])
            with contextlib.suppress(ValueError):
                shared["x"].resize((luck.choice([1, 400]), *shape), refcheck=False)

    threads = [threading.Thread(target=worker, args=(k,)) for k in range(3)] + [threading.Thread(target=vandal)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


KINDS = [build_and_use] * 6 + [train] * 12 + [logits] * 3 + [convert] * 3 + [duplicate] * 2 + [unborn, at_once]


def call(seed: int, number: int) -> str:
    """Make one call; say how it ended."""
    luck = Random(f"{seed}/{number}")
    kind = luck.choice(KINDS)
    try:
        kind(luck)
    except PROPER as error:
        return f"{kind.__name__}: {type(error).__name__}"
    return f"{kind.__name__}: done"


def work(seed: int, numbers: Sequence[int], pipe: int, room: float) -> None:
    with open("/proc/self/statm") as sizes:
        limit = int(sizes.read().split()[0]) * resource.getpagesize() + int(1e9 * room)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    for number in numbers:
        os.write(pipe, f"{number}\n".encode())
        try:
            ended = call(seed, number)
        except BaseException as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            ended = f"WRONG {type(error).__name__} at {place.name}, line {place.lineno}: {error!s:.90}"
        os.write(pipe, f"{number} {ended!r}\n".encode())


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the calls, say how they ended, and return 1 if one killed the process or was refused in another way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--room", type=float, default=3.0, help="gigabytes that calls may take")
    parser.add_argument("--call", type=int, help="make this one only, in this process")
    options = parser.parse_args(arguments)
    if not available():
        print("Coterie was installed without a C++ compiler: nothing to call")
        return 1
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    if options.call is not None:
        faulthandler.enable()
        print(call(options.seed, options.call))
        return 0
    counts: Counter[str] = Counter()
    bad: list[str] = []
    begin = 0
    while begin < options.calls:
        last, status = run_from(options, begin, counts, bad)
        if status and last < options.calls:
            bad.append(f"call {last}: killed by {signal.Signals(status & 127).name if status & 127 else status >> 8}")
        begin = last + 1
    print("\n".join(f"{count:8}  {ended}" for ended, count in sorted(counts.items())))
    print("\n".join(bad[:60]))
    print(f"{options.calls} hostile calls of seed {options.seed}: {len(bad)} were not refused properly")
    return 1 if bad else 0


def run_from(options: argparse.Namespace, begin: int, counts: Counter[str], bad: list[str]) -> tuple[int, int]:
    """Make calls in a process of their own from a number on; return the last one, and how the process ended."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ours)
        work(options.seed, range(begin, options.calls), theirs, options.room)
        os._exit(0)
    os.close(theirs)
    last = begin
    with os.fdopen(ours) as news:
        for line in news:
            number, _, ended = line.strip().partition(" ")
            last = int(number)
            if ended.startswith(("'WRONG", '"WRONG')):
                bad.append(f"call {number}: {ended}")
            elif ended:
                counts[ended.strip("'")] += 1
    return last, os.waitpid(child, 0)[1]


if __name__ == "__main__":
    sys.exit(main())
