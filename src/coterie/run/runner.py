"""Running a configuration: from the beginning, after a kill, or on an engine of one's own."""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from coterie.algorithms import ALGORITHMS
from coterie.client import CachedStore, DiskStore, MemoryStore, PackedStore, StateFiles, Store
from coterie.data import FederatedData
from coterie.errors import CoterieError, counted
from coterie.federation import Engine, Federation
from coterie.federation.journal import Journal
from coterie.federation.loop import afterwards, rounds
from coterie.files import flushed_later, make_folder
from coterie.messages import Failure, Params
from coterie.results.folder_lock import locked
from coterie.results.run_folder import RunFolder, unused
from coterie.run.building import Session, completed, load_data, make_method, make_spec, model_bytes, session
from coterie.run.checkpoints import damage_named, read_checkpoint
from coterie.run.config import Config, to_toml
from coterie.run.engines import check_engine
from coterie.run.expert import needs_expert, read_expert
from coterie.run.going_on import asked_now, with_other_rounds
from coterie.run.parameter_files import check_initial
from coterie.run.plugins import NOBODY, Permission, as_flags
from coterie.run.progress import Progress
from coterie.run.recorder import RunRecorder, about_models, label_counts
from coterie.run.result import Result
from coterie.run.summary import summarise
from coterie.run.tracked import trackers_of
from coterie.run.trained_models import MEMORY_FOR_OWN, NOWHERE, KeptRun
from coterie.run.validation import differences, read_run_config
from coterie.tracking import TrackedRun, Tracker, Trackers, run_name, settings_of
from coterie.training import one_thread

MOST_FOLDERS = 2000
"""Clients up to which each has a folder for its states."""
MEMORY_FOR_STATES = 2**30
"""Bytes of client states up to which they stay in memory while running."""

PATIENCE = 120.0
"""Seconds to wait for a server that lost its SuperLink and is about to end."""
WAITING = [("engine", key) for key in ("deadline", "min_replies", "oversample", "max_strikes")]
"""Settings that may change when a run on real machines goes on, whose numbers depend on who comes anyway."""
ADMIT = ("newcomers", "admit")
MORE = [("training", "rounds"), ADMIT]
"""Settings that may change when a run goes on, where the result is that of a run which had them from the start."""


def start(
    config: Config,
    *,
    write: bool = True,
    overwrite: bool = False,
    progress: Progress | None = None,
    track: Sequence[Tracker] = (),
) -> Result:
    """Run a configuration from the beginning; with `write`, into the run folder that it names or a new one.

    Beside the trackers that it names, those given are told of it.
    """
    progress = progress or Progress()
    check_engine(config)
    check_initial(config.model.initial)
    if overwrite and config.run.out is None:
        raise CoterieError(
            "overwrite replaces the run in the folder that out names, and none is named: leave it out, since every run "
            f"gets a folder of its own, or say which to replace, for instance --out runs/{_stem(config)}"
        )
    folder = _folder_of(config) if write else None
    if folder is not None:
        folder.check_free(overwrite)
    trackers = trackers_of(config, folder, track)
    progress.phase(f"reading {config.data.title}")
    data = load_data(config)
    config = completed(config, data)
    make_method(config).check(make_spec(config, data), config.curriculum.sampler)
    if folder is None:
        return _run(config, data, None, None, progress, trackers)
    config.run.out = str(folder.path)
    check_room(config, data, folder.path)
    if config.curriculum.expert is not None and needs_expert(config):
        read_expert(config.curriculum.expert, make_spec(config, data))
    folder.check_free(overwrite)  # again: reading data may have taken a while
    make_folder(folder.path)
    with _resumable(folder, config), locked(folder.path):
        folder.check_free(overwrite)  # again: another process may have had the folder in between
        folder.clear()
        folder.write_config(to_toml(config))
        return _run(config, data, folder, None, progress, trackers)


def resume(
    path: Path,
    progress: Progress | None = None,
    permission: Permission = NOBODY,
    rounds: int | None = None,
    admit: Sequence[str] = (),
    track: Sequence[Tracker | str] = (),
) -> Result:
    """Go on with a run after any kill; of a finished one, return the result.

    A finished one, too, goes on to more `rounds`, or to `admit` the clients whose data these are. Of the plugins that
    its folder names only what is permitted is imported. What to `track` is as for `start`, or a name.
    """
    progress = progress or Progress()
    folder = RunFolder.open(path)
    with locked(folder.path):
        if folder.finished and not admit and rounds in (None, (result := Result.load(path)).rounds):
            return result
        if folder.deployed:
            raise CoterieError(f"'{path}' is the run of a deployed federation: go on with 'flwr run' and its app")
        config = asked_now(folder, read_run_config(folder, permission), rounds, admit)
        check_engine(config)
        check_initial(config.model.initial)
        trackers = trackers_of(config, folder, track)
        state, changed = _checkpoint_of(folder, config, MORE)
        if changed:
            raise CoterieError(
                f"'{folder.config_file}' was changed since the run began ({changed}): put it back, or start a new run"
            )
        progress.phase(f"reading {config.data.title}")
        data = load_data(config)
        if rounds is not None or admit:
            folder.go_on(to_toml(config))
        with _resumable(folder, config):
            return _run(config, data, folder, state, progress, trackers)


def run_with(
    config: Config,
    data: FederatedData,
    engine: Callable[[RunFolder], AbstractContextManager[Engine]],
    progress: Progress,
) -> Result:
    """Run a configuration, or go on with it, on an engine that is made when the run folder is there."""
    folder = _folder_of(config)
    make_folder(folder.path)
    _check_federations_own(folder)
    with locked(folder.path, PATIENCE):
        _check_federations_own(folder)  # again: another process may have had the folder in between
        state, changed = _checkpoint_of(folder, config, WAITING)
        if changed:
            raise CoterieError(f"the run in '{folder.path}' began with other settings ({changed}): choose another out")
        if folder.finished and state is not None:  # then those are admitted who come late
            state = {"plus": Result.load(folder.path).accuracy["plus"], **state}  # earlier versions did not keep it
        trackers = trackers_of(config, folder, ())
        running = engine(folder)
        folder.write_config(to_toml(config))
        return _run(config, data, folder, state, progress, trackers, running)


def _folder_of(config: Config) -> RunFolder:
    return RunFolder(Path(config.run.out or unused(_stem(config))))


def _stem(config: Config) -> str:
    return f"{config.algorithm.name}-{Path(config.data.name).stem}-seed{config.run.seed}"


def _check_federations_own(folder: RunFolder) -> None:
    if not folder.deployed and folder.other_files:
        raise CoterieError(f"'{folder.path}' holds something else than the run of a federation: choose another out")


@contextmanager
def _resumable(folder: RunFolder, config: Config) -> Iterator[None]:
    """Say on Ctrl-C how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        command = f"coterie resume {folder.path}{as_flags(config.run.plugins)}"
        raise KeyboardInterrupt(f"go on with '{command}'") from None


def _checkpoint_of(
    folder: RunFolder, config: Config, free: Iterable[tuple[str, str]] = ()
) -> tuple[dict[str, Any] | None, str]:
    """Return the checkpoint, if there is one, and which settings have changed since, but for those that are `free`."""
    if not folder.checkpoint.exists():
        if folder.finished:
            raise CoterieError(f"'{folder.checkpoint}' is missing, from which the run would go on: put back a copy")
        return None, ""
    state, stored = read_checkpoint(folder)
    since = config.algorithm.options.keys() - stored.algorithm.options.keys()
    if since and stored.algorithm.name == config.algorithm.name:  # options that a later version has
        defaults = ALGORITHMS.validate(config.algorithm.name, stored.algorithm.options)
        stored = stored.changed(algorithm={key: defaults[key] for key in since})
    if config.newcomers.admit[: len(stored.newcomers.admit)] != stored.newcomers.admit:  # these may have joined
        free = [key for key in free if key != ADMIT]
    changed = "; ".join(differences(stored, config, free))
    if not changed and stored.training.rounds != config.training.rounds:
        with damage_named(folder.checkpoint):
            state = with_other_rounds(state, stored, config)
    return state, changed


def _run(
    config: Config,
    data: FederatedData,
    folder: RunFolder | None,
    state: dict[str, Any] | None,
    progress: Progress,
    trackers: Sequence[Tracker],
    engine: AbstractContextManager[Engine] | None = None,
) -> Result:
    began = time.monotonic()
    with ExitStack() as stack:
        stack.enter_context(one_thread())
        store, states = stack.enter_context(_store(config, data, folder))
        path = None if folder is None else folder.path
        run = stack.enter_context(session(config, data, store, None, progress, path, engine))
        fed, algorithm, evaluator = run.fed, run.algorithm, run.evaluator
        tracker = Trackers(trackers, progress.phase)
        stack.callback(tracker.end, None)
        recorder = RunRecorder(run, data, folder, states, progress, began, tracker)
        with damage_named(Path() if folder is None else folder.checkpoint):
            done = recorder.restore(state)
        name = _stem(config) if folder is None else run_name(folder.path)
        since = time.time() - recorder.seconds
        tracker.begin(TrackedRun(name, settings_of(config.model_dump()), since, path), recorder.history)
        for note in data.notes:
            progress.phase(note)
        title = f"{config.algorithm.name} on {config.data.title}, {counted(data.clients or len(fed.clients), 'client')}"
        progress.begin(f"{title}, seed {config.run.seed}", fed.settings.rounds, done or 0)
        stack.callback(progress.end)
        if not evaluator.evaluated.everybody:
            progress.phase(evaluator.evaluated.described)
        for t, evaluation in rounds(fed, algorithm, evaluator, config.evaluation.every, done, recorder.before_end):
            recorder.after_round(t, evaluation)

        last = fed.settings.rounds
        if state is not None and "plus" in state:
            plus = state["plus"]
            fed.start_round(recorder.come)
        else:
            tuning = evaluator.evaluated.fine_tuning()
            if any(algorithm.model_for(client) is not None for client in tuning):
                everybody = evaluator.evaluated.everybody and fed.settings.evaluation.plus == 1
                on = "every client" if everybody else counted(len(tuning), "client")
                progress.phase(f"fine-tuning the final model on {on} (protocol +)")
            plus = evaluator.fine_tune()
        for t in range(recorder.come + 1 if engine is None else last + 1, last + 2 + len(data.later)):
            afterwards(fed, algorithm, evaluator, t)
            recorder.announce_newcomers("after training")
            recorder.checkpoint(last, plus=plus, come=t)
        evaluator.note_divergence()
        for client in evaluator.untested():
            why = (
                "no test samples" if fed.settings.metric is None else f"its test samples have no {fed.settings.metric}"
            )
            fed.events.note(Failure(client, fed.settings.rounds, "untested", f"{why}: no mean includes it"))
        result = summarise(run, with_all(data, fed), recorder.history, plus, recorder.seconds, path)
        if folder is not None:
            folder.write_result(result.to_json(), config.run.durable)
        tracker.end(result.to_json())
        return result if folder is not None else replace(result, kept=kept_models(run, data, store))


def kept_models(run: Session, data: FederatedData, store: Store) -> KeptRun:
    """Return what a run without a folder has trained; clients' own models unless they take too much memory."""
    own: dict[int, Params] | None = None
    everyone = range(data.all_clients)
    if len(everyone) * sum(array.nbytes for array in run.fed.initial().values()) <= MEMORY_FOR_OWN:
        last = run.fed.settings.rounds + 2 + len(data.later)  # who comes after training trains in rounds after the last
        states = {client: store.load(client, before=last) for client in everyone}
        own = {client: state["model"] for client, state in states.items() if "model" in state}
    return KeptRun(
        folder=NOWHERE,
        config=run.config,
        algorithm=make_method(run.config),  # not the one that ran, which may hold much more than models
        state={
            **about_models(run, data, run.fed.settings.rounds),
            "federation": run.fed.members.save(),
        },
        journal=Journal(NOWHERE.journal),
        models={client: run.algorithm.model_for(client) for client in sorted({*run.fed.clients, *everyone})},
        members=run.algorithm.groups() or {},
        own=own,
        counts=label_counts(data),
        shares=run.algorithm.own_shares(everyone),
    )


def with_all(data: FederatedData, fed: Federation) -> FederatedData:
    """Return the data with an empty part for each client that brought its own."""
    parts = [np.zeros(0, np.int64)] * (max(fed.admitted, default=-1) + 1)
    return data if len(parts) <= data.clients else replace(data, train_parts=parts, test_parts=parts)


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
def _store(config: Config, data: FederatedData, folder: RunFolder | None) -> Iterator[tuple[Store, StateFiles | None]]:
    """Choose where client states live, and return also their files, if there are any in the run folder.

    In a run folder they are always written, since a kill may come. Those of many clients are packed, unless it is
    processes of Ray that write them, which flush theirs by themselves.
    """
    needed = 2 * data.clients * model_bytes(config, data)
    on_disk = (
        config.engine.state == "disk"
        or (config.engine.state == "auto" and needed > MEMORY_FOR_STATES)
        or config.engine.name == "flower"  # whose clients live in several processes
    )
    if folder is None and not on_disk:
        yield MemoryStore(), None
        return
    with ExitStack() as stack:
        path = folder.clients if folder else Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="coterie-")))
        durable = config.run.durable and folder is not None
        alone = config.engine.name == "flower" or flushed_later(durable) == "folder"
        packed = config.engine.name == "embedded" and data.clients > MOST_FOLDERS
        flushes = durable and alone
        disk: StateFiles = PackedStore(path, flushes) if packed else DiskStore(path, flushes)
        states = disk if on_disk else stack.enter_context(closing(CachedStore(disk)))
        yield states, states if folder else None
