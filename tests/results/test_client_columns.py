"""Columns of many clients: summarised in result.json, whole beside it, and read back as they were."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import coterie
from coterie.errors import CoterieError
from coterie.results import client_columns
from coterie.results.client_columns import joined, split, write
from coterie.results.run_folder import RunFolder
from coterie.testing import SMALL

N = 2001


def fields() -> dict[str, Any]:
    """A result with a column of each kind, as a run has it."""
    rng = np.random.default_rng(0)
    accuracies = [None if rng.random() < 0.3 else float(value) for value in rng.random(N)]
    groups = [None if client % 7 == 0 else client % 5 for client in range(N)]
    return {
        "accuracy": {"L": 0.5},
        "per_client": {"L": accuracies, "C": [None] * N, "short": [0.5, None]},
        "groups": groups,
        "true_groups": None,
        "memberships": [None if client % 3 == 0 else [0.25, 0.75] for client in range(N)],
        "traffic": {"up_bytes": 3, "down_bytes": 4, "by_client": {"up": [*range(N)], "down": [10**12] * N}},
        "newcomers": None,
        "events": [{"kind": "empty", "count": N, "clients": {str(client): 1 for client in range(N)}}],
        "details": {"pruned": 0.5, "pruned_by_client": {str(client): client / N for client in range(N)}},
    }


def test_columns_come_back_as_they_were(tmp_path: Path) -> None:
    before, beside = fields(), tmp_path / "clients.safetensors"
    content, arrays = split(before)
    assert before == fields()  # the result itself is not changed
    file = write(arrays, beside)
    assert file is not None
    text = json.dumps({**content, "columns": file})
    assert len(text) < 40_000  # where the columns themselves would take ten times as much
    assert joined(json.loads(text), beside) == before


def test_summaries_are_those_of_the_columns() -> None:
    whole, (content, _) = fields(), split(fields())
    values = np.array([value for value in whole["per_client"]["L"] if value is not None])
    summary = content["per_client"]["L"]
    assert (summary["entries"], summary["clients"]) == (N, len(values))
    assert summary["mean"] == pytest.approx(values.mean())
    assert summary["sd"] == pytest.approx(values.std(ddof=1))
    assert summary["quantiles"]["0.25"] == pytest.approx(np.quantile(values, 0.25))
    tenth = np.sort(values)[: int(np.ceil(len(values) / 10))]
    assert summary["worst_tenth"] == {"clients": len(tenth), "mean": pytest.approx(tenth.mean())}
    shown = summary["sample"]
    assert len(set(shown["clients"])) == 100
    assert [whole["per_client"]["L"][client] for client in shown["clients"]] == shown["values"]
    assert content["per_client"]["C"]["clients"] == 0
    assert content["per_client"]["short"] == [0.5, None]
    sizes = {str(group): whole["groups"].count(group) for group in range(5)}
    assert content["groups"]["largest"] == sizes
    assert content["groups"]["groups"] == 5


def test_of_errors_the_worst_tenth_are_the_highest() -> None:
    content, _ = split({**fields(), "metric": "mae", "per_client": {"L": [float(n) for n in range(N)]}})
    assert content["per_client"]["L"]["worst_tenth"] == {"clients": 201, "mean": 1900.0}
    assert content["traffic"]["by_client"]["up"]["worst_tenth"]["mean"] == 100.0  # bytes are no errors


def test_few_clients_stay_in_the_result() -> None:
    few = {**fields(), "per_client": {"L": [0.5] * 2000}, "groups": [0] * 2000}
    content, arrays = split(few)
    assert (content["per_client"], content["groups"]) == (few["per_client"], few["groups"])
    assert not any(name.startswith(("per_client", "groups")) for name in arrays)


@pytest.mark.parametrize(
    "arrays",
    [
        {},
        {"groups": np.zeros((3, 3))},
        {"groups": np.zeros(3, np.bool_)},
        {"groups": np.zeros(3), "groups.keys": np.zeros(2, np.int64)},
        {"groups": np.zeros(3), "groups.keys": np.zeros((3, 2), np.int64)},
        {"groups": np.zeros(3), "groups.lengths": np.zeros(0, np.int64)},
        {"groups": np.zeros(3), "groups.lengths": np.array([1.5, 1.5])},
        {"groups": np.zeros(3), "groups.lengths": np.array([[3]])},
        {"groups": np.zeros(3), "groups.lengths": np.array([2**62, 2**62, 2**62, 2**62, 3])},
    ],
)
def test_columns_that_somebody_made_up_are_refused(arrays: dict[str, Any], tmp_path: Path) -> None:
    beside = tmp_path / "clients.safetensors"
    file = write({"other": np.zeros(1), **arrays}, beside)
    content = {"groups": {"column": "groups"}, "columns": file}
    with pytest.raises(ValueError, match="has no column groups"):
        joined(content, beside)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[coterie.Result, Path]:
    """A run whose columns, of six clients, count as long."""
    monkeypatch.setattr(client_columns, "FEW", 5)
    return coterie.run(**SMALL | {"algorithm": "pacfl", "rounds": 1, "out": str(tmp_path / "run")}), tmp_path / "run"


@pytest.mark.integration
def test_a_run_with_many_clients_is_read_as_any_other(run: tuple[coterie.Result, Path]) -> None:
    result, folder = run
    stored = json.loads((folder / "result.json").read_text())
    assert stored["format"] == 2
    assert stored["per_client"]["L"]["column"] == "per_client.L"
    (file,) = folder.glob("clients-*.safetensors")
    assert stored["columns"] == file.name
    assert coterie.load(folder).to_json() == result.to_json()
    assert len(coterie.load(folder).to_frame("clients")) == 6
    coterie.resume(folder, rounds=2)  # goes on, and leaves no file of the old result
    (file,) = folder.glob("clients-*.safetensors")
    assert json.loads((folder / "result.json").read_text())["columns"] == file.name


@pytest.mark.integration
def test_columns_that_are_lost_damaged_or_of_another_result_are_refused(run: tuple[coterie.Result, Path]) -> None:
    _, folder = run
    (file,) = folder.glob("clients-*.safetensors")
    sound, text = file.read_bytes(), (folder / "result.json").read_text()

    def refused(says: str) -> None:
        with pytest.raises(CoterieError, match=says):
            RunFolder(folder).read_result()

    file.unlink()
    refused("missing.*coterie resume")
    file.write_bytes(sound[:-1] + bytes([sound[-1] ^ 1]))
    refused("not those that were written")
    file.rename(folder / "clients-0123.safetensors")
    (folder / "clients-0123.safetensors").write_bytes(sound)
    (folder / "result.json").write_text(text.replace(file.name, "clients-0123.safetensors"))
    refused("not that of its name")
    for name in ("../run/" + file.name, "/etc/passwd", "config.toml"):
        (folder / "result.json").write_text(text.replace(file.name, name))
        refused("does not name the file")
    file.write_bytes(sound)
    (folder / "result.json").write_text(text.replace('"column": "per_client.L"', '"column": "groups"'))
    assert RunFolder(folder).read_result() is not None  # it is the place that says which column, not the text
