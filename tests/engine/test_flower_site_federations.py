"""A server that begins one federation after another, each with a policy and a limit of its own."""

import json
import logging
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="needs the extra: pip install 'coterie[flower]'")

from flower_requests import REQUEST
from flower_sites import PlayedGrid, node_of, write_app

import coterie
from coterie.deploy.deployment import make_site, serve
from coterie.deploy.preview import check
from coterie.deploy.terms import read_site, read_terms
from coterie.engine.flower.site_record import SiteMemory
from coterie.errors import CoterieError
from coterie.messages import wire

pytestmark = pytest.mark.integration
NONCE = "0" * 32
TERMS: dict[str, Any] = {
    "algorithm": "fedavg",
    "model": {"name": "mlp", "hidden": 16},
    "training": {"lr": 0.1, "momentum": 0.0},
}


def name(number: int) -> str:
    return f"{number:016x}"


def allow(file: Path, federations: int) -> None:
    lines = [line for line in file.read_text().splitlines() if not line.startswith("max_federations")]
    file.write_text("\n".join([*lines, f"max_federations = {federations}"]) + "\n")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An app and a site."""
    write_app(tmp_path / "app", 1, **TERMS)
    return tmp_path


def site_of(folder: Path) -> Any:
    return make_site(read_terms(folder / "app"), read_site(folder / "site-0" / "site.toml"))


def problem(site: Any, number: int) -> str:
    return str(site.introduce(name(number), NONCE)["problem"])


def test_one_federation_too_many_is_refused_and_noted(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    site = site_of(folder)
    assert site.max_federations == 5
    for number in range(5):
        assert problem(site, number) == ""
    with caplog.at_level(logging.ERROR, logger="coterie"):
        assert "as many federations as max_federations" in problem(site, 5)
    refusal = f"federation {name(5)} would be number 6 that this site joins, and it joins 5: if you know who began it"
    remedy = "write max_federations = 6 into site.toml"
    [event] = [json.loads(line) for line in (site.state / "events.jsonl").read_text().splitlines()]
    assert event["kind"] == "refused"
    for text in (event["detail"], caplog.text):
        assert refusal in text
        assert remedy in text
    refused = wire.decode(site.answer(0, name(5), wire.encode(REQUEST)))
    assert refused.detail == "this site has not joined that federation"
    assert not (site.state / name(5)).exists()
    assert problem(site, 0) == ""  # those that it has joined go on
    assert not hasattr(wire.decode(site.answer(0, name(0), wire.encode(REQUEST))), "detail")


def test_what_the_refusal_says_to_write_helps(folder: Path) -> None:
    allow(folder / "site-0" / "site.toml", 1)
    assert problem(site_of(folder), 0) == ""
    assert problem(site_of(folder), 1)
    allow(folder / "site-0" / "site.toml", 2)
    assert problem(site_of(folder), 1) == ""
    assert SiteMemory(folder / "site-0" / "state").federations() == [name(0), name(1)]
    assert (
        check(folder / "app", folder / "site-0" / "site.toml")[-1] == "it has joined 2 federations, and joins 2 in all"
    )


def test_a_federation_whose_folder_was_removed_is_remembered(folder: Path) -> None:
    """It may be joined anew, as docs say where a file is damaged; another can't take its place."""
    allow(folder / "site-0" / "site.toml", 1)
    site = site_of(folder)
    assert problem(site, 0) == ""
    shutil.rmtree(site.state / name(0))
    assert "max_federations" in problem(site, 1)
    assert problem(site, 0) == ""


def test_folders_without_a_memory_count(folder: Path) -> None:
    allow(folder / "site-0" / "site.toml", 1)
    site = site_of(folder)
    assert problem(site, 0) == ""
    (site.state / "federations.json").unlink()
    assert "max_federations" in problem(site, 1)


def test_a_federation_that_it_refuses_takes_no_place(folder: Path) -> None:
    file = folder / "site-0" / "site.toml"
    file.write_text(f'{file.read_text()}policy = "{"0" * 16}"\nmax_federations = 1\n')
    assert "another policy" in problem(site_of(folder), 0)
    assert SiteMemory(folder / "site-0" / "state").federations() == []


def test_of_many_that_come_at_once_some_are_too_many(folder: Path) -> None:
    allow(folder / "site-0" / "site.toml", 3)
    with ThreadPoolExecutor(8) as pool:
        told = [*pool.map(lambda number: problem(site_of(folder), number), range(8))]
    assert told.count("") == 3
    assert len(SiteMemory(folder / "site-0" / "state").federations()) == 3


@pytest.mark.parametrize("content", ["", "{", "[]", '{"joined": 3}', '{"joined": ["../x"]}', '{"joined": [["a"]]}'])
def test_a_damaged_memory_is_told(folder: Path, content: str) -> None:
    site = site_of(folder)
    assert problem(site, 0) == ""
    (site.state / "federations.json").write_text(content)
    with pytest.raises(CoterieError, match=r"federations\.json' is damaged"):
        SiteMemory(site.state).federations()
    assert problem(site, 1)


def test_the_server_s_events_say_why_a_site_stays_away(folder: Path, tmp_path: Path) -> None:
    write_app(tmp_path / "other", 2, **TERMS, server={"min_clients": 1})
    for client in (0, 1):
        site_file = tmp_path / f"site-{client}" / "site.toml"
        allow(site_file, 1)
    make_site(read_terms(tmp_path / "other"), read_site(tmp_path / "site-0" / "site.toml")).join(name(0))
    grid = PlayedGrid()
    for client in (0, 1):
        grid.nodes[client + 1] = node_of(tmp_path / "other", site=str(tmp_path / f"site-{client}" / "site.toml"))
    serve(grid, read_terms(tmp_path / "other"))
    [event] = coterie.Result.load(tmp_path / "run").events
    assert event["kind"] == "turned away"
    assert "as many federations as max_federations in its site.toml allows" in event["example"]
