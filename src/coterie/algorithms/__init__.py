"""Federated methods, one file each, in the words of their papers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.registry import Registry

if TYPE_CHECKING:
    from coterie.federation import Algorithm

ALGORITHMS: Registry[type[Algorithm]] = Registry("method", "coterie.algorithms")
algorithm = ALGORITHMS.register
