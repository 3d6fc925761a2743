"""What the tests of training share: a trainer, small tasks, and networks that exist for one test only."""

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from torch import nn

from coterie.messages import ModelSpec
from coterie.models import MODELS, model
from coterie.native import available
from coterie.training import Trainer, one_thread
from coterie.training.native_trainer import NativeTrainer
from coterie.training.torch_trainer import TorchTrainer


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """As in a run."""
    with one_thread():
        yield


@pytest.fixture(scope="module")
def trainer() -> Trainer:
    return TorchTrainer()


@pytest.fixture(params=["torch", "native"])
def executing(request: pytest.FixtureRequest) -> Trainer:
    """Each trainer in turn."""
    if request.param == "native" and not available():
        pytest.skip("Coterie was installed without a C++ compiler")
    return TorchTrainer() if request.param == "torch" else NativeTrainer(TorchTrainer())


NUMBER = itertools.count()


@pytest.fixture
def network() -> Iterator[Callable[[Callable[[int, int], nn.Module]], ModelSpec]]:
    """A function that registers a network, made from inputs and classes, for the time of a test."""
    names = []

    def enter(make: Callable[[int, int], nn.Module], features: int = 5, classes: int = 3) -> ModelSpec:
        name = f"test-only-{next(NUMBER)}"  # never used again, since initial parameters are remembered by name
        names.append(name)

        @model(name)
        def built(shape: tuple[int, ...], classes: int) -> nn.Module:
            return make(int(np.prod(shape)), classes)

        return ModelSpec(name, (features,), classes)

    yield enter
    for name in names:
        del MODELS._items[name]
