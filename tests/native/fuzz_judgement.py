"""The fuzzer's judgement whether the compiled trainer does what PyTorch does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from fuzz_cases import Case, Luck
from fuzz_double_precision import Double, Numbers, double_module, in_digits, in_double
from random_networks import Forbidden, again

from coterie.messages import Curriculum, Params
from coterie.messages.params import STATISTICS
from coterie.training import Diverged, Job, Outcome
from coterie.training.evaluation import evaluate
from coterie.training.native_trainer import NativeTrainer
from coterie.training.torch_trainer import TorchTrainer

CLOSE = 1e-5
"""Nobody looks closer at a tensor that is within this of PyTorch's, relative to its norm (+ 0.001)."""
FACTOR = 10.0
ROUNDING = 1e-6
EDGE = 1e36
"""Where numbers of this size occur, one order of summing overflows and another does not."""
REFUSED = -1
"""In place of a step: a batch of one sample has no variance that a norm could count."""
TAME = 1e6
"""Models with larger numbers are not used for outputs, which may overflow."""


class Disagreement(Exception):
    """The compiled trainer does something else than PyTorch."""


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
    except ValueError as error:
        if "more than 1 value per channel" not in str(error):
            raise
        return REFUSED


def judge_training(job: Job, ours: Outcome | int, theirs: Outcome | int, tally: Tally) -> str:
    if isinstance(ours, Outcome) and isinstance(theirs, Outcome):
        if ours.steps != theirs.steps:
            raise Disagreement(f"{ours.steps} steps, PyTorch {theirs.steps}")
        verdict = judge(pieces(ours), pieces(theirs), lambda luck: pieces(in_double(job, luck)), tally)
        frozen = {name for name in job.start if job.plan.train is not None and not name.startswith(job.plan.train)}
        for model in (ours.params, *ours.snapshots):
            if any(model[name].tobytes() != job.start[name].astype(model[name].dtype).tobytes() for name in frozen):
                raise Disagreement("what is frozen has changed")
        masks = {n: m for n, m in (job.mask or {}).items() if n not in frozen and not n.endswith(STATISTICS)}
        if any((ours.params[name][mask == 0] != 0).any() for name, mask in masks.items()):
            raise Disagreement("masked weights are not 0")
        return verdict
    if isinstance(ours, int) and ours == theirs:
        return "both refuse a batch of one" if ours == REFUSED else "both diverge at the same step"
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
        module = double_module(spec).eval()
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
    name = luck.one(*(name for name in job.start if not name.endswith("num_batches_tracked")))
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
