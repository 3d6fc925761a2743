"""How alike what the clients' networks have learnt is, layer by layer: the layer study of the dissertation (5.2.3)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from coterie.errors import CoterieError, suggestion
from coterie.federation.served_model import single
from coterie.files import write_whole
from coterie.messages import Params
from coterie.models import build
from coterie.run.building import load_data
from coterie.run.progress import Progress
from coterie.run.trained_models import TrainedRun
from coterie.similarity import centred_gram, cka_of_grams, principal_angles, signature
from coterie.streams import stream

if TYPE_CHECKING:
    from torch import nn

Floats = npt.NDArray[np.float64]

MEASURES = {
    "cka": "linear CKA of the layer's outputs for the same inputs: 1 is the same up to rotation and scale",
    "theta1": "degrees, the smallest angle between the spaces that the outputs span (Eq. 5.1)",
    "sum_angles": "degrees, the sum of the angles between these spaces (Eq. 5.2)",
}
INPUTS = 500
"""Test samples that are shown to every model, unless told otherwise."""
P = 3
"""Vectors that span a layer's outputs."""


@dataclass(frozen=True)
class LayerComparison:
    """How alike the clients' own models of one run are, layer by layer."""

    name: str
    """Of the run folder."""
    title: str
    clients: list[int]
    """Whose own models are compared: all that have trained."""
    layers: list[str]
    inputs: int
    matrices: dict[str, list[Floats]]
    """By measure, one matrix per layer, (clients, clients)."""
    to_server: list[float] | None
    """Per layer, the mean CKA of clients' own models with what the server would send them; None without a server's."""
    accuracy: dict[str, float | None] | None
    """Of the result, by protocol; None where the run is not finished."""

    def means(self, measure: str) -> list[float]:
        """Return the mean over pairs of clients, per layer (Fig. 5.5)."""
        above = np.triu_indices(len(self.clients), 1)
        return [float(matrix[above].mean()) for matrix in self.matrices[measure]]

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "run": self.name,
            "title": self.title,
            "clients": self.clients,
            "layers": self.layers,
            "inputs": self.inputs,
            "means": {measure: self.means(measure) for measure in self.matrices},
            "to_server": self.to_server,
            "accuracy": self.accuracy,
            "matrices": {measure: [m.tolist() for m in matrices] for measure, matrices in self.matrices.items()},
        }


@dataclass(frozen=True)
class Study:
    """Several runs side by side."""

    runs: list[LayerComparison]

    def to_json(self) -> dict[str, Any]:
        """Return what ``coterie layers --json`` prints."""
        return {"measures": MEASURES, "runs": [run.to_json() for run in self.runs]}

    def report(self) -> str:
        """Return the means as a table for the terminal."""
        from coterie.report.studies import layers_table

        return layers_table(self.to_json())

    def save(self, folder: Path) -> list[Path]:
        """Write the numbers and the pictures into a folder."""
        from coterie.report.studies import draw_layers

        folder.mkdir(parents=True, exist_ok=True)
        numbers = folder / "layers.json"
        write_whole(numbers, (json.dumps(self.to_json()) + "\n").encode())
        return [numbers, *draw_layers(self.to_json(), folder)]


def study(
    runs: Sequence[Path], *, layers: str | None = None, inputs: int = INPUTS, progress: Progress | None = None
) -> Study:
    """Compare the models in run folders; `layers` names some, with commas between them, else all with parameters."""
    progress = progress or Progress()
    if not runs:
        raise CoterieError("name a run folder, for instance coterie layers runs/first")
    if inputs < 2:
        raise CoterieError(f"--inputs {inputs} should be at least 2: outputs are compared over several inputs")
    found = []
    for run in runs:
        progress.phase(f"comparing the models of {run}")
        found.append(compare(run, layers, inputs))
    return Study(found)


def compare(run: Path, layers: str | None, inputs: int) -> LayerComparison:
    """Compare the clients' own models of a run, given the same test samples."""
    from coterie.training.torch_trainer import one_thread

    trained = TrainedRun.open(run)
    if trained.folder.deployed:
        raise CoterieError(f"'{run}' is the run of a deployed federation: the clients' models are at their sites")
    config, own = trained.config, trained.own_models()
    if len(own) < 2:
        raise CoterieError(
            f"in '{run}' {'one client has' if own else 'no client has'} a model of its own: two at least must have "
            "trained to be compared"
        )
    received = {client: single(trained.algorithm.model_for(client)) for client in own}
    data = load_data(config)
    chosen = stream(config.run.seed, "layer inputs").permutation(len(data.test.y))[:inputs]
    x = data.normalise(data.test.x[np.sort(chosen)])
    if len(x) < 2:
        raise CoterieError(f"the data set of '{run}' has {len(x)} test samples: two at least are needed")
    module = build(trained.spec)
    names = _chosen(module, layers)
    with one_thread():
        seen = [_Seen.of(_outputs(module, model, names, x)) for model in own.values()]
        server = {id(model): _Seen.of(_outputs(module, model, names, x)) for model in distinct(received.values())}
    matrices: dict[str, list[Floats]] = {measure: [] for measure in MEASURES}
    for k in range(len(names)):
        matrices["cka"].append(cka_of_grams([each.grams[k] for each in seen]))
        spans = [each.spans[k] for each in seen]
        matrices["theta1"].append(principal_angles(spans, measure="theta1"))
        matrices["sum_angles"].append(principal_angles(spans, measure="sum_angles"))
    to_server = None
    if all(model is not None for model in received.values()):
        pairs = [(each, server[id(received[client])]) for client, each in zip(own, seen, strict=True)]
        alike = [[cka_of_grams([a.grams[k], b.grams[k]])[0, 1] for k in range(len(names))] for a, b in pairs]
        to_server = np.mean(alike, axis=0).tolist()
    accuracy = None
    if trained.folder.finished:
        told = json.loads(trained.folder.result_file.read_text(encoding="utf-8"))["accuracy"]
        accuracy = {protocol: told[protocol] for protocol in ("L", "C", "G", "plus")}
    title = f"{config.algorithm.name} on {config.data.name}"
    if config.partition.name:
        title += f", {config.partition.name}"
    title += f", {config.data.clients} clients, after round {trained.round}"
    return LayerComparison(str(run), title, list(own), names, len(x), matrices, to_server, accuracy)


@dataclass(frozen=True)
class _Seen:
    """What is kept of a model's outputs, by layer: far less than the outputs themselves."""

    grams: list[Floats]
    spans: list[npt.NDArray[Any]]

    @classmethod
    def of(cls, outputs: Sequence[Floats]) -> _Seen:
        return cls([centred_gram(each) for each in outputs], [signature(each, P) for each in outputs])


def _chosen(module: nn.Module, wanted: str | None) -> list[str]:
    """Return the names of the layers to compare."""
    leaves = {
        name: layer
        for name, layer in module.named_modules()
        if not list(layer.children()) and list(layer.parameters(recurse=False))
    }
    if wanted is None:
        return list(leaves)
    known = {name: layer for name, layer in module.named_modules() if name}
    names = [name.strip() for name in wanted.split(",") if name.strip()]
    if not names:
        raise CoterieError(f"--layers names none: write some of {', '.join(leaves)}")
    for name in names:
        if name not in known:
            raise CoterieError(f"the network has no layer '{name}': {suggestion(name, known)}")
    return names


def _outputs(module: nn.Module, params: Params, names: Sequence[str], x: npt.NDArray[np.float32]) -> list[Floats]:
    """Return what layers make of the inputs, one array per layer, (samples, features)."""
    import torch

    kept: dict[str, list[npt.NDArray[np.float32]]] = {name: [] for name in names}

    def keep(name: str) -> Any:
        def hook(layer: nn.Module, given: Any, output: Any) -> None:
            first = output[0] if isinstance(output, tuple) else output
            kept[name].append(first.reshape(len(first), -1).numpy().copy())

        return hook

    layers = dict(module.named_modules())
    hooks = [layers[name].register_forward_hook(keep(name)) for name in names]
    try:
        module.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in params.items()})
        module.eval()
        with torch.inference_mode():
            for start in range(0, len(x), 250):
                module(torch.from_numpy(x[start : start + 250]))
    finally:
        for hook in hooks:
            hook.remove()
    return [np.concatenate(kept[name]).astype(np.float64) for name in names]


def distinct(models: Iterable[Params | None]) -> list[Params]:
    """Return each model once."""
    return list({id(model): model for model in models if model is not None}.values())
