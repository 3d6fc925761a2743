"""A method, a model, a partition and a data set of another installed package."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from command_line import SMALL, outcome, refusal, spawn, spawn_each
from plugin_sources import ALL

GROUPS = {
    "algorithms": ("coterie.algorithms", "median", "Median"),
    "models": ("coterie.models", "narrow", "narrow"),
    "partitions": ("coterie.partitions", "stripes", "stripes"),
    "datasets": ("coterie.datasets", "blobs", "blobs"),
}


def install(place: Path, *entries: tuple[str, str, str], source: str = ALL, name: str = "outside") -> dict[str, str]:
    """Lay a package out as pip does, and return the environment in which Python finds it."""
    site = place / "site"
    (site / f"{name}-1.0.dist-info").mkdir(parents=True)
    (site / f"{name}_stuff.py").write_text(source)
    (site / f"{name}-1.0.dist-info" / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    text = "".join(f"[{group}]\n{entry} = {name}_stuff:{item}\n" for group, entry, item in entries)
    (site / f"{name}-1.0.dist-info" / "entry_points.txt").write_text(text)
    return {"PYTHONPATH": os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))}


CHOSEN = ["--algorithm", "median", "--model", "narrow:width=5", "--partition", "stripes", "--dataset", "blobs"]


@pytest.mark.integration
def test_what_is_installed_is_everywhere(place: Path) -> None:
    short = ["--clients", "4", "--fraction", "0.5", "--rounds", "2", "--epochs", "1", "--out", "run", "--quiet"]
    commands = [*([kind] for kind in GROUPS), ["models", "narrow"], ["run", *CHOSEN, *short]]
    *lists, network, run = spawn_each(*commands, env=install(place, *GROUPS.values()))
    for answer, (_, entry, _) in zip(lists, GROUPS.values(), strict=True):
        assert any(line.split()[:1] == [entry] and len(line.split()) > 2 for line in answer.out.splitlines())
    assert "width = 7  [whole number, at least 1]\n      of the hidden layer" in network.out
    assert (run.code, run.err) == (0, "")
    result = outcome(place / "run")["result"]
    assert (result["algorithm"], result["data"], result["model"]) == ("median", "blobs", "narrow")


@pytest.mark.integration
def test_what_is_installed_needs_no_decorator(place: Path) -> None:
    source = "\n".join(line for line in ALL.splitlines() if not line.startswith("@coterie."))
    answer = spawn("run", *CHOSEN, "--print-config", env=install(place, *GROUPS.values(), source=source))
    assert (answer.code, answer.err) == (0, "")
    assert 'name = "median"' in answer.out


@pytest.mark.integration
def test_a_name_that_is_taken_is_not_dropped_in_silence(place: Path) -> None:
    env = install(place, ("coterie.algorithms", "fedavg", "Mine"), source='class Mine:\n    """Mine."""\n')
    message = refusal(spawn("algorithms", env=env))
    assert [name for name in ("'fedavg'", "outside_stuff") if name not in message] == []


@pytest.mark.integration
def test_two_packages_with_one_name(place: Path) -> None:
    for name in ("outside", "beyond"):
        env = install(place, ("coterie.algorithms", "mine", "Mine"), source='class Mine:\n    """Mine."""\n', name=name)
    assert "'mine'" in refusal(spawn("algorithms", env=env))


@pytest.mark.integration
@pytest.mark.parametrize("source", ["import no_such_module\n", "1 / 0\n", "x = 1\n"], ids=["needs", "raises", "lacks"])
def test_an_installed_package_that_is_broken_is_named(source: str, place: Path) -> None:
    env = install(place, ("coterie.algorithms", "mine", "Mine"), source=source)
    message = refusal(spawn("run", *SMALL, "--print-config", env=env))
    assert [name for name in ("'mine'", "outside") if name not in message] == []


@pytest.mark.integration
def test_a_required_option_is_shown_as_such(place: Path) -> None:
    env = install(place, GROUPS["models"], source=ALL.replace('"of the hidden layer"] = 7', '"of the hidden layer"]'))
    answer = spawn("models", "narrow", env=env)
    assert answer.code == 0
    assert "width" in answer.out
    assert "_empty" not in answer.out
