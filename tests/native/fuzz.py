"""Random networks, plans and data, through the compiled trainer and through PyTorch: both must say the same.

    python tests/native/fuzz.py --cases 10000 --seed 0
    python tests/native/fuzz.py --seed 0 --case 1234      (one of them again)

Both round, in different orders, and a network may stand so close to an edge (a ReLU or a pooling window that could
go either way, an overflow) that rounding decides. A result that differs from PyTorch's by more than CLOSE is
therefore held against the same training in double precision. The compiled trainer may be FACTOR times as far from
it as PyTorch is, or as that training itself moves when its start and its inputs change in the last digit of a
float; beyond that it disagrees. Where that last digit changes a tenth of the result nothing can be said; such cases
are counted, and few.
"""

from __future__ import annotations

import argparse
import faulthandler
import multiprocessing
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from random_networks import NAME, Forbidden, again, build, lanes_here, like
from torch import nn

from coterie.messages import Anchor, Curriculum, MetaStep, ModelSpec, Params, Plan, Schedule
from coterie.messages.plan import steps_per_epoch
from coterie.models import MODELS, initial, model
from coterie.training import Diverged, Job, Outcome
from coterie.training.batches import steps
from coterie.training.evaluation import evaluate
from coterie.training.native_trainer import NativeTrainer
from coterie.training.torch_trainer import TorchTrainer

CLOSE = 1e-5
"""Nobody looks closer at a tensor that is within this of PyTorch's, relative to its norm (+ 0.001)."""
FACTOR = 10.0
ROUNDING = 1e-6
LAST_DIGIT = 2.0**-23
EDGE = 1e36
"""Where numbers of this size occur, one order of summing overflows and another does not."""
TAME = 1e6
"""Models with larger numbers are not used for outputs, which may overflow."""
Numbers = npt.NDArray[Any]


class Disagreement(Exception):
    """The compiled trainer does something else than PyTorch."""


# --- cases ---------------------------------------------------------------------------------------------------------


@dataclass
class Case:
    """A job, samples to run the trained network on, and what is special about them."""

    job: Job
    x: npt.NDArray[np.float32]
    y: npt.NDArray[np.int64]
    features: list[str]


class Luck:
    """Draws from a seeded generator."""

    def __init__(self, *seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def number(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def small(self, high: int) -> int:
        """A number between 1 and high, small ones more often."""
        return round(float(high ** self.rng.random()))

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def one(self, *options: Any) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def between(self, low: float, high: float) -> float:
        """A number between 10^low and 10^high, uniform in the exponent."""
        return float(10 ** self.rng.uniform(low, high))


def random_spec(luck: Luck) -> ModelSpec:
    layers: list[list[Any]] = []
    shape = luck.one([luck.small(60)], [luck.number(1, 5), luck.number(1, 6)], [luck.number(1, 4), 0, 0], [1, 0, 0])
    if len(shape) == 3:
        shape[1:] = sides = [luck.number(1, 12), luck.number(1, 12)]
        for _ in range(luck.one(0, 1, 1, 2, 2, 3)):
            kernel = luck.number(1, 7)
            padding = luck.number(0, kernel - 1)
            if min(sides) + 2 * padding < kernel:
                continue
            layers.append(["conv", luck.small(36), kernel, padding])
            sides = [side + 2 * padding - kernel + 1 for side in sides]
            pool = luck.number(2, 4)
            for kind in luck.one([], ["relu"], ["pool"], ["relu", "pool"], ["pool", "relu"]):
                if kind == "relu":
                    layers.append(["relu"])
                elif min(sides) >= pool:
                    layers.append(["pool", pool])
                    sides = [side // pool for side in sides]
    for _ in range(luck.number(0, 2)):
        layers += [["linear", luck.small(70)], *([["relu"]] if luck.chance(0.7) else [])]
    return ModelSpec(NAME, tuple(shape), luck.one(1, 2, luck.small(40), luck.number(2, 20)), {"layers": layers})


def random_plan(luck: Luck, rate: float) -> Plan:
    curriculum = Curriculum(
        pacing=luck.one("exponential", "step", "root", "linear", "quadratic"),
        a=luck.one(0.0, 0.3, 0.8, 1.0),
        b=luck.one(0.05, 0.3, 1.0),
    )
    return Plan(
        lr=Schedule(rate, luck.one(0.0, 0.0, 0.1, 2.0), luck.one(0.5, 0.75, 1.0)),
        epochs=luck.number(1, 2),
        steps=luck.number(0, 6) if luck.chance(0.3) else None,
        batch_size=luck.one(1, 2, 3, 5, 8, 13),
        momentum=luck.one(0.0, 0.5, 0.9),
        weight_decay=luck.one(0.0, 0.0, 0.01),
        anchors=tuple(Anchor("a", luck.one(0.0, 0.1, 1.0)) for _ in range(luck.one(0, 0, 1, 2, 3))),
        correction=luck.one(None, None, "c"),
        mask=luck.one(None, None, "m"),
        curriculum=curriculum if luck.chance(0.25) else None,
        meta_step=luck.one(None, None, None, MetaStep(0.05), MetaStep(0.05, shared_momentum=True)),
        snapshots=luck.one((), (), (1,), (2,), (1, 2), (1, 3)),
    )


def some(luck: Luck, params: Params) -> Params:
    """All parameters, or a part of them."""
    return params if luck.chance(0.7) else {name: value for name, value in params.items() if luck.chance(0.5)}


def random_case(seed: int, number: int) -> Case:
    luck = Luck(seed, number)
    rng = luck.rng
    kind = luck.one(*["usual"] * 20, *["ties"] * 3, "zero start", "high rate", "overflow", "not finite", "no samples")
    spec = random_spec(luck)
    plan = random_plan(luck, luck.between(0, 3) if kind == "high rate" else luck.between(-3, -0.5))
    if kind == "overflow":
        plan = replace(plan, lr=Schedule(luck.between(8, 38)))
    samples = 0 if kind == "no samples" else luck.one(1, plan.batch_size, luck.number(1, 3 * plan.batch_size + 1))
    seen = luck.one(0, 1, 2, 9, 64, 65) if luck.chance(0.3) else luck.number(1, 20)
    x = rng.standard_normal((samples + seen, *spec.shape)).astype(np.float32)
    start: Params = initial(spec, luck.number(0, 2**31))
    if kind == "ties":  # numbers with few digits: sums are exact, and equal ones frequent
        x, start = np.round(x), {name: np.round(8 * value) / 8 for name, value in start.items()}
    elif kind == "zero start":
        start = {name: np.zeros_like(value) for name, value in start.items()}
    elif kind == "not finite":
        broken = rng.random(x.shape) < luck.one(0.01, 1 / max(1, x[0].size))
        x[broken] = luck.one(np.nan, np.inf, -np.inf)
    shapes = {name: value.shape for name, value in start.items()}
    mask = {name: (rng.random(shape) < 0.7).astype(np.float32) for name, shape in shapes.items()}
    y = rng.integers(0, spec.classes, samples + seen)
    job = Job(
        spec,
        plan,
        start,
        x[:samples],
        y[:samples],
        np.random.default_rng([seed, number, 1]),
        anchors=tuple((some(luck, like(spec, rng, 0.3)), anchor.strength) for anchor in plan.anchors),
        correction=some(luck, like(spec, rng, 0.01)) if plan.correction else None,
        mask=some(luck, mask) if plan.mask else None,
        order=rng.permutation(samples) if plan.curriculum else None,
    )
    return Case(job, x[samples:], y[samples:], [kind, *features(job)])


def features(job: Job) -> list[str]:
    """What a case exercises, to be counted."""
    plan, samples = job.plan, len(job.y)
    kinds = {layer[0] for layer in job.spec.options["layers"]}
    present = {
        "momentum": plan.momentum,
        "weight decay": plan.weight_decay,
        "falling rate": plan.lr.decay,
        "anchors": plan.anchors,
        "correction": plan.correction,
        "mask": plan.mask,
        "curriculum": plan.curriculum,
        "meta-step": plan.meta_step,
        "snapshots": plan.snapshots,
        "steps given": plan.steps is not None,
        "partial batch": samples % plan.batch_size,
        "batch larger than data": plan.batch_size > samples,
        "one sample": samples == 1,
        "convolution": "conv" in kinds,
        "pooling": "pool" in kinds,
        "ReLU": "relu" in kinds,
        "linear only": not kinds,
    }
    return [name for name, value in present.items() if value]


# --- double precision ----------------------------------------------------------------------------------------------


@dataclass
class Double:
    """A plan executed in double precision, step by step as `coterie.messages.plan` defines it."""

    params: dict[str, Numbers]
    snapshots: list[dict[str, Numbers]]
    loss: float
    diverged: int | None
    """The first step whose loss is not a number."""
    peaks: list[float]
    """The largest number at each step."""


def in_double(job: Job, luck: Luck | None = None) -> Double:
    """Train in double precision; with `luck`, from a start and inputs that are changed in a float's last digit."""
    plan, module = job.plan, double_module(job.spec)
    w = {name: in_digits(value, luck) for name, value in job.start.items()}
    x, y = in_digits(job.x, luck), torch.from_numpy(job.y)
    v = {name: torch.zeros_like(value) for name, value in w.items()}
    mask = {name: torch.from_numpy(np.asarray(value, np.float64)) for name, value in (job.mask or {}).items()}
    loss, peak, losses = 0.0, 0.0, []
    found = Double({}, [], 0.0, None, [])

    def watch(*tensors: torch.Tensor) -> None:
        nonlocal peak
        peak = max(peak, largest(tensors))

    for layer in module:
        layer.register_forward_hook(lambda layer, inputs, output: watch(output))

    def gradient(w: dict[str, torch.Tensor], batch: Numbers) -> tuple[float, dict[str, torch.Tensor]]:
        leaves = {name: value.requires_grad_() for name, value in w.items()}
        z = torch.func.functional_call(module, leaves, (x[batch],))
        loss = nn.functional.cross_entropy(z, y[batch])
        grads = torch.autograd.grad(loss, list(leaves.values()))
        for value in w.values():
            value.requires_grad_(False)
        watch(*grads)
        return loss.item(), dict(zip(w, grads, strict=True))

    def masked(w: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {name: value * mask[name] if name in mask else value for name, value in w.items()}

    def note(w: dict[str, torch.Tensor]) -> dict[str, Numbers]:
        return {name: value.numpy().copy() for name, value in w.items()}

    w = masked(w)
    moments = {epoch * steps_per_epoch(len(y), plan) for epoch in plan.snapshots} if len(y) else set()
    for step, batches in enumerate(steps(len(y), plan, again(job).rng, job.order)):
        peak = 0.0
        loss, g = gradient(w, batches[0])
        if plan.meta_step is not None:
            if plan.meta_step.shared_momentum:
                g = v = {name: plan.momentum * v[name] + g[name] for name in w}
            inner = masked(g)
            ahead = {name: value - plan.meta_step.rate * inner[name] for name, value in w.items()}
            loss, g = gradient(ahead, batches[1])
        if not np.isfinite(loss):
            found.diverged = step
            break
        for name in w:
            for anchor, strength in job.anchors:
                if name in anchor:
                    g[name] = g[name] + strength * (w[name] - torch.from_numpy(anchor[name].astype(np.float64)))
            v[name] = plan.momentum * v[name] + g[name] + plan.weight_decay * w[name]
            w[name] = w[name] - plan.lr.at(step) * v[name]
            if job.correction and name in job.correction:
                w[name] = w[name] - plan.lr.at(step) * torch.from_numpy(job.correction[name].astype(np.float64))
        w = masked(w)
        losses.append(loss)
        watch(*w.values(), *v.values())
        found.peaks.append(peak)
        if step + 1 in moments:
            found.snapshots.append(note(w))
    found.params, found.loss = note(w), float(np.mean(losses)) if losses else 0.0
    return found


def in_digits(value: Numbers, luck: Luck | None) -> torch.Tensor:
    """A value in double precision; with `luck`, changed in a float's last digit."""
    change = 0.0 if luck is None else LAST_DIGIT * luck.rng.uniform(-1, 1, value.shape)
    return torch.from_numpy(value.astype(np.float64) * (1 + change))


def double_module(spec: ModelSpec) -> nn.Sequential:
    return build(spec.shape, spec.classes, **spec.options).double()


def largest(tensors: Sequence[torch.Tensor]) -> float:
    return max(float(t.detach().abs().max().nan_to_num(nan=float("inf"))) for t in tensors)


# --- judgement -----------------------------------------------------------------------------------------------------


@dataclass
class Tally:
    """What was seen so far."""

    cases: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[str] = field(default_factory=Counter)
    largest: float = 0.0
    """Distance from PyTorch among the results that needed no closer look."""
    strain: tuple[float, int] = (0.0, -1)
    """How much of what is allowed in comparison with double precision was used at most, and by which case."""
    failures: list[str] = field(default_factory=list)
    current: int = -1

    def add(self, other: Tally) -> None:
        self.cases += other.cases
        self.counts += other.counts
        self.verdicts += other.verdicts
        self.largest = max(self.largest, other.largest)
        self.strain = max(self.strain, other.strain)
        self.failures += other.failures


def pieces(outcome: Outcome | Double) -> list[Numbers]:
    """The numbers to compare, tensor by tensor."""
    models = [outcome.params, *outcome.snapshots]
    return [np.array([outcome.loss]), *(np.asarray(value) for params in models for value in params.values())]


def distances(ours: Sequence[Numbers], theirs: Sequence[Numbers]) -> Numbers:
    """Of each tensor, relative to its norm."""
    if [a.shape for a in ours] != [b.shape for b in theirs]:
        raise Disagreement(f"other tensors: {[a.shape for a in ours]} and {[b.shape for b in theirs]}")
    pairs = [(np.asarray(a, np.float64), np.asarray(b, np.float64)) for a, b in zip(ours, theirs, strict=True)]
    return np.array([np.linalg.norm(a - b) / (np.linalg.norm(b) + 1e-3) if a.size else 0.0 for a, b in pairs])


def judge(
    ours: Sequence[Numbers],
    theirs: Sequence[Numbers],
    exact: Callable[[Luck | None], Sequence[Numbers]],
    tally: Tally,
) -> str:
    """Compare with PyTorch, and where that is not close, with what is exact; return how it ended."""
    apart = distances(ours, theirs)
    if apart.max() <= CLOSE:
        tally.largest = max(tally.largest, float(apart.max()))
        return "close to PyTorch"
    truth = exact(None)
    changed = np.array([distances(exact(Luck(k)), truth) for k in range(8)]).max(axis=0)
    if not changed.max() < 0.1:
        return "decided by the last digit"
    allowed = FACTOR * np.maximum(distances(theirs, truth), changed) + ROUNDING
    strain = float((distances(ours, truth) / allowed).max())
    if not strain <= 1:
        raise Disagreement(
            f"{apart.max():.1e} from PyTorch; from double precision {distances(ours, truth).max():.1e}, PyTorch "
            f"{distances(theirs, truth).max():.1e}, last digit {changed.max():.1e}"
        )
    tally.strain = max(tally.strain, (strain, tally.current))
    return "as close to double precision as PyTorch"


def attempt(trainer: NativeTrainer | TorchTrainer, job: Job) -> Outcome | int:
    """The outcome, or the step at which training diverged."""
    try:
        return trainer.train(again(job))
    except Diverged as error:
        return error.step


def judge_training(job: Job, ours: Outcome | int, theirs: Outcome | int, tally: Tally) -> str:
    if isinstance(ours, Outcome) and isinstance(theirs, Outcome):
        if ours.steps != theirs.steps:
            raise Disagreement(f"{ours.steps} steps, PyTorch {theirs.steps}")
        verdict = judge(pieces(ours), pieces(theirs), lambda luck: pieces(in_double(job, luck)), tally)
        if any((ours.params[name][mask == 0] != 0).any() for name, mask in (job.mask or {}).items()):
            raise Disagreement("masked weights are not 0")
        return verdict
    if isinstance(ours, int) and ours == theirs:
        return "both diverge at the same step"
    double = in_double(job)
    first = min(step for step in (ours, theirs) if isinstance(step, int))
    if max(double.peaks[: first + 1], default=0.0) > EDGE and np.isfinite(job.x).all():
        return "on the edge of overflow"
    raise Disagreement(f"{say(ours)}, PyTorch {say(theirs)}, in double precision {say(double.diverged)}")


def say(outcome: object) -> str:
    return f"diverges at step {outcome}" if isinstance(outcome, int) else "does not diverge"


def judge_logits(case: Case, native: NativeTrainer, pytorch: TorchTrainer, params: Params, tally: Tally) -> str:
    """Compare outputs, and what is counted of them."""
    spec = case.job.spec
    finite = np.isfinite(case.x).all(axis=tuple(range(1, case.x.ndim)))
    ours, theirs = native.logits(spec, params, case.x), pytorch.logits(spec, params, case.x)
    if not np.array_equal(np.isfinite(ours[~finite]), np.isfinite(theirs[~finite])):
        raise Disagreement("other outputs are finite")

    def exact(luck: Luck | None) -> list[Numbers]:
        module = double_module(spec)
        module.load_state_dict({name: in_digits(value, luck) for name, value in params.items()})
        with torch.inference_mode():
            return [module(in_digits(case.x[finite], luck)).numpy()]

    verdict = judge([ours[finite]], [theirs[finite]], exact, tally)
    top = np.sort(theirs[finite], axis=1)[:, -2:]
    close_calls = int((top[:, -1] - top[:, 0] <= 1e-3 * (1 + np.abs(top[:, -1]))).sum()) if spec.classes > 1 else 0
    scores = [evaluate(trainer, spec, params, case.x[finite], case.y[finite]) for trainer in (native, pytorch)]
    if abs(scores[0].correct - scores[1].correct) > close_calls or scores[0].samples != scores[1].samples:
        raise Disagreement(f"scores {scores[0]}, PyTorch {scores[1]}")
    return verdict


def same(first: Outcome | int, second: Outcome | int) -> bool:
    if isinstance(first, int) or isinstance(second, int):
        return first == second
    return all(np.array_equal(a, b) for a, b in zip(pieces(first), pieces(second), strict=True))


def check_refusal(job: Job, native: NativeTrainer, luck: Luck) -> str:
    """Ask for something that would be read or written beyond its end."""
    flat = job.x.reshape(len(job.x), -1)
    name = luck.one(*job.start)
    growing = replace(job.plan, curriculum=Curriculum(a=1.0, b=0.0), steps=2)
    changed = {
        "inputs too short": replace(job, x=flat[:, :-1]),
        "inputs too long": replace(job, x=np.concatenate([flat, flat[:, :1]], axis=1)),
        "an input missing": replace(job, x=job.x[:-1]),
        "label too large": replace(job, y=np.full_like(job.y, job.spec.classes)),
        "label negative": replace(job, y=job.y - job.spec.classes),
        "model too short": replace(job, start={**job.start, name: job.start[name].ravel()[:-1]}),
        "model too long": replace(job, start={**job.start, name: np.append(job.start[name], 0)}),
        "anchor too short": replace(job, anchors=(({name: job.start[name].ravel()[:-1]}, 1.0),)),
        "correction too short": replace(job, correction={name: job.start[name].ravel()[:-1]}),
        "mask too short": replace(job, mask={name: job.start[name].ravel()[:-1]}),
        "order names what is not there": replace(job, plan=growing, order=np.full(len(job.y), len(job.y))),
    }
    what = luck.one(*changed)
    if what.startswith("order") and len(job.y) <= job.plan.batch_size:
        what = "model too short"  # the order is not looked at
    calls: list[Callable[[], object]] = [lambda: native.train(again(changed[what]))]
    if what.startswith(("inputs", "model")):
        calls.append(lambda: native.logits(job.spec, changed[what].start, changed[what].x))
    for call in calls:
        try:
            call()
        except ValueError:
            continue
        raise Disagreement(f"not refused: {what}")
    return f"refused: {what}"


def check(case: Case, lanes: Sequence[int], tally: Tally, luck: Luck) -> None:
    """Run one case on each instruction set."""
    job, pytorch = case.job, TorchTrainer()
    theirs = attempt(pytorch, job)
    trained = theirs.params if isinstance(theirs, Outcome) else job.start
    params = trained if max(np.abs(value).max() for value in trained.values()) < TAME else job.start
    for width in lanes:
        try:
            native = NativeTrainer(Forbidden(), width)
            ours = attempt(native, job)
            tally.verdicts[f"training {judge_training(job, ours, theirs, tally)}"] += 1
            tally.verdicts[f"outputs {judge_logits(case, native, pytorch, params, tally)}"] += 1
            attempt(native, replace(job, x=np.full_like(job.x, np.inf)))
            if not same(ours, attempt(native, job)):
                raise Disagreement("another result the second time, behind other work")
            if len(job.y):
                tally.counts[check_refusal(job, native, luck)] += 1
        except Disagreement as error:
            raise Disagreement(f"{width} lanes: {error}") from error


# --- running -------------------------------------------------------------------------------------------------------


News = tuple[int, Tally | None]


def run(numbers: Sequence[int], seed: int, lanes: Sequence[int]) -> Iterator[News]:
    """Yield the number of each case before it runs, and what was seen at the end."""
    torch.set_num_threads(1)
    np.seterr(all="ignore")
    if NAME not in MODELS:
        model(NAME)(build)
    tally = Tally()
    for number in numbers:
        yield number, None
        tally.current = number
        case = random_case(seed, number)
        try:
            check(case, lanes, tally, Luck(seed, number, 2))
        except Disagreement as error:
            tally.failures.append(f"case {number}: {error}\n  {case.job.spec}\n  {case.job.plan}")
        except Exception:
            tally.failures.append(f"case {number}: {traceback.format_exc()}")
        tally.cases += 1
        tally.counts.update(case.features)
    yield -1, tally


def work(pipe: Connection, numbers: Sequence[int], seed: int, lanes: Sequence[int]) -> None:
    """Run cases in a process of its own, so that a crash ends that one only."""
    faulthandler.enable()
    for news in run(numbers, seed, lanes):
        pipe.send(news)


def run_apart(numbers: Sequence[int], seed: int, lanes: Sequence[int], workers: int) -> Iterator[News]:
    """As `run`, in several processes."""
    processes = multiprocessing.get_context("spawn")
    running: dict[Connection, tuple[Any, int]] = {}
    for k in range(workers):
        ours, theirs = processes.Pipe(duplex=False)
        process = processes.Process(target=work, args=(theirs, numbers[k::workers], seed, lanes))
        process.start()
        theirs.close()
        running[ours] = (process, -1)
    while running:
        for pipe in wait(list(running)):
            assert isinstance(pipe, Connection)
            process, current = running[pipe]
            try:
                number, tally = pipe.recv()
            except EOFError:
                process.join()
                yield -1, Tally(failures=[f"case {current}: the process died with exit code {process.exitcode}"])
                number, tally = -1, None
            if number >= 0:
                running[pipe] = (process, number)
                yield number, None
            else:
                del running[pipe]
                process.join()
                if tally is not None:
                    yield -1, tally


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases, say what was seen, and return 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lanes", type=int, nargs="+", default=lanes_here(), help="default: all of this machine")
    parser.add_argument("--case", type=int, help="run this one only")
    parser.add_argument("--workers", type=int, default=multiprocessing.cpu_count(), help="0: in this process")
    options = parser.parse_args(arguments)
    if not options.lanes:
        print("Coterie was installed without a C++ compiler: nothing to run")
        return 1
    numbers = range(options.cases) if options.case is None else [options.case]
    what = numbers, options.seed, options.lanes
    news = run_apart(*what, options.workers) if options.workers and options.case is None else run(*what)
    total, began, started, shown = Tally(), time.monotonic(), 0, 0.0
    for number, tally in news:
        started += number >= 0
        if tally is not None:
            total.add(tally)
        now = time.monotonic()
        if now - shown > (0.2 if sys.stderr.isatty() else 15):
            shown = now
            end = "\r" if sys.stderr.isatty() else "\n"
            print(f"case {started} of {len(numbers)}, {now - began:.0f} s", end=end, file=sys.stderr, flush=True)
    print(summary(total, options.seed, options.lanes, time.monotonic() - began))
    return 1 if total.failures or total.cases != len(numbers) else 0


def summary(tally: Tally, seed: int, lanes: Sequence[int], seconds: float) -> str:
    def listed(counter: Counter[str]) -> list[str]:
        return [f"  {count:7d}  {name}" for name, count in counter.most_common()]

    return "\n".join(
        [
            f"{tally.cases} cases of seed {seed}, each on lanes {', '.join(map(str, lanes))}, in {seconds:.0f} s",
            "exercised:",
            *listed(tally.counts),
            "results:",
            *listed(tally.verdicts),
            f"largest distance from PyTorch without a closer look: {tally.largest:.1e} ({CLOSE:.0e} allowed)",
            f"largest share used of what double precision allows: {tally.strain[0]:.2f} (case {tally.strain[1]})",
            *(f"FAILED {failure}" for failure in tally.failures),
            f"{len(tally.failures)} failures" + (f"; repeat one with --seed {seed} --case N" if tally.failures else ""),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
