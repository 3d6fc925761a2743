"""`coterie coreset`: its three outputs, its flags, and what it refuses."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from command_line import cli, refusal

from coterie.coreset import Coreset, baseline

RING = "\n".join(f"n{i},n{(i + 1) % 6}" for i in range(6))


@pytest.fixture
def ring(place: Path) -> np.ndarray:
    """A ring of six nodes in edges.csv, costs in cost.csv; its matrix is returned."""
    (place / "edges.csv").write_text(RING)
    (place / "cost.csv").write_text("".join(f"n{i},{(i + 1) / 10}\n" for i in range(6)))
    return np.array([[float(abs(i - j) in (1, 5)) for j in range(6)] for i in range(6)])


COST = np.arange(1, 7) / 10


def test_json_is_what_the_estimator_finds(ring: np.ndarray) -> None:
    answer = cli(
        "coreset", "edges.csv", "-k", 3, "--cost", "cost.csv", "--kappa", 0.5, "--steps", 2, "--normalise",
        "--smoothness", 0.8, "--format", "json",
    )  # fmt: skip
    assert answer.code == 0, answer.err
    found = json.loads(answer.out)
    expected = Coreset(3, 0.5, 2, True, smoothness=0.8).fit(ring, COST)
    assert found["indices"] == expected.indices_.tolist()
    assert found["names"] == [f"n{i}" for i in expected.indices_]
    assert found["weights"] == pytest.approx(expected.weights_.tolist())
    assert found["costs"] == pytest.approx(COST[expected.indices_].tolist())
    assert (found["total_cost"], found["error"], found["bound"]) == pytest.approx(
        (expected.total_cost_, expected.error_, expected.bound_)
    )
    assert (found["nodes"], found["edges"], found["total_weight"]) == (6, 6, pytest.approx(1))


def test_csv(ring: np.ndarray, place: Path) -> None:
    assert cli("coreset", "edges.csv", "-k", 3, "--format", "csv", "--out", "found.csv").out == ""
    rows = list(csv.DictReader((place / "found.csv").read_text().splitlines()))
    expected = Coreset(3).fit(ring)
    assert [row["node"] for row in rows] == [f"n{i}" for i in expected.indices_]
    assert [float(row["weight"]) for row in rows] == expected.weights_.tolist()
    assert {row["cost"] for row in rows} == {"1.0"}


def test_table(ring: np.ndarray) -> None:
    answer = cli("coreset", "edges.csv", "-k", 2, "--cost", "cost.csv")
    expected = Coreset(2).fit(ring, COST)
    for node, weight in zip(expected.indices_, expected.weights_, strict=True):
        assert any(line.split() == [f"n{node}", f"{weight:.6f}", f"{COST[node]:g}"] for line in answer.out.splitlines())
    assert f"2 of 6 nodes (6 edges), ℓ = 1, total cost {expected.total_cost_:g}" in answer.out
    assert f"error ‖P^ℓ w − 1/n‖ = {expected.error_:.4g}" in answer.out


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("frank-wolfe", {}),
        ("frank-wolfe", {"share": True}),
        ("k-means", {"seed": 4}),
        ("spectral", {"seed": 4}),
        ("random", {"seed": 4}),
        ("betweenness", {"share": True}),
    ],
)
def test_baselines(ring: np.ndarray, method: str, options: dict[str, object]) -> None:
    flags = ["--share"] if options.get("share") else []
    flags += ["--seed", "4"] if "seed" in options else []
    answer = cli("coreset", "edges.csv", "-k", 2, "--method", method, "--format", "json", *flags)
    assert answer.code == 0, answer.err
    expected = baseline(method, ring, 2, **options)  # type: ignore[arg-type]
    assert json.loads(answer.out)["indices"] == expected.indices.tolist()
    assert json.loads(answer.out)["weights"] == pytest.approx(expected.weights.tolist())


def test_points(place: Path) -> None:
    points = np.random.default_rng(0).normal(size=(50, 2))
    np.savez(place / "cloud.npz", points=points)
    answer = cli("coreset", "cloud.npz", "-k", 4, "--format", "json")
    assert json.loads(answer.out)["indices"] == Coreset(4).fit_points(points).indices_.tolist()
    assert cli("coreset", "cloud.npz", "-k", 4, "--method", "k-means").code == 0


def test_directed_graphs_are_refused_or_symmetrised(place: Path) -> None:
    np.savez(place / "a.npz", adjacency=np.triu(np.ones((4, 4)), 1))
    assert "--symmetrise" in refusal(cli("coreset", "a.npz", "-k", 2))
    assert cli("coreset", "a.npz", "-k", 2, "--symmetrise").code == 0


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--kappa", "0"], "kappa is above 0 and at most 1, got 0"),
        (["--kappa", "1.5"], "kappa"),
        (["-k", "0"], "k, the number of points, is a whole number from 1"),
        (["--steps", "0"], "steps is a whole number from 1"),
        (["--smoothness", "2"], "smoothness"),
        (["--cost", "none.csv"], "there is no file 'none.csv'"),
        (["--cost", "short.csv"], "there are 6 nodes"),
        (["--cost", "negative.csv"], "cost of node n0, -1, is negative"),
        (["--method", "random", "--kappa", "0.5"], "belong to scgiga, not to random"),
        (["--share"], "--share belongs to frank-wolfe and betweenness"),
        (["--method", "best"], "'best' is not one of"),
    ],
)
def test_refusals(ring: np.ndarray, place: Path, flags: list[str], said: str) -> None:
    (place / "short.csv").write_text("1\n2\n")
    (place / "negative.csv").write_text("-1\n2\n3\n4\n5\n6\n")
    assert said in refusal(cli("coreset", "edges.csv", "-k", 2, *flags))


def test_nodes_numbered_with_large_gaps(place: Path) -> None:
    np.savez(place / "big.npz", edges=np.array([[0, 1], [1, 10**12]]))
    assert "without large gaps" in refusal(cli("coreset", "big.npz", "-k", 3))


def test_named_edges_in_errors_and_symmetrised(place: Path) -> None:
    (place / "bad.csv").write_text("a,b,1\nb,c,-1\n")
    assert "weight of edge (b, c), -1, is negative" in refusal(cli("coreset", "bad.csv", "-k", 1))
    (place / "two.csv").write_text("a,b,1\nb,a,2\n")
    assert "--symmetrise" in refusal(cli("coreset", "two.csv", "-k", 1))
    answer = cli("coreset", "two.csv", "-k", 1, "--symmetrise")
    assert answer.code == 0, answer.err
    assert "1 of 2 nodes (1 edge), " in answer.out


def test_files_that_are_not_there(place: Path) -> None:
    assert refusal(cli("coreset", "none.npz", "-k", 2)) == "coterie: there is no file 'none.npz'"
    answer = cli("coreset", "none.npz")
    assert answer.code == 2
    assert "-k" in answer.err


def test_help_waits_for_nothing_heavy() -> None:
    code = (
        "import sys, coterie.cli.main\n"
        "heavy = {'torch', 'scipy', 'sklearn', 'matplotlib'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
