"""Multinomial logistic regression and the multi-layer perceptron."""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import TYPE_CHECKING, Annotated

from annotated_types import Ge

from coterie.models import model

if TYPE_CHECKING:
    from torch import nn


@model("mclr")
def mclr(shape: tuple[int, ...], classes: int) -> nn.Module:
    """Multinomial logistic regression: one linear layer, for any input."""
    from torch import nn

    return nn.Sequential(OrderedDict(flatten=nn.Flatten(), fc=nn.Linear(math.prod(shape), classes)))


@model("mlp")
def mlp(
    shape: tuple[int, ...], classes: int, *, hidden: Annotated[int, Ge(1), "width of the hidden layer"] = 128
) -> nn.Module:
    """One hidden layer with ReLU, for any input."""
    from torch import nn

    return nn.Sequential(
        OrderedDict(
            flatten=nn.Flatten(),
            fc1=nn.Linear(math.prod(shape), hidden),
            relu=nn.ReLU(),
            fc2=nn.Linear(hidden, classes),
        )
    )
