"""From the configuration to the engine of a simulation."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from coterie.client import DiskStore, Store
from coterie.data import FederatedData
from coterie.engine import EmbeddedEngine, SimulatedFaults
from coterie.engine.flower import require
from coterie.engine.flower.sharing import share
from coterie.engine.flower.simulation import FlowerSimulation, Recipe, check_address
from coterie.errors import CoterieError
from coterie.federation import Engine
from coterie.messages import ClientId, ModelSpec
from coterie.models import MODELS
from coterie.run.config import Config
from coterie.run.plugins import blamed_on_plugin, home, import_plugins
from coterie.training import CommonTest, Trainer, choose_trainer
from coterie.training.rehearsal import RehearsalTrainer

SHARED = ".{}-shared"
"""The folder beside the clients' states in which a simulation of several processes keeps their data while it runs."""


def check_engine(config: Config) -> None:
    """Refuse an engine that is not installed, and what no simulation measures."""
    if config.engine.deadline is not None:
        raise CoterieError(
            "engine.deadline is for deployed federations; a simulation plays clients that are late with --straggle"
        )
    if config.engine.name == "flower":
        require()
        if config.engine.address is not None:
            check_address(config.engine.address)


def workers(config: Config) -> int:
    """Return how many clients are worked on at a time."""
    return config.engine.workers or os.cpu_count() or 1


@contextmanager
def make_engine(
    config: Config,
    data: FederatedData,
    spec: ModelSpec,
    store: Store,
    trainer: Trainer,
    test: CommonTest | None,
    arrivals: dict[ClientId, int],
) -> Iterator[Engine]:
    """Set up the engine that a configuration names; it ends with the block."""
    faults = SimulatedFaults(config.faults.drop, config.faults.straggle, config.faults.hostile)
    if config.engine.name == "embedded" or isinstance(trainer, RehearsalTrainer):
        with EmbeddedEngine(
            data,
            store,
            trainer,
            workers=workers(config),
            faults=faults,
            seed=config.run.seed,
            common_test=test,
            arrivals=arrivals,
        ) as engine:
            yield engine
        return
    check_engine(config)
    with ExitStack() as stack:
        if not isinstance(store, DiskStore):
            store = DiskStore(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="coterie-"))))
        folder = stack.enter_context(_shared_folder(store))
        factory = _TrainerFactory(config.engine.trainer, spec, (*config.run.plugins, *_home_of_network(spec)))
        with FlowerSimulation(
            Recipe(share(data, folder), str(store.folder.absolute()), factory, blamed_on_plugin),
            {client: len(part) for client, part in enumerate(data.train_parts)},
            workers=workers(config),
            address=config.engine.address,
            faults=faults,
            seed=config.run.seed,
            arrivals=arrivals,
        ) as simulation:
            yield simulation


@contextmanager
def _shared_folder(store: DiskStore) -> Iterator[Path]:
    """Return a new folder where all processes can see it; one that a kill left is removed first."""
    states = store.folder.absolute()
    place = states.with_name(SHARED.format(states.name))
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True, exist_ok=True)  # of which a network file system may keep a while what is in use
    try:
        yield Path(tempfile.mkdtemp(dir=place))
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _home_of_network(spec: ModelSpec) -> list[str]:
    """Return the module that other processes must import to know a network, if it is neither ours nor a plugin's."""
    module, can_be_imported = home(MODELS[spec.name])
    if not can_be_imported:
        raise CoterieError(
            f"network '{spec.name}' is part of a script, which Ray's processes can't import: put it into a file of its "
            "own, and name that in plugins (--plugin)"
        )
    return [] if module is None else [module]


@dataclass(frozen=True)
class _TrainerFactory:
    """Makes the trainer in another process, where a user's networks must be known too."""

    wanted: str
    spec: ModelSpec
    plugins: tuple[str, ...]

    def __call__(self) -> Trainer:
        import_plugins(list(self.plugins))
        return choose_trainer(self.wanted, self.spec)
