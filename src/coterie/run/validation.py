"""The border where settings are checked, before any data is read.

What passes is complete but for what only the data can tell (number of clients, network), which
`coterie.run.building` fills in.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from pydantic import ValidationError

from coterie.algorithms import ALGORITHMS
from coterie.clustering import RULES, GroupingOptions, RuleSupport
from coterie.errors import CoterieError, suggestion, what_is_wanted
from coterie.federation import Algorithm
from coterie.results.run_folder import RunFolder, changed_settings
from coterie.run.config import SECTIONS, Config, keys
from coterie.run.given import check_network
from coterie.run.overlay import import_named, written_out
from coterie.run.plugins import NOBODY, Permission, import_plugins
from coterie.run.privacy_checks import check_privacy, check_private_steps, check_private_training


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


def read_run_config(folder: RunFolder, permission: Permission = NOBODY, *, files: bool = True) -> Config:
    """Read and check the configuration of a run; of the plugins that it names only what is permitted is imported."""
    tables = permission.laid_over(folder.read_config(), folder.config_file)
    import_named(tables)
    check_network(tables.get("model"), folder)
    return make_config(tables, str(folder.config_file), files=files)


def make_config(tables: Mapping[str, Any], source: str | Origins = "", *, files: bool = True) -> Config:
    """Validate nested tables; `source` says where they came from, for messages; with `files` data must be there."""
    origins = source if isinstance(source, Origins) else Origins(source)
    for section, table in tables.items():
        if section not in SECTIONS:
            where = f" of {origins.file}" if origins.file else ""
            raise CoterieError(f"there is no section [{section}]{where}: {suggestion(section, SECTIONS)}")
        if not isinstance(table, Mapping):
            place = origins.file or "the configuration"
            raise CoterieError(f"'{section}' in {place} should be a table: write [{section}] and its keys below it")
    try:
        config = Config.model_validate(written_out(tables))
    except ValidationError as error:
        first = error.errors()[0]
        section, key, *_ = (*map(str, first["loc"]), "")
        message = what_is_wanted([one for one in error.errors() if one["loc"][:2] == first["loc"][:2]])
        if first["type"] == "extra_forbidden":
            hint = suggestion(key, SECTIONS[section].model_fields)
            raise CoterieError(f"[{section}] has no key '{key}': {hint} ({origins.of(section, key)})") from None
        if not key:  # keys of a section that do not go together
            raise CoterieError(f"[{section}]: {message} ({origins.of(section)})") from None
        of_wrong_type = message.startswith("should be ") and ", not " in message
        meaning = SECTIONS[section].model_fields[key].description if of_wrong_type else None
        place = "; ".join(filter(None, [meaning, origins.of(section, key)]))
        raise CoterieError(f"{section}.{key} = {first['input']!r} is not valid: {message} ({place})") from None
    return check_names(config, origins, files=files)


def check_names(config: Config, origins: Origins | None = None, *, files: bool = True) -> Config:
    """Check names and options against what is registered, before any data is read; fill in option defaults."""
    from coterie import data
    from coterie.models import MODELS
    from coterie.training.metrics import METRICS

    origins = origins or Origins()
    import_plugins(config.run.plugins)
    config = _with_known_names(config)
    chosen = config.model_dump()
    with _place_in_errors(origins, "algorithm"):
        chosen["algorithm"] |= ALGORITHMS.validate(config.algorithm.name, config.algorithm.options)
    method = _checked_method(config, {**chosen["algorithm"]}, origins)
    with _place_in_errors(origins, "training", "optimiser"):
        _check_optimiser(config, method)
    with _place_in_errors(origins, "privacy", "dp_signature"):
        check_privacy(config, method)
    with _place_in_errors(origins, "privacy", "dp_training"):
        check_private_training(config)
    with _place_in_errors(origins, "privacy", "dp_sgd"):
        check_private_steps(config, method)
    with _place_in_errors(origins, "training", "clip"):
        _check_clipping(config, method)
    with _place_in_errors(origins, "aggregation", "secure"):
        _check_secure(config, method)
    with _place_in_errors(origins, "aggregation", "secure_hidden"):
        _check_hidden_choices(config, method)
    with _place_in_errors(origins, "evaluation", "metric"):
        METRICS[config.evaluation.metric]
    if method.needs_server_data == "reserved":
        _check_server_share(config, origins)
    with _place_in_errors(origins, "newcomers"):
        _check_newcomers(config)
    with _place_in_errors(origins, "curriculum"):
        _check_curriculum(config, method)
    with _place_in_errors(origins, "model"):
        _check_initial(config)
        if config.model.name is not None:
            chosen["model"] |= MODELS.validate(config.model.name, config.model.options)
        elif config.model.options:
            raise CoterieError(f"[model] has options ({', '.join(config.model.options)}) but no name")
    if config.evaluation.predicts_numbers:
        _check_numbers(config, method, origins)
    with _place_in_errors(origins, "training", "loss"):
        _check_loss(config, method, chosen["model"])
    divided = False
    with _place_in_errors(origins, "data"):
        data.check(config.data.name, config.data.options, files=files)
        if config.data.name in data.DATASETS:
            chosen["data"] |= data.DATASETS.validate(config.data.name, config.data.options)
            divided = data.traits(config.data.name).divided
    with _place_in_errors(origins, "partition"):
        partition = (config.partition.name, config.partition.options)
        data.check(config.data.name, config.data.options, *partition, files=files)
        if not divided:
            name = config.partition.name or data.default_partition(config.data.name, config.data.options)
            chosen["partition"] |= {"name": name, **data.PARTITIONS.validate(name, config.partition.options)}
        elif config.partition.described:
            raise CoterieError(
                f"data set '{config.data.name}' comes divided among clients: leave out "
                f"{' and '.join(config.partition.described)}"
            )
    return Config.model_validate(chosen)


def _checked_method(config: Config, options: dict[str, Any], origins: Origins) -> Algorithm:
    """Return the method with its options, which fit each other and how groups are to be formed."""
    from coterie.data.server_set import check_other

    kind = ALGORITHMS[options.pop("name")]
    with _place_in_errors(origins, "grouping"):
        _check_grouping(config.algorithm.name, config.grouping.options(), kind.traits.rules)
        method = kind(**options)
        if error := method.error_in_grouping(config.grouping.options()):
            raise CoterieError(error)
    with _place_in_errors(origins, "algorithm"):
        if method.server_data_from is not None:
            check_other(method.server_data_from)
        _check_serving(method)
        if error := method.error_in_server_step():
            raise CoterieError(f"method '{config.algorithm.name}': {error}")
    return method


def _check_newcomers(config: Config) -> None:
    if (config.newcomers.join_at or 0) > config.training.rounds:
        raise CoterieError(
            f"newcomers.join_at = {config.newcomers.join_at} is after the last round, {config.training.rounds}: "
            "leave it out to let them come when training is over"
        )
    for path in config.newcomers.admit:
        if not os.path.exists(os.path.expanduser(path)):
            raise CoterieError(f"there is no file or folder '{path}' with data of clients to admit")


def _check_optimiser(config: Config, method: Algorithm) -> None:
    name = config.training.steps_by.name
    if error := method.error_in_optimiser(name):
        raise CoterieError(
            f"method '{config.algorithm.name}' is not defined with the optimiser '{name}': {error}: leave it out, "
            "--optimiser sgd"
        )


def _check_clipping(config: Config, method: Algorithm) -> None:
    if config.training.clip is not None and not method.traits.clips:
        raise CoterieError(
            f"clipping is of one gradient a step, and method '{config.algorithm.name}' has several: leave it out"
        )


def _check_secure(config: Config, method: Algorithm) -> None:
    """Refuse what needs to see what single clients trained, where only sums are seen."""
    aggregation, faults, name = config.aggregation, config.faults, config.algorithm.name
    if not aggregation.secure:
        return
    if find_spec("cryptography") is None:
        raise CoterieError("secure sums need the package cryptography: pip install 'coterie[secure]'")
    if method.weighing is None:
        raise CoterieError(
            f"method '{name}' does not go with secure sums: {method.not_summed}, and they hide that: leave out secure, "
            "or use a method that averages in groups, as pacfl, ifca or fedavg"
        )
    if aggregation.rule != "mean":
        raise CoterieError(
            f"aggregation = '{aggregation.rule}' compares single updates, which secure sums hide: write --aggregation "
            "mean; clients themselves clip updates to secure_clip"
        )
    if config.engine.oversample:
        raise CoterieError("oversample leaves out clients that have sent their masked updates: leave it out, or secure")
    if (faults.hostile or faults.liars) and faults.hostile_kind != "nonsense":
        raise CoterieError(f"hostile_kind '{faults.hostile_kind}' is not played under masks: leave it out, or secure")


def _check_hidden_choices(config: Config, method: Algorithm) -> None:
    """Refuse to hide choices where there are none, or where they would be known all the same."""
    if not config.aggregation.secure_hidden:
        return
    if not config.aggregation.secure:
        raise CoterieError("secure_hidden is an option of secure sums: write --secure too, or leave it out")
    if error := method.error_in_hidden_choices():
        raise CoterieError(f"method '{config.algorithm.name}' does not go with secure_hidden: {error}")


def _check_loss(config: Config, method: Algorithm, network: Mapping[str, Any]) -> None:
    from coterie.models.mixture import MIXTURE
    from coterie.training.objectives import LOSSES

    LOSSES[config.training.loss]
    if (other := config.training.other_loss) is None:
        return
    if method.labels != "none":
        raise CoterieError(
            f"label offsets stand in a softmax, which the loss '{other}' has none of: write "
            f"{config.algorithm.name}:labels=none"
        )
    if config.training.smoothing:
        raise CoterieError(f"label smoothing is of the cross-entropy, not of the loss '{other}': leave it out")
    if (network["name"] or method.traits.default_model) == MIXTURE and network.get("components") != 1:
        raise CoterieError(
            f"the network '{MIXTURE}' mixes probabilities of a softmax, which the loss '{other}' has none of: leave "
            "the loss out, or take another network"
        )


def _check_numbers(config: Config, method: Algorithm, origins: Origins) -> None:
    """Refuse what goes by labels where numbers are predicted."""
    from coterie.data.numbers import check_partition
    from coterie.training.objectives import OF_LABELS

    metric, curriculum = config.evaluation.metric, config.curriculum.of_samples
    if (loss := config.training.loss) in OF_LABELS:
        raise CoterieError(
            f"the metric '{metric}' is for regression, the loss '{loss}' for classification: write --loss mse, "
            f"or choose another metric ({origins.of('evaluation', 'metric')})"
        )
    if method.traits.of_labels:
        raise CoterieError(
            f"method '{config.algorithm.name}' uses labels, which regression does not have "
            f"(metric '{metric}'): use another method ({origins.of('algorithm', 'name')})"
        )
    if curriculum is not None and curriculum.score.endswith("-pred"):
        raise CoterieError(
            f"a curriculum by score={curriculum.score} needs labels, which regression does not have (metric "
            f"'{metric}'): leave out -pred ({origins.of('curriculum', 'data')})"
        )
    if config.partition.f_ord:
        raise CoterieError(
            f"f_ord exchanges samples of one label, and regression has no labels (metric '{metric}'): leave it out "
            f"({origins.of('partition', 'f_ord')})"
        )
    with _place_in_errors(origins, "partition", "name"):
        if config.partition.name is not None:
            check_partition(config.partition.name)


def _check_initial(config: Config) -> None:
    if config.model.initial is None and config.model.initial_digest is not None:
        raise CoterieError("initial_digest is that of the file which initial names: name it, or leave out both")


def _check_curriculum(config: Config, method: Algorithm) -> None:
    if method.selects_clients and config.curriculum.clients is not None:
        raise CoterieError(
            f"method '{config.algorithm.name}' draws its clients itself, so no curriculum can choose them: leave "
            "out --client-curriculum, or the option by which the method draws them"
        )
    if config.curriculum.expert is not None:
        from coterie.run.expert import check_expert

        check_expert(config.curriculum.expert)


def _with_known_names(config: Config) -> Config:
    """Return the configuration with names as they are registered, whatever capital letters the user gave them."""
    from coterie import data
    from coterie.models import MODELS
    from coterie.training.metrics import METRICS
    from coterie.training.objectives import LOSSES

    model, partition, rule = config.model.name, config.partition.name, config.grouping.rule
    names: dict[str, dict[str, Any]] = {
        "algorithm": {"name": ALGORITHMS.canonical(config.algorithm.name)},
        "data": {"name": data.known_name(config.data.name)},
        "model": {"name": model and MODELS.canonical(model)},
        "partition": {"name": partition and data.PARTITIONS.canonical(partition)},
        "training": {"loss": LOSSES.canonical(config.training.loss)},
        "evaluation": {"metric": METRICS.canonical(config.evaluation.metric)},
        "grouping": {"rule": rule and RULES.canonical(rule.partition(":")[0]) + "".join(rule.partition(":")[1:])},
    }
    return config.changed(**names)


def _check_serving(method: Algorithm) -> None:
    """Refuse a choice among offsets where none is served."""
    if method.serving != "lacking" and method.served_offset is None:
        raise CoterieError(
            f"serving = '{method.serving}' says which label offset is served, but labels = '{method.labels}' "
            "serves none: write labels = served or both"
        )


def _check_grouping(method: str, options: GroupingOptions, rules: RuleSupport | None) -> None:
    """Refuse options for groups that contradict each other, or that the method can't follow."""
    if error := options.error():
        raise CoterieError(error)
    if rules is None and options != GroupingOptions():
        given = [key for key, value in vars(options).items() if value]
        raise CoterieError(f"method '{method}' takes no options for groups: leave out {' and '.join(given)}")
    if rules is not None and (error := rules.error_in(options)):
        raise CoterieError(f"method '{method}' {error}")


def _check_server_share(config: Config, origins: Origins) -> None:
    if config.data.server_share == 0:
        raise CoterieError(
            f"server_share = 0 leaves the server no samples, but method '{config.algorithm.name}' compares models on "
            f"them: raise it, or leave it out ({origins.of('data', 'server_share')})"
        )


@contextmanager
def _place_in_errors(origins: Origins, section: str, key: str | None = None) -> Iterator[None]:
    """Add to an error where the wrong thing was set."""
    try:
        yield
    except CoterieError as error:
        raise CoterieError(f"{error} ({origins.of(section, key)})") from None


def differences(a: Config, b: Config, free: Iterable[tuple[str, str]] = ()) -> list[str]:
    """Say which keys differ between two configurations, of those that change a run's numbers and are not `free`."""
    return changed_settings(a.model_dump(), b.model_dump(), free)
