"""A small comparison that was made, and what is read from its page and its folder."""

import json
from pathlib import Path
from typing import Any

import pytest

import coterie
from coterie.results.charts import Chart, NumberCell, Page, Table, charts_of

SMALL: dict[str, Any] = {
    "dataset": "digits-rotated", "clients": 8, "rounds": 3, "epochs": 1, "fraction": 0.5, "eval_every": 1,
    "model": "mlp:hidden=16", "lr": 0.05, "jobs": 1,
}  # fmt: skip
LABELS, SEEDS = ("fedavg", "solo", "pacfl:count=4"), (0, 1)
MAIN = "Mean ± standard deviation over seeds"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("compared") / "c"
    coterie.compare(algorithms=list(LABELS), seeds=SEEDS, target="L=0.1", out=place, **SMALL)
    return place


def titles(page: Page) -> dict[str, Chart]:
    return {chart.title: chart for _, chart in charts_of(page)}


def grid(page: Page, title: str) -> list[dict[str, Any]]:
    table = titles(page)[title]
    assert isinstance(table, Table)
    return [
        {c: cell.text if isinstance(cell, NumberCell) else cell for c, cell in zip(table.columns, row, strict=True)}
        for row in table.rows
    ]


def words(page: Page) -> str:
    return " ".join([*page.summary, *(text for section in page.sections for text in section.text)])


def folder(label: str, seed: int) -> str:
    return f"{label.replace(':', '-')}/seed-{seed}"


def stored(place: Path, label: str) -> list[dict[str, Any]]:
    return [json.loads((place / folder(label, seed) / "result.json").read_text()) for seed in SEEDS]
