"""Damaged files in folders: every value of every file, and every command that reads it. None of it is called a bug."""

from __future__ import annotations

import json
import shutil
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import cli
from damages import bytes_of, documents, text_of

from coterie.results.formats import toml_value

SMALL = [
    "--dataset", "digits-rotated", "--clients", "8", "--fraction", "0.5", "--rounds", "2", "--epochs", "1",
    "--eval-every", "1", "--model", "mlp:hidden=8", "--lr", "0.05", "--quiet",
]  # fmt: skip
RUNS = {
    "grouped": [
        "--algorithm", "pacfl", "--newcomers", "0.25", "--join-at", "2", "--target", "L=0.1", "--drop", "0.2",
        "--hostile", "0.2",
    ],
    "pruned": ["--algorithm", "sub-fedavg-un", "--model", "lenet5"],
    "soft": ["--algorithm", "fedsoft", "--groups", "2"],
}  # fmt: skip
QUICK, ALL = 29, 1
"""Every so many-th of the damages is tried."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs with all that a result can hold, one that was interrupted, a comparison and a reproduction."""
    folder = tmp_path_factory.mktemp("world")
    for name, flags in RUNS.items():
        assert cli("run", *SMALL, *flags, "--out", folder / name).code == 0
    shutil.copytree(folder / "soft", folder / "begun")
    (folder / "begun" / "result.json").unlink()
    compared = ["--algorithms", "fedavg,solo", "--seeds", "0", "--target", "L=0.1", "--jobs", "1"]
    assert cli("compare", *compared, *SMALL, "--out", folder / "compared").code == 0
    assert cli("reproduce", "sub-fedavg-costs", "--out", folder / "reproduced", "--quiet").code == 0
    return folder


def as_toml(document: dict[str, Any]) -> str:
    """Write tables; what TOML can't hold is a ValueError."""
    lines: list[str] = []

    def write(name: str, table: dict[str, Any]) -> None:
        lines.append(f"[{name}]" if name else "")
        for key, value in table.items():
            if value is None or (isinstance(value, float) and not abs(value) < 1e200) or isinstance(value, bool):
                raise ValueError(value)
            if not isinstance(value, dict):
                lines.append(f"{json.dumps(key)} = {toml_value(value)}")
        for key, value in table.items():
            if isinstance(value, dict):
                write(f"{name}.{json.dumps(key)}" if name else json.dumps(key), value)

    if not isinstance(document, dict):
        raise ValueError(document)
    write("", document)
    return "\n".join(lines)


def damages(file: Path, every: int) -> Iterator[tuple[str, bytes]]:
    """Return the damaged contents of a file."""
    content = file.read_bytes()
    load, dump = (tomllib.loads, as_toml) if file.suffix == ".toml" else (json.loads, text_of)
    around: Callable[[str], str] = str
    text = content.decode()
    if file.suffix == ".jsonl":
        first, text, *rest = text.splitlines()
        around = lambda line: "\n".join([first, line, *rest])  # noqa: E731
    for description, document in documents(load(text), every):
        try:
            yield description, around(dump(document)).encode()
        except (ValueError, TypeError):  # nothing that the format can hold
            continue
    yield from bytes_of(content, 120 // min(every, 6))


CASES = {
    "grouped/result.json": ["report", "resume"],
    "pruned/result.json": ["report"],
    "soft/result.json": ["report"],
    "grouped/metrics.jsonl": ["report"],
    "pruned/metrics.jsonl": ["report"],
    "grouped/config.toml": ["report"],
    "begun/config.toml": ["resume"],
    "compared/comparison.toml": ["report"],
    "compared/comparison.json": ["report"],
    "compared/solo/seed-0/result.json": ["report"],
    "compared/solo/seed-0/metrics.jsonl": ["report"],
    "compared/fedavg/seed-0/config.toml": ["report"],
    "reproduced/sub-fedavg-costs/reproduction.json": ["report"],
}
"""Files, and what is called for the folder that they are in, or for that of the comparison."""


def check(world: Path, name: str, every: int) -> None:
    file, commands = world / name, CASES[name]
    folder = world / "compared" if name.startswith("compared") else file.parent
    whole, page, failed = file.read_bytes(), world / "page.html", []
    try:
        for description, content in damages(file, every):
            file.write_bytes(content)
            for command in commands:
                flags = ["--out", page] if command == "report" else ["--quiet"]
                answer = cli(command, folder, *flags)
                if command == "resume" and name.startswith("begun"):  # which may have gone on, and ended
                    shutil.rmtree(folder)
                    shutil.copytree(world / "soft", folder)
                    (folder / "result.json").unlink()
                printed = answer.out + answer.err
                if answer.code not in (0, 2) or "bug" in printed or "Traceback" in printed or "\x1b" in printed:
                    failed.append(f"{command}, {description}: {printed[-200:]}")
                elif answer.code == 2 and (len(answer.lines) != 1 or str(folder) not in answer.err):
                    failed.append(f"{command}, {description} names no file: {answer.err}")
    finally:
        file.write_bytes(whole)
    assert not failed, f"{len(failed)} of them: " + "\n".join(failed[:10])


@pytest.mark.parametrize("name", CASES)
def test_some_damages_of_every_file(world: Path, name: str) -> None:
    check(world, name, QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_every_damage_of_every_file(world: Path, name: str) -> None:
    check(world, name, ALL)


def test_a_state_with_another_name_is_named(world: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(world / "soft", run)
    client = sorted((run / "clients").iterdir())[0]
    (client / "copy of 1.safetensors").write_bytes(b"")
    for command in (["predict", run, "x.npz", "--client", client.name], ["layers", run]):
        answer = cli(*command)
        assert answer.code == 2
        assert f"'{client}' holds 'copy of 1.safetensors', which is no state" in answer.err


def test_arrays_that_do_not_fit_are_left_out_with_a_sentence(world: Path, tmp_path: Path) -> None:
    import numpy as np
    from safetensors.numpy import load_file, save_file

    run = tmp_path / "run"
    shutil.copytree(world / "grouped", run)
    arrays = load_file(run / "views.safetensors")
    cases: dict[str, Any] = {
        "proximity": arrays["proximity"][:-1], "tree": arrays["tree"][:, :3], "labels": arrays["labels"] + 10**7,
        "grouped": arrays["grouped"].astype(np.float32), "label_counts": -arrays["label_counts"] - 1,
    }  # fmt: skip
    for name, wrong in cases.items():
        save_file({**arrays, name: np.ascontiguousarray(wrong)}, run / "views.safetensors")
        assert cli("report", run, "--out", tmp_path / "page.html").code == 0
        assert f"views.safetensors is damaged ({name}" in (tmp_path / "page.html").read_text(), name
    twice = arrays["tree"].copy()
    twice[-1, 0] = twice[0, 0]
    save_file({**arrays, "tree": twice}, run / "views.safetensors")
    assert cli("report", run, "--out", tmp_path / "page.html").code == 0
    assert "tree does not merge every branch once" in (tmp_path / "page.html").read_text()


def test_no_escape_sequence_reaches_the_terminal(world: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(world / "soft", run)
    result = json.loads((run / "result.json").read_text())
    result["data"] = "digits\x1b]0;mine\x07\ncoterie: all is well"
    (run / "result.json").write_text(json.dumps(result))
    assert cli("report", run, "--out", tmp_path / "page.html").code == 0
    from coterie.run.result import Result

    text = Result.load(run).report(tmp_path / "picture.png")
    assert "\x1b" not in text
    assert "\ncoterie: all is well" not in text
    folder = tmp_path / "a\x1b[31m\nname"
    answer = cli("report", folder)
    assert answer.code == 2
    assert "\x1b" not in answer.err
    assert len(answer.lines) == 1
