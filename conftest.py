"""For all tests: none is timed or random, and modules that can't be imported without an extra are not collected."""

import gc
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("coterie", deadline=None, derandomize=True, max_examples=25)
settings.register_profile("thorough", settings.get_profile("coterie"), max_examples=500)  # of `make slow`
settings.load_profile("coterie")

collect_ignore = [] if find_spec("flwr_datasets") else ["src/coterie/engine/flower/partitioner.py"]
collect_ignore_glob = ["tests/*/conftest.py"]  # several would be one module to doctest


def pytest_collection_finish() -> None:
    """Keep what was imported and collected out of all later garbage collections, a sixth of the time of many tests."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def registries_put_back() -> Iterator[None]:
    """What is registered in this process, and the modules of plugins, go with the test."""
    from coterie.algorithms import ALGORITHMS
    from coterie.clustering import RULES
    from coterie.data import DATASETS, PARTITIONS, registries
    from coterie.models import MODELS
    from coterie.similarity import MEASURES

    all_of_them = (ALGORITHMS, MODELS, PARTITIONS, DATASETS, RULES, MEASURES)
    for registry in all_of_them:
        list(registry)  # loads what is built in
    items = [dict(registry._items) for registry in all_of_them]
    traits, modules = dict(registries._TRAITS), set(sys.modules)
    yield
    for registry, before in zip(all_of_them, items, strict=True):
        registry._items.clear()
        registry._items.update(before)
    registries._TRAITS.clear()
    registries._TRAITS.update(traits)
    for name in set(sys.modules) - modules:
        if name.startswith("coterie_plugin_"):
            del sys.modules[name]


POLICIES: dict[str, Any] = {}


@pytest.fixture
def policies_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A federation is rehearsed once for all tests that have its terms; where a run is written is none of them."""
    from coterie.deploy.rehearsal import policy_of

    def policy(terms: Any) -> Any:
        if terms.config.run.plugins:  # files that may be others under the same names
            return policy_of(terms)
        key = repr((terms.config.changed(run={"out": None}), terms.samples))
        if key not in POLICIES:
            POLICIES[key] = policy_of(terms)
        return POLICIES[key]

    for user in ("deployment", "preview"):
        monkeypatch.setattr(f"coterie.deploy.{user}.policy_of", policy)


@pytest.fixture(autouse=True)
def _examples_leave_nothing(request: pytest.FixtureRequest) -> None:
    """What examples in pages register goes with them."""
    if isinstance(request.node, pytest.DoctestItem) and request.node.path.suffix == ".md":
        request.getfixturevalue("registries_put_back")
