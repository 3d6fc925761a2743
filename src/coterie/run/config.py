"""The configuration of a run: its sections and keys, for TOML files, command-line flags and Python keywords alike.

A key that is added to a section here is a flag of ``coterie run``, a key of its TOML file and a keyword of
`coterie.run`; `coterie.run.validation` checks what needs more than one section.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple, get_args, get_origin

from pydantic import ValidationInfo, field_validator, model_validator
from pydantic.fields import FieldInfo

from coterie.algorithms import ALGORITHMS
from coterie.clustering import RULES, GroupingOptions, Linkage
from coterie.clustering.options import Scale
from coterie.errors import CoterieError
from coterie.federation.sampling import ClientSampler, UniformSampler
from coterie.messages import Curriculum
from coterie.results.formats import data_title, toml_value
from coterie.run.config_base import MOST, ChoiceSection, ConfigSection, setting
from coterie.run.config_engine import EngineSection
from coterie.run.config_evaluation import EvaluationSection
from coterie.run.config_training import MOST_EPOCHS, TrainingSection
from coterie.run.config_trust import AggregationSection, FaultsSection, PrivacySection
from coterie.run.curriculum import ClientsCurriculum, DataCurriculum
from coterie.run.values import parse_choice, parse_options, split_list
from coterie.tracking.several import check_tracker


class DataSection(ChoiceSection):
    """Which data, and among how many clients."""

    name: str = setting("digits", "data set: a name, or the path of a file or folder", "--dataset")
    clients: int | None = setting(
        None,
        "number of clients; by default 20 for the digits, else 100, fewer where each would have under 30 samples",
        ge=1,
        le=MOST,
    )
    server_share: float | None = setting(
        None,
        "share of the training samples that the server keeps for itself; by default 5 %, at most 2,500 samples",
        ge=0,
        le=0.5,
    )

    @property
    def title(self) -> str:
        """What the data are called, not where they are."""
        return data_title(self.name)


class PartitionSection(ChoiceSection):
    """How a pooled data set is divided among clients."""

    name: str | None = setting(
        None, "how to divide the data among clients, for instance label-skew:rho=0.2; by default iid", "--partition"
    )
    f_ord: float | None = setting(
        None,
        "share of each client's samples to swap with other clients by difficulty, as the expert model scores it: the "
        "first clients get the easiest samples; class counts stay the same",
        ge=0,
        le=1,
    )
    noise: float | None = setting(
        None,
        "add noise to clients' training samples: its standard deviation, for images as a fraction of white, grows from "
        "0 for the first client to this value for the last",
        ge=0,
    )
    surplus: int | None = setting(
        None,
        "cut the data into this many times as many parts as there are clients; each client gets one",
        ge=1,
        le=10_000,
    )

    @property
    def described(self) -> dict[str, Any]:
        """The options, and what was done beside them."""
        beside = {
            "f_ord": self.f_ord or None,
            "noise": self.noise or None,
            "surplus": self.surplus if self.surplus != 1 else None,
        }
        return self.options | {key: value for key, value in beside.items() if value is not None}


class ModelSection(ChoiceSection):
    """Which network."""

    name: str | None = setting(None, "network; by default chosen to suit the data", "--model")
    initial: str | None = setting(
        None, ".safetensors file with the initial parameters; by default those that the network is built with"
    )
    initial_digest: str | None = setting(
        None,
        "digest of the initial parameters: files with another are refused; a run writes it into its config.toml",
    )


class AlgorithmSection(ChoiceSection):
    """Which method."""

    name: str = setting("fedavg", "method; see 'coterie algorithms'", "--algorithm", registry=ALGORITHMS)


class GroupingSection(ConfigSection):
    """How methods that form groups find them; by default each its own way."""

    rule: str | None = setting(
        None,
        "rule that forms the groups, for instance gap or silhouette:least=0.3; see 'coterie rules'",
        registry=RULES,
    )
    threshold: float | None = setting(None, "rule degrees: merge groups up to this distance", ge=0)
    groups: int | None = setting(None, "rule count: how many groups", ge=1, le=10_000)
    granularity: float | None = setting(
        None,
        "rule auto: split groups that are this many times the noise apart; by default 1.45, less for few samples",
        gt=0,
    )
    linkage: Linkage | None = setting(None, "distance between groups; by default what goes with the rule")
    scale: Scale | None = setting(
        None,
        "compare every two clients, up to 20,000; or group 2,000 to 4,000 of them, whom the others join; by default "
        "exact up to 5,000 clients, and landmarks above where the method can",
        "--grouping",
    )

    def options(self) -> GroupingOptions:
        """Return the options as methods see them; those given with the rule's name are keys where there is one."""
        keys: dict[str, Any] = self.model_dump()
        if self.rule is not None:
            options = parse_choice(self.rule)
            keys["rule"] = options.pop("name")
            if twice := [key for key in options if keys.get(key) is not None]:
                raise CoterieError(f"{twice[0]} is given twice, with the rule and as a key: leave one out")
            keys |= {key: options.pop(key) for key in [*options] if key in keys}
            keys["options"] = options
        return GroupingOptions(**keys)


class NewcomersSection(ConfigSection):
    """Clients that come late."""

    share: float = setting(0.0, "share of the clients to hold back at first", "--newcomers", ge=0, lt=1)
    draw: Literal["random", "last"] = setting(
        "random", "which clients: drawn by the seed, or those with the highest numbers", "--newcomer-draw"
    )
    join_at: int | None = setting(None, "round in which they join; by default when training is over", ge=1, le=MOST)
    admit: list[str] = setting(
        [],
        "data of clients that join after training, a file or folder: one client, one for each user in it, or one for "
        "each .npz file of a folder",
        "--admit",
    )
    epochs: int = setting(
        5, "epochs of fine-tuning the model that each receives", "--newcomer-epochs", ge=0, le=MOST_EPOCHS
    )

    @model_validator(mode="after")
    def _some(self) -> NewcomersSection:
        if self.join_at is not None and not self.share:
            raise ValueError("join_at needs newcomers: set share, for instance 0.2")
        return self


class CurriculumSection(ConfigSection):
    """In which order samples, and clients, take part in training."""

    data: str | None = setting(
        None,
        "train on each client's easiest samples first, for instance score=L,order=anti; default: score=G, "
        "pacing=linear, a=0.8, b=0.2, order=curriculum",
        "--curriculum",
    )
    clients: str | None = setting(
        None,
        "train the easiest clients first, for instance b=0.5,order=anti; default: score=G, pacing=linear, "
        "a=0.8, b=0.2, order=curriculum, refresh_every=1, all_batches=false",
        "--client-curriculum",
    )
    expert: str | None = setting(
        None,
        "model that scores samples and clients for score=E, and samples for f_ord: a run folder or a .safetensors "
        "file; by default one is trained on the samples of all clients",
    )
    expert_epochs: int = setting(10, "epochs of training the expert", ge=1, le=MOST_EPOCHS)

    @field_validator("data", "clients", mode="before")
    @classmethod
    def _complete(cls, value: Any, info: ValidationInfo) -> str | None:
        if value is None:
            return None
        kind = DataCurriculum if info.field_name == "data" else ClientsCurriculum
        return kind.read(parse_options(value) if isinstance(value, str) else value).short()

    @property
    def of_samples(self) -> Curriculum | None:
        """What the plan of local training says."""
        return None if self.data is None else DataCurriculum.read(parse_options(self.data)).make()

    @property
    def sampler(self) -> ClientSampler:
        """Who may be in a cohort: all, or those whose samples are easy enough."""
        if self.clients is None:
            return UniformSampler()
        return ClientsCurriculum.read(parse_options(self.clients)).make()


class RunSection(ConfigSection):
    """The run itself."""

    seed: int = setting(0, "random seed: everything random derives from it", ge=0, lt=2**63)
    out: str | None = setting(None, "run folder; by default a new one under runs/")
    durable: bool = setting(
        False, "flush to disk after every round: a power cut then loses at most one round, as a kill always does"
    )
    track: list[str] = setting(
        [],
        "log the run to a tracker: tensorboard, mlflow or wandb (offline); mlflow:folder=DIR writes into DIR instead "
        "of the run folder",
    )
    plugins: list[str] = setting(
        [],
        "Python file or module to import first, with methods, rules, models or data sets of your own",
        "--plugin",
    )

    @field_validator("track")
    @classmethod
    def _trackers(cls, track: list[str]) -> list[str]:
        names = [name for text in track for name in split_list(text)]
        for name in names:
            try:
                check_tracker(parse_choice(name))
            except CoterieError as error:
                raise ValueError(str(error)) from None
        return names


class Config(ConfigSection):
    """All sections."""

    data: DataSection = DataSection()
    partition: PartitionSection = PartitionSection()
    model: ModelSection = ModelSection()
    training: TrainingSection = TrainingSection()
    algorithm: AlgorithmSection = AlgorithmSection()
    grouping: GroupingSection = GroupingSection()
    aggregation: AggregationSection = AggregationSection()
    newcomers: NewcomersSection = NewcomersSection()
    curriculum: CurriculumSection = CurriculumSection()
    evaluation: EvaluationSection = EvaluationSection()
    engine: EngineSection = EngineSection()
    privacy: PrivacySection = PrivacySection()
    faults: FaultsSection = FaultsSection()
    run: RunSection = RunSection()

    def changed(self, **sections: Mapping[str, Any]) -> Config:
        """Return the configuration with some keys of some sections changed."""
        tables = self.model_dump()
        return Config.model_validate(tables | {name: {**tables[name], **changes} for name, changes in sections.items()})


SECTIONS: dict[str, type[ConfigSection]] = {name: type(section) for name, section in Config()}
CHOICES = [name for name, section in SECTIONS.items() if issubclass(section, ChoiceSection)]


class Key(NamedTuple):
    """One key of the configuration, as documentation and command line need it."""

    section: str
    name: str
    path: str
    """As in ``--set``: section.key."""
    flag: str
    keyword: str
    """As in Python."""
    is_list: bool
    """Whether the flag may be repeated."""
    help: str
    """What it means, in a line."""
    choices: tuple[str, ...]
    """What it may be, where that is a list."""
    info: FieldInfo


def keys() -> Iterator[Key]:
    """Go through all keys in the order of the file."""
    for section, model in SECTIONS.items():
        for name, info in model.model_fields.items():
            extra: Any = info.json_schema_extra or {}
            flag = extra.get("flag") or f"--{name.replace('_', '-')}"
            literals = [t for t in (info.annotation, *get_args(info.annotation)) if get_origin(t) is Literal]
            literal_values = (str(value) for literal in literals for value in get_args(literal))
            choices = (*extra.get("registry", ()), *literal_values)
            help = f"{info.description}" + (f" ({', '.join(choices)})" if len(choices) > 1 else "")
            keyword = flag.removeprefix("--").replace("-", "_")
            is_list = isinstance(info.default, list)
            yield Key(section, name, f"{section}.{name}", flag, keyword, is_list, help, choices, info)


def to_toml(config: Config, comments: bool = True) -> str:
    """Write a configuration as TOML; keys without a value stand as comments."""
    notes = {key.path: f"  # {key.help}" if comments else "" for key in keys()}
    lines: list[str] = []
    for section, table in config:
        lines.append(f"[{section}]" + (f"  # {SECTIONS[section].__doc__}" if comments else ""))
        for name, value in table:
            note = notes.get(f"{section}.{name}", "")
            lines.append(f"# {name} ={note}" if value is None else f"{name} = {toml_value(value)}{note}")
        lines.append("")
    return "\n".join(lines)
