"""The two files of a federation of real machines.

``federation.toml`` says what all sites agree on, and travels with the app; ``site.toml`` stays where the data are.
"""

from __future__ import annotations

import math
import os
import os.path
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from coterie.data import Normalisation
from coterie.engine.flower.identity import KEY
from coterie.engine.flower.site import MAX_FEDERATIONS
from coterie.engine.flower.site_registry import NAME
from coterie.errors import CoterieError, suggestion, what_is_wanted
from coterie.messages import ModelSpec
from coterie.models import initial
from coterie.results.formats import read_toml
from coterie.run.building import make_method, with_network
from coterie.run.config import Config, PartitionSection
from coterie.run.config_base import ConfigSection
from coterie.run.config_trust import ReleaseSection
from coterie.run.validation import make_config

FEDERATION, SITE = "federation.toml", "site.toml"
FOREIGN = ("data", "partition", "faults", "curriculum")
"""Sections of a simulation that mean nothing where sites bring their own data."""

PROTECTING: dict[str, dict[str, Any]] = {
    "privacy": {"min_samples": 10, "min_label_samples": 10},
    "aggregation": {"rule": "clipped", "max_samples": 1_000_000, "max_weight": 10.0},
    "run": {"durable": True},
}
"""How deployments protect where ``federation.toml`` does not say otherwise, by section; `app_folder` writes it, too."""


class SamplesSection(ConfigSection):
    """What one sample is, at all sites alike."""

    shape: list[int] = Field(min_length=1, max_length=3)
    dtype: Literal["uint8", "float32"]
    classes: int = Field(ge=2)
    class_names: list[str] | None = None
    scale: float = Field(1.0, gt=0)
    mean: list[float] | None = None
    std: list[float] | None = None
    """Of inputs, after scaling; None: sites measure theirs, and agree on what all use."""

    @model_validator(mode="after")
    def _agree(self) -> SamplesSection:
        if any(size < 1 for size in self.shape):
            raise ValueError("shape has a size below 1")
        if (self.mean is None) != (self.std is None):
            raise ValueError("give both mean and std, or neither: then sites measure them")
        for name, values in (("mean", self.mean), ("std", self.std)):
            if values is not None and len(values) not in (1, self.shape[0]):
                raise ValueError(f"{name} has {len(values)} numbers: give one, or {self.shape[0]}")
        if not all(math.isfinite(value) for value in (*(self.mean or ()), *(self.std or ()))):
            raise ValueError("mean and std must be finite numbers")
        if any(value <= 0 for value in self.std or ()):
            raise ValueError("std must be positive")
        names = self.class_names
        if names is not None and len(names) != self.classes:
            raise ValueError(f"class_names has {len(names)} names, but there are {self.classes} classes")
        if names is not None and len({*names} - {""}) < len(names):
            raise ValueError("class_names has a name twice, or an empty one")
        return self

    @property
    def normalisation(self) -> Normalisation:
        """From raw samples to what networks see, or to what is measured."""
        return Normalisation(self.scale, tuple(self.mean or (0.0,)), tuple(self.std or (1.0,)))

    @property
    def measured(self) -> bool:
        """Whether sites measure mean and deviation of their inputs, and agree on what all use."""
        return self.mean is None


class ServerSection(ConfigSection):
    """What only the server needs."""

    name: str = Field("federation", min_length=1)
    min_clients: int = Field(2, ge=1)
    data: str | None = None
    certificate: str | None = None

    @model_validator(mode="after")
    def _agree(self) -> ServerSection:
        for key, path in (("data", self.data), ("certificate", self.certificate)):
            if path is not None and not os.path.isabs(os.path.expanduser(path)):
                raise ValueError(
                    f"{key} '{path}': give an absolute path, or one from ~, since Flower chooses the working folder"
                )
        return self


class SiteSection(ReleaseSection):
    """What a site brings, and what it tells at most."""

    name: str
    state: str
    data: str | None = None
    options: dict[str, Any] = Field({})
    hook: str | None = None
    test_share: float = Field(0.2, gt=0, lt=1)
    trainer: Literal["auto", "native", "torch"] = "auto"
    device: str = "cpu"
    certificate: str | None = None
    policy: str | None = None
    max_federations: int = Field(MAX_FEDERATIONS, ge=1)
    peers: list[str] = Field([])

    @model_validator(mode="after")
    def _agree(self) -> SiteSection:
        if not NAME.fullmatch(self.name):
            raise ValueError(
                f"name '{self.name}': use at most 64 letters, digits, dots, - and _, the first a letter or digit"
            )
        if not self.state:
            raise ValueError("state is empty: name a folder")
        if odd := [identity for identity in self.peers if not KEY.fullmatch(identity)]:
            raise ValueError(f"peers has '{odd[0][:80]}': list what 'coterie deploy identity' prints at other sites")
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
        loss = self.config.training.other_loss
        return ModelSpec(str(name), shape, self.samples.classes, self.config.model.options, loss=loss)


def read_terms(folder: Path) -> Terms:
    """Read what all sites agree on, from the folder of an app."""
    path = folder / FEDERATION
    tables = read_toml(path)
    for section in FOREIGN:
        if section in tables:
            raise CoterieError(f"[{section}] is for simulations: leave it out (in {path})")
    own = {"samples": SamplesSection, "server": ServerSection}
    samples, server = (_section(kind, tables.pop(name, {}), f"[{name}] of {path}") for name, kind in own.items())
    secure = isinstance(tables.get("aggregation"), dict) and tables["aggregation"].get("secure") is True
    private = isinstance(tables.get("privacy"), dict) and tables["privacy"].get("dp_training") is not None
    for section, defaults in {"engine": {"name": "flower"}, **PROTECTING}.items():
        if not isinstance(tables.setdefault(section, {}), dict):
            raise CoterieError(f"'{section}' in {path} should be a table: write [{section}] and its keys below it")
        if section == "aggregation" and secure:
            defaults = {**defaults, "rule": "mean"}  # sites themselves clip, to secure_clip
        if section == "aggregation" and private:
            defaults = {}  # private training takes its place: all are cut, and count once
        tables[section] = {**defaults, **tables[section]}
    run = tables["run"]
    if isinstance(run.get("plugins"), list):  # files of the app, wherever Flower has put it
        run["plugins"] = [str(folder / p) if str(p).endswith(".py") else p for p in run["plugins"]]
    config = make_config(tables, str(path))
    if config.evaluation.predicts_numbers:
        raise CoterieError(
            f"[evaluation] metric = '{config.evaluation.metric}' is for regression, which simulations support and "
            f"deployed federations do not yet: sites would have to agree on mean and standard deviation (in {path})"
        )
    if config.engine.name != "flower" or config.engine.address is not None or config.engine.gpu_share is not None:
        raise CoterieError(f"[engine] name, address and gpu_share are for simulations: leave them out (in {path})")
    if config.newcomers.admit:
        raise CoterieError(f"[newcomers] admit is for simulations: sites bring their data themselves (in {path})")
    if config.model.initial is not None:
        raise CoterieError(
            f"[model] initial is for simulations: sites make the start of a network themselves, of its name (in {path})"
        )
    if config.privacy.limit is not None:
        raise CoterieError(f"[privacy] limit is each site's own: write limit into its {SITE} (in {path})")
    if config.privacy.dp_training is not None and config.aggregation.secure:
        raise CoterieError(
            "[privacy] dp_training counts on sums that are there, and at real sites a secure sum may lack too many, "
            f"which tells of one more or less: leave out secure (in {path})"
        )
    if config.privacy.dp_training is not None and samples.measured:
        raise CoterieError(
            "[privacy] dp_training makes models private, and mean and deviation of inputs, which sites measure and all "
            f"receive, would be exact: write mean and std into [samples] (in {path})"
        )
    if config.privacy.dp_sgd is not None and config.algorithm.name == "solo":
        raise CoterieError(
            f"[privacy] dp_sgd: sites that train alone tell nothing of it, so that nothing is to be private (in {path})"
        )
    config = with_network(config, tuple(samples.shape))
    config.data.name, config.partition = server.name, PartitionSection()  # nobody divides what sites bring
    return Terms(config, samples, server)


def check_terms(terms: Terms) -> None:
    """Refuse a federation that can't run, before anybody waits: its network, its method, or what the server lacks."""
    initial(terms.spec, terms.config.run.seed)
    method = make_method(terms.config)
    method.check(terms.spec, terms.config.curriculum.sampler)
    name, wanted = terms.config.algorithm.name, method.needs_server_data
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
    tables |= {key: value for key, value in (given or {}).items() if key in SiteSection.model_fields}
    source = "the node's configuration" if path is None else str(path)
    site: SiteSection = _section(SiteSection, tables, source)
    state = place / Path(site.state).expanduser()
    if any(_exists(folder) and not folder.is_dir() for folder in (state, *state.parents)):
        raise CoterieError(f"the state folder '{state}' can't be made: there is a file in its place (in {source})")
    site.state = str(state)
    if site.data is not None and _exists(place / Path(site.data).expanduser()):
        site.data = str(place / Path(site.data).expanduser())
    if site.certificate is not None:
        site.certificate = str(place / Path(site.certificate).expanduser())
    if site.hook is not None and site.hook.rpartition(":")[0].endswith(".py"):
        site.hook = str(place / Path(site.hook).expanduser())
    return site


def _exists(path: Path) -> bool:
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError) as error:  # a name too long, or with a zero in it
        raise CoterieError(f"there can't be a path '{path}': {error}") from None
    return True


def _section(kind: type[Any], table: Any, place: str) -> Any:
    try:
        return kind.model_validate(table)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        if first["type"] == "extra_forbidden":
            raise CoterieError(f"there is no key '{key}': {suggestion(key, kind.model_fields)} (in {place})") from None
        if first["type"] == "missing":
            raise CoterieError(f"'{key}' is missing (in {place})") from None
        given = f"{key} = {first['input']!r} is not valid: " if key else ""
        raise CoterieError(f"{given}{what_is_wanted([first])} (in {place})") from None
