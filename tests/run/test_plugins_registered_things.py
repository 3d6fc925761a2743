"""What other processes must import to know what a run uses: rules and measures as well as methods and networks."""

import importlib
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import coterie
from coterie.algorithms import ALGORITHMS
from coterie.clustering import RULES
from coterie.data import DATASETS
from coterie.errors import CoterieError
from coterie.messages import ModelSpec
from coterie.run.engines import _imported_by_clients
from coterie.run.plugins import modules_to_import, registered_things
from coterie.run.settings import settings_to_config
from coterie.similarity import MEASURES

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugin.py"
SMALL: dict[str, Any] = {"dataset": "digits-rotated", "clients": 4, "rounds": 1, "epochs": 1, "model": "mlp:hidden=8"}


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module that was imported, not named as plugin; it registers a method, a rule and a measure."""
    for registry in (ALGORITHMS, RULES, MEASURES, DATASETS):
        list(registry)  # loads what is built in
        monkeypatch.setattr(registry, "_items", dict(registry._items))
    shutil.copy(EXAMPLE, tmp_path / "a_module_of_mine.py")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("a_module_of_mine")
    yield "a_module_of_mine"
    del sys.modules["a_module_of_mine"]


@pytest.mark.parametrize(
    "settings",
    [{"algorithm": "capped:most=50"}, {"algorithm": "pacfl", "rule": "ratio:least=1.2"},
     {"algorithm": "pacfl:measure=chordal"}],
)  # fmt: skip
def test_methods_rules_and_measures_of_a_module_are_imported_elsewhere(module: str, settings: dict[str, str]) -> None:
    config = settings_to_config(None, SMALL | settings)
    assert modules_to_import(registered_things(config)) == ([module], None)


def test_what_is_ours_needs_no_import() -> None:
    config = settings_to_config(None, SMALL | {"algorithm": "pacfl:measure=theta1", "rule": "gap"})
    names = [name for _, name in registered_things(config)]
    assert names == ["pacfl", "mlp", "digits-rotated", "gap", "theta1", "cross-entropy", "accuracy"]
    assert modules_to_import(registered_things(config)) == ([], None)


def test_parts_of_a_mixture_count_too(module: str) -> None:
    DATASETS._items["my-digits"] = type("Source", (), {"__module__": module})  # type: ignore[assignment]
    config = settings_to_config(None, {"dataset": "digits"}).changed(data={"name": "mix", "of": "usps+my-digits"})
    assert (DATASETS, "my-digits") in registered_things(config)
    assert modules_to_import(registered_things(config))[0] == [module]


def test_a_rule_and_a_measure_of_this_session_run_here(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RULES["ratio"], "__module__", "__main__")
    with pytest.raises(CoterieError, match="rule 'ratio' is defined in this session only: put it into a file"):
        coterie.compare(algorithms="pacfl,pacfl:p=2", rule="ratio", seeds=[0], jobs=2, **SMALL)
    monkeypatch.setattr(MEASURES["chordal"], "__module__", "__main__", raising=False)
    with pytest.raises(CoterieError, match="measure 'chordal' is defined in this session only"):
        coterie.compare(algorithms="pacfl:measure=chordal,fedavg", seeds=[0], jobs=2, **SMALL)


def test_rays_processes_import_a_network_and_a_measure(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """But neither a method nor a rule, which stay with the server and may be part of a script."""
    config = settings_to_config(None, SMALL | {"algorithm": "pacfl:measure=chordal", "rule": "ratio"})
    spec = ModelSpec("mlp", (1, 8, 8), 10)
    monkeypatch.setattr(RULES["ratio"], "__module__", "__main__")
    assert _imported_by_clients(config, spec) == [module]
    monkeypatch.setattr(MEASURES["chordal"], "__module__", "__main__", raising=False)
    with pytest.raises(CoterieError, match="measure 'chordal' is part of a script, which Ray's processes can't import"):
        _imported_by_clients(config, spec)


@pytest.mark.integration
def test_workers_know_a_rule_and_a_measure_of_a_module(module: str) -> None:
    labels = ["pacfl:measure=chordal,p=1", "pacfl:p=2"]
    comparison = coterie.compare(algorithms=labels, rule="ratio:least=1.2", seeds=[0], jobs=2, **SMALL)
    assert not comparison.failed
    assert [*comparison.results] == labels
