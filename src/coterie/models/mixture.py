"""Several networks of one kind, whose predictions are mixed by shares that learn too (for FedEM)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from annotated_types import Ge, Gt, Le

from coterie.errors import suggestion
from coterie.models import MODELS, default_model, model
from coterie.registry import Check

if TYPE_CHECKING:
    import torch
    from torch import nn

MIXTURE, SHARES = "mixture", "shares"
"""The network, and its parameter that says how much each component counts."""


def error_in_component(name: str | None) -> str | None:
    """Say why a network can't be mixed, or None."""
    if name is None or (name in MODELS and name != MIXTURE):
        return None
    return f"it should be a network with its usual options: {suggestion(name, [n for n in MODELS if n != MIXTURE])}"


@model(MIXTURE)
def mixture(
    shape: tuple[int, ...],
    classes: int,
    *,
    of: Annotated[
        str | None, Check(error_in_component), "the network of each component; by default what suits the inputs"
    ] = None,
    components: Annotated[int, Ge(1), Le(20), "how many there are"] = 3,
    rate: Annotated[float, Gt(0), "how much faster shares learn than weights: its square times the learning rate"] = (
        10.0
    ),
) -> nn.Module:
    """Networks of one kind with different starts, mixed by shares that learn: outputs are log Σ_m π_m p_m."""
    import torch
    from torch import nn

    class MixtureNetwork(nn.Module):
        """log Σ_m π_m softmax(h_m(x)), π = softmax(rate · shares); of one component, its outputs."""

        def __init__(self) -> None:
            super().__init__()
            kind = MODELS[of or default_model(shape)]
            self.component = nn.ModuleList(kind(shape, classes) for _ in range(components))
            if components > 1:
                self.shares = nn.Parameter(torch.zeros(components))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if components == 1:
                return self.component[0](x)  # type: ignore[no-any-return]
            predictions = torch.stack([torch.log_softmax(network(x), dim=1) for network in self.component])
            return torch.logsumexp(predictions + torch.log_softmax(rate * self.shares, 0)[:, None, None], dim=0)

    return MixtureNetwork()
