"""Taking a model out of a run: as safetensors, or as ONNX with everything inside."""

from __future__ import annotations

import json
import logging
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from coterie.errors import CoterieError
from coterie.files import write_whole
from coterie.messages import ModelSpec
from coterie.models import build
from coterie.models.compact import architecture, compact, from_architecture, sizes
from coterie.run.trained_models import TrainedModel, find_model

if TYPE_CHECKING:
    from torch import nn

Format = Literal["safetensors", "onnx"]


def export(
    run: Path,
    out: Path | None = None,
    *,
    client: int | None = None,
    group: int | None = None,
    format: Format = "safetensors",
    smaller: bool = False,
) -> tuple[Path, str]:
    """Write a model of a run to a file; return the file and a sentence on what is in it.

    ONNX takes raw inputs, as they are in data files, and holds the normalisation; of safetensors `load_exported` makes
    the network again. `smaller` takes out the dead channels and units of a pruned network.
    """
    found = find_model(run, client, group)
    network = _network(found)
    before = sum(p.numel() for p in network.parameters())
    if smaller:
        network = compact(network)
    path = out or Path(run) / f"model.{'onnx' if format == 'onnx' else 'safetensors'}"
    if format == "onnx":
        _write_onnx(path, network, found)
    else:
        _write_safetensors(path, network, found, smaller)
    after = sum(p.numel() for p in network.parameters())
    told = f"{found.whose} after round {found.state['round']}, {after:,} parameters"
    if smaller:
        told += f" of {before:,} (widths {sizes(network)})"  # type: ignore[arg-type]
    return path, f"{told}, written to {path}"


def load_exported(path: Path) -> tuple[nn.Module, dict[str, Any]]:
    """Return the network in a .safetensors file that `export` wrote, and what the file says about it.

    The network takes normalised inputs, (x / scale − mean) / std by the entry ``normalise``.
    """
    import torch
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            about = json.loads((file.metadata() or {}).get("coterie", "null"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, json.JSONDecodeError) as error:
        raise CoterieError(f"'{path}' can't be read as safetensors: {error}") from None
    if about is None:
        raise CoterieError(f"'{path}' does not come from 'coterie export': it does not say which network it is of")
    if about["architecture"] is not None:
        network: nn.Module = from_architecture(about["architecture"])
    else:
        spec = about["model"]
        network = build(ModelSpec(spec["name"], tuple(spec["shape"]), spec["classes"], spec["options"]))
    network.load_state_dict({name: torch.as_tensor(value) for name, value in tensors.items()})
    return network.eval(), about


def _network(found: TrainedModel) -> nn.Module:
    import torch

    network = build(found.spec)
    network.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in found.params.items()})
    return network.eval()


def _write_safetensors(path: Path, network: nn.Module, found: TrainedModel, smaller: bool) -> None:
    from safetensors.torch import save

    normalisation = found.normalisation
    about = {
        "model": asdict(found.spec),
        "architecture": architecture(network) if smaller else None,  # type: ignore[arg-type]
        "normalise": None if normalisation is None else asdict(normalisation),
        "whose": found.whose,
        "round": found.state["round"],
        "run": {
            "algorithm": found.config.algorithm.name,
            "data": found.config.data.name,
            "seed": found.config.run.seed,
        },
    }
    tensors = {name: tensor.contiguous() for name, tensor in network.state_dict().items()}
    write_whole(path, save(tensors, metadata={"coterie": json.dumps(about)}))


def _write_onnx(path: Path, network: nn.Module, found: TrainedModel) -> None:
    """Export by torch.export; the number of samples is free."""
    import torch

    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError:
        raise CoterieError("ONNX needs two more packages: pip install 'coterie[onnx]'") from None
    example = torch.zeros((2, *found.spec.shape))
    log = logging.getLogger("torch.onnx")
    before = log.level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of PyTorch's own exporter about itself
        log.setLevel(logging.ERROR)  # it misses torchvision, which nothing here needs
        program = torch.onnx.export(
            _with_normalisation(network, found),
            (example,),
            dynamo=True,
            input_names=["x"],
            output_names=["logits"],
            dynamic_shapes=({0: torch.export.Dim("samples", min=1)},),
            verbose=False,
        )
    log.setLevel(before)
    assert program is not None
    write_whole(path, program.model_proto.SerializeToString())


def _with_normalisation(network: nn.Module, found: TrainedModel) -> nn.Module:
    """Put the normalisation before a network, where it is a formula."""
    import torch
    from torch import nn

    known = found.normalisation
    if known is None:
        return network
    scale, side = known.scale, (1, -1) + (1,) * (len(found.spec.shape) - 1)
    mean, std = (torch.tensor(values, dtype=torch.float32).reshape(side) for values in (known.mean, known.std))

    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network
            self.mean, self.std = nn.Buffer(mean), nn.Buffer(std)

        def forward(self, x: torch.Tensor) -> Any:
            return self.network((x / scale - self.mean) / self.std)

    return Whole().eval()
