"""What a federation is set up with, and what never changes while it runs."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from coterie.clustering import GroupingOptions
from coterie.messages import ModelSpec, Params, Plan
from coterie.training import CommonTest


@dataclass(frozen=True)
class ServerData:
    """The samples that the server owns, normalised."""

    x: npt.NDArray[np.float32]
    y: npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class FederationSettings:
    """What a federation is set up with."""

    spec: ModelSpec
    seed: int
    plan: Plan
    """How clients train unless the method says otherwise."""
    rounds: int
    fraction: float
    """Of the clients, the share that is in a cohort."""
    server_data: ServerData
    test: CommonTest | None = None
    """A test set for all, where there is one (protocol G)."""
    grouping: GroupingOptions = field(default_factory=GroupingOptions)
    """What the user asked of methods that form groups."""
    drifts: frozenset[int] = frozenset()
    """Rounds from which clients have other data, where that is simulated."""
    expert: Params | None = None
    """The model by whose losses clients order their samples, where a curriculum says so."""
    newcomer_epochs: int = 5
    """For how long clients that come late fine-tune what they receive."""
    workers: int = 1
    """How many of its own models the server runs at a time."""
    deadline: float | None = None
    """Seconds after which nobody is waited for, where time is measured."""
    min_replies: int = 1
    """A training with fewer replies changes nothing."""
    oversample: float = 0.0
    """By which share cohorts are larger than needed, so that enough clients answer in time."""
    max_strikes: int | None = None
    """After so many invalid replies a client is left out."""
