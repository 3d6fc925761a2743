"""Using what a run has trained: labels or numbers for inputs, or a file of a model, as safetensors or as ONNX."""

from __future__ import annotations

import csv
import io
import json
import logging
import os
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import numpy.typing as npt

import coterie
from coterie.bounded import parse_json, read_tensors
from coterie.data import DATASETS, Inputs, read_inputs
from coterie.data.readers.arrays import checked_inputs, regular
from coterie.data.readers.inputs import rows_as_inputs
from coterie.data.tables.frames import tables_of
from coterie.errors import CoterieError, one_line
from coterie.files import UNSEALED, make_folder, seal, sealed, write_new
from coterie.messages import ModelSpec
from coterie.models import build
from coterie.models.compact import architecture, compact, from_architecture, sizes
from coterie.results.run_folder import RunFolder
from coterie.run.building import load_data
from coterie.run.exported_network import with_label_offset, with_normalisation
from coterie.run.plugins import Permission
from coterie.run.trained_models import TrainedModel, TrainedRun, find_model
from coterie.training import choose_trainer, one_thread

if TYPE_CHECKING:
    import torch
    from torch import nn

Format = Literal["safetensors", "onnx"]
FORMATS: tuple[Format, ...] = get_args(Format)


@dataclass(frozen=True)
class Predictions:
    """Labels that a model of a run gives to inputs, or numbers that it predicts."""

    labels: npt.NDArray[Any]
    """Numbers of classes; floats, in the unit of training, where numbers are predicted."""
    class_names: tuple[str, ...]
    """Of the classes, in the order of their numbers, where they are known."""
    files: tuple[str, ...]
    """Of images, where each is."""
    summary: str
    """Where the labels came from, in a sentence."""

    @property
    def shown(self) -> list[str]:
        """The labels, by name where they have one."""
        if self.labels.dtype.kind == "f":
            return [f"{number:.7g}" for number in self.labels]
        return [self.class_names[label] if self.class_names else str(label) for label in self.labels]

    def lines(self) -> list[str]:
        """Return a line per input: its label, and for images the file before it."""
        files = [f"{one_line(file)}\t" for file in self.files] or [""] * len(self.labels)
        return [f"{file}{label}" for file, label in zip(files, self.shown, strict=True)]

    def save(self, path: Path, overwrite: bool = False) -> None:
        """Write the labels, in the order of the inputs, as the name says.

        A .csv file has them by name; a .npz file as numbers (y), with class_names and files where there are any.
        """
        if path.suffix.lower() not in ("", ".npz", ".csv"):
            raise CoterieError(f"predictions are written as .npz or .csv: '{path}' is called neither")
        try:
            write_new(path, self._csv() if path.suffix.lower() == ".csv" else self._npz(), overwrite)
        except OSError as error:
            raise CoterieError(f"the predictions can't be written to '{path}': {error.strerror}") from None

    def _csv(self) -> bytes:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["file", "prediction"] if self.files else ["prediction"])
        writer.writerows(zip(self.files, self.shown, strict=True) if self.files else ([label] for label in self.shown))
        return text.getvalue().encode()

    def _npz(self) -> bytes:
        arrays: dict[str, Any] = {"y": self.labels, "class_names": self.class_names, "files": self.files}
        there: dict[str, Any] = {key: np.array(array) for key, array in arrays.items() if len(array)}
        content = io.BytesIO()
        np.savez(content, **there)
        return content.getvalue()


def predict(
    run: Path,
    images: Path,
    client: int | str | None = None,
    out: Path | None = None,
    *,
    group: int | None = None,
    resize: bool = False,
    overwrite: bool = False,
    plugins: Sequence[str] = (),
    trust: bool = False,
) -> Predictions:
    """Return labels for the inputs of a .npz file, the rows of a table, an image, or all images below a folder.

    With a client, its own model is used if it has trained, else the one that it would receive; with a group, that
    group's; without, the model that all clients share, if there is one. With `resize` images are brought to the size of
    training. Another file at `out` is replaced only with `overwrite`. Of the
    plugins that the run names those in `plugins` are imported, or with `trust` all.
    """
    model = find_model(run, client, group, Permission(tuple(plugins), trust))
    inputs = _inputs_for(model, images, resize)
    labels = predicted(model, inputs.x, str(images))
    summary = f"{len(labels)} predictions by {model.whose}, after round {model.run.round}"
    summary = "; ".join((summary, *inputs.agreement(labels), *inputs.notes))
    made = Predictions(labels, model.run.class_names, inputs.files, summary)
    if out is None:
        return made
    made.save(out, overwrite)
    return replace(made, summary=f"{summary}; written to {out}")


def _inputs_for(model: TrainedModel, images: Path, resize: bool) -> Inputs:
    run = model.run
    shape, options = tuple(run.state["raw_shape"]), run.config.data.options
    of_numbers = run.spec.target is not None
    return read_inputs(images, shape, options, run.class_names, run.encoding, resize, of_numbers)


def predicted(model: TrainedModel, x: npt.NDArray[Any], place: str) -> npt.NDArray[Any]:
    """Return labels for inputs as they were in training, not normalised; `place` is where they came from.

    Where numbers are predicted it is these, in their unit.
    """
    trained = model.run
    if str(x.dtype) != trained.state["dtype"]:
        raise CoterieError(
            f"{place}: the inputs are {x.dtype}, but the network was trained on {trained.state['dtype']}: uint8 means "
            "shades 0..255, other types are taken as they are; save them as they were in training"
        )
    normalise = trained.normalisation or load_data(trained.config).normalise
    trainer = choose_trainer("torch" if trained.config.engine.trainer == "torch" else "auto", trained.spec)
    with one_thread():
        outputs = trainer.logits(trained.spec, model.params, normalise(x))
    if trained.spec.target is not None:
        return trained.spec.in_units(outputs[:, 0])
    if model.label_offset is not None:
        outputs = outputs + model.label_offset
    labels: npt.NDArray[np.int64] = outputs.argmax(axis=1)
    return labels


def labels_for(
    model: TrainedModel, inputs: str | os.PathLike[str] | npt.ArrayLike, resize: bool = False
) -> npt.NDArray[Any]:
    """Return labels, or numbers, for an array of inputs, the rows of a data frame, or those of a file or folder."""
    if isinstance(inputs, str | os.PathLike):
        return predicted(model, _inputs_for(model, Path(inputs), resize).x, str(inputs))
    if (tables := tables_of(inputs)) is not None:
        rows = rows_as_inputs(
            tables[0], "inputs", model.run.encoding, model.run.class_names, model.run.spec.target is not None
        )
        return predicted(model, rows.x, "inputs")
    x, shape = checked_inputs(regular(inputs, "inputs"), "inputs"), tuple(model.run.state["raw_shape"])
    if x.shape[1:] != shape:
        raise CoterieError(f"the inputs have the shape {x.shape[1:]}, but the network was trained on {shape}")
    return predicted(model, x, "inputs")


def export(
    run: Path,
    out: Path | None = None,
    *,
    client: int | str | None = None,
    group: int | None = None,
    format: Format | None = None,
    smaller: bool = False,
    overwrite: bool = False,
    plugins: Sequence[str] = (),
    trust: bool = False,
) -> tuple[Path, str]:
    """Write a model of a run to a file; return the file and a sentence on what is in it.

    By default the file is called after the group or client, in the run folder; another is replaced only with
    `overwrite`. It says of itself what the model is, see `about`. Its format is that of its name, else safetensors.
    ONNX takes raw inputs, as they are in data files, and holds the normalisation; of safetensors `load_exported` makes
    the network again. What a client uses has its label offset, if the run serves them. `smaller` takes out the dead
    channels and units of a pruned network; `plugins` and `trust` are as in `predict`.
    """
    kind = format_of(out, format)
    model = find_model(run, client, group, Permission(tuple(plugins), trust))
    path = out or model_file(model, Path(run), kind, smaller)
    return path, write_model(model, path, kind, smaller, overwrite)


def format_of(out: Path | None, format: str | None) -> Format:
    """Return how a model is written: as asked, or as the name of the file ends; refuse what contradicts itself.

    >>> format_of(Path("m.onnx"), None), format_of(Path("m.bin"), "onnx"), format_of(None, None)
    ('onnx', 'onnx', 'safetensors')
    """
    if format is not None and format not in FORMATS:
        raise CoterieError(f"a model can't be written as '{format}': choose one of {', '.join(FORMATS)}")
    ending = next((kind for kind in FORMATS if out is not None and out.suffix.lower() == f".{kind}"), None)
    if format is not None and ending is not None and ending != format:
        raise CoterieError(f"'{out}' is called {ending}, but asked for as {format}: change one of them")
    return next(kind for kind in FORMATS if kind == (format or ending or "safetensors"))


def model_file(model: TrainedModel, folder: Path, format: Format, smaller: bool = False) -> Path:
    """Return where a model goes by default: a file of the run folder, called after whose it is."""
    return RunFolder(folder).model_file(model.name + "-compact" * smaller, format)


def write_model(model: TrainedModel, path: Path, format: Format, smaller: bool = False, overwrite: bool = False) -> str:
    """Write a model to a file, and return a sentence on what is in it; see `export`."""
    network = _network_of(model, format)
    before = sum(p.numel() for p in network.parameters())
    if smaller:
        network = compact(network)
    content = _as_onnx(network, model) if format == "onnx" else _as_safetensors(network, model, smaller)
    make_folder(path.parent)
    write_new(path, content, overwrite)
    after = sum(p.numel() for p in network.parameters())
    summary = f"{model.whose} after round {model.run.round}, {after:,} parameters"
    if smaller:
        summary += f" of {before:,} (widths {sizes(network)})"  # type: ignore[arg-type]
    return f"{summary}, written to {path}"


def to_module(model: TrainedModel) -> nn.Module:
    """Return a model for PyTorch, in evaluation mode.

    It takes inputs as they are in the data; normalisation, where it is a formula, is its first step, and the label
    offset of a client, where the run serves them, its last. Where numbers are predicted they come out in their unit.
    """
    module, shape = with_normalisation(_network_of(model, "onnx"), model).eval(), tuple(model.run.spec.shape)
    module.register_forward_pre_hook(lambda _, inputs: (_channels_first(inputs[0], shape),))
    return module


def _channels_first(x: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """Return images as networks see them, if they are not: grey without channels, or channels last."""
    if len(shape) == 3 and x.ndim == 3:
        x = x[:, None]
    elif x.ndim == 4 and tuple(x.shape[1:]) != shape and tuple(x.permute(0, 3, 1, 2).shape[1:]) == shape:
        x = x.permute(0, 3, 1, 2)
    if tuple(x.shape[1:]) != shape:
        raise CoterieError(f"the inputs have the shape {tuple(x.shape)}: the network takes (n, {str(shape)[1:-1]})")
    return x


def _network_of(model: TrainedModel, format: Format) -> nn.Module:
    """Return the network with its parameters, and the label offset where there is one."""
    import torch

    network = build(model.run.spec)
    network.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in model.params.items()})
    network.eval()
    return network if model.label_offset is None else with_label_offset(network, model, format)


def load_exported(path: Path) -> tuple[nn.Module, dict[str, Any]]:
    """Return the network in a .safetensors file that `export` wrote, and what the file says about it.

    The network takes normalised inputs, (x / scale − mean) / std by the entry ``normalise``.
    """
    import torch
    from safetensors import SafetensorError, safe_open

    try:
        seal(read_tensors(path), required=False)
        with safe_open(path, "pt") as file:
            about = parse_json((file.metadata() or {}).get("coterie", "null"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise CoterieError(f"'{path}' can't be read as safetensors ({one_line(str(error))}): export it again") from None
    if about is None:
        raise CoterieError(f"'{path}' does not come from 'coterie export': it does not say which network it is of")
    try:
        with torch.device("meta"):  # where sizes take no memory, whatever the file says
            expected = {name: value.shape for name, value in _described(about).state_dict().items()}
        if expected != {name: tensor.shape for name, tensor in tensors.items()}:
            raise ValueError("its tensors are not those of the network that it names")
        network = _described(about)
        network.load_state_dict(tensors)
    except (LookupError, AttributeError, TypeError, ValueError, ArithmeticError, RuntimeError, StopIteration) as error:
        reason = one_line(f"{type(error).__name__}: {error}")[:200]
        raise CoterieError(f"'{path}' is damaged ({reason}): export it again") from None
    return network.eval(), about


def _described(about: dict[str, Any]) -> nn.Module:
    """Make the network that a file describes."""
    if about["architecture"] is not None:
        return from_architecture(about["architecture"])
    spec = about["model"]
    return build(ModelSpec(spec["name"], tuple(spec["shape"]), spec["classes"], spec["options"]))


def about(model: TrainedModel) -> dict[str, Any]:
    """Say what a model is, for whoever finds its file: of which run, whose, for which classes, from which inputs."""
    run, config, normalisation = model.run, model.run.config, model.run.normalisation
    return {
        "coterie": coterie.__version__,
        "run": {
            "folder": run.folder.path.absolute().name,
            "algorithm": config.algorithm.name,
            "data": config.data.name if config.data.name in DATASETS else Path(config.data.name).name,
            "seed": config.run.seed,
        },
        "round": run.round,
        "whose": model.whose,
        "client": model.client,
        "group": model.group if model.client is None else run.groups.get(model.client),
        **_outputs(run),
        "normalise": None if normalisation is None else asdict(normalisation),
        "label_offset": None if model.label_offset is None else model.label_offset.tolist(),
        **({} if run.encoding is None else {"inputs": list(run.encoding.features)}),
    }


def _outputs(run: TrainedRun) -> dict[str, Any]:
    """Say what comes out: the classes in order, or numbers, which are `mean` and so many times `std` in their unit."""
    if run.spec.target is not None:
        mean, deviation = run.spec.target
        return {"target": {"mean": mean, "std": deviation}}
    return {"classes": list(run.class_names) or [str(label) for label in range(run.spec.classes)]}


def _as_safetensors(network: nn.Module, model: TrainedModel, smaller: bool) -> bytes:
    from safetensors.torch import save

    described = about(model) | {
        "model": vars(model.run.spec) | {"options": dict(model.run.spec.options)},
        "architecture": architecture(network) if smaller else None,  # type: ignore[arg-type]
    }
    tensors = {name: tensor.contiguous() for name, tensor in network.state_dict().items()}
    return sealed(save(tensors, metadata={"coterie": json.dumps(described), **UNSEALED}))[0]


def _as_onnx(network: nn.Module, model: TrainedModel) -> bytes:
    """Export by torch.export; the number of samples is free."""
    import torch

    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError:
        raise CoterieError("ONNX needs two more packages: pip install 'coterie[onnx]'") from None
    example = torch.zeros((2, *model.run.spec.shape))
    log = logging.getLogger("torch.onnx")
    before = log.level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of PyTorch's own exporter about itself
        log.setLevel(logging.ERROR)  # it misses torchvision, which nothing here needs
        program = torch.onnx.export(
            with_normalisation(network, model),
            (example,),
            dynamo=True,
            input_names=["x"],
            output_names=["logits" if model.run.spec.target is None else "y"],
            dynamic_shapes=({0: torch.export.Dim("samples", min=1)},),
            verbose=False,
        )
    log.setLevel(before)
    assert program is not None
    content = program.model_proto
    for key, value in about(model).items():
        if value is not None:
            content.metadata_props.add(key=key, value=value if isinstance(value, str) else json.dumps(value))
    return bytes(content.SerializeToString())
