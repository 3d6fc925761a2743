"""Local normalisation (FedBN, Li et al., ICLR 2021)."""

from dataclasses import dataclass

from coterie.algorithms import algorithm
from coterie.algorithms.shared_layers import PartlyShared
from coterie.errors import CoterieError
from coterie.federation import Traits
from coterie.messages import ModelSpec
from coterie.models import build, initial
from coterie.models.learning import learning


@algorithm("fedbn")
@dataclass(kw_only=True)
class FedBN(PartlyShared):
    """Each client keeps its own normalisation layers, with what they count; all others are shared and averaged."""

    not_private = "it is for networks with BatchNorm, whose statistics are of samples"
    traits = Traits(
        default_model="lenet5-bn",
        battery={"model": "lenet5-bn", "model_options": {}, "batch_size": 60, "server_share": 0.5},
    )

    def shared_names(self, spec: ModelSpec) -> list[str]:
        """Name all that is no normalisation's."""
        own = normalisations(spec)
        if not own & learning(spec):
            raise CoterieError(
                f"fedbn leaves normalisation layers with the clients, but the network '{spec.name}' has none that "
                "learns: use fedavg, or a network with some, as lenet5-bn has"
            )
        return [name for name in initial(spec, 0) if name not in own]


def normalisations(spec: ModelSpec) -> frozenset[str]:
    """Name the parameters and statistics of all layers whose class is called a norm: BatchNorm2d, LayerNorm, …."""
    module = build(spec)
    norms = {name for name, layer in module.named_modules(remove_duplicate=False) if "Norm" in type(layer).__name__}
    return frozenset(name for name in module.state_dict() if name.rpartition(".")[0] in norms)
