"""Low-rank adapters (LoRA, Hu et al., ICLR 2022) of a small transformer, fine-tuned by roles of Shakespeare's plays.

The transformer is trained first, as any network; then it is frozen, and clients learn, and send, only the adapters:

coterie run --plugin examples/lora_shakespeare.py --dataset shakespeare --model letters --out runs/base
coterie export runs/base --out base.safetensors --plugin examples/lora_shakespeare.py
coterie run --plugin examples/lora_shakespeare.py --dataset shakespeare --model letters:learns=adapters
            --initial base.safetensors --algorithm pacfl --batch-clients 5

python examples/lora_shakespeare.py [ROUNDS] does this and prints what adapters and the whole network cost and gain. It
needs shakespeare_roles.npz, or Tiny Shakespeare's input.txt, in the folder COTERIE_DATA (coterie data get shakespeare).
"""

import sys
import tempfile
from pathlib import Path
from typing import Annotated, Literal

import torch
from annotated_types import Ge
from torch import nn

import coterie


class Adapted(nn.Linear):
    """A linear layer, and beside it a product of two thin matrices: W x + U D x, where U is 0 at first."""

    def __init__(self, inputs: int, outputs: int, rank: int) -> None:
        super().__init__(inputs, outputs)
        self.down = nn.Parameter(torch.randn(rank, inputs) / inputs**0.5)
        self.up = nn.Parameter(torch.zeros(outputs, rank))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add the adapter's answer to the layer's."""
        return super().forward(x) + (x @ self.down.T) @ self.up.T


class Block(nn.Module):
    """Attention and a layer for each letter by itself, both around a residual sum."""

    def __init__(self, width: int, heads: int, rank: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.value = Adapted(width, width, rank), Adapted(width, width, rank)
        self.key, self.joined = nn.Linear(width, width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return what each letter, (samples, length, width), has become."""
        h = self.before(x)
        q, k, v = (
            layer(h).unflatten(-1, (self.heads, -1)).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        weights = torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, dim=-1)
        x = x + self.joined((weights @ v).transpose(1, 2).flatten(2))
        return x + self.narrow(torch.relu(self.wide(self.between(x))))


class Letters(nn.Module):
    """Reads letters as vectors, (samples, length, features), and answers which comes next."""

    def __init__(self, shape: tuple[int, ...], classes: int, width: int, layers: int, heads: int, rank: int) -> None:
        super().__init__()
        self.embedding = nn.Linear(shape[1], width, bias=False)
        self.position = nn.Parameter(0.02 * torch.randn(shape[0], width))
        self.blocks = nn.Sequential(*(Block(width, heads, rank) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Answer from what the last letter has become."""
        return self.head(self.norm(self.blocks(self.embedding(x) + self.position)[:, -1]))


@coterie.model("letters")
def letters(
    shape,
    classes,
    *,
    width: Annotated[int, Ge(1), "features of a letter, a multiple of heads"] = 32,
    layers: Annotated[int, Ge(1), "blocks"] = 2,
    heads: Annotated[int, Ge(1), "of attention"] = 2,
    rank: Annotated[int, Ge(1), "of the adapters"] = 2,
    learns: Annotated[Literal["network", "adapters"], "the other is frozen, and so not sent"] = "network",
):
    """A small transformer for letters, with low-rank adapters of its queries and values."""
    network = Letters(tuple(shape), classes, width, layers, heads, rank)
    for name, parameter in network.named_parameters():
        is_adapter = name.rpartition(".")[2] in ("down", "up")
        parameter.requires_grad_(is_adapter == (learns == "adapters"))
    return network


def main(rounds: int) -> None:
    """Train the network, then go on with the whole of it, and with its adapters alone."""
    settings = {
        "dataset": "shakespeare", "dataset_options": {"min_characters": 9000, "stride": 40}, "rounds": rounds,
        "epochs": 1, "batch_size": 20, "lr": 0.1, "momentum": 0.9, "fraction": 0.5, "eval_every": 0,
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        base, file = Path(folder) / "base", Path(folder) / "base.safetensors"
        result = coterie.run(**settings, model="letters", out=str(base))
        print(f"the network itself: L {result.accuracy['L']:.3f}, {_megabytes(result)}", flush=True)
        coterie.export(base, file)
        for learns in ("network", "adapters"):
            result = coterie.run(
                **settings, seed=1, model="letters", model_options={"learns": learns}, initial=str(file)
            )
            print(f"then {learns}: L {result.accuracy['L']:.3f}, {_megabytes(result)}", flush=True)


def _megabytes(result: coterie.Result) -> str:
    return f"{(result.traffic['up_bytes'] + result.traffic['down_bytes']) / 1e6:.2f} MB"


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
