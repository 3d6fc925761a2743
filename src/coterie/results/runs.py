"""Reading run folders for pages: also those that are old, unfinished or damaged, and saying what is missing."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.errors import CoterieError
from coterie.results.charts import Value, Values, value, values
from coterie.results.protocols import CURVES

NEEDED = {"accuracy": dict, "per_client": dict, "traffic": dict, "events": list}
"""What a result must have, and of which type."""


@dataclass(frozen=True)
class Site:
    """A client that is a real machine."""

    name: str
    samples: int
    """To train on, as it said when it last came."""


@dataclass(frozen=True)
class Run:
    """What a run folder holds; `name` tells it apart from the others on a page."""

    path: Path
    name: str
    config: dict[str, Any]
    config_text: str
    history: list[dict[str, Any]]
    """The rows of metrics.jsonl that can be read; accuracies that are no numbers are None."""
    result: dict[str, Any] | None
    """None: the run is not finished."""
    views: dict[str, npt.NDArray[Any]]
    problems: tuple[str, ...] = field(default=())
    """What is missing or damaged, and what that means, a sentence each."""
    sites: dict[int, Site] = field(default_factory=dict)
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
            return percent(self.result["accuracy"].get(protocol))
        known = [row[protocol] for row in self.history if row.get(protocol) is not None]
        return percent(known[-1]) if known else None

    def per_client(self, protocol: str) -> Values:
        """Return the accuracies of clients in %; those who came after training are not among them."""
        found = [] if self.result is None else self.result["per_client"].get(protocol) or []
        return values(found, 100)

    def curve(self, key: str, factor: float = 1) -> Values:
        """Return a column of the metrics."""
        return values((row.get(key) for row in self.history), factor)

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
        return len({group for group in self.groups if group is not None}) if self.groups else None

    @property
    def newcomers(self) -> dict[str, Any] | None:
        """Who came late, and how they fare."""
        return (self.result or {}).get("newcomers")

    @property
    def groups(self) -> list[int | None] | None:
        """The group of each client."""
        return None if self.result is None else self.result.get("groups")

    @property
    def true_groups(self) -> list[int] | None:
        """The true group of each client, where it is known."""
        return None if self.result is None else self.result.get("true_groups")


def percent(fraction: Any) -> Value:
    """Return a fraction in %."""
    return values([fraction], 100)[0]


def is_run(path: Path) -> bool:
    """Return whether a folder is that of a run."""
    return (path / "config.toml").is_file()


def read_runs(paths: Sequence[Path]) -> list[Run]:
    """Read run folders; refuse one that is none, or whose configuration or result can't be read."""
    return [read_run(path, name) for path, name in zip(paths, _names(paths), strict=True)]


def read_run(path: Path, name: str | None = None) -> Run:
    """Read one run folder."""
    if not is_run(path):
        raise CoterieError(f"'{path}' is not a run folder: it has no config.toml")
    text = _text(path / "config.toml")
    try:
        config = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CoterieError(f"'{path / 'config.toml'}' is damaged: {error}") from None
    result = _result(path / "result.json")
    history, problems = _history(path / "metrics.jsonl")
    views, more = _views(path / "views.safetensors")
    problems += more + _unmeasured(history) + _unfinished(path, config, history, result)
    return Run(path, name or path.name, config, text, history, result, views, tuple(problems), _sites(path))


def _sites(path: Path) -> dict[int, Site]:
    """Return the clients that are real machines; of a roll that can't be read, none."""
    try:
        roll = json.loads((path / "sites.json").read_text(encoding="utf-8"))
        entries = roll["sites"].items()
        return {int(entry["client"]): Site(str(name), int(entry.get("samples", 0))) for name, entry in entries}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _names(paths: Sequence[Path]) -> list[str]:
    """Return a name for each: its method, with as much of its path as tells it apart."""
    found = []
    for path in paths:
        try:
            algorithm = tomllib.loads((path / "config.toml").read_text(encoding="utf-8"))["algorithm"]["name"]
        except (OSError, ValueError, KeyError, TypeError):  # said properly when it is read
            algorithm = path.name
        found.append(str(algorithm))
    alike = [name for name in found if found.count(name) > 1]
    for told in (lambda path: path.name, str):
        names = [f"{name} ({told(path)})" if name in alike else name for name, path in zip(found, paths, strict=True)]
        if len(set(names)) == len(names):
            break
    return names


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise CoterieError(f"'{file}' is damaged: it is no text") from None


def _result(file: Path) -> dict[str, Any] | None:
    if not file.exists():
        return None
    try:
        found = json.loads(_text(file))
    except json.JSONDecodeError as error:
        raise CoterieError(f"'{file}' is damaged ({error}): remove it, then 'coterie resume {file.parent}'") from None
    for key, kind in NEEDED.items():
        if not isinstance(found, dict) or not isinstance(found.get(key), kind):
            raise CoterieError(f"'{file}' is not the result of a run: it has no '{key}'")
    return dict(found)


def _history(file: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """Read the rows up to the first that can't be right, and say so."""
    if not file.exists():
        return [], ["There is no metrics.jsonl: nothing is known of single rounds."]
    rows: list[dict[str, Any]] = []
    lines = file.read_bytes().splitlines()
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            right = isinstance(row, dict) and isinstance(row["round"], int)
            right = right and (not rows or row["round"] > rows[-1]["round"])
        except (ValueError, KeyError):
            right = False
        if not right:
            left = "it is left out" if number == len(lines) else "it and all after it are left out"
            return rows, [f"Line {number} of metrics.jsonl is cut short or damaged: {left}."]
        rows.append(row)
    return rows, []


def _unmeasured(history: Iterable[dict[str, Any]]) -> list[str]:
    """Turn accuracies that are no numbers into None, and say where."""
    found: dict[str, list[int]] = {}
    for row in history:
        for protocol in CURVES:
            number = row.get(protocol)
            if number is not None and (not isinstance(number, (int, float)) or value(number) is None):
                found.setdefault(protocol, []).append(row["round"])
                row[protocol] = None
    return [
        f"Accuracy {protocol} is no number in round{'s' * (len(rounds) > 1)} {', '.join(map(str, rounds[:8]))}"
        f"{' and later ones' * (len(rounds) > 8)}: it is shown as not measured."
        for protocol, rounds in found.items()
    ]


def _unfinished(
    path: Path, config: dict[str, Any], history: list[dict[str, Any]], result: dict[str, Any] | None
) -> list[str]:
    rounds, last = config.get("training", {}).get("rounds"), history[-1]["round"] if history else None
    if result is None:
        reached = "nothing was measured yet" if last is None else f"the last evaluation was in round {last} of {rounds}"
        how = "`flwr run` and its app" if (path / "sites.json").exists() else f"`coterie resume {path}`"
        return [f"This run is not finished: {reached}. Go on with {how}."]
    if last is not None and last != rounds:
        return [f"metrics.jsonl ends with round {last}, but the run had {rounds}: curves are not complete."]
    return []


def _views(file: Path) -> tuple[dict[str, npt.NDArray[Any]], list[str]]:
    if not file.exists():
        return {}, ["There is no views.safetensors (older versions wrote none): labels and proximities are not shown."]
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return {name: np.asarray(array) for name, array in load(file.read_bytes()).items()}, []
    except SafetensorError as error:
        return {}, [f"views.safetensors is damaged ({error}): labels and proximities are not shown."]
