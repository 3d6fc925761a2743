"""What methods have in common of which only some layers are everybody's: how a network is cut, and a round."""

from abc import abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from coterie.errors import CoterieError
from coterie.federation import Algorithm, ClientSampler, Federation, ServedModel, SharedLayers, Trained, saved
from coterie.messages import ClientId, ModelSpec, Params, Train, Weighing
from coterie.models import initial
from coterie.models.learning import learning


@dataclass(kw_only=True)
class PartlyShared(Algorithm):
    """Some layers are averaged; the others are each client's own, and never leave it."""

    start: Params = saved()
    """What a client begins with: θ⁰, unless the method says otherwise."""
    layers: Params = saved()
    """The shared ones."""

    @abstractmethod
    def shared_names(self, spec: ModelSpec) -> Collection[str]:
        """Name what is shared of a network, or raise a `CoterieError` if it can't be divided."""

    def check(self, spec: ModelSpec, sampler: ClientSampler) -> None:
        """Refuse a network that can't be divided so that either part can learn without the other."""
        check_division(spec, self.shared_names(spec))

    def begin(self, fed: Federation) -> None:
        """θ ← θ⁰."""
        self.start = fed.initial()
        self.layers = chosen(self.start, self.shared_names(fed.spec))

    def round(self, fed: Federation, cohort: Sequence[ClientId]) -> None:
        """Clients lay the shared layers over their own and train; the shared ones ← Σ n_i θ_i / Σ n_i."""
        request = fed.request(*self.verbs(fed), models={"model": self.layers})
        trained = Trained(fed.replies(dict.fromkeys(cohort, request)), which=-1)
        if trained:
            self.layers = fed.average(trained, self.layers)

    def verbs(self, fed: Federation) -> tuple[Train, ...]:
        """Return what a client of the cohort does; the last training sends the shared layers back."""
        return (Train(fed.plan, start=("own", "model"), send=tuple(self.layers)),)

    @property
    def weighing(self) -> Weighing:
        """Clients count by their samples."""
        return "samples"

    def model_for(self, client: ClientId) -> ServedModel:
        """Return the shared layers, to lay over the client's own."""
        return SharedLayers(self.layers)

    @property
    def transfers(self) -> float:
        """Both ways, as a share of the whole model."""
        size = {name: value.size for name, value in self.start.items()}
        return 2.0 * sum(size[name] for name in self.layers) / sum(size.values())


def chosen(model: Params, names: Collection[str]) -> Params:
    """Return a part of a model, in the model's order."""
    wanted = frozenset(names)
    return {name: value for name, value in model.items() if name in wanted}


def cuts(spec: ModelSpec) -> list[int]:
    """Return where the layers of a network begin, as positions among its tensors.

    A layer is what has a matrix of weights that learns; all that follows belongs to it, normalisations for instance,
    up to the next one. Their order is that in which the network registers them.
    """
    model, learns = initial(spec, 0), learning(spec)
    owners = [name.rpartition(".")[0] for name in model]
    matrices = [value.ndim > 1 and name in learns for name, value in model.items()]
    layers = dict.fromkeys(owner for owner, matrix in zip(owners, matrices, strict=True) if matrix)
    return [0, *[owners.index(layer) for layer in layers][1:]]


def last_layers(spec: ModelSpec, count: int) -> list[str]:
    """Name the tensors of the last layers of a network."""
    names = list(initial(spec, 0))
    return names[[*cuts(spec), len(names)][-1 - count] :]


def body(spec: ModelSpec, head: int, method: str) -> list[str]:
    """Name all tensors before a head of so many layers; refuse where none of them belongs to a layer that learns."""
    if head >= (count := len(cuts(spec))):
        raise CoterieError(
            f"{method}: head = {head} leaves nothing to share, as of the network's layers {count} can learn: "
            "choose a smaller head or a deeper network, or use fedavg or solo"
        )
    own = frozenset(last_layers(spec, head))
    return [name for name in initial(spec, 0) if name not in own]


def check_division(spec: ModelSpec, shared: Collection[str]) -> None:
    """Refuse a cut through a parameter that several layers have, or of which a name begins as one beyond it does."""
    free, wanted = learning(spec), frozenset(shared)
    for part in (free & wanted, free - wanted):
        if odd := sorted(learning(spec, tuple(sorted(part))) - part) if part else []:
            raise CoterieError(
                f"'{odd[0]}' of the network '{spec.name}' learns with layers on the other side of the cut between "
                "shared and own ones, which have it too or a name that begins so: cut elsewhere, or use fedavg"
            )
