"""Scoring models: losses and right answers from outputs, and a common test set that scores each model once."""

import hashlib
import math
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import numpy.typing as npt

from coterie.messages import Array, EvaluateReply, ModelSpec, Params
from coterie.training.job import Floats, Index, Trainer
from coterie.training.metrics import measured
from coterie.training.objectives import sample_losses

HOPELESS = 1e30
"""Stands for a loss that is not finite, so that means and messages stay finite."""


def losses(logits: Floats, y: Array, loss: str | None = None) -> npt.NDArray[np.float64]:
    """Return the cross-entropy of each sample, or another loss by its name, (samples,)."""
    if loss is not None:
        return _bounded(_named_losses(logits, y, loss))
    z = logits.astype(np.float64)
    top = z.max(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        return _bounded(np.log(np.exp(z - top).sum(axis=1)) + (top[:, 0] - z[np.arange(len(y)), y]))


def _bounded(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.asarray(np.minimum(np.nan_to_num(values, nan=HOPELESS, posinf=HOPELESS), HOPELESS))


def _named_losses(outputs: Floats, y: Array, loss: str) -> npt.NDArray[np.float64]:
    import torch

    with torch.inference_mode():
        values = sample_losses(loss, torch.from_numpy(outputs.astype(np.float64)), torch.from_numpy(np.array(y)))
        return np.asarray(values.numpy(), np.float64)


def guessing(spec: ModelSpec) -> float:
    """Return the loss of outputs that are all 0, which prefer no label, or are the mean of numbers to predict.

    >>> round(guessing(ModelSpec("mlp", (4,), 10)), 4), round(guessing(ModelSpec("mlp", (4,), 10, loss="binary")), 4)
    (2.3026, 0.6931)
    """
    if spec.loss is None:
        return math.log(spec.classes)
    if spec.target is not None:  # the mean is guessed, of a number that is a deviation from it
        return float(losses(np.zeros((1, 1), np.float32), np.ones(1, np.float32), spec.loss)[0])
    return float(losses(np.zeros((1, spec.classes), np.float32), np.zeros(1, np.int64), spec.loss)[0])


_name_of = cache(str)
"""Names of types, which NumPy makes anew each time."""


def digest(params: Params) -> str:
    """Return a short name of a model's exact content."""
    content = hashlib.blake2b(digest_size=16)
    for name, value in sorted(params.items()):
        content.update(f"{name}\0{_name_of(value.dtype)}\0{value.shape}\0".encode())
        content.update(np.ascontiguousarray(value).data)
    return content.hexdigest()


@dataclass(frozen=True)
class SampleScores:
    """Whether a model labels each of some samples right, and its loss there."""

    correct: npt.NDArray[np.bool_]
    loss: npt.NDArray[np.float64]
    score: float | None = None
    """What a metric says of all these samples, where one was asked for."""

    def summary(self) -> EvaluateReply:
        """Return what leaves a client."""
        loss = float(self.loss.mean()) if len(self.loss) else 0.0
        return EvaluateReply(len(self.correct), int(self.correct.sum()), loss, score=self.score)


def score(
    trainer: Trainer,
    spec: ModelSpec,
    params: Params,
    x: Floats,
    y: Index,
    offset: Floats | None = None,
    metric: str | None = None,
    fewest: int = 0,
) -> SampleScores:
    """Score a model on each of some samples; a label offset, (classes,), is added to the logits.

    A metric leaves out labels with fewer than `fewest` samples.
    """
    if not len(y):
        return SampleScores(np.zeros(0, bool), np.zeros(0))
    return _scores(spec, trainer.logits(spec, params, x), y, offset, metric, fewest)


def evaluate(trainer: Trainer, spec: ModelSpec, params: Params, x: Floats, y: Index) -> EvaluateReply:
    """Score a model on samples."""
    return score(trainer, spec, params, x, y).summary()


def _scores(
    spec: ModelSpec, outputs: Floats, y: Index, offset: Floats | None, metric: str | None = None, fewest: int = 0
) -> SampleScores:
    if spec.target is not None:
        return _scores_of_numbers(spec, outputs, y, metric)
    outputs, score = outputs if offset is None else outputs + offset, None
    if metric is not None:
        enough = np.bincount(y, minlength=1)[y] >= fewest
        score = measured(metric, (outputs if spec.loss else softmax(outputs))[enough], y[enough])
    return SampleScores(outputs.argmax(axis=1) == y, losses(outputs, y, spec.loss), score)


def _scores_of_numbers(spec: ModelSpec, outputs: Floats, y: Index, metric: str | None) -> SampleScores:
    """Score numbers, of which none is simply right; the metric sees them in their own unit."""
    score = None if metric is None else measured(metric, spec.in_units(outputs[:, 0]), spec.in_units(y))
    return SampleScores(np.zeros(len(y), bool), losses(outputs, y, spec.loss), score)


def softmax(outputs: Floats) -> npt.NDArray[np.float64]:
    """Return probabilities of labels, (samples, classes), in float64: in float32 those that are nearly 1 are equal."""
    z = outputs.astype(np.float64)
    with np.errstate(invalid="ignore"):
        powers = np.exp(z - z.max(axis=1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def by_frequency(correct: npt.NDArray[np.bool_], y: Index, counts: Index, fewest: int = 0) -> float | None:
    """Return Σ f_y · (accuracy on label y), where f_y are the frequencies of labels by `counts`.

    Labels without samples here, or with fewer than `fewest`, are left out, and the f_y of the others add up to 1. None
    where no label is left.

    >>> right, labels = np.array([True, True, False, False]), np.array([0, 0, 0, 1])
    >>> round(by_frequency(right, labels, np.array([30, 10, 5])), 4)
    0.5
    """
    tested = np.bincount(y, minlength=len(counts))
    weights = np.where(tested >= max(fewest, 1), counts, 0)
    if not weights.any():
        return None
    accuracies = np.bincount(y, correct, len(counts)) / np.maximum(tested, 1)
    return float(weights @ accuracies / weights.sum())


@dataclass
class _Known:
    """Of one model on the whole common set: scores, or outputs; the blocks not yet done hold nothing."""

    done: npt.NDArray[np.bool_]
    scores: SampleScores
    outputs: Floats
    complete: bool = False
    """Whether all blocks are done."""
    lock: threading.Lock = field(default_factory=threading.Lock)


class CommonTest:
    """A test set in which clients' parts overlap; the scores of recent models are remembered.

    Models that many clients share are run over each block of the set once, whoever asks first; blocks are
    fixed, so that rounding does not depend on who that was. Sort the samples by label: then a client with few
    labels needs few blocks. Where clients add label offsets of their own, or a metric needs them, outputs are
    remembered instead.
    """

    BLOCK = 250
    MODELS = 256
    LARGEST = 2**27
    """Bytes of outputs that are remembered; those of one model may have more."""

    def __init__(self, x: Array, y: Index, normalise: Callable[[Array], Floats]) -> None:
        self.x, self.y, self.normalise = x, y, normalise
        self._known: OrderedDict[tuple[str, bool], _Known] = OrderedDict()
        self._latest: tuple[Params, str] = ({}, "")
        self._lock = threading.Lock()

    def evaluate(
        self,
        trainer: Trainer,
        spec: ModelSpec,
        params: Params,
        part: Index | None = None,
        metric: str | None = None,
    ) -> EvaluateReply:
        """Score a model that others may have asked for too, on a part of the set or all of it."""
        part = np.arange(len(self.y)) if part is None else part
        return self.score(trainer, spec, params, part, metric=metric).summary()

    def score(
        self,
        trainer: Trainer,
        spec: ModelSpec,
        params: Params,
        part: Index,
        offset: Floats | None = None,
        metric: str | None = None,
        fewest: int = 0,
    ) -> SampleScores:
        """Score a model on each sample of a part; as `score` does."""
        by_sample = offset is None and metric is None
        known = self._of(self._name(params), 0 if by_sample else spec.classes)
        with known.lock:
            for block in () if known.complete else np.unique(part // self.BLOCK):
                if not known.done[block]:
                    rows = slice(block * self.BLOCK, (block + 1) * self.BLOCK)
                    outputs = trainer.logits(spec, params, self.normalise(self.x[rows]))
                    if by_sample:
                        scores = _scores(spec, outputs, self.y[rows], None)
                        known.scores.correct[rows], known.scores.loss[rows] = scores.correct, scores.loss
                    else:
                        known.outputs[rows] = outputs
                    known.done[block] = True
                    known.complete = bool(known.done.all())
        if by_sample:
            return SampleScores(known.scores.correct[part], known.scores.loss[part])
        return _scores(spec, known.outputs[part], self.y[part], offset, metric, fewest)

    def _name(self, params: Params) -> str:
        """Return the digest of a model; many clients ask for the same one, which may not change, in a row."""
        latest, name = self._latest
        if latest is not params:
            name = digest(params)
            if not any(array.flags.writeable for array in params.values()):
                self._latest = params, name
        return name

    def _of(self, name: str, classes: int) -> _Known:
        """Return what is known of a model: its scores, or if it has `classes` its outputs; forget those unused."""
        key = name, classes > 0
        with self._lock:
            if key not in self._known:
                n = len(self.y)
                done, scored = np.zeros(-(-n // self.BLOCK), bool), 0 if classes else n
                scores = SampleScores(np.zeros(scored, bool), np.zeros(scored))
                self._known[key] = _Known(done, scores, np.zeros((n, classes), np.float32))
                while len(self._known) > self.MODELS:
                    self._known.popitem(last=False)
                self._forget_outputs()
            self._known.move_to_end(key)
            return self._known[key]

    def _forget_outputs(self) -> None:
        """Forget the outputs that were not used for longest, but for the last, until the rest have room."""
        with_outputs = [key for key in self._known if key[1]]
        total = sum(self._known[key].outputs.nbytes for key in with_outputs)
        for key in with_outputs[:-1]:
            if total <= self.LARGEST:
                break
            total -= self._known.pop(key).outputs.nbytes
