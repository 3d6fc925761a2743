"""From the configuration to the engine of a simulation."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from coterie.client import DiskStore, PrivacyTerms, Protection, Store
from coterie.data import FederatedData
from coterie.data.parts import part_sizes
from coterie.engine import EmbeddedEngine, SimulatedFaults
from coterie.engine.flower import require
from coterie.engine.flower.sharing import share
from coterie.engine.flower.simulation import FlowerSimulation, Recipe, check_address
from coterie.errors import CoterieError
from coterie.federation import Engine
from coterie.files import remove_tree
from coterie.messages import ClientId, ModelSpec
from coterie.models import MODELS
from coterie.models.given import GivenNetwork
from coterie.results.run_folder import ledgers_in, shared_beside
from coterie.run.config import Config
from coterie.run.parameter_files import with_start
from coterie.run.plugins import blamed_on_plugin, import_plugins, modules_to_import, registered_things
from coterie.training import CommonTest, Trainer, choose_trainer
from coterie.training.rehearsal import RehearsalTrainer

USED_BY_CLIENTS = ("measure", "loss", "metric")
"""The kinds of registered things that clients look up, beside networks."""


def check_engine(config: Config) -> None:
    """Refuse an engine that is not installed, a device that is not there, and what no simulation measures."""
    if config.engine.deadline is not None:
        raise CoterieError(
            "engine.deadline is for deployed federations; a simulation plays clients that are late with --straggle"
        )
    if config.engine.device not in ("auto", "cpu"):
        from coterie.training.torch_device import choose_device

        choose_device(config.engine.device)
    if config.engine.name == "flower":
        if config.newcomers.admit:
            raise CoterieError("newcomers.admit is for the engine 'embedded', not for 'flower': leave out one of them")
        require()
        if config.engine.address is not None:
            check_address(config.engine.address)


def workers(config: Config) -> int:
    """Return how many clients are worked on at a time."""
    return config.engine.workers or os.cpu_count() or 1


def gpu_share(config: Config) -> float:
    """Return the share of a GPU that each process of Ray asks for."""
    share = config.engine.gpu_share
    return share if share is not None else float(config.engine.device == "cuda")


@contextmanager
def make_engine(
    config: Config,
    data: FederatedData,
    spec: ModelSpec,
    store: Store,
    trainer: Trainer,
    test: CommonTest | None,
    arrivals: dict[ClientId, int],
    folder: Path | None = None,
) -> Iterator[Engine]:
    """Set up the engine that a configuration names; it ends with the block.

    Where clients have a privacy limit, their ledgers are in the run's `folder`, or go with the block.
    """
    with ExitStack() as stack:
        terms = _terms(config, folder, stack)
        if config.engine.name == "embedded" or isinstance(trainer, RehearsalTrainer):
            engine: EmbeddedEngine | FlowerSimulation = EmbeddedEngine(
                data,
                store,
                trainer,
                workers=workers(config),
                faults=_faults(config, data),
                seed=config.run.seed,
                common_test=test,
                arrivals=arrivals,
                protection=_protection(config),
                terms=terms,
                batch_clients=config.engine.batch_clients,
            )
        else:
            engine = _simulation(config, data, spec, store, arrivals, terms, stack)
        yield stack.enter_context(engine)


def _simulation(
    config: Config,
    data: FederatedData,
    spec: ModelSpec,
    store: Store,
    arrivals: dict[ClientId, int],
    terms: PrivacyTerms,
    stack: ExitStack,
) -> FlowerSimulation:
    """Return the engine whose clients are in processes of Ray; what it needs on disk goes with the block."""
    check_engine(config)
    if not isinstance(store, DiskStore):
        store = DiskStore(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="coterie-"))))
    folder = stack.enter_context(_shared_folder(store))
    plugins = (*config.run.plugins, *_imported_by_clients(config, spec))
    network = MODELS[spec.name]
    factory = _TrainerFactory(
        config.engine.trainer,
        spec,
        plugins,
        config.engine.device,
        config.model.initial,
        network if isinstance(network, GivenNetwork) else None,
    )
    return FlowerSimulation(
        Recipe(
            share(data, folder),
            str(store.folder.absolute()),
            factory,
            blamed_on_plugin,
            _protection(config),
            config.run.durable,
            terms,
        ),
        terms.told("train", dict(enumerate(part_sizes(data.train_parts).tolist()))),
        workers=workers(config),
        address=config.engine.address,
        gpu_share=gpu_share(config),
        faults=_faults(config, data),
        seed=config.run.seed,
        arrivals=arrivals,
        tests=terms.told("evaluate", dict(enumerate(part_sizes(data.test_parts).tolist()))),
    )


def _protection(config: Config) -> Protection:
    """Return how few samples clients answer from."""
    return Protection(config.privacy.min_samples, config.privacy.min_label_samples)


def _terms(config: Config, folder: Path | None, stack: ExitStack) -> PrivacyTerms:
    """Return the terms under which each client answers."""
    hides_samples = config.privacy.hides_samples
    if (limit := config.privacy.most) is None:
        return PrivacyTerms(hides_samples=hides_samples)
    place = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="coterie-")))
    return PrivacyTerms(limit, frozenset(config.privacy.unprotected), ledgers_in(place.absolute()), hides_samples)


def _faults(config: Config, data: FederatedData) -> SimulatedFaults:
    """Return the faults that are to be played."""
    faults = config.faults
    if (faults.liars or 0) > data.clients:
        raise CoterieError(f"liars = {faults.liars}, but there are {data.clients} clients: write less")
    return SimulatedFaults(
        faults.drop,
        faults.straggle,
        faults.hostile,
        faults.hostile_kind,
        faults.liars or 0,
        clients=data.clients,
        seed=config.run.seed,
    )


@contextmanager
def _shared_folder(store: DiskStore) -> Iterator[Path]:
    """Return a new folder where all processes can see it; one that a kill left is removed first."""
    place = shared_beside(store.folder.absolute())
    remove_tree(place)
    place.mkdir(parents=True, exist_ok=True)  # of which a network file system may keep a while what is in use
    try:
        yield Path(tempfile.mkdtemp(dir=place))
    finally:
        remove_tree(place)


def _imported_by_clients(config: Config, spec: ModelSpec) -> list[str]:
    """Return the modules that Ray's processes must import to know what clients use, beside ours and plugins."""
    used = [(registry, name) for registry, name in registered_things(config) if registry.kind in USED_BY_CLIENTS]
    networks = [] if isinstance(MODELS[spec.name], GivenNetwork) else [(MODELS, spec.name)]
    modules, missing = modules_to_import([*networks, *used])
    if missing:
        raise CoterieError(
            f"{missing} is part of a script, which Ray's processes can't import: put it into a file of its own, and "
            "name that in plugins (--plugin)"
        )
    return modules


@dataclass(frozen=True)
class _TrainerFactory:
    """Makes the trainer in another process, where a user's networks and measures must be known too."""

    wanted: str
    spec: ModelSpec
    plugins: tuple[str, ...]
    device: str
    initial: str | None
    network: GivenNetwork | None
    """One that a program has given as it is, which no other process can import: Ray takes it along."""

    def __call__(self) -> Trainer:
        import_plugins(list(self.plugins))
        if self.network is not None:
            MODELS.register(self.spec.name)(self.network)
        if self.initial is not None:
            with_start(replace(self.spec, start=None), self.initial, self.spec.start)
        return choose_trainer(self.wanted, self.spec, self.device)
