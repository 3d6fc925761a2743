"""Scoring models: losses and right answers from outputs, and a common test set that scores each model once."""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from coterie.messages import Array, EvaluateReply, ModelSpec, Params
from coterie.training.job import Floats, Index, Trainer

HOPELESS = 1e30
"""Stands for a loss that is not finite, so that means and messages stay finite."""


def losses(logits: Floats, y: Index) -> npt.NDArray[np.float64]:
    """Return the cross-entropy of each sample, (samples,)."""
    z = logits.astype(np.float64)
    top = z.max(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        loss = np.log(np.exp(z - top).sum(axis=1)) + (top[:, 0] - z[np.arange(len(y)), y])
    return np.asarray(np.minimum(np.nan_to_num(loss, nan=HOPELESS, posinf=HOPELESS), HOPELESS))


def digest(params: Params) -> str:
    """Return a short name of a model's exact content."""
    content = hashlib.blake2b(digest_size=16)
    for name, value in sorted(params.items()):
        content.update(f"{name}\0{value.dtype}\0{value.shape}\0".encode())
        content.update(np.ascontiguousarray(value).data)
    return content.hexdigest()


def evaluate(trainer: Trainer, spec: ModelSpec, params: Params, x: Floats, y: Index) -> EvaluateReply:
    """Score a model on samples."""
    if not len(y):
        return EvaluateReply(0, 0, 0.0)
    outputs = trainer.logits(spec, params, x)
    return _summary(outputs.argmax(axis=1) == y, losses(outputs, y))


def _summary(correct: npt.NDArray[np.bool_], loss: npt.NDArray[np.float64]) -> EvaluateReply:
    return EvaluateReply(len(correct), int(correct.sum()), float(loss.mean()) if len(loss) else 0.0)


@dataclass
class _Scores:
    """Of one model on the whole common set; the blocks not yet done hold nothing."""

    done: npt.NDArray[np.bool_]
    correct: npt.NDArray[np.bool_]
    loss: npt.NDArray[np.float64]
    lock: threading.Lock


class CommonTest:
    """A test set in which clients' parts overlap; the scores of recent models are remembered.

    Models that many clients share are run over each block of the set once, whoever asks first; blocks are
    fixed, so that rounding does not depend on who that was. Sort the samples by label: then a client with few
    labels needs few blocks.
    """

    BLOCK = 250
    MODELS = 256

    def __init__(self, x: Array, y: Index, normalise: Callable[[Array], Floats]) -> None:
        self.x, self.y, self.normalise = x, y, normalise
        self._known: OrderedDict[str, _Scores] = OrderedDict()
        self._latest: tuple[Params, str] = ({}, "")
        self._lock = threading.Lock()

    def evaluate(self, trainer: Trainer, spec: ModelSpec, params: Params, part: Index | None = None) -> EvaluateReply:
        """Score a model that others may have asked for too, on a part of the set or all of it."""
        part = np.arange(len(self.y)) if part is None else part
        scores = self._scores(self._name(params))
        with scores.lock:
            for block in np.unique(part // self.BLOCK):
                if not scores.done[block]:
                    rows = slice(block * self.BLOCK, (block + 1) * self.BLOCK)
                    outputs = trainer.logits(spec, params, self.normalise(self.x[rows]))
                    scores.correct[rows] = outputs.argmax(axis=1) == self.y[rows]
                    scores.loss[rows] = losses(outputs, self.y[rows])
                    scores.done[block] = True
        return _summary(scores.correct[part], scores.loss[part])

    def _name(self, params: Params) -> str:
        """Return the digest of a model; many clients ask for the same one, which may not change, in a row."""
        latest, name = self._latest
        if latest is not params:
            name = digest(params)
            if not any(array.flags.writeable for array in params.values()):
                self._latest = params, name
        return name

    def _scores(self, name: str) -> _Scores:
        with self._lock:
            if name not in self._known:
                n = len(self.y)
                blocks = -(-n // self.BLOCK)
                self._known[name] = _Scores(np.zeros(blocks, bool), np.zeros(n, bool), np.zeros(n), threading.Lock())
                while len(self._known) > self.MODELS:
                    self._known.popitem(last=False)
            self._known.move_to_end(name)
            return self._known[name]
