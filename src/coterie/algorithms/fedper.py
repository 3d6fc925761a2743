"""Personalisation layers (FedPer, Arivazhagan et al., 2019)."""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge

from coterie.algorithms import algorithm
from coterie.algorithms.shared_layers import PartlyShared, body, cuts
from coterie.errors import CoterieError
from coterie.messages import ModelSpec


@algorithm("fedper")
@dataclass(kw_only=True)
class FedPer(PartlyShared):
    """Each client keeps its own last layers; the first ones are shared and averaged."""

    not_private = None

    head: Annotated[
        int | None,
        Ge(0),
        "K_P: how many of the last layers are each client's own; by default 1. With 0 it is fedavg, with all of them "
        "every client is alone",
    ] = None

    def shared_names(self, spec: ModelSpec) -> list[str]:
        """Name the base layers: all but the last K_P."""
        if self.head is None:
            return body(spec, 1, "fedper")
        if self.head == (count := len(cuts(spec))):
            return []
        if self.head > count:
            raise CoterieError(f"fedper: head = {self.head}, but the network has {count} that learn: write less")
        return body(spec, self.head, "fedper")
