"""The interface of a federated method: what it must implement, and what it may."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from coterie.clustering import Grouping, GroupingOptions, RuleSupport
from coterie.federation.served_model import ServedModel
from coterie.federation.server_optimiser import ServerOptions
from coterie.federation.state import Resumable
from coterie.messages import (
    ClientId,
    LabelOffset,
    ModelSpec,
    Params,
    Plan,
    Request,
    Signature,
    SignatureReply,
    Weighing,
)

if TYPE_CHECKING:
    from coterie.federation.federation import Federation
    from coterie.federation.sampling import ClientSampler


@dataclass(frozen=True)
class Traits:
    """Constants of a method; ``traits = Traits(...)`` in its class declares them."""

    rules: RuleSupport | None = None
    """Which rules of ``[grouping]`` can form its groups; None: it takes no key of that section."""
    one_shot: bool = False
    """Whether it forms groups before training and says how in `grouping`, so that ``coterie cluster`` can use it."""
    allows_new_groups: bool = False
    """Whether newcomers may form a group of their own."""
    default_model: str | None = None
    """The network for images if the user names none."""
    clips: bool = True
    """Whether its clients' gradients can be clipped: one gradient makes each of their steps."""
    of_labels: bool = False
    """Whether it tells clients or samples apart by labels, and so can't be used where numbers are predicted."""
    battery: Mapping[str, Any] = field(default_factory=dict)
    """Settings of ``coterie.run`` for the battery of tests."""


LabelUse = Annotated[
    Literal["none", "trained", "served", "both"],
    "clients add an offset to the logits that says which labels they have: while they train, when models are used "
    "(served), or both",
]


@dataclass(kw_only=True, eq=False)
class LabelOptions:
    """Options that every method has: what clients do about the labels that they have, and those that they lack."""

    labels: LabelUse = "none"
    serving: Annotated[
        LabelOffset,
        "the offset when models are used, with labels = served or both: less for labels that a client lacks; or prior, "
        "also the logarithm of its label frequencies",
    ] = "lacking"

    @property
    def trained_offset(self) -> LabelOffset | None:
        """Which label offset clients train with."""
        return "prior" if self.labels in ("trained", "both") else None

    @property
    def served_offset(self) -> LabelOffset | None:
        """Which label offset clients add when they use a model."""
        return self.serving if self.labels in ("served", "both") else None


@dataclass(kw_only=True, eq=False)
class CommonOptions(ServerOptions, LabelOptions):
    """The options that every method has."""


class Algorithm(CommonOptions, Resumable, ABC):
    """A method, on the server's side. It sees clients only through the federation.

    It must implement `begin`, `round` and `model_for`; everything else has a default.
    """

    traits: ClassVar[Traits] = Traits()
    """What holds whatever its options."""
    not_private: ClassVar[str | None] = "what else its clients tell, or how often they train, is not accounted for"
    """Why its clients can't train by private steps; None: they can, and are asked for nothing else while they train."""
    not_summed: ClassVar[str] = "it looks at what single clients trained, as it is with these options"
    """Why secure sums are not for it, where `weighing` says so."""
    grouping: Grouping | None = None
    """How its groups were found, if a rule found them."""
    notes: Sequence[str] = ()
    """Sentences that the user sees when the run begins."""

    @abstractmethod
    def begin(self, fed: Federation) -> None:
        """Do the work before round 1: initial models, descriptions of clients, grouping."""

    @abstractmethod
    def round(self, fed: Federation, cohort: Sequence[ClientId]) -> None:
        """Ask the cohort, then aggregate what came back."""

    @abstractmethod
    def model_for(self, client: ClientId) -> ServedModel | None:
        """Return what this client would receive now; None if the server has no model for it."""

    def own_shares(self, clients: Sequence[ClientId]) -> Mapping[ClientId, float]:
        """Return what share its own model has in the mean that each client uses, with what it receives.

        Empty: clients use what they receive.
        """
        return {}

    def global_model(self) -> Params | None:
        """Return a model for all that the server keeps beside what clients receive, to be measured under G, if any."""
        return None

    def admit(self, fed: Federation, newcomers: Sequence[ClientId]) -> None:
        """Place clients that joined late, so that `model_for` knows them."""

    def groups(self) -> Mapping[ClientId, int] | None:
        """Return the group of each client that is in one; None for a method that forms no groups."""
        return None

    def memberships(self) -> Mapping[ClientId, Sequence[float]] | None:
        """Return clients' shares in all groups, or the groups each is in, if it may be in several."""
        return None

    def signatures(self) -> tuple[Signature, Mapping[ClientId, SignatureReply]] | None:
        """Return the signatures that clients sent, as far as they are kept, and what was asked for; for audits."""
        return None

    @property
    def most_requests(self) -> int:
        """How many different requests a client may get in one round, where a rehearsal can't show it."""
        return 0

    @property
    def rehearsal_options(self) -> dict[str, Any]:
        """Options with which three rounds show all that it asks, where they would not with its own."""
        return {}

    @property
    def unfixed(self) -> tuple[str, ...]:
        """Name what no rehearsal shows, as it depends on what clients have or who answers.

        Of plans ``epochs``, ``steps``, ``batch_size`` or ``anchors``, of ``Losses`` how many ``models``.
        """
        return ()

    def seldom_asked(self, fed: Federation) -> Sequence[Request]:
        """Return requests that are made only where clients' data call for them, which a rehearsal might not show."""
        return ()

    def check(self, spec: ModelSpec, sampler: ClientSampler) -> None:
        """Raise a `CoterieError` if the network, or how clients are drawn, does not suit the method."""

    def schedule(self, rounds: int, fraction: float, plan: Plan) -> Sequence[str]:
        """Say of each round, from the first on, what in it depends on how many `rounds` the run has; empty: nothing.

        A run can be given more rounds if what it has done stays as it was. `fraction` and `plan` are the run's.
        """
        return ()

    def error_in_grouping(self, options: GroupingOptions) -> str | None:
        """Say what in the user's grouping options contradicts the method's own, or None."""
        return None

    def error_in_privacy(self) -> str | None:
        """Say why its clients can't describe themselves under differential privacy (``dp_signature``), or None."""
        return "it asks clients for no signature"

    def error_in_private_steps(self, described_privately: bool) -> str | None:
        """Say why its clients can't train by private steps (``dp_sgd``), or None.

        `described_privately` is whether what they tell to describe themselves is private (``dp_signature``).
        """
        return self.not_private

    def error_in_optimiser(self, name: str) -> str | None:
        """Say why it is not defined where clients train with this optimiser, as ``adam``, or None."""
        return None

    @property
    def weighing(self) -> Weighing | None:
        """How clients count in its means, if means are all that it makes of what clients train in a round.

        Then it can work with secure sums, one for the clients of each request. None: it looks at what single clients
        trained.
        """
        return None

    def error_in_hidden_choices(self) -> str | None:
        """Say why its clients can't keep to themselves which model they choose (``secure_hidden``), or None."""
        return "its clients choose no groups: the server knows them, and there is nothing to hide"

    def adaptation(self, fed: Federation) -> Plan | None:
        """Return the plan by which clients adapt a model before they use it, so that L and C are measured after it."""
        return None

    def newcomer_plan(self, fed: Federation) -> Plan:
        """Return the plan by which newcomers train what they receive; how many epochs is the user's choice."""
        return fed.plan

    def observed(self, scores: Mapping[ClientId, tuple[float, int]], since: int) -> dict[str, Any]:
        """Return further fields of a row of ``metrics.jsonl``.

        `scores` are clients' correct answers (of another metric than accuracy: what it says, times the samples) and
        samples under L; `since` is the round of the previous row, 0 at first.
        """
        return {}

    def details(self) -> dict[str, Any] | None:
        """Return what ``result.json`` shows as ``details``."""
        return None

    @property
    def reason(self) -> str | None:
        """How groups were found, in a sentence or two, if there is no `grouping`."""
        return None

    @property
    def transfers(self) -> float | None:
        """Models sent per client and round, both ways, for the papers' cost formula; None: it has no number."""
        return None

    @property
    def selects_clients(self) -> bool:
        """Whether it draws clients itself, regardless of the cohort."""
        return False

    @property
    def needs_server_data(self) -> Literal["reserved", "test"] | None:
        """Which samples the server must have: some of its own, or the test set that only simulations have."""
        return None

    @property
    def server_data_from(self) -> str | None:
        """The data set, by name or path, of which the server has samples instead of those that a run reserves."""
        return None
