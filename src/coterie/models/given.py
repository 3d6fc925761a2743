"""Networks that a program hands over as they are: a class, a function that builds one, or a network itself."""

from __future__ import annotations

import copy
import functools
import inspect
import re
from typing import TYPE_CHECKING, Any, TypeGuard

from coterie.errors import CoterieError

if TYPE_CHECKING:
    from torch import nn

POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class GivenNetwork:
    """Builds a network for a shape of inputs and a number of classes, as a registered model does.

    A class or function is called with (shape, classes), with (classes) or with nothing, by how many parameters it
    needs; its keyword-only parameters are options. Of a network itself, copies are made, parameters included.
    """

    def __init__(self, given: Any, name: str) -> None:
        self.given, self.name = given, name
        self.has_one_start = is_network(given)
        self.__module__, self.__qualname__ = "__main__", name  # as what other processes can't import
        self.__doc__ = inspect.getdoc(given) if inspect.isclass(given) or inspect.isfunction(given) else None
        shape, classes = (inspect.Parameter(key, POSITIONAL[0]) for key in ("shape", "classes"))
        parameters = () if self.has_one_start else _parameters(given, name)
        options = [p for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]
        self.__signature__ = inspect.Signature([shape, classes, *options])
        needed = [p for p in parameters if p.kind in POSITIONAL and p.default is inspect.Parameter.empty]
        if len(needed) > 2:
            raise CoterieError(
                f"model {name} needs {', '.join(p.name for p in needed)}: give a function of (shape, classes) that "
                "builds it, for instance model=lambda shape, classes: ..."
            )
        self._needs = len(needed)

    def __call__(self, shape: tuple[int, ...], classes: int, **options: Any) -> nn.Module:
        """Build it, and see that it takes the inputs and gives an output for each class."""
        if self.has_one_start:
            network = copy.deepcopy(self.given)
        else:
            network = self.given(*((), (classes,), (shape, classes))[self._needs], **options)
        if not is_network(network):
            raise CoterieError(f"model {self.name} gave a {type(network).__name__}, not a torch.nn.Module")
        self._check(network, shape, classes)
        return network

    def _check(self, network: nn.Module, shape: tuple[int, ...], classes: int) -> None:
        import torch

        training, device = network.training, next((p.device for p in network.parameters()), None)
        try:
            with torch.no_grad():
                outputs = tuple(network.eval()(torch.zeros((2, *shape), device=device)).shape)
        except (RuntimeError, TypeError, ValueError, IndexError, AttributeError) as error:
            reason = str(error).partition("\n")[0]
            raise CoterieError(f"model {self.name} can't take inputs of shape {shape}: {reason}") from error
        finally:
            network.train(training)
        if outputs != (2, classes):
            raise CoterieError(
                f"model {self.name} gives outputs of shape {outputs} for 2 samples, but the data have {classes} "
                f"classes: it should be (2, {classes})"
            )


def name_for(given: object) -> str:
    """Return a name for a class, a function or a network, as registries accept it.

    >>> name_for(name_for), name_for(lambda shape, classes: None)
    ('name_for', 'lambda')
    """
    while isinstance(given, functools.partial):
        given = given.func
    named = given if inspect.isclass(given) or inspect.isroutine(given) else type(given)
    return re.sub(r"[^A-Za-z0-9._-]+", "", str(named.__name__)).lstrip("._-") or "given"


def is_network(given: object) -> TypeGuard[nn.Module]:
    """Say whether something is a network, rather than a class of networks."""
    from torch import nn

    return isinstance(given, nn.Module)


def _parameters(given: Any, name: str) -> tuple[inspect.Parameter, ...]:
    try:
        return tuple(inspect.signature(given, eval_str=True).parameters.values())
    except (TypeError, ValueError, NameError):
        raise CoterieError(
            f"model {name} does not say what it needs: give a function of (shape, classes) that builds it"
        ) from None
