"""A site whose data change by a sample, between two rounds or two federations: the difference would tell of it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra: pip install 'coterie[flower]'")

from flower_requests import REQUEST
from flower_sites import write_app

from coterie.deploy.deployment import make_site
from coterie.deploy.terms import read_site, read_terms
from coterie.errors import CoterieError
from coterie.messages import Failure, Request, wire

pytestmark = pytest.mark.integration
FEDERATION, OTHER, NONCE = "0123456789abcdef", "f" * 16, "0" * 32


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_app(
        tmp_path / "app", 2, algorithm="fedavg", model={"name": "mlp", "hidden": 16},
        training={"lr": 0.1, "momentum": 0.0, "rounds": 9}, privacy={"min_samples": 10},
    )  # fmt: skip
    return tmp_path


def site_of(folder: Path) -> Any:
    return make_site(read_terms(folder / "app"), read_site(folder / "site-0" / "site.toml"))


def asked(folder: Path, round: int, federation: str = FEDERATION) -> Any:
    request: Request = replace(REQUEST, round=round)
    return wire.decode(site_of(folder).answer(0, federation, wire.encode(request)))


def keep(folder: Path, train: int, test: int | None = None) -> None:
    """Let the site have the first of its samples only; without `test`, it draws its own test part."""
    file = folder / "site-0" / "data.npz"
    everything = folder / "everything.npz"
    if not everything.exists():
        everything.write_bytes(file.read_bytes())
    with np.load(everything) as arrays:
        parts = {name: arrays[name][: train if "train" in name else test] for name in arrays}
    np.savez(file, **{name: part for name, part in parts.items() if test is not None or "train" in name})


@pytest.mark.parametrize("change", [(-1, 0), (9, 0), (0, 1), (10, -9)])
@pytest.mark.parametrize("federation", [FEDERATION, OTHER])
def test_a_few_samples_more_or_less_are_refused(folder: Path, change: tuple[int, int], federation: str) -> None:
    keep(folder, 200, 100)
    assert site_of(folder).introduce(FEDERATION, NONCE)["samples"] == 200
    assert not isinstance(asked(folder, 1), Failure)
    site_of(folder).join(federation)
    keep(folder, 200 + change[0], 100 + change[1])
    said = site_of(folder).introduce(federation, NONCE)
    assert (said["samples"], said["tests"]) == (0, 0)
    refused = asked(folder, 2, federation)
    for text in (said["problem"], refused.detail):
        assert "a few of its samples came or went" in text
    [event] = (folder / "site-0" / "state" / federation / "events.jsonl").read_text().splitlines()
    assert (json.loads(event)["kind"], json.loads(event)["round"]) == ("refused", 2)
    keep(folder, 200, 100)
    assert not isinstance(asked(folder, 2), Failure)


@pytest.mark.parametrize("counts", [(210, 100), (190, 110), (150, 80)])
def test_many_more_or_less_are_not(folder: Path, counts: tuple[int, int]) -> None:
    keep(folder, 200, 100)
    site_of(folder).join(FEDERATION)
    assert not isinstance(asked(folder, 1), Failure)
    keep(folder, *counts)
    assert not isinstance(asked(folder, 2), Failure)
    keep(folder, counts[0] + 1, counts[1])
    assert isinstance(asked(folder, 3), Failure)


def test_without_a_test_part_of_its_own_all_samples_are_counted(folder: Path) -> None:
    """Ten more are eight to train on and two to test on, but all are drawn anew."""
    keep(folder, 200)
    site_of(folder).join(FEDERATION)
    assert not isinstance(asked(folder, 1), Failure)
    keep(folder, 210)
    assert not isinstance(asked(folder, 2), Failure)
    keep(folder, 211)
    assert isinstance(asked(folder, 3), Failure)


@pytest.mark.parametrize("content", ["", "[3]", '{"train": "x", "test": 3}'])
def test_a_damaged_count_is_told(folder: Path, content: str) -> None:
    site_of(folder).join(FEDERATION)
    assert not isinstance(asked(folder, 1), Failure)
    (folder / "site-0" / "state" / "samples.json").write_text(content)
    with pytest.raises(CoterieError, match=r"samples\.json' is damaged"):
        asked(folder, 2)
