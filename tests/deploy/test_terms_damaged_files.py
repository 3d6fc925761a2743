"""Damaged files of a federation of real machines: a sentence that names file and place."""

import json
import logging
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from coterie.deploy.app_folder import init
from coterie.deploy.terms import read_site, read_terms
from coterie.engine.flower.app import log_error
from coterie.engine.flower.identity import NO_CERTIFICATE, signed
from coterie.engine.flower.site import DeployedSite
from coterie.engine.flower.site_registry import SiteRegistry
from coterie.errors import CoterieError
from coterie.federation.events import Events
from coterie.messages import Failure
from coterie.results.run_folder import RunFolder

sys.path.append(str(Path(__file__).parents[1] / "cli"))
from damages import bytes_of, documents


def tried(read: Any, file: Path, contents: list[tuple[str, bytes]]) -> int:
    """Read damaged contents; return how many were refused, each with a sentence that names the file."""
    refusals = {}
    for description, content in contents:
        file.write_bytes(content)
        try:
            read()
        except CoterieError as error:
            refusals[description] = str(error)
    assert not [
        (what, text) for what, text in refusals.items() if file.name not in text and "[samples] was" not in text
    ]
    assert not [(what, text) for what, text in refusals.items() if not text.isprintable()]
    return len(refusals)


NONCE = "0" * 32


def introduction(registry: SiteRegistry, number: int) -> dict[str, Any]:
    said = {"name": f"site-{number}", "samples": 10, "tests": 3}
    return signed(said, str(number) * 32, registry.federation, NO_CERTIFICATE, NONCE)


def test_sites(tmp_path: Path) -> None:
    file = RunFolder(tmp_path).sites_file
    registry = SiteRegistry.open(file, {"shape": [8]})
    registry.register({n: introduction(registry, n) for n in (1, 2)}, {1: NONCE, 2: NONCE})
    content = json.loads(file.read_text())
    contents = [(text, json.dumps(document).encode()) for text, document in documents(content)]
    contents += bytes_of(file.read_bytes(), 200)

    def read() -> None:
        known = SiteRegistry.open(file, {"shape": [8]})
        known.register({7: introduction(known, 7)}, {7: NONCE})
        assert RunFolder(tmp_path).read_sites()

    assert tried(read, file, contents) > len(contents) // 2


def test_a_damaged_list_of_sites_is_named_on_the_page(tmp_path: Path) -> None:
    RunFolder(tmp_path).sites_file.write_text('{"sites": {"a": {"client": "first"}}}')
    assert RunFolder(tmp_path).read_sites() == (
        {},
        "sites.json is damaged (sites.a.client: should be a whole number, not a text): the names of sites are not "
        "shown.",
    )


@pytest.mark.parametrize("name", ["federation.toml", "site.toml"])
def test_terms_and_site(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "app"
    init(folder)
    file = next(folder.rglob(name))
    text = file.read_text()
    tables = tomllib.loads(text)
    wrong = ["3", '"x"', "[]", "{}", "-1", "true", "1e300", "9" * 4000, "nan", "[[1]]", "1000000000000000000"]
    contents = bytes_of(text.encode(), 150)
    lines = text.splitlines()
    changed = []
    for number, line in enumerate(lines):
        if "=" in line and not line.startswith("#"):
            for value in wrong:
                new = [*lines[:number], f"{line.partition('=')[0]}= {value}", *lines[number + 1 :]]
                changed.append((f"line {number}: {value}", "\n".join(new).encode()))
    for section in {*tables, "run", "engine", "training", "samples", "server"}:
        changed.append(
            (f"{section} = 1", f"{section} = 1\n".encode() + text.replace(f"[{section}]", "[other]").encode())
        )
    read = (lambda: read_terms(file.parent)) if name == "federation.toml" else (lambda: read_site(file))
    assert tried(read, file, [*contents, *changed]) > len(changed) // 3


def test_a_secret(tmp_path: Path) -> None:
    site = DeployedSite("a", tmp_path, lambda: None, lambda: None, lambda: None)  # type: ignore[arg-type, return-value]
    for content in (b"", b"\xff" * 32, b"0" * 31, b"0" * 10**6, bytes(32)):
        (tmp_path / "secret").write_bytes(content)
        with pytest.raises(CoterieError, match=r"secret' is damaged"):
            site.secret()


def test_the_log_of_a_site_has_no_lines_of_others(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise ValueError("x\n2030-01-01 INFO all is well\x1b[2J")
    except ValueError as error:
        with caplog.at_level(logging.ERROR, "coterie"):
            log_error("a request could not be answered", error)
    (record,) = caplog.records
    first, *rest = record.getMessage().split("\n")
    assert first == "a request could not be answered: x 2030-01-01 INFO all is well [2J"
    assert rest
    assert all(line.startswith("  | ") for line in rest)
    assert "\x1b" not in record.getMessage()


def test_kinds_of_events_are_one_line_too() -> None:
    events = Events()
    events.note(Failure(0, 1, "x\n\x1b[31m" + "y" * 1000, "a\nb"))
    (entry,) = events.entries()
    assert entry["kind"].isprintable()
    assert len(entry["kind"]) <= 40
    assert entry["example"].isprintable()
