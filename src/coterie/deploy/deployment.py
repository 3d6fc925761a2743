"""A federation of real machines: what all agree on, what a site brings, and what the server does.

``federation.toml`` travels with the app to all sites; ``site.toml`` stays where the data are.
"""

from __future__ import annotations

import importlib
import importlib.util
import os.path
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field, ValidationError, model_validator

from coterie import data as sources
from coterie.client import LocalData
from coterie.data import Dataset, FederatedData, Normalisation, Samples
from coterie.engine.flower.site_registry import NAME
from coterie.errors import CoterieError, suggestion
from coterie.messages import ModelSpec
from coterie.models import initial
from coterie.results.run_folder import RunFolder
from coterie.run.building import with_network
from coterie.run.config import Config, ConfigSection, PartitionSection
from coterie.run.plugins import import_plugins
from coterie.run.progress import Progress
from coterie.run.toml import read_toml
from coterie.run.validation import make_config
from coterie.training import Trainer, choose_trainer

if TYPE_CHECKING:
    from coterie.engine.flower.site import DeployedSite
    from coterie.federation import Engine

FEDERATION, SITE = "federation.toml", "site.toml"
FOREIGN = ("data", "partition", "faults", "curriculum")
"""Sections of a simulation that mean nothing where sites bring their own data."""


class SamplesSection(ConfigSection):
    """What one sample is, at all sites alike."""

    shape: list[int] = Field(min_length=1, max_length=3)
    dtype: Literal["uint8", "float32"]
    classes: int = Field(ge=2)
    class_names: list[str] | None = None
    scale: float = Field(1.0, gt=0)
    mean: list[float] = Field([0.0])
    std: list[float] = Field([1.0])

    @model_validator(mode="after")
    def _agree(self) -> SamplesSection:
        if any(size < 1 for size in self.shape):
            raise ValueError("shape has a size below 1")
        for name, values in (("mean", self.mean), ("std", self.std)):
            if len(values) not in (1, self.shape[0]):
                raise ValueError(f"{name} has {len(values)} numbers: give one, or {self.shape[0]}")
        if any(value <= 0 for value in self.std):
            raise ValueError("std must be positive")
        names = self.class_names
        if names is not None and len(names) != self.classes:
            raise ValueError(f"class_names has {len(names)} names, but there are {self.classes} classes")
        if names is not None and len({*names} - {""}) < len(names):
            raise ValueError("class_names has a name twice, or an empty one")
        return self

    @property
    def normalisation(self) -> Normalisation:
        """From raw samples to what networks see."""
        return Normalisation(self.scale, tuple(self.mean), tuple(self.std))


class ServerSection(ConfigSection):
    """What only the server needs."""

    name: str = Field("federation", min_length=1)
    min_clients: int = Field(2, ge=1)
    data: str | None = None

    @model_validator(mode="after")
    def _agree(self) -> ServerSection:
        if self.data is not None and not os.path.isabs(os.path.expanduser(self.data)):
            raise ValueError(
                f"data '{self.data}': give an absolute path, or one from ~, since Flower chooses the working folder"
            )
        return self


class SiteSection(ConfigSection):
    """What a site brings."""

    name: str
    state: str
    data: str | None = None
    options: dict[str, Any] = Field({})
    hook: str | None = None
    test_share: float = Field(0.2, gt=0, lt=1)
    trainer: Literal["auto", "native", "torch"] = "auto"

    @model_validator(mode="after")
    def _agree(self) -> SiteSection:
        if not NAME.fullmatch(self.name):
            raise ValueError(
                f"name '{self.name}': use at most 64 letters, digits, dots, - and _, the first a letter or digit"
            )
        if not self.state:
            raise ValueError("state is empty: name a folder")
        if (self.data is None) == (self.hook is None):
            raise ValueError("give the data as 'data' (a file or folder) or as 'hook' (file.py:function): one of them")
        if self.hook is not None and self.options:
            raise ValueError("options are for files and folders: leave them out beside a hook")
        return self


@dataclass(frozen=True)
class Terms:
    """What all sites of a federation agree on."""

    config: Config
    samples: SamplesSection
    server: ServerSection

    @property
    def spec(self) -> ModelSpec:
        """The network."""
        name, shape = self.config.model.name, tuple(self.samples.shape)
        return ModelSpec(str(name), shape, self.samples.classes, self.config.model.options)


def read_terms(folder: Path) -> Terms:
    """Read what all sites agree on, from the folder of an app."""
    path = folder / FEDERATION
    tables = read_toml(path)
    for section in FOREIGN:
        if section in tables:
            raise CoterieError(f"[{section}] is for simulations: leave it out (in {path})")
    own = {"samples": SamplesSection, "server": ServerSection}
    samples, server = (_section(kind, tables.pop(name, {}), f"[{name}] of {path}") for name, kind in own.items())
    tables.setdefault("engine", {}).setdefault("name", "flower")
    run = tables.setdefault("run", {})
    if isinstance(run.get("plugins"), list):  # files of the app, wherever Flower has put it
        run["plugins"] = [str(folder / p) if str(p).endswith(".py") else p for p in run["plugins"]]
    config = make_config(tables, str(path))
    if config.engine.name != "flower" or config.engine.address is not None:
        raise CoterieError(f"[engine] name and address are for simulations: leave them out (in {path})")
    config = with_network(config, tuple(samples.shape))
    config.data.name, config.partition = server.name, PartitionSection()  # nobody divides what sites bring
    return Terms(config, samples, server)


def check_terms(terms: Terms) -> None:
    """Refuse a federation that can't run, before anybody waits: its network, its method, or what the server lacks."""
    from coterie.run.building import check_method

    initial(terms.spec, terms.config.run.seed)
    method = check_method(terms.config, terms.spec)
    name, wanted = terms.config.algorithm.name, getattr(method, "server_data", None)
    if wanted == "test":
        raise CoterieError(
            f"'{name}' with server_data = \"test\" compares models on test samples, which the server has in "
            "simulations only: leave it out of [algorithm]"
        )
    if wanted == "reserved" and terms.server.data is None:
        raise CoterieError(
            f"'{name}' compares models on samples of the server's own: name them as data in [server] of {FEDERATION}, "
            'or write server_data = "noise" in [algorithm]'
        )


def read_site(path: Path | None, given: Mapping[str, Any] | None = None) -> SiteSection:
    """Read what a site brings: from its file, over which the node's configuration is laid; paths become absolute."""
    tables = {} if path is None else read_toml(path)
    place = Path.cwd() if path is None else path.absolute().parent
    known = SiteSection.model_fields
    tables |= {key: value for key, value in (given or {}).items() if key in known}
    source = "the node's configuration" if path is None else str(path)
    site: SiteSection = _section(SiteSection, tables, source)
    state = place / Path(site.state).expanduser()
    if any(folder.exists() and not folder.is_dir() for folder in (state, *state.parents)):
        raise CoterieError(f"the state folder '{state}' can't be made: there is a file in its place (in {source})")
    site.state = str(state)
    if site.data is not None and (place / Path(site.data).expanduser()).exists():
        site.data = str(place / Path(site.data).expanduser())
    if site.hook is not None and site.hook.rpartition(":")[0].endswith(".py"):
        site.hook = str(place / Path(site.hook).expanduser())
    return site


def _section(kind: type[Any], table: Any, place: str) -> Any:
    try:
        return kind.model_validate(table)
    except ValidationError as error:
        wrong = error.errors()[0]
        key = ".".join(map(str, wrong["loc"]))
        if wrong["type"] == "extra_forbidden":
            raise CoterieError(f"there is no key '{key}': {suggestion(key, kind.model_fields)} (in {place})") from None
        if wrong["type"] == "missing":
            raise CoterieError(f"'{key}' is missing (in {place})") from None
        message = wrong["msg"].removeprefix("Value error, ").removeprefix("Input ")
        raise CoterieError(f"{key + ': ' if key else ''}{message} (in {place})") from None


def site_data(site: SiteSection, terms: Terms) -> LocalData:
    """Read the samples of a site; refuse those that do not fit the federation."""
    from coterie.engine.flower.site import local_data

    wanted, whose = terms.samples, f"the data of '{site.name}'"
    if site.hook is not None:
        dataset = _hooked(site.hook, site.name)
    else:
        dataset = _read(Path(str(site.data)), wanted, whose, site.options)
    if not isinstance(dataset, Dataset):
        raise CoterieError(f"the hook '{site.hook}' returned a {type(dataset).__name__}: return a coterie.data.Dataset")
    train = _fitting(dataset.train, wanted, whose)
    test = None if dataset.test is None else _fitting(dataset.test, wanted, whose)
    sized = Dataset(dataset.name, train, test, wanted.classes)
    return local_data(sized, wanted.normalisation, site.test_share, site.name)


def _read(path: Path, wanted: SamplesSection, whose: str, options: Mapping[str, Any] | None = None) -> Dataset:
    """Read somebody's share of the classes that all agree on."""
    dataset = sources.read_share(path, wanted.classes, wanted.class_names, options)
    if not isinstance(dataset.normalisation, Normalisation | None):
        raise CoterieError(f"{whose} are text, which only simulations can use: bring vectors or images")
    return dataset


def _fitting(part: Any, wanted: SamplesSection, whose: str) -> Samples:
    """Return samples as trainers take them; refuse those that are not what the federation has agreed on."""
    if wrong := _unlike_samples(part):
        raise CoterieError(f"{whose}: {wrong}")
    if list(part.x.shape[1:]) != wanted.shape or str(part.x.dtype) != wanted.dtype:
        found = f"{part.x.dtype} samples of shape {list(part.x.shape[1:])}"
        raise CoterieError(f"{whose} are {found}, the federation has {wanted.dtype} ones of {wanted.shape}")
    if len(part) and not 0 <= int(part.y.min()) <= int(part.y.max()) < wanted.classes:
        found = f"labels {int(part.y.min())} to {int(part.y.max())}"
        raise CoterieError(f"{whose} have {found}, the federation has 0 to {wanted.classes - 1}")
    if part.x.dtype.kind == "f" and not np.isfinite(part.x).all():
        raise CoterieError(f"{whose} hold a NaN or an infinity")
    return Samples(part.x, part.y.astype(np.int64))


def _unlike_samples(part: Any) -> str | None:
    """Say what keeps something, which may come from anybody's function, from being samples."""
    if not isinstance(part, Samples):
        return f"train and test must be coterie.data.Samples, not {type(part).__name__}"
    if not isinstance(part.x, np.ndarray) or not isinstance(part.y, np.ndarray):
        return "samples and labels must be NumPy arrays"
    if part.y.dtype.kind not in "iu" or part.y.ndim != 1:
        return f"labels must be integers in one row, not {part.y.dtype} of shape {list(part.y.shape)}"
    return None if len(part.x) == len(part.y) else f"{len(part.x)} samples, but {len(part.y)} labels"


def _hooked(hook: str, name: str) -> Any:
    """Call a site's own function, ``file.py:function`` or ``module:function``, with the site's name."""
    place, colon, function = hook.rpartition(":")
    if not colon:
        raise CoterieError(f"hook '{hook}' should read file.py:function or module:function")
    try:
        if place.endswith(".py"):
            spec = importlib.util.spec_from_file_location("coterie_site_hook", place)
            if spec is None or spec.loader is None:
                raise FileNotFoundError(place)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        else:
            module = importlib.import_module(place)
        return getattr(module, function)(name)
    except CoterieError:
        raise
    except (Exception, SystemExit) as error:
        raise CoterieError(f"hook '{hook}' failed: {type(error).__name__}: {error}") from error


def make_site(terms: Terms, site: SiteSection) -> DeployedSite:
    """Return what answers at a site."""
    from coterie.engine.flower.site import DeployedSite

    def trainer() -> Trainer:
        import_plugins(terms.config.run.plugins)
        return choose_trainer(site.trainer, terms.spec)

    return DeployedSite(site.name, Path(site.state), terms.spec, lambda: site_data(site, terms), trainer)


def client_app(file: str) -> Any:
    """Make the Flower app of the sites; `file` is the one beside ``federation.toml`` (``__file__``)."""
    from coterie.engine.flower import require

    require()
    from coterie.engine.flower.app import client_app as make
    from coterie.engine.flower.site import error_type_only

    folder = Path(file).absolute().parent

    def here(node: Mapping[str, Any]) -> DeployedSite:
        given = dict(node)
        path = given.pop("site", None)
        return make_site(read_terms(folder), read_site(None if path is None else Path(str(path)), given))

    return make(here, error_type_only)


def server_app(file: str) -> Any:
    """Make the Flower app of the server; `file` is the one beside ``federation.toml`` (``__file__``)."""
    from coterie.engine.flower import require

    require()
    from coterie.engine.flower.app import server_app as make

    folder = Path(file).absolute().parent
    return make(lambda grid: serve(grid, read_terms(folder)))


def serve(grid: Any, terms: Terms) -> None:
    """Run a federation over a grid of nodes: from the beginning, or from where its run folder says it was."""
    from coterie.engine.flower.deployment import FlowerDeployment
    from coterie.engine.flower.site_registry import SiteRegistry
    from coterie.run.runner import run_with

    config, progress = terms.config, Told()
    check_terms(terms)
    choose_trainer(config.engine.trainer, terms.spec)
    agreed = terms.samples.model_dump()
    if config.run.out is not None and (begun := RunFolder(Path(config.run.out))).deployed:
        SiteRegistry.open(begun.sites_file, agreed)  # refuses other samples, also where the run is finished

    def engine(folder: RunFolder) -> AbstractContextManager[Engine]:
        roll = SiteRegistry.open(folder.sites_file, agreed)
        sites = FlowerDeployment(grid, roll, min_clients=terms.server.min_clients)
        sites.wait(progress.phase)
        return nullcontext(sites)

    result = run_with(config, server_data(terms), engine, progress)
    for event in result.events:
        progress.phase(f"{event['kind']}: {event['count']}, for instance {event['example']}")
    names = {"L": "L", "C": "C", "G": "G", "plus": "+"}
    scores = [f"{name} {result.accuracy[key]:.2%}" for key, name in names.items() if result.accuracy[key] is not None]
    groups = "" if result.groups is None else f"; groups of sites 0, 1, …: {result.groups}"
    progress.phase(f"done: accuracy {', '.join(scores)}{groups}; run folder {result.folder}")


def server_data(terms: Terms) -> FederatedData:
    """Return the data as the server sees them: no client's, and the samples of its own where it has some."""
    wanted = terms.samples
    none = Samples(np.zeros((0, *wanted.shape), wanted.dtype), np.zeros(0, np.int64))
    own, whose = none, "the server's samples"
    if terms.server.data is not None:
        own = _fitting(_read(Path(terms.server.data).expanduser(), wanted, whose).train, wanted, whose)
    return FederatedData(terms.server.name, wanted.classes, none, none, [], [], False, own, wanted.normalisation)


class Told(Progress):
    """Prints a line for what happens, which Flower keeps in the log of the run."""

    def begin(self, title: str, rounds: int, done: int) -> None:
        """Say what runs."""
        self.phase(f"{title}; {done} of {rounds} rounds are done")

    def phase(self, text: str) -> None:
        """Say it."""
        print(f"coterie: {text}", flush=True)

    def round(self, round: int, row: Mapping[str, Any] | None) -> None:
        """Say that a round is over, and how well it went."""
        scores = {} if row is None else {key: row[key] for key in ("L", "C", "G") if row[key] is not None}
        self.phase(f"round {round} is done" + "".join(f"  {key} {value:.4f}" for key, value in scores.items()))
