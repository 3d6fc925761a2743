"""What a run records as it goes: metrics, checkpoints to resume from after a kill, and what its pictures need."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.algorithms.grouped import GroupedMethod
from coterie.client import StateFiles
from coterie.data import FederatedData, Normalisation
from coterie.data.parts import ClientParts
from coterie.errors import counted
from coterie.federation.checkpoint import NotStorable, check_state, save_checkpoint
from coterie.federation.curriculum import ClientCurriculum
from coterie.federation.evaluation import Evaluation
from coterie.federation.journal import Journal
from coterie.federation.loop import evaluated_rounds
from coterie.files import flushed_later
from coterie.messages import Failure
from coterie.results.checks import error_in_history
from coterie.results.run_folder import ArrayName, PlotArrays, RunFolder
from coterie.results.statistics import ALONE, all_alone, group_count
from coterie.run.building import Session
from coterie.run.config import Config
from coterie.run.progress import Progress
from coterie.run.summary import by_true_group, newcomers_text, true_groups
from coterie.tracking import Tracker
from coterie.training.batches import pool_size

STEPS = 101
"""At how many points of a local training the pool of samples is noted."""
CLIENTS_AT_ONCE = 10_000
"""Of so many labels are counted at a time."""
DRAWN_ONCE: tuple[ArrayName, ...] = ("grouped", "proximity", "tree", "labels")
"""Plot arrays of when groups were formed, which a run that goes on takes from the file: checkpoints hold none."""


class RunRecorder:
    """Writes metrics, checkpoints and plot arrays into the run folder, reports progress, and restores a checkpoint."""

    def __init__(
        self,
        run: Session,
        data: FederatedData,
        folder: RunFolder | None,
        states: StateFiles | None,
        progress: Progress,
        began: float,
        tracker: Tracker,
    ) -> None:
        """Nothing is written without a `folder`; `began` is when this process started the run, or resumed it.

        `states` are those of clients whose files are in the folder. The `tracker` is told all rows.
        """
        self.tracker = tracker
        self.run, self.data, self.folder, self.states, self.progress = run, data, folder, states, progress
        self.durable = run.config.run.durable
        self.journal = None if folder is None else Journal(folder.journal, self.durable)
        self.history: list[dict[str, Any]] = []
        self._began, self._seconds_before, self._announced, self._warned = began, 0.0, 0, False
        self._before_end: dict[str, Any] = {}
        """What more rounds would go on from: the last round before what is measured because it is the last."""
        self.come = run.fed.settings.rounds
        """The last round after training in which clients could come; that of the training itself before protocol +."""
        self._arrays_written = False
        self._drawn: npt.NDArray[np.float64] | None = None
        """The proximities in the file of plot arrays."""

    @property
    def seconds(self) -> float:
        """For how long the run has run, in all processes."""
        return self._seconds_before + time.monotonic() - self._began

    def restore(self, state: Mapping[str, Any] | None) -> int | None:
        """Restore a checkpoint, and return the last round that was done; without one, start afresh: None."""
        run = self.run
        if state is None:
            if self.folder is not None:
                self.folder.clear_traces()
            for client in sorted(set(run.fed.clients) - set(run.fed.trainable)):
                run.fed.events.note(Failure(client, 0, "empty", "no training samples: it is never sampled"))
            return None
        done = int(state["round"])
        run.algorithm.load(state["algorithm"])
        run.evaluator.load(state["evaluator"])
        run.fed.load(state["federation"])
        self._seconds_before, self._announced = state["seconds"], len(run.fed.joined)
        if "plus" in state:
            self.come = state.get("come", self.come + 1)  # earlier versions had one such round
            if type(self.come) is not int or not 0 < self.come - done <= 1 + len(self.data.later):
                raise ValueError(f"come: {self.come!r}, expected {done + 1} to {done + 1 + len(self.data.later)}")
        if self.folder is not None and self.journal is not None:
            self.folder.remove_parts()
            self.journal.restore(state["journal"])
            self.history = self._rows(state, done)
            self._before_end = state.get("before_end", {})
            self.folder.rewrite_metrics(self.history)
            if self.states is not None:
                self.states.go_on_from(self.journal.states)
                self.states.remove_later()
        return done

    def _rows(self, state: Mapping[str, Any], done: int) -> list[dict[str, Any]]:
        """Return the rows of metrics: those of the journal, and the last one as it is at the end."""
        assert self.journal is not None
        rows, every = [*self.journal.rows], self.run.config.evaluation.every
        last = None if "row" in state else self.run.fed.settings.rounds  # earlier versions had it in the journal
        if error := error_in_history(rows, evaluated_rounds(last, every, done)):
            raise self.journal.damaged(error)
        if "row" not in state:
            return rows
        if error := error_in_history([state["row"]], [done]):
            raise ValueError(f"the last row of metrics: {error}")
        return [*(row for row in rows if row["round"] < done), dict(state["row"])]

    def before_end(self, evaluation: Evaluation | None) -> None:
        """Keep the state of the last round, with its accuracies if they are due, as a longer run would have it."""
        if self.folder is not None:
            row = None if evaluation is None else self._row(evaluation)
            evaluator, federation = self.run.evaluator.save(), self.run.fed.save()
            self._before_end = {"row": row, "evaluator": evaluator, "federation": federation}

    def _row(self, evaluation: Evaluation) -> dict[str, Any]:
        since = self.history[-1]["round"] if self.history else 0
        return _row(self.run.fed.round, evaluation, self.run, self.data, since, self.seconds)

    def after_round(self, round: int, evaluation: Evaluation | None) -> None:
        """Record a round, and report how it went."""
        row = None if evaluation is None else self._row(evaluation)
        if row is not None:
            self.history.append(row)
            if self.folder is not None:
                self.folder.append_metrics(row, flushed_later(self.durable))
        self.checkpoint(round, row)
        if round == 0 and (agreed := self.run.fed.standardisation) is not None:
            mean, std = _listed(agreed.mean), _listed(agreed.std)
            self.progress.phase(f"what clients measured of their inputs, together: mean {mean}, std {std}")
        if row is not None:
            self.tracker.row(row)
        self.progress.round(round, row)
        for note in (*self.run.algorithm.notes, *few_clients_a_round(self.run)) if round == 0 else ():
            self.progress.phase(note)
        self.announce_newcomers(f"round {round}")
        if round == 0 or row is not None:
            self._warn_if_alone(round)

    def _warn_if_alone(self, round: int) -> None:
        """Say it once where all clients have come to be groups of one."""
        groups = self.run.algorithm.groups() or {}
        alone = all_alone(groups.values()) and groups.keys() >= {*self.run.fed.trainable}
        if alone and not self._warned:
            self.progress.phase(f"round {round}: {ALONE}")
        self._warned = alone

    def checkpoint(self, round: int, row: Mapping[str, Any] | None = None, **more: Any) -> None:
        """Write a checkpoint, after what pictures need and the journal, which has the row of metrics.

        The journal has the last round as a longer run would have it; how it is at the end is in the checkpoint.
        """
        if self.folder is not None and self.journal is not None:
            self._write_plot_arrays(self.folder)
            fed = self.run.fed
            saved = {} if self.states is None else self.states.stamps(fed.asked_to_keep, fed.round)
            if self._before_end:
                more |= {"before_end": self._before_end, "row": self.history[-1]}
                row = self._before_end["row"] if fed.round == round else None
            self.journal.append(fed.round, saved, row)
            state = {**_state(self.run, self.data, round, self.seconds), "journal": self.journal.mark, **more}
            whose = f"save() of method '{self.run.config.algorithm.name}'"
            if round == 0:  # before anything is trained
                check_state(state["algorithm"], whose)
            try:
                save_checkpoint(self.folder.checkpoint, state, self.durable)
            except NotStorable:
                check_state(state["algorithm"], whose)  # whose error names the method, if it is the method's
                raise

    def _write_plot_arrays(self, folder: RunFolder) -> None:
        """Write the plot arrays if they are not there, or if there is something new to see."""
        grouping = self.run.algorithm.grouping
        proximity = None if grouping is None else grouping.proximity
        if self._arrays_written and (proximity is None or proximity is self._drawn):
            return
        drawn = {} if self._arrays_written or proximity is not None else folder.read_arrays()[0]
        arrays = {name: drawn[name] for name in DRAWN_ONCE if name in drawn} | pools(self.run.config, self.data.clients)
        if self.data.clients and (counts := label_counts(self.data)) is not None:  # whose data are here
            arrays["label_counts"] = counts
        if grouping is not None and proximity is not None:
            n, clients = len(proximity), list(self.run.algorithm.groups() or {})
            arrays |= {
                "grouped": np.array(clients[:n], np.int64),
                "proximity": np.asarray(proximity, np.float32),
                "tree": np.asarray(grouping.tree, np.float64).reshape(-1, 4),
                "labels": np.asarray(grouping.labels[:n], np.int64),
            }
        folder.write_arrays(arrays)
        self._arrays_written, self._drawn = True, proximity

    def announce_newcomers(self, when: str) -> bool:
        """Report those who have come since this was last called; return whether there are any."""
        fed = self.run.fed
        new, self._announced = len(fed.joined) > self._announced, len(fed.joined)
        if new:
            self.progress.phase(f"{when}: {newcomers_text(fed, self.run.algorithm)}")
        return new


def _row(
    round: int, evaluation: Evaluation, run: Session, data: FederatedData, since: int, seconds: float
) -> dict[str, Any]:
    fed, groups, scores = run.fed, run.algorithm.groups(), run.evaluator
    truth = true_groups(data, round)
    of_clients = {"L": scores.own, "C": scores.received} if len(truth) else {}
    numbers = asdict(evaluation)
    beside = {
        "unadapted": numbers.pop("unadapted"),
        "measured": numbers.pop("measured"),
        "by_true_group": {protocol: by_true_group(scored, truth) for protocol, scored in of_clients.items()},
    }
    return {
        "round": round,
        **numbers,
        **{key: value for key, value in beside.items() if value},
        "loss": fed.training.mean_loss,
        "discrepancy": fed.training.discrepancy(run.algorithm.model_for),
        "groups": group_count(None if groups is None else groups.values()),
        "up_bytes": fed.ledger.total("up"),
        "down_bytes": fed.ledger.total("down"),
        "seconds": seconds,
        **({} if fed.settings.metric is None else {"metric": fed.settings.metric}),
        **run.algorithm.observed(run.evaluator.own, since),
    }


def few_clients_a_round(run: Session) -> list[str]:
    """Warn of more groups than a round has clients: then some groups' models may never be trained."""
    method, clients = run.algorithm, len(run.fed.cohort(1))
    groups = run.config.grouping.groups or 0
    if isinstance(method, GroupedMethod) and not method.traits.one_shot and method.grouping is None:
        groups = max(groups, len(method.models))
    if groups <= clients:
        return []
    few = counted(clients, "client")
    return [
        f"warning: {groups} groups, but {few} in a round: not all are trained in it; raise fraction, or lower groups"
    ]


def _state(run: Session, data: FederatedData, round: int, seconds: float) -> dict[str, Any]:
    return {
        "config": run.config.model_dump_json(),
        "seconds": seconds,
        "algorithm": run.algorithm.save(),
        "evaluator": run.evaluator.save(),
        "federation": run.fed.save(),
        **about_models(run, data, round),
    }


def about_models(run: Session, data: FederatedData, round: int) -> dict[str, Any]:
    """Return what who uses the models must know: after which round they are, their network, and its inputs."""
    normalise, agreed = data.normalise, run.fed.standardisation
    if isinstance(normalise, Normalisation) and agreed is not None:
        normalise = replace(normalise, mean=agreed.mean, std=agreed.std)
    return {
        "round": round,
        "spec": run.fed.spec,
        "dtype": str(data.train.x.dtype),
        "raw_shape": data.train.x.shape[1:],
        "class_names": data.class_names,
        "normalise": asdict(normalise) if isinstance(normalise, Normalisation) else None,
        **({} if data.encoding is None else {"table": data.encoding.to_json()}),
    }


def _listed(values: Sequence[float]) -> str:
    """Return a few numbers as a text has them.

    >>> _listed([0.123456, 2.0]), _listed([1.0] * 12)
    ('0.1235, 2', '1, 1, 1, 1, … (12 numbers)')
    """
    shown = ", ".join(f"{value:.4g}" for value in values[:4])
    return shown if len(values) <= 4 else f"{shown}, … ({len(values)} numbers)"


def label_counts(data: FederatedData) -> npt.NDArray[np.int64] | None:
    """Return training samples by client and class, (clients, classes); None where numbers are predicted."""
    if data.target is not None:
        return None
    parts = data.drift[-1].train_parts if data.drift else data.train_parts
    counts = np.zeros((len(parts), data.classes), np.int64)
    for first in range(0, len(parts), CLIENTS_AT_ONCE):
        some = ClientParts.of(parts[first : first + CLIENTS_AT_ONCE])
        cells = some.owners * data.classes + data.train.y[some.together]
        counted = np.bincount(cells, minlength=len(some) * data.classes)
        counts[first : first + len(some)] = counted.reshape(len(some), -1)
    later = [there for more in data.later if (there := label_counts(more)) is not None]
    return np.concatenate([counts, *later])


def pools(config: Config, clients: int) -> PlotArrays:
    """Return how the pools of a run's curricula grow."""
    arrays: PlotArrays = {}
    curriculum, sampler, rounds = config.curriculum.of_samples, config.curriculum.sampler, config.training.rounds
    if curriculum is not None:
        samples = 10_000
        sizes = [pool_size(curriculum, step, STEPS - 1, samples, 1) for step in range(STEPS)]
        arrays["sample_pool"] = np.array(sizes, np.float64) / samples
    if isinstance(sampler, ClientCurriculum):
        arrays["client_pool"] = np.array([sampler.size(r, rounds, clients) for r in range(1, rounds + 1)], np.int64)
    return arrays
