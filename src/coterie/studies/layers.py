"""How alike what the clients' networks have learnt is, layer by layer: the layer study of the dissertation (5.2.3)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from coterie.errors import CoterieError, counted, suggestion
from coterie.files import new_files, write_whole
from coterie.messages import Params
from coterie.models import build
from coterie.results.layer_measures import LAYER_MEASURES
from coterie.results.metrics import ACCURACY
from coterie.results.protocols import COMPARED
from coterie.run.building import load_data
from coterie.run.plugins import NOBODY, Permission
from coterie.run.progress import Progress
from coterie.run.trained_models import TrainedRun
from coterie.run.values import split_names
from coterie.similarity import centred_gram, cka_of_grams, principal_angles, signature
from coterie.streams import stream
from coterie.training import one_thread

if TYPE_CHECKING:
    from torch import nn

Floats = npt.NDArray[np.float64]

NUMBERS = "layers.json"
INPUTS = 500
"""Test samples that every model is shown by default."""
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
    metric: str = ACCURACY
    """What these are of."""

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
            "metric": self.metric,
            "matrices": {measure: [m.tolist() for m in matrices] for measure, matrices in self.matrices.items()},
        }


@dataclass(frozen=True)
class LayerStudy:
    """Several runs side by side."""

    runs: list[LayerComparison]

    def to_json(self) -> dict[str, Any]:
        """Return what ``coterie layers --json`` prints."""
        measures = {key: meaning for key, (_, meaning) in LAYER_MEASURES.items()}
        return {"measures": measures, "runs": [run.to_json() for run in self.runs]}

    def report(self) -> str:
        """Return the means as a table for the terminal."""
        from coterie.report.studies import layers_table

        return layers_table(self.to_json())

    def save(self, folder: Path, overwrite: bool = False) -> list[Path]:
        """Write the numbers and the pictures into a folder; other files there stay without `overwrite`."""
        from coterie.report.studies import draw_layers

        with new_files(folder, overwrite) as place:
            write_whole(place / NUMBERS, (json.dumps(self.to_json()) + "\n").encode())
            written = draw_layers(self.to_json(), place)
        return [folder / NUMBERS, *(folder / file.name for file in written)]


def study(
    runs: Sequence[Path],
    *,
    layers: str | None = None,
    inputs: int = INPUTS,
    progress: Progress | None = None,
    plugins: Sequence[str] = (),
    trust: bool = False,
) -> LayerStudy:
    """Compare the models in run folders; `layers` names some, with commas between them, else all with parameters.

    Of the plugins that the folders name those in `plugins` are imported, or with `trust` all.
    """
    progress = progress or Progress()
    if not runs:
        raise CoterieError("name a run folder, for instance coterie layers runs/first")
    if inputs < 2:
        raise CoterieError(f"--inputs {inputs} should be at least 2: outputs are compared over several inputs")
    comparisons = []
    for run in runs:
        progress.phase(f"comparing the models of {run}")
        comparisons.append(compare(run, layers, inputs, Permission(tuple(plugins), trust)))
    return LayerStudy(comparisons)


def compare(path: Path, layers: str | None, inputs: int, permission: Permission = NOBODY) -> LayerComparison:
    """Compare the clients' own models of a run, given the same test samples."""
    run = TrainedRun.open(path, permission)
    models = _own_models(run)
    x = _inputs(run, inputs)
    module = build(run.spec)
    names = _chosen(module, layers)
    with one_thread():
        own = [LayerSummary.of(_outputs(module, model, names, x)) for model in models.values()]
        received = [run.received(client) for client in models]
        distinct = {id(model): model for model in received if model is not None}
        served = {id(m): LayerSummary.of(_outputs(module, m, names, x)) for m in distinct.values()}
    complete = all(model is not None for model in received)
    config, result = run.config, run.folder.read_result()
    title = [f"{config.algorithm.name} on {config.data.title}", config.partition.name]
    title += [] if config.data.clients is None else [counted(config.data.clients, "client")]
    title += [f"after round {run.round}"]
    return LayerComparison(
        name=str(path),
        title=", ".join(part for part in title if part),
        clients=list(models),
        layers=names,
        inputs=len(x),
        matrices=_matrices(own, len(names)),
        to_server=_cka_with(own, [served[id(model)] for model in received]) if complete else None,
        accuracy=None if result is None else {protocol: result["accuracy"].get(protocol) for protocol in COMPARED},
        metric=config.evaluation.metric,
    )


def _own_models(run: TrainedRun) -> dict[int, Params]:
    """Return the clients' own models; refuse a run with fewer than two."""
    path = run.folder.path
    if run.folder.deployed:
        raise CoterieError(f"'{path}' is the run of a deployed federation: the clients' models are at their sites")
    models = run.own_models()
    if len(models) < 2:
        who = "one client has" if models else "no client has"
        raise CoterieError(f"in '{path}' {who} a model of its own: two at least must have trained to be compared")
    return models


def _inputs(run: TrainedRun, count: int) -> npt.NDArray[np.float32]:
    """Return test samples, the same for all models of a run."""
    data = load_data(run.config)
    chosen = stream(run.config.run.seed, "layer inputs").permutation(len(data.test.y))[:count]
    x = data.normalise(data.test.x[np.sort(chosen)])
    if len(x) < 2:
        raise CoterieError(f"the data set of '{run.folder.path}' has {len(x)} test samples: two at least are needed")
    return x


@dataclass(frozen=True)
class LayerSummary:
    """What is kept of a model's outputs, by layer: far less than the outputs themselves."""

    grams: list[Floats]
    spans: list[npt.NDArray[Any]]

    @classmethod
    def of(cls, outputs: Sequence[Floats]) -> LayerSummary:
        """Summarise the outputs of all layers."""
        return cls([centred_gram(each) for each in outputs], [signature(each, P) for each in outputs])


def _matrices(models: Sequence[LayerSummary], layers: int) -> dict[str, list[Floats]]:
    """Return each measure between all pairs of models, by layer."""
    matrices: dict[str, list[Floats]] = {measure: [] for measure in LAYER_MEASURES}
    for k in range(layers):
        spans = [model.spans[k] for model in models]
        matrices["cka"].append(cka_of_grams([model.grams[k] for model in models]))
        matrices["theta1"].append(principal_angles(spans, measure="theta1"))
        matrices["trace"].append(principal_angles(spans, measure="trace"))
        matrices["sum_angles"].append(principal_angles(spans, measure="sum_angles"))
    return matrices


def _cka_with(own: Sequence[LayerSummary], served: Sequence[LayerSummary]) -> list[float]:
    """Return the mean CKA of clients' models with what they would be served, by layer."""
    alike = [
        [cka_of_grams([a, b])[0, 1] for a, b in zip(mine.grams, theirs.grams, strict=True)]
        for mine, theirs in zip(own, served, strict=True)
    ]
    means: list[float] = np.mean(alike, axis=0).tolist()
    return means


def _chosen(module: nn.Module, wanted: str | None) -> list[str]:
    """Return the names of the layers to compare."""
    leaves = {
        name: layer
        for name, layer in module.named_modules()
        if not list(layer.children()) and list(layer.parameters(recurse=False))
    }
    if wanted is None:
        return list(leaves)
    layers = [name for name, _ in module.named_modules() if name]
    names = split_names(wanted)
    if not names:
        raise CoterieError(f"--layers names none: write some of {', '.join(leaves)}")
    for name in names:
        if name not in layers:
            raise CoterieError(f"the network has no layer '{name}': {suggestion(name, layers)}")
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
