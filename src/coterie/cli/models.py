"""``coterie models``: the networks, and which trainer runs them."""

import typer

from coterie.cli.listing import show_registry
from coterie.cli.options import Name, Plugins
from coterie.messages import ModelSpec
from coterie.models import MODELS
from coterie.native import available

SHAPES = ((3, 32, 32), (20, 8), (64,))
"""Inputs to try a network with: an image, a text, features."""
COMPILED = ": sgd, adam and adamw, clipped gradients, smoothed labels, frozen layers, L1 penalties"
"""What the compiled trainer does of a plan."""


def models(name: Name = None, plugin: Plugins = None) -> None:
    """List the networks, or the options of one."""
    show_registry("models", MODELS, name, plugin, _line)
    if name is None:
        typer.echo("The compiled trainer runs those marked, PyTorch the others; 'coterie bench train' compares them.")
        return
    compiled = is_compiled(MODELS.canonical(name))
    if compiled is None:
        typer.echo("  runs compiled if it is a plain sequence of layers, else on PyTorch")
    elif compiled:
        typer.echo(
            f"  runs compiled{COMPILED if available() else ', but the compiled trainer is not here: on PyTorch'}"
        )
    else:
        typer.echo("  runs on PyTorch")


def _line(name: str) -> str:
    return MODELS.summary(name) + (" [compiled]" if is_compiled(name) else "")


def is_compiled(model: str) -> bool | None:
    """Whether the compiled trainer takes a network with its default options; None if it can't be built to see."""
    from coterie.training.native_trainer import runs_natively

    for shape in SHAPES:
        try:
            return runs_natively(ModelSpec(model, shape, 10))
        except Exception:  # a network for other inputs; a user's own may raise anything
            continue
    return None
