"""Using what a run has trained."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from coterie.algorithms import ALGORITHMS
from coterie.client import DiskStore
from coterie.data import Normalisation, read_inputs
from coterie.errors import CoterieError
from coterie.experiment.config import Config
from coterie.experiment.folder import RunFolder
from coterie.experiment.plugins import import_plugins
from coterie.experiment.runner import load_data
from coterie.federation.checkpoint import load_checkpoint, write_whole
from coterie.federation.offer import single
from coterie.messages import ModelSpec
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

    folder = RunFolder.open(run)
    if not folder.checkpoint.exists():
        raise CoterieError(f"'{run}' has no checkpoint yet: run it first with 'coterie resume {run}'")
    state = load_checkpoint(folder.checkpoint)
    config = Config.model_validate_json(state["config"])  # the data set itself need not be there any more
    import_plugins(config.run.plugins)
    clients = int(config.data.clients or 0)
    if client is not None and not 0 <= client < clients:
        raise CoterieError(f"there is no client {client}: the run has clients 0 to {clients - 1}")
    algorithm = ALGORITHMS[config.algorithm.name](**config.algorithm.options)
    algorithm.load(state["algorithm"])
    last = state["round"] + ("plus" in state)  # newcomers after training train in a round of their own
    own = {} if client is None else DiskStore(folder.clients).load(client, before=last + 1)
    if "model" in own:
        params, whose = own["model"], f"client {client}'s own model"
    else:
        received = [single(algorithm.model_for(i)) for i in (range(clients) if client is None else [client])]
        if any(model is None for model in received):
            raise CoterieError("there is no one model at the server: name a client that has trained, --client 0")
        if any(model is not received[0] for model in received):
            raise CoterieError("this run has several models: name a client, for instance --client 0")
        params = received[0]  # type: ignore[assignment]
        whose = "the model of all clients" if client is None else f"the model that client {client} would receive"

    spec: ModelSpec = state["spec"]
    x, y = read_inputs(images, tuple(state["raw_shape"]))
    if str(x.dtype) != state["dtype"]:
        raise CoterieError(
            f"{images}: the inputs are {x.dtype}, but the network was trained on {state['dtype']}: uint8 means shades "
            "0..255, other types are taken as they are; save them as they were in training"
        )
    known = state["normalise"]
    normalise = load_data(config).normalise if known is None else Normalisation(**known)
    trainer: Trainer = TorchTrainer()
    if available() and config.engine.trainer != "torch":
        trainer = NativeTrainer(trainer)
    with one_thread():
        outputs = trainer.logits(spec, params, normalise(x))
    labels = outputs.argmax(axis=1)
    summary = f"{len(labels)} predictions by {whose}, after round {state['round']}"
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
