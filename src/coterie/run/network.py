"""Which network a configuration runs where it names none."""

from __future__ import annotations

from coterie.algorithms import ALGORITHMS
from coterie.models import MODELS, default_model
from coterie.run.config import Config


def with_network(config: Config, shape: tuple[int, ...]) -> Config:
    """Name the network where the user does not: for images the method's own, if it has one, else by the inputs."""
    if config.model.name is not None:
        return config
    own = getattr(ALGORITHMS[config.algorithm.name], "default_model", None)
    name = own if own and len(shape) == 3 else default_model(shape)
    chosen = config.model_dump()
    chosen["model"] |= {"name": name, **MODELS.validate(name, {})}
    return Config.model_validate(chosen)
