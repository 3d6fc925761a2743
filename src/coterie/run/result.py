"""What a run came to; the fields are those of ``result.json``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from coterie.arguments import checked, in_keywords
from coterie.errors import CoterieError, counted, listed
from coterie.results.events import divergence
from coterie.results.formats import data_title
from coterie.results.names import Names
from coterie.results.protocols import accuracies_text
from coterie.results.run_folder import RunFolder
from coterie.results.statistics import group_count

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame
    from torch import nn

    from coterie.run.trained_models import TrainedModel, TrainedRun

NOT_IN_FILE = ("history", "folder", "kept")


@dataclass(frozen=True, repr=False)
class Result:
    """What a run came to.

    Accuracies are fractions, by protocol (`coterie.results.protocols`); None where it is not defined.

    Examples:
        >>> import coterie
        >>> result = coterie.run(algorithm="pacfl", dataset="digits-rotated", clients=8, rounds=2, epochs=1)
        >>> result
        Result(pacfl on digits-rotated, 8 clients, 2 rounds, seed 0: L ... %, C ... %, + ... %, 4 groups, ARI 1.00)
        >>> result.model(group=0).training
        False
    """

    algorithm: str
    data: str
    partition: str | None
    network: str
    """The network's name; ``model`` in ``result.json``."""
    seed: int
    rounds: int
    accuracy: dict[str, float | None]
    per_client: dict[str, list[float | None]]
    groups: list[int | None] | None
    true_groups: list[int | None] | None
    ari: float | None
    grouping: dict[str, Any] | None
    details: dict[str, Any] | None
    """What only some methods have to tell."""
    memberships: list[Any] | None
    newcomers: dict[str, Any] | None
    traffic: dict[str, Any]
    targets: list[dict[str, Any]]
    seconds: float
    events: list[dict[str, Any]]
    trainer: str
    engine: str
    versions: dict[str, str]
    validation: float = 0.0
    """The share of the training samples that took the place of the test samples; 0: tested on test samples."""
    unadapted: dict[str, float | None] | None = None
    """L and C without the adaptation, where a method adapts models before clients use them (Per-FedAvg)."""
    accuracy_by_true_group: dict[str, list[float | None]] | None = None
    """By protocol, the mean over the clients of each true group; ``L_max`` and ``C_max`` are of its best round."""
    accuracy_group_mean: dict[str, float | None] | None = None
    """The mean of these over the groups, in which small groups count as much as large ones."""
    measured: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By protocol on how many ``clients`` it stands, ``of`` how many there are, with its ``standard_error``.

    That is None where the number is exact: of all clients and all their test samples.
    """
    measured_by_true_group: dict[str, list[dict[str, Any]]] | None = None
    """The same of each true group, where numbers are not exact."""
    privacy: list[dict[str, Any]] | None = None
    """How private what clients told is: ``unit``, ``epsilon``, ``delta``, ``mechanism``, what is ``not_covered``."""
    client_names: list[str] | None = None
    """What clients are called, where the data name them."""
    class_names: list[str] | None = None
    """What labels stand for, where the data say it."""
    metric: str = "accuracy"
    """What all numbers called accuracy are: accuracy itself, or the metric that was chosen."""
    history: list[dict[str, Any]] = field(default_factory=list)
    """The rows of ``metrics.jsonl``."""
    folder: Path | None = None
    """The run folder, if the run has one."""
    kept: TrainedRun | None = field(default=None, compare=False)
    """What was trained, of a run without a folder."""

    def __repr__(self) -> str:
        return f"Result({self._title}, {counted(self.rounds, 'round')}, seed {self.seed}: {self._numbers})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "kept": None}  # models are not copied to other processes

    @property
    def _title(self) -> str:
        clients = counted(len(self.per_client.get("L") or []), "client")
        return f"{self.algorithm} on {data_title(self.data)}, {clients}"

    @property
    def _numbers(self) -> str:
        groups = group_count(self.groups)
        numbers = [
            accuracies_text({**self.accuracy, "metric": self.metric, "measured": self.measured}, ", ", 1)
            or "nothing measured"
        ]
        numbers += [] if groups is None else [counted(groups, "group")]
        return ", ".join(numbers + ([] if self.ari is None else [f"ARI {self.ari:.2f}"]))

    @property
    def divergence(self) -> str | None:
        """A sentence where training diverged at most clients, so that no accuracy says anything about the method."""
        return divergence(self.to_json())

    def to_json(self) -> dict[str, Any]:
        """Return the fields of ``result.json``."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in NOT_IN_FILE}
        return {"model" if name == "network" else name: value for name, value in values.items()}

    @classmethod
    @checked
    def load(cls, folder: str | Path) -> Result:
        """Read the result of a finished run."""
        run = RunFolder.open(Path(folder))
        content = run.read_result()
        if content is None:
            raise CoterieError(f"'{folder}' is not finished: go on with 'coterie resume {folder}'")
        try:
            network = content.pop("model")
            return cls(**content, network=network, history=run.read_metrics()[0], folder=run.path)
        except (TypeError, KeyError) as error:
            raise CoterieError(f"'{run.result_file}' is damaged: {error}") from None

    @checked
    def report(self, picture: str | Path | None = None) -> str:
        """Draw accuracy over rounds, into the run folder or where `picture` says, and return the table as text."""
        from coterie.report.figures import accuracy_plot
        from coterie.report.tables import result_table

        where = Path(picture) if picture else RunFolder(self.folder).picture if self.folder else None
        table = result_table([self.to_json()])
        if where is not None:
            accuracy_plot(
                {self.algorithm: self.history}, f"{data_title(self.data)}, seed {self.seed}", where, self.metric
            )
            table += f"\nPicture: {where}\n"
        return table

    @checked
    def plot(self, what: Literal["rounds", "clients"] = "rounds", ax: Axes | None = None) -> Axes:
        """Draw accuracy over rounds, or of every client by group, with matplotlib.

        Args:
            what: ``"rounds"`` or ``"clients"``.
            ax: The axes to draw on; by default those of a new figure, which a notebook shows.

        Returns:
            The axes; ``result.plot().figure.savefig("accuracy.pdf")`` writes the picture.
        """
        from coterie.report.figures import accuracy_chart
        from coterie.report.notebook import clients_chart, draw

        _check_what(what, ("rounds", "clients"))
        title = f"{self._title}, seed {self.seed}"
        if what == "clients":
            return draw(clients_chart(self.to_json(), title), ax)
        return draw(accuracy_chart({self.algorithm: self.history}, title, self.metric), ax)

    @checked
    def to_frame(self, of: Literal["rounds", "clients"] = "rounds") -> DataFrame:
        """Return a pandas data frame: a row for each evaluated round, or for each client.

        Args:
            of: ``"rounds"``: accuracies, loss and bytes so far; ``"clients"``: accuracies at the end, and groups.
        """
        from coterie.report.notebook import frame

        _check_what(of, ("rounds", "clients"))
        if of == "rounds":
            return frame(self.history, "round")
        columns: dict[str, Sequence[Any] | None] = {**self.per_client}
        columns |= {"group": self.groups, "true_group": self.true_groups}
        columns = {"name": self.client_names, **columns}
        known = {name: column for name, column in columns.items() if column}
        clients = range(max(map(len, known.values()), default=0))
        return frame([{"client": c, **{name: known[name][c] for name in known}} for c in clients], "client")

    def _repr_html_(self) -> str:
        from coterie.report.notebook import result_html

        return result_html(self.to_json())

    @in_keywords
    def model(
        self,
        *,
        group: int | None = None,
        client: int | str | None = None,
        plugins: Sequence[str] = (),
        trust: bool = False,
    ) -> nn.Module:
        """Return a model that the run has trained, as a PyTorch module in evaluation mode.

        It takes inputs as they are in the data: normalisation is its first step, and a client's label offset, where
        the method serves them, its last. Its attribute `network` is the network itself, if inputs are normalised.

        Args:
            group: The model of this group.
            client: This client's own model, by its number or name, if it has trained, else what it would receive
                (`kindred`: the mean of both that it uses). Without either, the model that all share, if there is one.
            plugins: Of the plugins that the run folder names, those that are imported.
            trust: Whether all of them are.
        """
        from coterie.run.export import to_module

        return to_module(self.trained_model(client, group, plugins, trust))

    def trained_model(
        self, client: int | str | None, group: int | None, plugins: Sequence[str] = (), trust: bool = False
    ) -> TrainedModel:
        """Return a model with what is known of it."""
        from coterie.run.plugins import Permission
        from coterie.run.trained_models import find_model, model_in

        if self.folder is not None:
            return find_model(self.folder, client, group, Permission(listed(plugins), trust))
        if self.kept is None:
            raise CoterieError("this result has no models with it: give the run a folder, coterie.run(out=...)")
        return model_in(self.kept, Names(self.client_names or ()).client_number(client), group)


def _check_what(given: str, known: Sequence[str]) -> None:
    if given not in known:
        raise CoterieError(f"there is no '{given}': say {' or '.join(map(repr, known))}")
