"""Federated multi-task learning under a mixture of distributions (FedEM, Marfoq et al., NeurIPS 2021)."""

from collections.abc import Sequence
from dataclasses import dataclass

from coterie.algorithms import algorithm
from coterie.errors import CoterieError
from coterie.federation import Algorithm, ClientSampler, Federation, SharedLayers, Trained, Traits, saved
from coterie.messages import ClientId, ModelSpec, Params, Train
from coterie.models.mixture import MIXTURE, SHARES


@algorithm("fedem")
@dataclass(kw_only=True)
class FedEM(Algorithm):
    """All clients train the same component models, and each mixes their predictions in shares of its own."""

    traits = Traits(
        default_model=MIXTURE,
        of_labels=True,
        battery={"model": MIXTURE, "model_options": {"of": "mclr", "components": 2}, "batch_size": 60},
    )
    transfers = 2.0

    start: Params = saved()
    layers: Params = saved()
    """The components θ_m; the shares π_i stay with the clients."""

    def check(self, spec: ModelSpec, sampler: ClientSampler) -> None:
        """It takes a network that is a mixture."""
        if spec.name != MIXTURE:
            raise CoterieError(
                f"fedem trains components that each client mixes in its own shares: in place of --model {spec.name} "
                f"write --model {MIXTURE}:of={spec.name},components=3"
            )

    def begin(self, fed: Federation) -> None:
        """θ_m ← different random models; π_i ← 1/M."""
        self.start = fed.initial()
        self.layers = {name: value for name, value in self.start.items() if name != SHARES}

    def round(self, fed: Federation, cohort: Sequence[ClientId]) -> None:
        """θ_im, π_i ← SGD of −Σ log Σ_m π_im p_m(y | x; θ_m) from θ_m and the client's π_i; θ_m ← Σ n_i θ_im / Σ n_i.

        The gradient for θ_m is that of component m's own loss, each sample weighted by its responsibility q(m): the E-
        and the M-step in one (Fisher's identity). Responsibilities do not leave the client, nor does π_i.
        """
        verb = Train(fed.plan, start=("own", "model"), send=tuple(self.layers))
        trained = Trained(fed.replies(dict.fromkeys(cohort, fed.request(verb, model=self.layers))))
        if trained:
            self.layers = fed.average(trained, {**self.start, **self.layers})

    def model_for(self, client: ClientId) -> SharedLayers:
        """Return the components, to be mixed in the client's own shares; of a newcomer, in equal ones."""
        return SharedLayers(self.layers)
