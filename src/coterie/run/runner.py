"""Running an experiment from its configuration: start, go on after a kill, and the result."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie import data as sources
from coterie.algorithms import ALGORITHMS
from coterie.client import CachedStore, DiskStore, MemoryStore, Store
from coterie.data import FederatedData
from coterie.data.difficulty import by_difficulty, spread
from coterie.data.validation import on_validation
from coterie.errors import CoterieError
from coterie.federation import Algorithm, Engine, Federation
from coterie.federation.checkpoint import load_checkpoint
from coterie.federation.evaluation import Evaluator
from coterie.federation.federation import ClientSampler, ServerData, UniformSampler
from coterie.federation.loop import afterwards, rounds
from coterie.messages import ClientId, Failure, ModelSpec, Plan, Schedule
from coterie.models import initial
from coterie.results.run_folder import RunFolder, new_path
from coterie.run.config import Config, differences
from coterie.run.curriculum import difficulty, make_expert, needs_expert, read_expert
from coterie.run.engines import check_engine, make_engine, workers
from coterie.run.network import with_network
from coterie.run.progress import Progress, Silent
from coterie.run.recorder import RunRecorder
from coterie.run.result import Result
from coterie.run.summary import summarise
from coterie.streams import stream
from coterie.training import CommonTest, Trainer, choose_trainer

MEMORY_FOR_STATES = 2**30
"""Bytes of client states up to which they stay in memory while running."""

PATIENCE = 120.0
"""Seconds to wait for a server that lost its SuperLink and is about to end."""
WAITING = [("engine", key) for key in ("deadline", "min_replies", "oversample", "max_strikes")]
"""Settings that may change when a run on real machines goes on, whose numbers depend on who comes anyway."""


def start(config: Config, *, write: bool = True, overwrite: bool = False, progress: Progress | None = None) -> Result:
    """Run a configuration from the beginning; with `write`, into the run folder that it names or a new one."""
    progress = progress or Silent()
    check_engine(config)
    path = Path(config.run.out or new_path(config.algorithm.name, config.data.name, config.run.seed))
    folder = RunFolder(path) if write else None
    if folder is not None:
        folder.check_free(overwrite)
    progress.phase(f"reading {config.data.name}")
    data = load_data(config)
    config = completed(config, data)
    check_method(config, make_spec(config, data))
    if folder is None:
        return _run(config, data, None, None, progress)
    config.run.out = str(path)
    check_room(config, data, path)
    if config.curriculum.expert is not None and needs_expert(config):
        read_expert(config.curriculum.expert, make_spec(config, data))
    folder.check_free(overwrite)  # again: reading data may have taken a while
    folder.make()
    try:
        with folder.locked():
            folder.clear()
            folder.write_config(config)
            return _run(config, data, folder, None, progress)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"go on with 'coterie resume {path}'") from None


def resume(path: Path, progress: Progress | None = None) -> Result:
    """Go on with a run after any kill; of a finished one, return the result."""
    progress = progress or Silent()
    folder = RunFolder.open(path)
    with folder.locked():
        if folder.finished:
            return Result.load(path)
        if folder.deployed:
            raise CoterieError(f"'{path}' is the run of a deployed federation: go on with 'flwr run' and its app")
        config = folder.read_config()
        check_engine(config)
        state = load_checkpoint(folder.checkpoint) if folder.checkpoint.exists() else None
        if state is not None:
            changed = differences(Config.model_validate_json(state["config"]), config)
            if changed:
                raise CoterieError(
                    f"'{folder.config_file}' was changed since the run began ({'; '.join(changed)}): "
                    "put it back, or start a new run"
                )
        progress.phase(f"reading {config.data.name}")
        try:
            return _run(config, load_data(config), folder, state, progress)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"go on with 'coterie resume {path}'") from None


def run_with(
    config: Config,
    data: FederatedData,
    engine: Callable[[RunFolder], AbstractContextManager[Engine]],
    progress: Progress,
) -> Result:
    """Run a configuration, or go on with it, on an engine that is made when the run folder is there."""
    folder = RunFolder(Path(config.run.out or new_path(config.algorithm.name, config.data.name, config.run.seed)))
    folder.make()
    if not folder.deployed and {item.name for item in folder.path.iterdir()} - {"lock"}:
        raise CoterieError(f"'{folder.path}' holds something else than the run of a federation: choose another out")
    with folder.locked(PATIENCE):
        state = load_checkpoint(folder.checkpoint) if folder.checkpoint.exists() else None
        if state is not None and (changed := differences(Config.model_validate_json(state["config"]), config, WAITING)):
            raise CoterieError(f"the run in '{folder.path}' began otherwise ({'; '.join(changed)}): choose another out")
        if folder.finished:
            return Result.load(folder.path)
        made = engine(folder)
        folder.write_config(config)
        return _run(config, data, folder, state, progress, made)


def load_data(config: Config) -> FederatedData:
    """Read the data of a configuration and divide them among clients."""
    clients = config.data.clients or sources.default_clients(config.data.name)
    data = sources.load(
        config.data.name,
        config.data.options,
        (config.partition.name, config.partition.options) if config.partition.name else None,
        clients,
        config.run.seed,
        surplus=config.partition.surplus or 1,
        exchangeable=bool(config.partition.f_ord),
    )
    share = config.evaluation.validation
    return on_validation(data, share, config.run.seed) if share else data


def completed(config: Config, data: FederatedData) -> Config:
    """Fill in what only the data tell, and make paths absolute, so that the configuration can be run anywhere."""
    chosen = with_network(absolute(config), data.shape).model_dump()
    chosen["data"]["clients"] = data.clients
    return Config.model_validate(chosen)


def absolute(config: Config) -> Config:
    """Make paths absolute, so that they hold in any folder."""
    chosen = config.model_dump()
    if config.data.name not in sources.DATASETS and (path := Path(config.data.name).expanduser()).exists():
        chosen["data"]["name"] = os.path.abspath(path)
    if config.curriculum.expert is not None:
        chosen["curriculum"]["expert"] = os.path.abspath(Path(config.curriculum.expert).expanduser())
    chosen["run"]["plugins"] = [os.path.abspath(p) if p.endswith(".py") else p for p in config.run.plugins]
    return Config.model_validate(chosen)


def make_plan(config: Config) -> Plan:
    """Return how clients train where the method has no other wish."""
    training, wanted = config.training, config.curriculum.of_data
    return Plan(
        lr=Schedule(training.lr, training.lr_decay, training.lr_power),
        epochs=training.epochs,
        batch_size=training.batch_size,
        momentum=training.momentum,
        weight_decay=training.weight_decay,
        curriculum=None if wanted is None else wanted.make(),
    )


def make_selection(config: Config) -> ClientSampler:
    """Return who may be in a cohort: all, or by a curriculum those whose samples are easy enough."""
    clients = config.curriculum.of_clients
    return UniformSampler() if clients is None else clients.make()


def check_method(config: Config, spec: ModelSpec) -> Algorithm:
    """Make the method, and let it refuse a network or cohorts that it can't work with."""
    method: Algorithm = ALGORITHMS[config.algorithm.name](**config.algorithm.options)
    if hasattr(method, "check"):
        method.check(spec, make_selection(config))
    return method


def make_trainer(config: Config, spec: ModelSpec, progress: Progress) -> Trainer:
    """Return what executes plans: compiled code where it can, unless told otherwise."""
    from coterie.native import available
    from coterie.training.native_trainer import runs_natively

    if config.engine.trainer == "auto" and not available() and runs_natively(spec):
        progress.phase("training with PyTorch: Coterie was installed without a C++ compiler, which would be faster")
    return choose_trainer(config.engine.trainer, spec)


@dataclass
class Session:
    """A federation set up for a method."""

    fed: Federation
    algorithm: Algorithm
    evaluator: Evaluator


@contextmanager
def session(
    config: Config,
    data: FederatedData,
    store: Store,
    trainer: Trainer,
    progress: Progress | None = None,
    folder: Path | None = None,
    engine: AbstractContextManager[Engine] | None = None,
) -> Iterator[Session]:
    """Set up engine, federation and method; the engine ends with the block.

    An expert is trained first where one is needed; it is kept in `folder`. Without an `engine`, the one that the
    configuration names is made.
    """
    seed, progress, spec = config.run.seed, progress or Silent(), make_spec(config, data)
    plan = make_plan(config)
    expert = make_expert(config, data, spec, plan, trainer, progress, folder) if needs_expert(config) else None
    if expert is not None and config.partition.f_ord:
        losses = difficulty(data, spec, expert, trainer)
        data = rearranged(data, losses, config.partition.f_ord, seed)
        deviation = float(spread(losses, data.train_parts).mean())
        progress.phase(f"f_ord = {config.partition.f_ord:g}: within a client losses deviate by {deviation:.2f} (mean)")
    test = CommonTest(data.test.x, data.test.y, data.normalise) if data.common_test else None
    made = engine or make_engine(config, data, spec, store, trainer, test, arrivals(config, data))
    with made as running:
        fed = Federation(
            engine=running,
            trainer=trainer,
            spec=spec,
            seed=seed,
            plan=plan,
            rounds=config.training.rounds,
            fraction=config.training.fraction,
            server_data=ServerData(data.normalise(data.server.x), data.server.y),
            test=test,
            expert=expert,
            workers=workers(config),
            newcomer_epochs=config.newcomers.epochs,
            deadline=config.engine.deadline,
            min_replies=config.engine.min_replies,
            oversample=config.engine.oversample,
            max_strikes=config.engine.max_strikes,
            grouping=config.grouping.options(),
            selection=make_selection(config),
            drifts=frozenset(phase.start for phase in data.drift),
        )
        algorithm: Algorithm = ALGORITHMS[config.algorithm.name](**config.algorithm.options)
        yield Session(fed, algorithm, Evaluator(fed, algorithm))


def rearranged(data: FederatedData, losses: npt.NDArray[np.float64], f_ord: float, seed: int) -> FederatedData:
    """Let clients exchange samples of one label, so that the first ones get the easiest by these losses."""
    return replace(
        data, train_parts=by_difficulty(data.train.y, losses, data.train_parts, f_ord, stream(seed, "difficulty"))
    )


def consistency(config: Config, progress: Progress | None = None) -> npt.NDArray[np.float64]:
    """Return how far the expert's losses deviate within each client, (clients,): small where samples are alike.

    It looks at the samples of all clients, which only a simulation can do.
    """
    from coterie.training.torch_trainer import one_thread

    progress = progress or Silent()
    data = load_data(config)
    config = completed(config, data)
    spec = make_spec(config, data)
    trainer = make_trainer(config, spec, progress)
    with one_thread():
        expert = make_expert(config, data, spec, make_plan(config), trainer, progress)
        losses = difficulty(data, spec, expert, trainer)
    if config.partition.f_ord:
        data = rearranged(data, losses, config.partition.f_ord, config.run.seed)
    return spread(losses, data.train_parts)


def arrivals(config: Config, data: FederatedData) -> dict[ClientId, int]:
    """Return in which round each client comes that is held back at first; after training is one more than there are."""
    wanted, clients = config.newcomers, data.clients
    held = min(round(wanted.share * clients), clients - 1)
    if wanted.share and clients == 1:
        raise CoterieError("newcomers: there is only one client, who must be there from the beginning: leave them out")
    if wanted.share and not held:
        raise CoterieError(f"newcomers: {wanted.share:g} of {clients} clients is less than one: raise it")
    order = stream(config.run.seed, "newcomers").permutation(clients) if wanted.draw == "random" else range(clients)
    return {int(client): wanted.join_at or config.training.rounds + 1 for client in [*order][clients - held :]}


def _run(
    config: Config,
    data: FederatedData,
    folder: RunFolder | None,
    state: dict[str, Any] | None,
    progress: Progress,
    engine: AbstractContextManager[Engine] | None = None,
) -> Result:
    from coterie.training.torch_trainer import one_thread

    began = time.monotonic()
    with ExitStack() as stack:
        stack.enter_context(one_thread())
        store = stack.enter_context(_store(config, data, folder))
        trainer = make_trainer(config, make_spec(config, data), progress)
        path = None if folder is None else folder.path
        run = stack.enter_context(session(config, data, store, trainer, progress, path, engine))
        fed, algorithm, evaluator = run.fed, run.algorithm, run.evaluator
        journal = RunRecorder(config, data, run, folder, progress, began)
        done = journal.go_on(state)
        _announce(config, data, fed, progress, done)
        stack.callback(progress.end)
        for t, evaluation in rounds(fed, algorithm, evaluator, config.evaluation.every, done):
            journal.after_round(t, evaluation)

        if state is not None and "plus" in state:  # which is written only when newcomers have come after training
            plus, fed.round = state["plus"], fed.rounds + 1
        else:
            if any(algorithm.model_for(client) is not None for client in fed.clients):
                progress.phase("fine-tuning the final model on every client (protocol +)")
            plus = evaluator.fine_tuned()
            afterwards(fed, algorithm, evaluator)
        if journal.newcomers("after training"):
            journal.keep(fed.rounds, plus=plus)
        for client in evaluator.untested():
            fed.events.note(Failure(client, fed.rounds, "untested", "no test samples: no mean includes it"))
        everyone, seconds = with_all(data, fed), journal.seconds
        result = summarise(config, everyone, fed, algorithm, evaluator, journal.history, plus, seconds, path)
        if folder is not None:
            folder.write_result(result.to_json())
        return result


def _announce(config: Config, data: FederatedData, fed: Federation, progress: Progress, done: int | None) -> None:
    clients = data.clients or len(fed.clients)
    for note in data.notes:
        progress.phase(note)
    title = f"{config.algorithm.name} on {config.data.name}, {clients} clients, seed {config.run.seed}"
    progress.begin(title, fed.rounds, done or 0)
    fed.on_reply = progress.clients


def with_all(data: FederatedData, fed: Federation) -> FederatedData:
    """Return the data with an empty part for each client that brought its own."""
    parts = [np.zeros(0, np.int64)] * (max(fed.admitted, default=-1) + 1)
    return data if len(parts) <= data.clients else replace(data, train_parts=parts, test_parts=parts)


def make_spec(config: Config, data: FederatedData) -> ModelSpec:
    """Return the network of a run."""
    return ModelSpec(str(config.model.name), data.shape, data.classes, config.model.options)


def model_bytes(config: Config, data: FederatedData) -> int:
    """Return the size of a model; refuse a network that does not fit the data."""
    return sum(array.nbytes for array in initial(make_spec(config, data), config.run.seed).values())


def check_room(config: Config, data: FederatedData, path: Path) -> None:
    """Refuse a disk that can't hold one state of each client, before anything is written."""
    needed = data.clients * model_bytes(config, data)
    place = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    free = shutil.disk_usage(place).free
    if needed > free:
        raise CoterieError(
            f"the clients' states take up to {needed / 1e3:,.0f} kB, but the disk of '{path}' has {free / 1e3:,.0f} kB "
            "free: free some space, or choose another --out"
        )


@contextmanager
def _store(config: Config, data: FederatedData, folder: RunFolder | None) -> Iterator[Store]:
    """Choose where client states live; in a run folder they are always written too, since a kill may come."""
    needed = 2 * data.clients * model_bytes(config, data)
    on_disk = (
        config.engine.state == "disk"
        or (config.engine.state == "auto" and needed > MEMORY_FOR_STATES)
        or config.engine.name == "flower"  # whose clients live in several processes
    )
    if folder is None and not on_disk:
        yield MemoryStore()
        return
    with ExitStack() as stack:
        path = folder.clients if folder else Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="coterie-")))
        disk = DiskStore(path)
        yield disk if on_disk else CachedStore(disk)
