"""The section of the configuration that says how clients train."""

from __future__ import annotations

from pydantic import field_validator, model_validator

from coterie.run.config_base import MOST, ConfigSection, setting
from coterie.run.optimiser import OptimiserChoice
from coterie.training.objectives import LOSSES, USUAL

MOST_EPOCHS = 10**5
"""Of a local training: with more it would never end."""


class TrainingSection(ConfigSection):
    """How long, with whom, and how clients train."""

    rounds: int = setting(50, "communication rounds", ge=1, le=MOST)
    fraction: float | None = setting(
        None,
        "share of the clients that train in a round; by default 0.1, but at least 5 clients, or all if there are fewer",
        gt=0,
        le=1,
    )
    epochs: int = setting(10, "local epochs per round", ge=1, le=MOST_EPOCHS)
    batch_size: int = setting(10, "samples per local step", ge=1, le=10**9)
    lr: float = setting(0.01, "learning rate", gt=0)
    lr_decay: float = setting(0.0, "d in lr·(1 + d·step)^-power; steps are counted from 0 in every round", ge=0)
    lr_power: float = setting(0.75, "power in lr·(1 + d·step)^-power", ge=0)
    loss: str = setting("cross-entropy", "loss that local training minimises", registry=LOSSES)
    optimiser: str = setting(
        "sgd",
        "local optimiser: sgd, adam or adamw, for instance adam:beta2=0.99; Adam's moments are reset in every round",
    )
    momentum: float = setting(0.5, "momentum of local SGD; starts from zero in every round", ge=0, lt=1)
    weight_decay: float = setting(0.0, "weight decay of local training", ge=0)
    clip: float | None = setting(None, "clip the gradient of each local step to this norm", "--gradient-clip", gt=0)
    smoothing: float = setting(
        0.0, "share of each label that is spread evenly over all classes", "--label-smoothing", ge=0, lt=1
    )

    @field_validator("optimiser")
    @classmethod
    def _complete(cls, text: str) -> str:
        return OptimiserChoice.read(text).short()

    @model_validator(mode="after")
    def _one_momentum(self) -> TrainingSection:
        usual = type(self).model_fields["momentum"].default
        if self.optimiser != "sgd" and self.momentum not in (0, usual):
            raise ValueError(
                f"momentum = {self.momentum:g} is that of sgd: with adam set beta1 instead, adam:beta1=0.9"
            )
        return self

    @property
    def other_loss(self) -> str | None:
        """The loss, if it is not the usual one."""
        return None if self.loss == USUAL else self.loss

    @property
    def steps_by(self) -> OptimiserChoice:
        """The optimiser with its options."""
        return OptimiserChoice.read(self.optimiser)
