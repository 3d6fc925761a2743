"""What FLIS-DC and FLIS-HC share: the server's samples, and what clients' models predict for them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from annotated_types import Ge

from coterie.clustering import GroupingOptions, Rule, RuleSupport, row_groups
from coterie.errors import CoterieError
from coterie.federation import Federation
from coterie.messages import Array, ClientId, Params
from coterie.streams import stream

UNIT = "disagreement"
RULES = RuleSupport(("distances",), UNIT, refuses=("degrees",), instead="its option beta")
SAMPLES = 2500
"""On the server, in the paper."""
Cluster: TypeAlias = tuple[ClientId, ...]
"""Its members, in order."""


class ServerSet(NamedTuple):
    """The server's samples, as networks see them."""

    x: npt.NDArray[np.float32]
    y: npt.NDArray[np.int64] | None
    """None: they have no labels."""


@dataclass(kw_only=True)
class Inference:
    """Clients are alike if their models label the server's samples alike (FLIS, Alg. 2)."""

    linkage: ClassVar[str] = "weighted"

    beta: Annotated[
        float | None,
        Ge(0),
        "agreement from which two clients belong together: 0 joins all, above 1 none; by default by the rule of "
        "[grouping], that is silhouette unless another is named",
    ] = None
    soft: Annotated[bool, "compare the models' probabilities instead of the labels that they predict"] = False
    server_data: Annotated[
        str,
        "what models are compared on: reserved, samples that every run reserves before clients get theirs; test, test "
        "samples of all classes, as in the authors' code, on which the models are then scored (a leak); noise, random "
        "inputs; or samples of another data set, by its name or the path of a file",
    ] = "reserved"
    _samples: ServerSet | None = field(init=False, default=None, repr=False)

    def error_in_grouping(self, options: GroupingOptions) -> str | None:
        """Both β and a rule say who belongs together."""
        if self.beta is None or options.named is None:
            return None
        return (
            f"beta = {self.beta:g} in [algorithm] says who belongs together, and so does rule '{options.named}' in "
            "[grouping]: leave one of them out"
        )

    @property
    def needs_server_data(self) -> Literal["reserved", "test"] | None:
        """Those that models are compared on, unless they are random or of another data set."""
        wanted: dict[str, Literal["reserved", "test"]] = {"reserved": "reserved", "test": "test"}
        return wanted.get(self.server_data)

    @property
    def server_data_from(self) -> str | None:
        """The other data set, if models are compared on its samples."""
        return None if self.server_data in OWN else self.server_data

    def rule(self, fed: Federation) -> Rule:
        """Cut at 1 − β; without a β, where the silhouette is largest, or by the rule that was asked for."""
        if self.beta is None:
            return fed.settings.grouping.make("silhouette", unit=UNIT, linkage=self.linkage)
        return fed.settings.grouping.make("degrees", unit=UNIT, linkage=self.linkage, threshold=1 - self.beta)

    def predictions(self, fed: Federation, models: Sequence[Params]) -> list[Array]:
        """B_i: labels of the server's samples by each model, (samples,), or their probabilities, (samples, classes)."""
        return [self._prediction(outputs) for outputs in fed.logits(models, self.samples(fed))]

    def _prediction(self, outputs: npt.NDArray[np.float32]) -> Array:
        if not self.soft:
            return np.asarray(outputs.argmax(axis=1))
        odds = np.nan_to_num(outputs).astype(np.float64)  # finite weights may still have infinite outputs
        odds = np.exp(odds - odds.max(axis=1, keepdims=True))
        return np.asarray(odds / odds.sum(axis=1, keepdims=True), np.float32)

    def samples(self, fed: Federation) -> npt.NDArray[np.float32]:
        """D_server, as networks see it."""
        return self.server_set(fed).x

    def server_set(self, fed: Federation) -> ServerSet:
        """D_server with its labels, if it has any."""
        if self._samples is None:
            self._samples = OWN.get(self.server_data, _reserved)(fed)
        return self._samples


def _reserved(fed: Federation) -> ServerSet:
    """Take what the server owns: samples reserved, or of another data set."""
    own = fed.server_data
    if not len(own.x):
        raise CoterieError("the data leave no samples to the server: use server_data = 'noise' in [algorithm]")
    return ServerSet(own.x, own.y)


def _tested(fed: Federation) -> ServerSet:
    """Take as many of each class from the end of the test set."""
    if (test := fed.settings.test) is None:
        raise CoterieError(
            "server_data = 'test' needs a test set for all clients, but here each has its own: use 'reserved'"
        )
    each = max(1, SAMPLES // fed.spec.classes)
    last = np.concatenate([np.flatnonzero(test.y == label)[-each:] for label in range(fed.spec.classes)])
    return ServerSet(np.asarray(test.normalise(test.x[last])), test.y[last])


def _noise(fed: Federation) -> ServerSet:
    samples = len(fed.settings.server_data.x) or SAMPLES
    return ServerSet(stream(fed.seed, "server noise").standard_normal((samples, *fed.spec.shape), np.float32), None)


OWN: dict[str, Callable[[Federation], ServerSet]] = {"reserved": _reserved, "test": _tested, "noise": _noise}
"""Where samples come from that are of no other data set."""


def clusters(clients: Sequence[ClientId], similarity: npt.ArrayLike, threshold: float) -> list[Cluster]:
    """G_i = {j: A_ij ≥ β} around each client; i is always in it.

    >>> clusters([3, 8, 9], [[1.0, 0.8, 0.1], [0.8, 1.0, 0.5], [0.1, 0.5, 1.0]], threshold=0.6)
    [(3, 8), (3, 8), (9,)]
    """
    return [tuple(clients[j] for j in np.flatnonzero(row).tolist()) for row in row_groups(similarity, threshold)]


def together(around: Mapping[ClientId, Cluster]) -> dict[ClientId, int]:
    """Number clusters by first appearance: clients whose clusters have the same members share a number.

    >>> together({3: (3, 8), 8: (3, 8), 9: (9,)})
    {3: 0, 8: 0, 9: 1}
    """
    numbers: dict[Cluster, int] = {}
    return {client: numbers.setdefault(members, len(numbers)) for client, members in around.items()}
