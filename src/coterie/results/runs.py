"""Runs as their folders hold them: also those that are old, unfinished or damaged, and what is missing then."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coterie.errors import CoterieError
from coterie.results.charts import Value, Values, value, values
from coterie.results.metrics import ACCURACY, MetricScale, scale, title
from coterie.results.names import Names
from coterie.results.protocols import CURVES, standard_errors
from coterie.results.run_folder import PlotArrays, RunFolder, SiteSummary
from coterie.results.statistics import group_count


@dataclass(frozen=True)
class StoredRun:
    """What a run folder holds; `name` tells it apart from the others on a page."""

    path: Path
    name: str
    config: dict[str, Any]
    config_text: str
    history: list[dict[str, Any]]
    """The rows of metrics.jsonl that can be read; accuracies that are no numbers are None."""
    result: dict[str, Any] | None
    """None: the run is not finished."""
    arrays: PlotArrays
    """What pictures need beside the numbers."""
    warnings: tuple[str, ...] = ()
    """What is missing or damaged, and what that means, a sentence each."""
    sites: dict[int, SiteSummary] = field(default_factory=dict)
    """The clients that are real machines."""

    def label(self, client: int) -> str:
        """Return the number of a client, and its name where it has one."""
        return f"{client} ({self.sites[client].name})" if client in self.sites else str(client)

    def setting(self, section: str, key: str, default: Any = None) -> Any:
        """Return a key of the configuration."""
        return self.config.get(section, {}).get(key, default)

    @property
    def algorithm(self) -> str:
        """Its method."""
        return str(self.setting("algorithm", "name", "?"))

    @property
    def metric(self) -> str:
        """What its accuracies are of, as people write it: accuracy, or the metric that was chosen."""
        return title(str(self.setting("evaluation", "metric", ACCURACY)))

    @property
    def scale(self) -> MetricScale:
        """How its accuracies are shown: in %, unless they are errors."""
        return scale(self.metric)

    def scaled(self, number: Any) -> Value:
        """Return one of them as it is shown."""
        return values([number], self.scale.factor)[0]

    @property
    def clients(self) -> int:
        """How many clients there are."""
        return int(self.setting("data", "clients", 0) or len(self.per_client("L")))

    @property
    def rounds(self) -> int:
        """How many rounds it has when it is finished."""
        return int(self.setting("training", "rounds", 0))

    def accuracy(self, protocol: str) -> Value:
        """Return an accuracy in %: of the result, or before that the latest of its protocol that was measured."""
        if self.result is not None:
            return self.scaled(self.result["accuracy"].get(protocol))
        measured = [row[protocol] for row in self.history if row.get(protocol) is not None]
        return self.scaled(measured[-1]) if measured else None

    def standard_error(self, protocol: str) -> Value:
        """Return the standard error of an accuracy, in percentage points, where it is an estimate."""
        return self.scaled(standard_errors(self.latest).get(protocol))

    @property
    def latest(self) -> dict[str, Any]:
        """The result, or before there is one the last row of the metrics."""
        return self.result if self.result is not None else self.history[-1] if self.history else {}

    def over_groups(self, protocol: str) -> Value:
        """Return the mean over true groups in %, of a finished run whose true groups are known."""
        return self.scaled(((self.result or {}).get("accuracy_group_mean") or {}).get(protocol))

    def unadapted(self, protocol: str) -> Value:
        """Return an accuracy in % without the step by which clients adapt models, where the method has one."""
        return self.scaled(((self.result or {}).get("unadapted") or {}).get(protocol))

    def by_true_group(self) -> dict[str, Values]:
        """Return accuracies in % by protocol, each of all true groups; nothing where these are not known."""
        measured = (self.result or {}).get("accuracy_by_true_group") or {}
        return {protocol: values(of_groups, self.scale.factor) for protocol, of_groups in measured.items()}

    def per_client(self, protocol: str) -> Values:
        """Return the accuracies of clients in %; those who came after training are not among them."""
        measured = [] if self.result is None else self.result["per_client"].get(protocol) or []
        return values(measured, self.scale.factor)

    def curve(self, key: str, factor: float = 1) -> Values:
        """Return a column of the metrics."""
        return values((row.get(key) for row in self.history), factor)

    def errors(self, protocol: str) -> Values:
        """Return the standard errors of an accuracy over the rounds, as fractions; none where all are exact."""
        errors = values(standard_errors(row).get(protocol) for row in self.history)
        return errors if any(error is not None for error in errors) else ()

    def has(self, key: str) -> bool:
        """Return whether a column of the metrics has any number."""
        return any(number is not None for number in self.curve(key))

    @property
    def megabytes(self) -> Values:
        """What was sent both ways in training until each row of the metrics."""
        pairs = zip(self.curve("up_bytes"), self.curve("down_bytes"), strict=True)
        return tuple(None if up is None or down is None else (up + down) / 1e6 for up, down in pairs)

    @property
    def events(self) -> list[dict[str, Any]]:
        """What went wrong without stopping it, an entry per kind."""
        return [] if self.result is None else list(self.result["events"])

    @property
    def event_count(self) -> int | None:
        """How often something went wrong; None before it is finished."""
        return None if self.result is None else sum(event["count"] for event in self.events)

    @property
    def ari(self) -> Value:
        """The agreement of its groups with the true ones."""
        return value((self.result or {}).get("ari"))

    @property
    def group_count(self) -> int | None:
        """How many groups it found; None where it forms none."""
        return group_count(self.groups or None)

    @property
    def newcomers(self) -> dict[str, Any] | None:
        """Who came late, and how they fare."""
        return (self.result or {}).get("newcomers")

    @property
    def groups(self) -> list[int | None] | None:
        """The group of each client."""
        return None if self.result is None else self.result.get("groups")

    @property
    def names(self) -> Names:
        """What clients and classes are called."""
        return Names.in_result(self.result)

    @property
    def true_groups(self) -> list[int | None] | None:
        """The true group of each client, where it is known."""
        return None if self.result is None else self.result.get("true_groups")


def percent(fraction: Any) -> Value:
    """Return a fraction in %."""
    return values([fraction], 100)[0]


def read_runs(paths: Sequence[Path]) -> list[StoredRun]:
    """Read run folders; refuse one that is none, or whose configuration or result can't be read."""
    return [read_run(path, name) for path, name in zip(paths, _names(paths), strict=True)]


def read_run(path: Path, name: str | None = None) -> StoredRun:
    """Read a run folder."""
    folder = RunFolder.open(path)
    config, result = folder.shown_config(), folder.read_result()
    history, damaged = folder.read_metrics()
    arrays, missing = folder.read_arrays()
    sites, unknown = folder.read_sites()
    warnings = [text for text in (damaged, missing, unknown) if text]
    warnings += _unmeasured(history) + _unfinished(folder, config, history, result)
    return StoredRun(
        path=path,
        name=name or path.name,
        config=config,
        config_text=folder.config_text(),
        history=history,
        result=result,
        arrays=arrays,
        warnings=tuple(warnings),
        sites=sites,
    )


def _names(paths: Sequence[Path]) -> list[str]:
    """Return a name for each: its method, with as much of its path as tells it apart."""
    methods = []
    for path in paths:
        try:
            methods.append(str(RunFolder(path).shown_config()["algorithm"]["name"]))
        except (OSError, CoterieError, KeyError, TypeError):  # said properly when it is read
            methods.append(path.name)
    for place in (lambda path: path.name, str):
        names = [
            f"{method} ({place(path)})" if methods.count(method) > 1 else method
            for method, path in zip(methods, paths, strict=True)
        ]
        if len(set(names)) == len(names):
            break
    return names


def _unmeasured(history: Iterable[dict[str, Any]]) -> list[str]:
    """Turn accuracies that are no numbers into None, and say where."""
    unmeasured: dict[str, list[int]] = {}
    for row in history:
        for protocol in CURVES:
            number = row.get(protocol)
            if number is not None and (not isinstance(number, (int, float)) or value(number) is None):
                unmeasured.setdefault(protocol, []).append(row["round"])
                row[protocol] = None
    return [
        f"Accuracy {protocol} is no number in round{'s' * (len(rounds) > 1)} {', '.join(map(str, rounds[:8]))}"
        f"{' and later ones' * (len(rounds) > 8)}: it is shown as not measured."
        for protocol, rounds in unmeasured.items()
    ]


def _unfinished(
    folder: RunFolder, config: dict[str, Any], history: list[dict[str, Any]], result: dict[str, Any] | None
) -> list[str]:
    rounds, last = config.get("training", {}).get("rounds"), history[-1]["round"] if history else None
    if result is None:
        reached = "nothing was measured yet" if last is None else f"the last evaluation was in round {last} of {rounds}"
        how = "`flwr run` and its app" if folder.deployed else f"`coterie resume {folder.path}`"
        return [f"This run is not finished: {reached}. Go on with {how}."]
    if last is not None and last != rounds:
        return [f"metrics.jsonl ends with round {last}, but the run had {rounds}: curves are not complete."]
    return []
