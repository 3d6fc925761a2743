"""The journal beside the checkpoint: appended, valid up to a mark, and refused if it was changed."""

import hashlib
from itertools import pairwise
from pathlib import Path

import pytest

from coterie.errors import CoterieError
from coterie.federation.journal import Journal


def written(path: Path, rounds: int = 3) -> Journal:
    journal = Journal(path)
    for round in range(1, rounds + 1):
        journal.append(round, {0: f"a{round}", round: f"b{round}"}, {"round": round, "L": 0.5} if round % 2 else None)
    return journal


def test_what_was_noted_up_to_a_mark_is_there_again(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    mark = written(path, 2).mark
    written(path, 3)
    again = Journal(path)
    again.restore(mark)
    assert again.states == {0: (2, "a2"), 1: (1, "b1"), 2: (2, "b2")}
    assert again.rows == [{"round": 1, "L": 0.5}]
    again.append(3, {5: "c"}, None)  # takes the place of what the lost attempt noted
    last = Journal(path)
    last.restore(again.mark)
    assert last.states[5] == (3, "c")
    assert 3 not in last.states


def test_a_round_without_anything_to_note_writes_nothing(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.append(0, {}, None)
    assert not journal.path.exists()
    Journal(journal.path).restore(journal.mark)


def test_what_a_round_writes_does_not_grow(tmp_path: Path) -> None:
    journal, sizes = Journal(tmp_path / "journal.jsonl"), [0]
    for round in range(100, 200):
        before = journal.path.read_bytes() if journal.path.exists() else b""
        journal.append(round, {round: "d" * 32}, {"round": round})
        assert journal.path.read_bytes().startswith(before)
        sizes.append(journal.mark["bytes"])
    assert len({after - before for before, after in pairwise(sizes)}) == 1


def test_a_changed_journal_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    mark, content = written(path).mark, path.read_bytes()
    changed = [content[:-1], content[:10] + b"9" + content[11:], b""]
    for damaged in changed:
        path.write_bytes(damaged)
        with pytest.raises(CoterieError, match=r"journal\.jsonl' is damaged.*--overwrite"):
            Journal(path).restore(mark)
    path.unlink()
    with pytest.raises(CoterieError, match=r"journal\.jsonl' is damaged \(it is missing"):
        Journal(path).restore(mark)


@pytest.mark.parametrize(
    "line", [b"[" * 10**5, b"7", b'{"round": 1}', b'{"round": 1, "states": {"x": 0}, "row": null}', b"\xff"]
)
def test_a_journal_of_somebody_else_is_refused_in_a_sentence(line: bytes, tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl").write_bytes(line)
    mark = {"bytes": len(line), "digest": hashlib.blake2b(line, digest_size=16).hexdigest()}
    with pytest.raises(CoterieError, match="is damaged"):
        Journal(tmp_path / "journal.jsonl").restore(mark)
