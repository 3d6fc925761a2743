"""The configuration of a run: one model for TOML files, command-line flags and Python keywords alike.

This is the border where settings are validated. What passes is complete but for what only the data can tell
(number of clients, network), which `coterie.run.runner` fills in.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic.fields import FieldInfo

from coterie.clustering import GroupingOptions, Linkage, RuleName
from coterie.errors import CoterieError, suggestion
from coterie.run.curriculum import ClientsCurriculum, DataCurriculum, check_expert


class Section(BaseModel):
    """One table of the TOML file."""

    model_config = ConfigDict(extra="forbid", validate_default=True, strict=True, allow_inf_nan=False)


class Choice(Section):
    """A section that names something registered; its other keys are that thing's options."""

    model_config = ConfigDict(extra="allow", strict=True)

    @property
    def options(self) -> dict[str, Any]:
        """The keys that are not fields of the section."""
        return dict(self.model_extra or {})


def setting(default: Any, help: str, flag: str | None = None, **limits: Any) -> Any:
    """Declare a key: its default, what it means, and its flag where that is not ``--key``."""
    return Field(default, description=help, json_schema_extra={"flag": flag} if flag else None, **limits)


class DataSection(Choice):
    """Which data, and among how many clients."""

    name: str = setting("digits", "data set: a name, or the path of a file or folder", "--dataset")
    clients: int | None = setting(None, "number of clients; by default 20 for the digits, else 100", ge=1)


class PartitionSection(Choice):
    """How a pooled data set is divided among clients."""

    name: str | None = setting(
        None, "partition, for instance label-skew:rho=0.2; by default iid; divided data sets need none", "--partition"
    )
    f_ord: float | None = setting(
        None,
        "share of each client's samples that is exchanged for equally many of one difficulty, judged by an expert: the "
        "first clients get the easiest; class counts stay",
        ge=0,
        le=1,
    )
    surplus: int | None = setting(
        None, "cut the data into so many times as many parts as there are clients, which get one each", ge=1
    )

    @property
    def described(self) -> dict[str, Any]:
        """The options, and what was done beside them."""
        beside = {"f_ord": self.f_ord or None, "surplus": self.surplus if self.surplus != 1 else None}
        return self.options | {key: value for key, value in beside.items() if value is not None}


class ModelSection(Choice):
    """Which network."""

    name: str | None = setting(None, "network; by default chosen by the data", "--model")


class TrainingSection(Section):
    """How long, with whom, and how clients train."""

    rounds: int = setting(50, "communication rounds", ge=1)
    fraction: float = setting(0.1, "share of the clients that takes part in a round", gt=0, le=1)
    epochs: int = setting(10, "local epochs per round", ge=1)
    batch_size: int = setting(10, "samples per local step", ge=1)
    lr: float = setting(0.01, "learning rate", gt=0)
    lr_decay: float = setting(0.0, "d in lr·(1 + d·step)^-power, the step counted anew in every round", ge=0)
    lr_power: float = setting(0.75, "power in lr·(1 + d·step)^-power", ge=0)
    momentum: float = setting(0.5, "momentum of local SGD, from zero in every round", ge=0, lt=1)
    weight_decay: float = setting(0.0, "weight decay of local SGD", ge=0)


class AlgorithmSection(Choice):
    """Which method."""

    name: str = setting("fedavg", "method; 'coterie algorithms' lists them", "--algorithm")


class GroupingSection(Section):
    """How methods that form groups find them; by default each its own way."""

    rule: RuleName | None = setting(
        None,
        "auto: from the clients' noise; degrees: a threshold; count: a number; gap, silhouette, demo, trial: see the "
        "docs",
    )
    threshold: float | None = setting(None, "rule degrees: merge groups up to this distance", ge=0)
    groups: int | None = setting(None, "rule count: how many groups", ge=1)
    granularity: float | None = setting(
        None,
        "rule auto: split groups that are this many times the noise apart; by default 1.45, less for few samples",
        gt=0,
    )
    linkage: Linkage | None = setting(None, "distance between groups; by default what goes with the rule")

    @model_validator(mode="after")
    def _agree(self) -> GroupingSection:
        problem = self.options().problem()
        if problem:
            raise ValueError(problem)
        return self

    def options(self) -> GroupingOptions:
        """Return the options as methods see them."""
        return GroupingOptions(**self.model_dump())


class NewcomersSection(Section):
    """Clients that come late."""

    share: float = setting(0.0, "share of the clients that is held back at first", "--newcomers", ge=0, lt=1)
    draw: Literal["random", "last"] = setting(
        "random", "who they are: drawn by the seed, or those with the highest numbers", "--newcomer-draw"
    )
    join_at: int | None = setting(None, "the round in which they come; by default when training is over", ge=1)
    epochs: int = setting(
        5, "for how long each fine-tunes the model that it receives on coming", "--newcomer-epochs", ge=0
    )

    @model_validator(mode="after")
    def _some(self) -> NewcomersSection:
        if self.join_at is not None and not self.share:
            raise ValueError("join_at needs newcomers: set share, for instance 0.2")
        return self


class CurriculumSection(Section):
    """In which order clients' samples, and clients, take part in training."""

    data: str | None = setting(
        None,
        "clients train on the easiest of their samples first; by default score=G, pacing=linear, a=0.8, b=0.2, "
        "order=curriculum, of which some may be given, for instance score=L,order=anti",
        "--curriculum",
    )
    clients: str | None = setting(
        None,
        "the easiest clients train first; by default pacing=linear, a=0.8, b=0.2, order=curriculum, refresh_every=1, "
        "all_batches=false, of which some may be given",
        "--client-curriculum",
    )
    expert: str | None = setting(
        None,
        "who judges samples for score=E and f_ord: a run folder or a .safetensors file; by default trained on the "
        "samples of all clients",
    )
    expert_epochs: int = setting(10, "for how long the expert is trained", ge=1)

    @field_validator("data", "clients", mode="before")
    @classmethod
    def _complete(cls, value: Any, info: ValidationInfo) -> str | None:
        if value is None:
            return None
        kind = DataCurriculum if info.field_name == "data" else ClientsCurriculum
        return kind.read(parse_options(value) if isinstance(value, str) else value).short()

    @property
    def of_data(self) -> DataCurriculum | None:
        """The data curriculum."""
        return None if self.data is None else DataCurriculum.read(parse_options(self.data))

    @property
    def of_clients(self) -> ClientsCurriculum | None:
        """The client curriculum."""
        return None if self.clients is None else ClientsCurriculum.read(parse_options(self.clients))


class EvaluationSection(Section):
    """When accuracies are measured."""

    every: int = setting(5, "evaluate every so many rounds, and at the end; 0: at the end only", "--eval-every", ge=0)
    validation: float = setting(
        0.0,
        "share of each client's training samples that takes the place of its test part, for choosing settings without "
        "looking at test samples; 0: test on test samples",
        ge=0,
        lt=1,
    )
    targets: list[str] = setting([], "accuracies to note the round and bytes of, for instance L=0.8", "--target")

    @field_validator("targets")
    @classmethod
    def _targets(cls, targets: list[str]) -> list[str]:
        for target in targets:
            protocol, _, value = target.partition("=")
            try:
                right = protocol in ("L", "C", "G") and 0 < float(value) <= 1
            except ValueError:
                right = False
            if not right:
                raise ValueError(f"'{target}' should be a protocol (L, C or G) and a fraction, like L=0.8")
        return targets


class EngineSection(Section):
    """Where clients run."""

    name: Literal["embedded", "flower"] = setting(
        "embedded", "where clients live: in this process, or in those of Ray by way of Flower", "--engine"
    )
    trainer: Literal["auto", "native", "torch"] = setting(
        "auto", "what executes local training; auto: compiled code for the networks that it knows, else PyTorch"
    )
    workers: int | None = setting(None, "clients worked on at a time; by default one per core", ge=1)
    state: Literal["auto", "memory", "disk"] = setting(
        "auto", "where clients' own models are kept while running; auto: on disk above 1 GiB"
    )
    address: str | None = setting(
        None, "engine flower: a Ray cluster that is there, for instance auto or 10.0.0.5:6379; by default one here"
    )
    deadline: float | None = setting(
        None, "deployed federations: seconds after which nobody is waited for in an exchange", gt=0
    )
    min_replies: int = setting(1, "a round of training to which fewer clients answer changes nothing", ge=1)
    oversample: float = setting(
        0.0, "ask so much more clients than needed, 0.3 for 30 %, and take the first that answer", ge=0
    )
    max_strikes: int | None = setting(None, "after so many invalid replies a client is asked no more", ge=1)

    @model_validator(mode="after")
    def _agree(self) -> EngineSection:
        if self.address is not None and self.name != "flower":
            raise ValueError("address is that of a Ray cluster: set name = 'flower', or leave it out")
        if self.state == "memory" and self.name == "flower":
            raise ValueError("engine flower keeps clients' states on disk: leave out state = 'memory'")
        return self


class FaultsSection(Section):
    """Trouble to play, as probabilities per client and round."""

    drop: float = setting(0.0, "a client never hears of the request", ge=0, le=1)
    straggle: float = setting(0.0, "a client does the work, but its reply comes too late", ge=0, le=1)
    hostile: float = setting(0.0, "a client answers nonsense", ge=0, le=1)


class RunSection(Section):
    """The run itself."""

    seed: int = setting(0, "root of all randomness", ge=0, lt=2**63)
    out: str | None = setting(None, "run folder; by default a new one under runs/")
    plugins: list[str] = setting(
        [], "Python files or modules to import first, with methods, models, data sets or partitions", "--plugin"
    )


class Config(Section):
    """All sections."""

    data: DataSection = DataSection()
    partition: PartitionSection = PartitionSection()
    model: ModelSection = ModelSection()
    training: TrainingSection = TrainingSection()
    algorithm: AlgorithmSection = AlgorithmSection()
    grouping: GroupingSection = GroupingSection()
    newcomers: NewcomersSection = NewcomersSection()
    curriculum: CurriculumSection = CurriculumSection()
    evaluation: EvaluationSection = EvaluationSection()
    engine: EngineSection = EngineSection()
    faults: FaultsSection = FaultsSection()
    run: RunSection = RunSection()


SECTIONS: dict[str, type[Section]] = {name: type(section) for name, section in Config()}
CHOICES = [name for name, section in SECTIONS.items() if issubclass(section, Choice)]
FREE = {("run", "out"), ("run", "plugins"), ("engine", "workers"), ("engine", "state"), ("engine", "address")}
"""Keys that do not change the numbers of a run."""


class Key:
    """One key of the configuration, as documentation and command line need it."""

    def __init__(self, section: str, name: str, info: FieldInfo) -> None:
        self.section, self.name, self.info = section, name, info

    @property
    def path(self) -> str:
        """As in ``--set``: section.key."""
        return f"{self.section}.{self.name}"

    @property
    def flag(self) -> str:
        """As on the command line."""
        extra = self.info.json_schema_extra
        own = extra.get("flag") if isinstance(extra, dict) else None
        return str(own or f"--{self.name.replace('_', '-')}")

    @property
    def keyword(self) -> str:
        """As in Python."""
        return self.flag.removeprefix("--").replace("-", "_")

    @property
    def is_list(self) -> bool:
        """Whether the flag may be repeated."""
        return isinstance(self.info.default, list)

    @property
    def help(self) -> str:
        """What it means, in a line."""
        literal = next(
            (t for t in (self.info.annotation, *get_args(self.info.annotation)) if get_origin(t) is Literal), None
        )
        choices = get_args(literal)
        return f"{self.info.description}" + (f" ({', '.join(map(str, choices))})" if len(choices) > 1 else "")


def keys() -> Iterator[Key]:
    """Go through all keys in the order of the file."""
    for section, model in SECTIONS.items():
        for name, info in model.model_fields.items():
            yield Key(section, name, info)


def read_toml(path: Path) -> dict[str, Any]:
    """Read a configuration file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CoterieError(f"there is no configuration file '{path}'") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CoterieError(f"'{path}' is not a TOML file: {error}") from None
    except OSError as error:
        raise CoterieError(f"'{path}' can't be read: {error.strerror}") from None


def parse_value(text: str) -> Any:
    """Read a value as written behind ``--set key=``: TOML where it is, else a text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def parse_choice(text: str) -> dict[str, Any]:
    """Read ``name:option=value,option=value``.

    >>> parse_choice("label-skew:rho=0.2")
    {'name': 'label-skew', 'rho': 0.2}
    """
    if (text.endswith(".npz") and not re.match(r"[\w-]+:\w+=", text)) or ":" not in text:
        return {"name": text}
    name, _, rest = text.partition(":")
    try:
        options = parse_options(rest)
    except ValueError:
        options = {}
    if not options:
        raise CoterieError(f"'{text}' should read name:option=value,option=value")
    return {"name": name, **options}


def parse_options(text: str) -> dict[str, Any]:
    """Read ``option=value,option=value``; raise ValueError for anything else.

    >>> parse_options("score=G, a=0.8")
    {'score': 'G', 'a': 0.8}
    """
    options: dict[str, Any] = {}
    for piece in text.split(",") if text.strip() else []:
        key, equals, value = piece.partition("=")
        if not equals:
            raise ValueError("it should read key=value,key=value")
        options[key.strip().replace("-", "_")] = parse_value(value.strip())
    return options


def merge(base: dict[str, Any], path: str, value: Any) -> None:
    """Set ``section.key`` in nested tables; a choice given as text replaces the whole section but fixed keys."""
    section, dot, key = path.partition(".")
    if not dot or not key:
        raise CoterieError(f"'{path}' should be section.key, for instance training.lr")
    if section not in SECTIONS:
        raise CoterieError(f"there is no section [{section}]: {suggestion(section, SECTIONS)}")
    table = base.setdefault(section, {})
    if not isinstance(table, dict):
        raise CoterieError(f"'{section}' should be a table [{section}]")
    if section in CHOICES and key == "name" and isinstance(value, str):
        chosen = parse_choice(value)
        if chosen["name"] != table.get("name"):  # options of another choice do not carry over
            fixed = SECTIONS[section].model_fields
            for stale in [k for k in table if k not in fixed]:
                del table[stale]
        table.update(chosen)
    else:
        table[key] = value


class Origins:
    """Where settings came from, for messages: a file, and what was given beside it on the command line."""

    def __init__(self, file: str = "", given: Mapping[str, str] | None = None) -> None:
        """`given` maps paths like ``training.lr`` to how they were given, like ``--lr``."""
        self.file, self.given = file, given or {}

    def of(self, section: str, key: str | None = None) -> str:
        """Say where a key, or any key of a section, was set."""
        for path, how in self.given.items():
            if path == f"{section}.{key}" or (key is None and path.startswith(f"{section}.")):
                return f"set by {how}"
        if self.file:
            return f"in [{section}] of {self.file}"
        flag = next((k.flag for k in keys() if k.path == f"{section}.{key}"), None)
        return f"set by {flag} or in [{section}]" if flag else f"in [{section}]"


def make_config(tables: Mapping[str, Any], source: str | Origins = "") -> Config:
    """Validate nested tables; `source` tells where they came from, for messages."""
    origins = source if isinstance(source, Origins) else Origins(source)
    checked: dict[str, dict[str, Any]] = {}
    for section, table in tables.items():
        if section not in SECTIONS:
            where = f" of {origins.file}" if origins.file else ""
            raise CoterieError(f"there is no section [{section}]{where}: {suggestion(section, SECTIONS)}")
        if not isinstance(table, Mapping):
            place = origins.file or "the configuration"
            raise CoterieError(f"'{section}' in {place} should be a table: write [{section}] and its keys below it")
        fields = SECTIONS[section].model_fields
        checked[section] = dict(table)
        if section in CHOICES:
            name = table.get("name")
            if isinstance(name, str):  # a short form may stand in a file too; keys of their own go before it
                checked[section] = {**parse_choice(name), **table, "name": parse_choice(name)["name"]}
            continue
        for key in table:
            if key not in fields:
                place = origins.of(section, key)
                raise CoterieError(f"[{section}] has no key '{key}': {suggestion(key, fields)} ({place})")
    try:
        config = Config.model_validate(checked)
    except ValidationError as error:
        wrong = error.errors()[0]
        section, key, *_ = (*map(str, wrong["loc"]), "")
        message = wrong["msg"].removeprefix("Value error, ").removeprefix("Input ")
        if not key:  # keys of a section that do not go together
            raise CoterieError(f"[{section}]: {message} ({origins.of(section)})") from None
        raise CoterieError(
            f"{section}.{key} = {wrong['input']!r} is not valid: {message} ({origins.of(section, key)})"
        ) from None
    return check_names(config, origins)


def check_names(config: Config, origins: Origins | None = None) -> Config:
    """Check names and options against what is registered, before any data is read; fill in option defaults."""
    from coterie import data
    from coterie.algorithms import ALGORITHMS
    from coterie.models import MODELS
    from coterie.run.plugins import import_plugins

    origins = origins or Origins()
    import_plugins(config.run.plugins)
    chosen = config.model_dump()
    with _told(origins, "algorithm"):
        chosen["algorithm"] |= ALGORITHMS.validate(config.algorithm.name, config.algorithm.options)
    with _told(origins, "grouping"):
        _check_grouping(
            config.algorithm.name, config.grouping.options(), getattr(ALGORITHMS[config.algorithm.name], "rules", ())
        )
        method = ALGORITHMS[config.algorithm.name](**_options(chosen["algorithm"]))
        if problem := (method.problem(config.grouping.options()) if hasattr(method, "problem") else None):
            raise CoterieError(problem)
    with _told(origins, "newcomers"):
        if (config.newcomers.join_at or 0) > config.training.rounds:
            raise CoterieError(
                f"newcomers.join_at = {config.newcomers.join_at} is after the last round, {config.training.rounds}: "
                "leave it out to let them come when training is over"
            )
    with _told(origins, "curriculum"):
        if config.curriculum.expert is not None:
            check_expert(config.curriculum.expert)
    with _told(origins, "model"):
        if config.model.name is not None:
            chosen["model"] |= MODELS.validate(config.model.name, config.model.options)
        elif config.model.options:
            raise CoterieError(f"[model] has options ({', '.join(config.model.options)}) but no name")
    divided = False
    with _told(origins, "data"):
        data.check(config.data.name, config.data.options)
        if config.data.name in data.DATASETS:
            chosen["data"] |= data.DATASETS.validate(config.data.name, config.data.options)
            divided = data.traits(config.data.name).divided
    with _told(origins, "partition"):
        data.check(config.data.name, config.data.options, config.partition.name, config.partition.options)
        if not divided:
            name = config.partition.name or data.default_partition(config.data.name)
            chosen["partition"] |= {"name": name, **data.PARTITIONS.validate(name, config.partition.options)}
        elif config.partition.described:
            raise CoterieError(
                f"data set '{config.data.name}' comes divided among clients: leave out "
                f"{' and '.join(config.partition.described)}"
            )
    return Config.model_validate(chosen)


def _options(section: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in section.items() if key != "name"}


def _check_grouping(method: str, options: GroupingOptions, rules: tuple[str, ...]) -> None:
    """Refuse options for groups of methods that have none, or find them otherwise."""
    if not rules and options != GroupingOptions():
        raise CoterieError(f"method '{method}' takes no options for groups: leave out the keys of [grouping]")
    if options.linkage is not None and rules == ("count",):
        raise CoterieError(f"method '{method}' merges no groups, so that there is no linkage: leave it out")
    if options.named is not None and options.named not in rules:
        beta = ", or its option beta" if method.startswith("flis") else ""
        raise CoterieError(f"method '{method}' knows no rule '{options.named}': use {' or '.join(rules)}{beta}")


@contextmanager
def _told(origins: Origins, section: str) -> Iterator[None]:
    """Add to an error where the wrong thing was set."""
    try:
        yield
    except CoterieError as error:
        raise CoterieError(f"{error} ({origins.of(section)})") from None


def to_toml(config: Config, comments: bool = True) -> str:
    """Write a configuration as TOML; keys without a value stand as comments."""
    lines: list[str] = []
    for section, model in SECTIONS.items():
        table = getattr(config, section)
        lines += [f"[{section}]" + (f"  # {model.__doc__}" if comments else "")]
        for name, info in model.model_fields.items():
            value = getattr(table, name)
            note = f"  # {Key(section, name, info).help}" if comments else ""
            lines.append(f"# {name} ={note}" if value is None else f"{name} = {toml_value(value)}{note}")
        if isinstance(table, Choice):
            for name, value in table.options.items():
                lines.append(f"# {name} =" if value is None else f"{name} = {toml_value(value)}")
        lines.append("")
    return "\n".join(lines)


def toml_value(value: Any) -> str:
    """Write one value."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(toml_value(item) for item in value)}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{json.dumps(key)} = {toml_value(item)}' for key, item in value.items())}}}"
    if isinstance(value, float) and value == int(value) and abs(value) < 1e15:
        return f"{value:.1f}"
    return json.dumps(value, ensure_ascii=False)


def differences(a: Config, b: Config, free: Iterable[tuple[str, str]] = ()) -> list[str]:
    """Say which keys differ between two configurations, of those that change a run's numbers and are not `free`."""
    ignored = {*FREE, *free}
    before, after = (json.loads(json.dumps(config.model_dump())) for config in (a, b))  # tuples and lists are alike
    return [
        f"{section}.{key} was {table.get(key)!r}, is {after[section].get(key)!r}"
        for section, table in before.items()
        for key in table | after[section]
        if (section, key) not in ignored and table.get(key) != after[section].get(key)
    ]
