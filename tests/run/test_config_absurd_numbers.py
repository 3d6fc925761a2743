"""Numbers in a configuration that no run could have: refused in a sentence before anything is made."""

import pytest

from coterie.algorithms import ALGORITHMS
from coterie.data import DATASETS, PARTITIONS
from coterie.errors import CoterieError
from coterie.models import MODELS
from coterie.registry import MOST, Registry, too_large
from coterie.run.config import keys
from coterie.run.dry_run import estimate
from coterie.run.overlay import merge
from coterie.run.validation import make_config

ABSURD = 10**18
NUMBERS = [key.path for key in keys() if "int" in str(key.info.annotation) and key.path != "run.seed"]
OPTIONS = [
    (registry, section, name, option.name)
    for registry, section in (
        (ALGORITHMS, "algorithm"),
        (PARTITIONS, "partition"),
        (MODELS, "model"),
        (DATASETS, "data"),
    )
    for name in registry
    for option in registry.options(name).values()
    if "int" in str(option.annotation) and registry is not DATASETS and name != "given-labels"
]


def test_all_whole_numbers_are_found() -> None:
    assert {"training.rounds", "training.epochs", "data.clients", "grouping.groups"} <= set(NUMBERS)
    assert len(NUMBERS) >= 12
    assert len(OPTIONS) >= 10


@pytest.mark.parametrize("path", NUMBERS)
def test_keys(path: str) -> None:
    tables: dict[str, dict[str, object]] = {}
    merge(tables, path, ABSURD)
    if path == "newcomers.join_at":
        merge(tables, "newcomers.share", 0.5)
    with pytest.raises(CoterieError, match=rf"{path} = {ABSURD} is not valid: should be less than or equal to"):
        estimate(make_config(tables))


@pytest.mark.parametrize(("registry", "section", "name", "option"), OPTIONS)
def test_options(registry: Registry, section: str, name: str, option: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(CoterieError, match=rf"'{name}'.*{option}"):
        registry.validate(name, {option: ABSURD})


def test_a_number_in_a_list() -> None:
    assert too_large([1, [ABSURD]])
    assert not too_large([1, MOST, 1e300, "text"])


def test_a_network_larger_than_memory_says_so() -> None:
    tables = {"data": {"clients": 5}, "training": {"rounds": 1}, "model": {"name": "mlp", "hidden": ABSURD}}
    with pytest.raises(CoterieError, match="'mlp': hidden = 1000000000000000000 is not valid"):
        make_config(tables)
    from coterie.messages import ModelSpec
    from coterie.models import initial

    with pytest.raises(CoterieError, match=r"model 'mlp' for inputs of shape .* is larger than memory"):
        initial(ModelSpec("mlp", (10**9,), 10**9, {"hidden": 10**6}), 0)


def test_a_learning_rate_that_diverges_has_an_estimate() -> None:
    tables = {"data": {"clients": 5}, "training": {"rounds": 1, "epochs": 1, "lr": 1e18}}
    assert estimate(make_config(tables)).steps > 0
