"""Opening what a run has trained, and finding a model in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from coterie.algorithms import ALGORITHMS
from coterie.client import StateFiles, states_in
from coterie.data import Normalisation
from coterie.data.tables.encoding import TableEncoding
from coterie.errors import CoterieError, one_line, whole_number
from coterie.federation import Algorithm
from coterie.federation.journal import Journal
from coterie.federation.membership import Membership
from coterie.federation.served_model import ServedModel, SharedLayers, single
from coterie.messages import ModelSpec, Params
from coterie.messages.params import with_own
from coterie.models import build, initial
from coterie.results.names import NO_NAMES, Names
from coterie.results.run_folder import RunFolder
from coterie.run.checkpoints import damage_named, read_checkpoint
from coterie.run.config import Config
from coterie.run.given import check_network
from coterie.run.parameter_files import with_start
from coterie.run.plugins import NOBODY, Permission, import_plugins
from coterie.training.job import Floats
from coterie.training.label_offsets import Counts, label_offset

MEMORY_FOR_OWN = 2**26
"""Bytes of clients' own models up to which a run without a folder keeps them with its result."""
NOWHERE = RunFolder(Path("(in memory)"))
"""The folder of a run that was not written: nothing is there."""


@dataclass(frozen=True)
class TrainedRun:
    """A run as its last checkpoint left it; the data set itself need not be there any more."""

    folder: RunFolder
    config: Config
    algorithm: Algorithm
    state: Mapping[str, Any]
    """The checkpoint."""
    journal: Journal

    @classmethod
    def open(cls, path: Path, permission: Permission = NOBODY) -> TrainedRun:
        """Open a run folder, finished or not; of the plugins that it names only what is permitted is imported."""
        folder = RunFolder.open(path)
        if not folder.checkpoint.exists():
            raise CoterieError(f"'{path}' has no checkpoint yet: run it first with 'coterie resume {path}'")
        state, config = read_checkpoint(folder)
        config = config.changed(run={"plugins": permission.granted(config.run.plugins, folder.checkpoint)})
        import_plugins(config.run.plugins)
        check_network(config.model.model_dump(), folder)
        algorithm: Algorithm = ALGORITHMS[config.algorithm.name](**config.algorithm.options)
        journal = Journal(folder.journal)
        run = cls(folder, config, algorithm, state, journal)
        with damage_named(folder.checkpoint):
            algorithm.load(state["algorithm"])
            journal.restore(state["journal"])
            _ = run.shapes, run.clients, run.normalisation, run.encoding
        return run

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the network's parameters; they take no memory, whatever the checkpoint says."""
        import torch

        with torch.device("meta"):
            return {name: tuple(value.shape) for name, value in build(self.spec).state_dict().items()}

    @property
    def spec(self) -> ModelSpec:
        """The network."""
        spec: ModelSpec = self.state["spec"]
        return spec

    @property
    def round(self) -> int:
        """The last round."""
        return int(self.state["round"])

    @property
    def clients(self) -> int:
        """How many clients there are."""
        admitted = Membership.saved_in(self.state["federation"]).admitted
        return max(int(self.config.data.clients or 0), max(admitted, default=-1) + 1)

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of the classes, in the order of their numbers; none where they have none."""
        names = self.state.get("class_names", ())  # runs of earlier versions do not say
        right = isinstance(names, tuple) and all(isinstance(name, str) for name in names)
        return tuple(map(one_line, names)) if right and len(names) == self.spec.classes else ()

    @property
    def normalisation(self) -> Normalisation | None:
        """From raw inputs to what the network sees; None where it is not a formula."""
        numbers = self.state["normalise"]
        return None if numbers is None else Normalisation(**numbers)

    @property
    def encoding(self) -> TableEncoding | None:
        """How rows of a table become inputs; None where the run was not trained on one."""
        stored = self.state.get("table")
        return None if stored is None else TableEncoding.from_json(stored)

    @property
    def groups(self) -> Mapping[int, int]:
        """The group of each client that is in one."""
        return self.algorithm.groups() or {}

    @cached_property
    def _own_states(self) -> StateFiles:
        return states_in(self.folder.clients)

    def own_model(self, client: int) -> Params | None:
        """Return a client's own model, if it has trained."""
        if client not in self.journal.states:
            return None
        stamp = self.journal.states[client]
        self._own_states.go_on_from({client: stamp})
        model = self._own_states.load(client, before=stamp[0] + 1).get("model")
        return None if model is None else self.checked(model, f"the state of client {client}")

    def served(self, client: int) -> ServedModel | None:
        """Return what a client would receive."""
        with damage_named(self.folder.checkpoint):
            return self.algorithm.model_for(client)

    def received(self, client: int) -> Params | None:
        """Return the one model that a client would receive, if it is one."""
        model = single(self.served(client))
        return None if model is None else self.checked(model, "the checkpoint")

    def own_share(self, client: int) -> float:
        """Return what share its own model has in the mean that a client uses; 0 where it uses one of the two."""
        return self.algorithm.own_shares([client]).get(client, 0.0)

    def checked(self, model: Params, where: str) -> Params:
        """Return a model after checking that it is one of the run's network."""
        named = model if isinstance(model, Mapping) else {}
        found = {name: getattr(value, "shape", None) for name, value in named.items()}
        if odd := next((name for name in (*self.shapes, *found) if found.get(name) != self.shapes.get(name)), None):
            raise CoterieError(f"{where} in '{self.folder.path}' is damaged: its '{odd}' is not that of the network")
        return model

    def label_counts(self, client: int) -> Counts | None:
        """Return how many training samples of each label a simulated client had; None for a real site's."""
        if self.folder.deployed:
            return None
        counts = self.folder.read_arrays()[0].get("label_counts")
        if counts is None:
            return None
        fitting = counts.shape[1:] == (self.spec.classes,) and len(counts) >= self.clients
        if counts.dtype.kind not in "iu" or not fitting or (counts < 0).any():
            raise CoterieError(f"'{self.folder.path}' is damaged: its label counts are not those of its clients")
        return np.asarray(counts[client])

    def own_models(self) -> dict[int, Params]:
        """Return the own models of the clients that have trained."""
        clients = range(self.clients)
        return {client: model for client in clients if (model := self.own_model(client)) is not None}


@dataclass(frozen=True)
class KeptRun(TrainedRun):
    """A run that was not written: what it has trained, in memory, without what it was found with."""

    models: Mapping[int, ServedModel | None] = field(default_factory=dict)
    """What each client would receive."""
    members: Mapping[int, int] = field(default_factory=dict)
    """The groups."""
    own: Mapping[int, Params] | None = None
    """The clients' own models; None where they would take too much memory."""
    counts: Counts | None = None
    """Training samples by client and class."""
    shares: Mapping[int, float] = field(default_factory=dict)
    """What share their own models have in the means that clients use."""

    @property
    def groups(self) -> Mapping[int, int]:
        """The group of each client that is in one."""
        return self.members

    def served(self, client: int) -> ServedModel | None:
        """Return what a client would receive."""
        return self.models.get(client)

    def own_share(self, client: int) -> float:
        """Return what share its own model has in the mean that a client uses."""
        return self.shares.get(client, 0.0)

    def own_model(self, client: int) -> Params | None:
        """Return a client's own model, if it has trained."""
        if self.own is None:
            raise CoterieError(
                f"the clients' own models, over {MEMORY_FOR_OWN / 1e6:.0f} MB, were not kept: give the run a folder, "
                "coterie.run(out=...), or ask for a group's model"
            )
        return self.own.get(client)

    def label_counts(self, client: int) -> Counts | None:
        """Return how many training samples of each label a client had."""
        return None if self.counts is None else np.asarray(self.counts[client])


@dataclass(frozen=True)
class TrainedModel:
    """A model that a run has made."""

    params: Params
    whose: str
    run: TrainedRun
    label_offset: Floats | None = None
    """What its client adds to the logits, if the run serves label offsets."""
    client: int | None = None
    """Whose it is, if it is a client's."""
    group: int | None = None
    """Whose it is, if it is a group's."""

    @property
    def name(self) -> str:
        """Whose it is, as a file is called."""
        if self.client is not None:
            return f"client-{self.client}"
        return "model" if self.group is None else f"group-{self.group}"

    def served_to(self, client: int) -> TrainedModel:
        """Return it as this client uses it: with its label offset, if the run serves them."""
        kind = self.run.algorithm.served_offset
        if kind is None:
            return self
        if self.run.folder.deployed:
            return replace(self, whose=f"{self.whose} (without the label offset, which the site adds itself)")
        counts = self.run.label_counts(client)
        if counts is None:
            raise CoterieError(
                f"client {client} uses models with an offset for the labels that it has, but these are not known: "
                f"'{self.run.folder.arrays_file}' is missing or damaged; put back a copy"
            )
        return replace(self, whose=f"{self.whose} (with its label offset)", label_offset=label_offset(counts, kind))


def find_model(
    path: Path, client: int | str | None = None, group: int | None = None, permission: Permission = NOBODY
) -> TrainedModel:
    """Return a client's own model if it has trained, else what it would receive; or a group's; or that of all.

    A finished run knows clients also by the names that its data have for them.

    Where clients use a mean of their own model and what they receive, a client's is that.
    A client's has its label offset, if the run serves them; that of a group or of all has none.
    """
    run = TrainedRun.open(path, permission)
    names = Names.in_result(run.folder.read_result()) if isinstance(client, str) else NO_NAMES
    return model_in(run, names.client_number(client), group)


def model_in(run: TrainedRun, client: int | None = None, group: int | None = None) -> TrainedModel:
    """Return a model of a run, as `find_model` does."""
    client, group = whole_number(client, "client"), whole_number(group, "group")
    if client is not None and group is not None:
        raise CoterieError("a client and a group exclude each other: name one of them")
    if group is not None:
        return TrainedModel(_model_of_group(run, group), f"the model of group {group}", run, group=group)
    if client is None:
        return TrainedModel(_model_of_all(run), "the model of all clients", run)
    if not 0 <= client < run.clients:
        raise CoterieError(f"there is no client {client}: the run has clients 0 to {run.clients - 1}")
    return replace(_model_of_client(run, client), client=client).served_to(client)


def plugins_of(path: Path) -> list[str]:
    """Return the plugins that the checkpoint of a run names; none is imported."""
    return list(read_checkpoint(RunFolder.open(path))[1].run.plugins)


def _with_its_start(run: TrainedRun) -> ModelSpec:
    """Return the network of a run; where it was given parameters to start with, they are read again."""
    given = run.config.model.initial
    return run.spec if given is None else with_start(replace(run.spec, start=None), given, run.spec.start)


def _model_of_client(run: TrainedRun, client: int) -> TrainedModel:
    own_model, served, share = run.own_model(client), run.served(client), run.own_share(client)
    if own_model is not None and share and (received := run.received(client)) is not None:
        whose = f"the model that client {client} uses, {1 - share:g} of what it would receive and {share:g} of its own"
        return TrainedModel(with_own(received, own_model, share), whose, run)
    if own_model is not None:
        return TrainedModel(own_model, f"client {client}'s own model", run)
    if isinstance(served, SharedLayers):
        params = run.checked({**initial(_with_its_start(run), run.config.run.seed), **served.params}, "the checkpoint")
        return TrainedModel(params, f"the layers that client {client} would receive, over the start", run)
    received = run.received(client)
    if received is None:
        raise _no_common_model(run)
    return TrainedModel(received, f"the model that client {client} would receive", run)


def _model_of_group(run: TrainedRun, group: int) -> Params:
    groups = run.groups
    member = next((client for client, label in groups.items() if label == group), None)
    model = None if member is None else run.received(member)
    if model is None:
        labels = sorted(set(groups.values()))
        available = f"it has groups {', '.join(map(str, labels))}" if labels else "it has none"
        raise CoterieError(f"the run has no model of a group {group}: {available}")
    return model


def _model_of_all(run: TrainedRun) -> Params:
    clients = range(run.clients)
    models = [None if isinstance(run.served(c), SharedLayers) else run.received(c) for c in clients]
    first = models[0]
    if first is None or any(model is None for model in models):
        raise _no_common_model(run)
    if any(model is not first for model in models):
        example = f", or a group, --group {min(run.groups.values())}" if run.groups else ""
        raise CoterieError(f"this run has several models: name a client, for instance --client 0{example}")
    return first


def _no_common_model(run: TrainedRun) -> CoterieError:
    trained = run.own_models()
    hint = f"name a client that has trained, --client {min(trained)}" if trained else "and no client has trained"
    return CoterieError(f"the server has no single model: {hint}")
