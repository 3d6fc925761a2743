"""Pages of all kinds in files, and a headless Chromium in which they are opened."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sample_page import sample_page

import coterie
from coterie.inspect.inspection import inspect
from coterie.report.folders import make_page
from coterie.report.page import render
from coterie.reproduce import reproduce
from coterie.run.validation import make_config

BOOK = Path(__file__).parents[1] / "reproduce" / "digits.toml"
SMALL = {"dataset": "digits-rotated", "clients": 8, "rounds": 3, "epochs": 1, "fraction": 0.5, "eval_every": 1}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    driver = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install .[browser]")
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"there is no browser: none of {', '.join(names)} is on the path")
    with driver.sync_playwright() as playwright:
        root = ["--no-sandbox"] if os.geteuid() == 0 else []
        opened = playwright.chromium.launch(executable_path=found, args=root)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page with everything and evil names; pages of real runs, comparisons, sweeps and a reproduction."""
    place = tmp_path_factory.mktemp("pages")
    runs = {
        "pacfl": {"algorithm": "pacfl", "newcomers": 0.25},
        "solo": {"algorithm": "solo", "newcomers": 0.25},
        "pruned": {"algorithm": "sub-fedavg-un", "curriculum": "", "hostile": 0.3},
        "unfinished": {"algorithm": "fedavg", "client_curriculum": ""},
        "curriculum": {"algorithm": "fedavg", "curriculum": "", "client_curriculum": ""},
        "hostile": {"algorithm": "fedavg", "hostile": 0.5, "drop": 0.2, "straggle": 0.1, "max_strikes": 2, "rounds": 6},
    }
    for name, settings in runs.items():
        coterie.run(out=str(place / name), **SMALL | settings)
    (place / "unfinished" / "result.json").unlink()
    (place / "unfinished" / "metrics.jsonl").write_bytes(b'{"round": 1, "L": NaN, "C": 0.5, "G": 0.4}\n{"round": 2, "L')
    few = SMALL | {"seeds": [0, 1], "jobs": 1, "target": "L=0.3"}
    coterie.compare(algorithms="fedavg,solo,pacfl:count=4", out=place / "compared", **few)
    (place / "compared" / "solo" / "seed-1" / "result.json").unlink()
    coterie.sweep(algorithm="pacfl", vary={"grouping.threshold": [60, 8, 1]}, out=place / "swept", **few)
    coterie.sweep(
        vary={"lr": [0.1, 0.01], "epochs": [1, 2, 3]}, out=place / "both", **few | {"seeds": [0], "rounds": 1}
    )
    reproduce("digits-table", book=BOOK, out=place / "reproduced", rounds_scale=0.5, jobs=1)
    look = make_config({"algorithm": {"name": "pacfl"}, "data": {"name": "digits", "clients": 6}})
    inspect(look, against="iid", super_clusters=3).save(place / "inspected")
    pages = {
        "comparison": make_page([place / "compared"]),
        "sweep": make_page([place / "swept"]),
        "sweep of two": make_page([place / "both"]),
        "reproduction": make_page([place / "reproduced"]),
        "sample": sample_page(),
        "runs": make_page([place / "pacfl", place / "solo"]),
        "pruned": make_page([place / "pruned"]),
        "unfinished": make_page([place / "unfinished"]),
        "curriculum": make_page([place / "curriculum"]),
        "hostile": make_page([place / "hostile"]),
    }
    for name, page in pages.items():
        (place / f"{name}.html").write_text(render(page), encoding="utf-8")
    return {name: place / f"{name}.html" for name in pages} | {"inspection": place / "inspected" / "inspection.html"}


class Opened:
    """A page in a tab, with everything that it says or asks for."""

    def __init__(self, browser: Any, file: Path, width: int = 1400, theme: str = "light", **options: Any) -> None:
        self.context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme, **options)
        self.tab, self.said, self.asked = self.context.new_page(), [], []
        self.tab.on("console", lambda message: self.said.append(message.text))
        self.tab.on("pageerror", lambda error: self.said.append(str(error)))
        self.tab.on("request", lambda request: self.asked.append(request.url))
        self.tab.goto(file.as_uri())

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()


def each_variant(page: Any, at_most: int | None = None) -> Iterator[None]:
    """Show the first variant of all switches, then the second, and so on, as often as the longest needs."""
    switches = [switch.locator("input").all() for switch in page.tab.locator(".switch").all()]
    longest = max(map(len, switches), default=1)
    for variant in range(min(longest, at_most or longest)):
        for radios in switches:
            radios[min(variant, len(radios) - 1)].check()
        page.tab.wait_for_timeout(60)
        yield
