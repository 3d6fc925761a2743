"""Using what a run has trained."""

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from coterie.data import read_inputs
from coterie.errors import CoterieError
from coterie.files import write_whole
from coterie.run.building import load_data
from coterie.run.trained_models import find_model
from coterie.training import Trainer


@dataclass(frozen=True)
class Prediction:
    """Labels for inputs, and a sentence on where they came from."""

    labels: npt.NDArray[np.int64]
    summary: str


def predict(run: Path, images: Path, client: int | None = None, out: Path | None = None) -> Prediction:
    """Predict labels for the inputs of a .npz file.

    With a client, its own model is used if it has trained, else the one that it would receive; without, the
    model that all clients share, if there is one.
    """
    from coterie.native import available
    from coterie.training.native_trainer import NativeTrainer
    from coterie.training.torch_trainer import TorchTrainer, one_thread

    model = find_model(run, client)
    trained = model.run
    x, y = read_inputs(images, tuple(trained.state["raw_shape"]))
    if str(x.dtype) != trained.state["dtype"]:
        raise CoterieError(
            f"{images}: the inputs are {x.dtype}, but the network was trained on {trained.state['dtype']}: uint8 means "
            "shades 0..255, other types are taken as they are; save them as they were in training"
        )
    normalise = trained.normalisation or load_data(trained.config).normalise
    trainer: Trainer = TorchTrainer()
    if available() and trained.config.engine.trainer != "torch":
        trainer = NativeTrainer(trainer)
    with one_thread():
        outputs = trainer.logits(trained.spec, model.params, normalise(x))
    labels = outputs.argmax(axis=1)
    summary = f"{len(labels)} predictions by {model.whose}, after round {trained.round}"
    if y is not None:
        summary += f"; {100 * float(np.mean(labels == y)):.2f} % agree with the labels in the file"
    if out is not None:
        content = io.BytesIO()
        np.savez(content, y=labels)
        try:
            write_whole(out, content.getvalue())
        except OSError as error:
            raise CoterieError(f"the predictions can't be written to '{out}': {error.strerror}") from None
        summary += f"; written to {out}"
    return Prediction(labels, summary)
