"""Flower's simulation on Ray comes to the numbers of the embedded engine."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from flower_driver import SETTINGS
from flower_processes import NAMESPACE, namespace_refused

import coterie
from coterie.errors import CoterieError
from coterie.experiment.folder import RunFolder
from coterie.federation.checkpoint import load_checkpoint
from coterie.testing import outcome

METHODS = ["fedavg", "pacfl", "flis-dc", "flag", "scaffold", "sub-fedavg-un"]
REFUSED = namespace_refused()

on_ray = [
    pytest.mark.skipif(find_spec("flwr") is None, reason="needs the extra: pip install 'coterie[flower]'"),
    pytest.mark.skipif(REFUSED is not None, reason=f"Ray listens on all interfaces; {REFUSED}"),
]


def simulate(*arguments: str) -> None:
    """Run the driver where Ray can be reached by nobody else."""
    script = Path(__file__).with_name("flower_driver.py")
    done = subprocess.run(
        [*NAMESPACE, sys.executable, str(script), *arguments], capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def arrays(value: object, name: str = "") -> dict[str, np.ndarray]:
    """All arrays of a state, by where they are in it."""
    if isinstance(value, np.ndarray):
        return {name: value}
    if isinstance(value, dict):
        return {k: v for key, item in value.items() for k, v in arrays(item, f"{name}/{key}").items()}
    if isinstance(value, tuple | list):
        return {k: v for key, item in enumerate(value) for k, v in arrays(item, f"{name}/{key}").items()}
    return {}


def assert_same(method: str, simulated: Path, embedded: Path) -> None:
    coterie.run(algorithm=method, **SETTINGS, out=str(embedded))
    a, b = outcome(coterie.Result.load(simulated)), outcome(coterie.Result.load(embedded))
    assert (a.pop("engine"), b.pop("engine")) == ("flower", "embedded")
    rows = [
        [{k: v for k, v in row.items() if k not in ("loss", "discrepancy")} for row in r["history"]] for r in (a, b)
    ]
    assert rows[0] == rows[1]  # groups, accuracies and bytes of each round
    assert (a["groups"], a["traffic"], a["per_client"]) == (b["groups"], b["traffic"], b["per_client"])
    models = [arrays(load_checkpoint(RunFolder(folder).checkpoint)) for folder in (simulated, embedded)]
    assert models[0].keys() == models[1].keys()
    for name, array in models[0].items():
        np.testing.assert_allclose(array, models[1][name], atol=1e-5, err_msg=name)
    states = [sorted(path.relative_to(f) for path in f.rglob("clients/*/*.safetensors")) for f in (simulated, embedded)]
    assert states[0] == states[1]
    assert not list(simulated.glob(".*"))  # what the processes shared is gone


@pytest.mark.parametrize("method", [pytest.param("pacfl", marks=on_ray)])
def test_killed_and_resumed_it_comes_to_the_numbers_of_the_embedded_engine(method: str, tmp_path: Path) -> None:
    simulate("--killed", str(tmp_path), method)
    assert_same(method, tmp_path / method, tmp_path / "embedded")


@pytest.mark.slow
@pytest.mark.parametrize("method", [pytest.param(method, marks=on_ray) for method in METHODS])
def test_the_numbers_of_the_embedded_engine(method: str, tmp_path: Path) -> None:
    simulate(str(tmp_path), method)
    assert_same(method, tmp_path / method, tmp_path / "embedded")


@pytest.mark.slow
@pytest.mark.parametrize("method", [pytest.param("fedavg", marks=on_ray)])
def test_a_cluster_that_is_there(method: str, tmp_path: Path) -> None:
    simulate("--cluster", str(tmp_path), method)
    assert_same(method, tmp_path / method, tmp_path / "embedded")


def test_without_the_extra_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coterie.engine.flower.find_spec", lambda name: None)
    with pytest.raises(CoterieError, match=r"engine 'flower' needs flwr and ray, .*: pip install 'coterie\[flower\]'"):
        coterie.run(dataset="digits", engine="flower", rounds=1)


def test_settings_that_do_not_go_together() -> None:
    with pytest.raises(CoterieError, match="keeps clients' states on disk"):
        coterie.run(dataset="digits", engine="flower", state="memory")
    with pytest.raises(CoterieError, match="address is that of a Ray cluster"):
        coterie.run(dataset="digits", address="auto")
    with pytest.raises(CoterieError, match="plays clients that are late with --straggle"):
        coterie.run(dataset="digits", deadline=3.0)
