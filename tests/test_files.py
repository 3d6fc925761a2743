"""The one way of writing: whole files, never through links, over what a killed process left, and sealed."""

from __future__ import annotations

import os
import re
import stat
import threading
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from coterie.errors import CoterieError
from coterie.files import (
    UNSEALED,
    extend,
    make_folder,
    open_lock,
    remove_tree,
    seal,
    sealed,
    take_lock,
    write_first,
    write_whole,
)

SOURCE = Path(__file__).parents[1] / "src" / "coterie"
ALLOWED = {"bounded.py", "files.py", "engine/flower/sharing.py", "testing.py"}
"""Who opens files by itself: all others write through `coterie.files`. `bounded.py` only reads; shared data lie in a
folder of their own that was just made."""


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    file = tmp_path / "precious.txt"
    file.write_text("precious")
    return file


def test_nobody_else_writes() -> None:
    writing = re.compile(
        r"write_text|write_bytes|os\.open\(|open\([^)]*[\"'][wax]|savefig\(path|save_file|\.unlink\(|rmtree|os\.replace"
    )
    for file in SOURCE.rglob("*.py"):
        if str(file.relative_to(SOURCE)) not in ALLOWED:
            lines = [line for line in file.read_text(encoding="utf-8").splitlines() if writing.search(line)]
            lines = [line for line in lines if "os.dup" not in line]
            assert not lines, f"{file} writes by itself: {lines}"


@pytest.mark.parametrize("what", ["a link", "a hard link", "half a file", "a dangling link"])
def test_a_part_that_is_in_the_way_goes_and_nothing_behind_it(what: str, precious: Path) -> None:
    file, part = precious.parent / "result.json", precious.parent / "result.json.part"
    match what:
        case "a link":
            part.symlink_to(precious)
        case "a hard link":
            os.link(precious, part)
        case "half a file":
            part.write_bytes(b"half" * 1000)
        case "a dangling link":
            part.symlink_to(precious.parent / "nowhere")
    write_whole(file, b"whole")
    assert file.read_bytes() == b"whole"
    assert not file.is_symlink()
    assert precious.read_text() == "precious"
    assert {path.name for path in precious.parent.iterdir()} == {"precious.txt", "result.json"}


def test_a_file_that_is_a_link_is_replaced_not_followed(precious: Path) -> None:
    file = precious.parent / "config.toml"
    file.symlink_to(precious)
    write_whole(file, b"ours")
    assert (file.read_bytes(), precious.read_text(), file.is_symlink()) == (b"ours", "precious", False)


def test_lines_are_not_added_through_a_link(precious: Path) -> None:
    file = precious.parent / "metrics.jsonl"
    file.symlink_to(precious)
    with pytest.raises(OSError, match=r"metrics\.jsonl"):
        extend(file, b"{}\n")
    assert precious.read_text() == "precious"


def test_a_lock_is_not_opened_through_a_link_and_keeps_its_content(precious: Path) -> None:
    lock = precious.parent / "lock"
    lock.symlink_to(precious)
    with pytest.raises(CoterieError, match=r"lock' is a link.*remove it"):
        open_lock(lock)
    lock.unlink()
    os.link(precious, lock)
    open_lock(lock).close()
    assert precious.read_text() == "precious"
    lock.unlink()
    os.mkfifo(lock)
    with pytest.raises(CoterieError, match="not a file"):
        open_lock(lock)


def test_a_lock_keeps_others_out_until_its_file_is_closed(tmp_path: Path) -> None:
    with open_lock(tmp_path / "lock") as ours, open_lock(tmp_path / "lock") as others:
        assert take_lock(ours)
        assert not take_lock(others)
        waiting = threading.Thread(target=take_lock, args=(others, True))
        waiting.start()
        waiting.join(0.05)
        assert waiting.is_alive()
        ours.close()
        waiting.join(10)
        assert not waiting.is_alive()
        with open_lock(tmp_path / "lock") as late:
            assert not take_lock(late)


def test_a_tree_that_is_a_link_is_removed_without_what_is_behind(precious: Path) -> None:
    inside = precious.parent / "clients"
    inside.mkdir()
    (inside / "3").symlink_to(precious.parent)
    (inside / "4").mkdir()
    (inside / "4" / "1.safetensors").write_bytes(b"")
    remove_tree(inside)
    assert precious.read_text() == "precious"
    assert not inside.exists()
    inside.symlink_to(precious.parent)
    remove_tree(inside)
    assert precious.read_text() == "precious"


def test_a_secret_is_written_once_for_its_owner_only_and_not_through_a_link(precious: Path) -> None:
    file = precious.parent / "secret"
    write_first(file, b"first", mode=0o600)
    write_first(file, b"second", mode=0o600)
    assert file.read_bytes() == b"first"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert {path.name for path in precious.parent.iterdir()} == {"precious.txt", "secret"}


def test_lines_are_added_or_take_the_place_of_what_is_behind(tmp_path: Path) -> None:
    file = tmp_path / "journal.jsonl"
    extend(file, b"one\n", at=0)
    extend(file, b"two, of a lost round\n", at=4)
    extend(file, b"two\n", at=4, flush="folder")
    extend(file, b"three\n")
    assert file.read_bytes() == b"one\ntwo\nthree\n"


def test_a_folder_that_can_not_be_made_is_named(precious: Path) -> None:
    make_folder(precious.parent / "a" / "b")
    make_folder(precious.parent / "a" / "b", flush=False)
    for path in (precious, precious / "run"):
        with pytest.raises(CoterieError, match=f"'{path}' can't be made"):
            make_folder(path)


def test_every_flipped_bit_breaks_a_seal() -> None:
    arrays = {"model/weight": np.arange(6, dtype=np.float32), "mask/weight": np.ones(3, bool)}
    content, digest = sealed(save(arrays, metadata={**UNSEALED, "coterie": '{"digest":"' + "1" * 32 + '"}'}))
    assert seal(content) == digest
    for position in range(8 * len(content)):
        flipped = bytearray(content)
        flipped[position // 8] ^= 1 << position % 8
        with pytest.raises(ValueError, match=r"its bytes are not|no digest"):
            seal(bytes(flipped))
    for length in range(len(content)):
        with pytest.raises(ValueError, match=r"its bytes are not|no digest"):
            seal(content[:length])


def test_a_file_without_a_seal_is_read_only_where_none_is_required() -> None:
    assert seal(save({"a": np.zeros(1)}), required=False) == ""
    with pytest.raises(ValueError, match="no digest"):
        seal(save({"a": np.zeros(1)}))
