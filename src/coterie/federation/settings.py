"""What a federation is set up with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from coterie.clustering import GroupingOptions
from coterie.federation.aggregation import AggregationOptions
from coterie.federation.evaluation_options import EvaluationOptions
from coterie.federation.noise_source import NoiseSource, SecretNoise, SeededNoise
from coterie.federation.private_mean import PrivateTraining
from coterie.federation.secure_options import SecureOptions
from coterie.federation.server_optimiser import ServerStep
from coterie.messages import Guarantee, InputMoments, ModelSpec, Params, Plan
from coterie.training import CommonTest


@dataclass(frozen=True)
class ServerData:
    """The samples that the server owns, as networks see them."""

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
    fraction: float | None
    """The share of the clients in a cohort; None: a tenth, but at least five clients."""
    server_data: ServerData
    """Before any standardisation that clients agree on."""
    input_moments: InputMoments | None = None
    """What clients measure first, if they are to agree on mean and deviation of their inputs."""
    test: CommonTest | None = None
    """A test set for all, if there is one (protocol G)."""
    metric: str | None = None
    """What models are measured by, if not accuracy (`coterie.training.metrics`)."""
    evaluation: EvaluationOptions = field(default_factory=EvaluationOptions)
    """On whom that is measured."""
    grouping: GroupingOptions = field(default_factory=GroupingOptions)
    """What the user asked of methods that form groups."""
    aggregation: AggregationOptions = field(default_factory=AggregationOptions)
    """How what clients trained is put together."""
    dp_signature: Guarantee | None = None
    """How private clients' descriptions of themselves are; None: not at all."""
    private_training: PrivateTraining | None = None
    """How models are made private, in place of `aggregation`; None: they are not."""
    secret_noise: SecretNoise | None = None
    """What coins and noise of private training come from where clients are real; None: from the seed."""
    private_steps: int | None = None
    """For how many steps of a client, or shuffled epochs, the noise of its trainings was made (``dp_sgd``): it is asked
    for no more. None: trainings are not private."""
    secure: SecureOptions | None = None
    """How what clients train is summed so that nobody sees a summand; None: it is sent as it is."""
    server_step: ServerStep = field(default_factory=ServerStep)
    """How the server goes from its models towards that."""
    drifts: frozenset[int] = frozenset()
    """Rounds from which clients have other data, if drift is simulated."""
    true_groups: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """The groups that the data have, client after client, by the round from which they hold; empty: not known."""
    expert: Params | None = None
    """The model by whose losses clients order their samples, if a curriculum says so."""
    newcomer_epochs: int = 5
    """For how many epochs newcomers fine-tune what they receive."""
    workers: int = 1
    """How many models the server itself runs at a time."""
    deadline: float | None = None
    """Seconds after which the server stops waiting, if time is measured."""
    min_replies: int = 1
    """A training with fewer replies changes nothing."""
    oversample: float = 0.0
    """The share by which cohorts are larger than needed, so that enough clients answer in time."""
    max_strikes: int | None = None
    """After this many invalid replies a client is left out."""
    scratch: Path | None = None
    """The folder for what memory should not hold; None: where the system keeps temporary files."""

    @property
    def noise_source(self) -> NoiseSource:
        """What coins and noise of private training come from."""
        return self.secret_noise or SeededNoise(self.seed)

    @property
    def hides_who_came(self) -> bool:
        """Whether nothing that is published may name who took part, as ε counts on that."""
        return self.private_training is not None and self.private_training.counts_on_secrecy
