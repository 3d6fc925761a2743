"""In which order a curriculum shows a client's samples (ALGORITHMS 6)."""

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from coterie.messages import Curriculum, Params
from coterie.training import losses

Index = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]

SMALLEST_LOSS = 1e-12


def curriculum_order(
    curriculum: Curriculum,
    logits: Callable[[Params], Floats],
    y: Index,
    judges: Mapping[str, Params],
    rng: np.random.Generator,
) -> Index:
    """Return the samples from first to last: easiest first, hardest first, or at random.

    `judges` are the models that a score names by letters.
    """
    shuffled = rng.permutation(len(y))  # so that equal scores stand in random order
    if curriculum.order == "random":
        return shuffled
    letters, _, by_prediction = curriculum.score.partition("-")
    outputs = [logits(judges[letter]) for letter in letters]
    if by_prediction:
        predictions = [output.argmax(axis=1) for output in outputs]
        truth = predictions[1] if len(predictions) > 1 else y
        sound = np.all([np.isfinite(output).all(axis=1) for output in outputs], axis=0)  # else nothing is predicted
        easiness = np.asarray((predictions[0] == truth) & sound, np.float64)
    else:
        easiness = 1.0 / np.maximum(np.mean([losses(output, y) for output in outputs], axis=0), SMALLEST_LOSS)
    key = -easiness if curriculum.order == "curriculum" else easiness
    return shuffled[np.argsort(key[shuffled], kind="stable")]
