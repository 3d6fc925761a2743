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
    ("line", "place"),
    [
        (b"[" * 10**5, "nested"),
        (b"7", "it has no round"),
        (b"[]", "it has no round"),
        (b"\xff", ""),
        (b'{"round": 2}', "it has no round"),
        (b'{"round": 2, "states": {"x": "d"}, "row": null}', "states: 'x' is not the number"),
        (b'{"round": 2, "states": {"-1": "d"}, "row": null}', "states: '-1' is not the number"),
        ('{"round": 2, "states": {"²": "d"}, "row": null}'.encode(), "states: '²' is not the number"),
        (b'{"round": 2, "states": {"12345678": "d"}, "row": null}', "is not the number"),
        (b'{"round": 2, "states": {"0": 7}, "row": null}', r"states\.0: 7 is no digest"),
        (b'{"round": 2, "states": [], "row": null}', "states: they should be digests"),
        (b'{"round": "2", "states": {}, "row": null}', "round: '2', expected 2 to"),
        (b'{"round": 2.0, "states": {}, "row": null}', "round: 2.0, expected 2 to"),
        (b'{"round": true, "states": {}, "row": null}', "round: True, expected 2 to"),
        (b'{"round": -1, "states": {}, "row": null}', "round: -1, expected 2 to"),
        (b'{"round": 1, "states": {}, "row": null}', "round: 1, expected 2 to"),
        (b'{"round": 10000000000, "states": {}, "row": null}', "round: 10000000000, expected 2 to"),
        (b'{"round": 2, "states": {}, "row": 5}', "row: it is not that of round 2"),
        (b'{"round": 2, "states": {}, "row": {}}', "row: it is not that of round 2"),
        (b'{"round": 2, "states": {}, "row": {"round": 3}}', "row: it is not that of round 2"),
    ],
)
def test_a_journal_of_somebody_else_is_refused_in_a_sentence(line: bytes, place: str, tmp_path: Path) -> None:
    content = b'{"round": 1, "states": {"0": "d"}, "row": null}\n' + line
    (tmp_path / "journal.jsonl").write_bytes(content)
    mark = {"bytes": len(content), "digest": hashlib.blake2b(content, digest_size=16).hexdigest()}
    with pytest.raises(CoterieError, match=rf"journal\.jsonl' is damaged \(line 2: .*{place}.*--overwrite"):
        Journal(tmp_path / "journal.jsonl").restore(mark)


@pytest.mark.parametrize("length", [-1, 2**40, "9", 1.0, True, None])
def test_a_mark_that_is_none_is_refused_before_anything_is_read(length: object, tmp_path: Path) -> None:
    written(tmp_path / "journal.jsonl")
    with pytest.raises(ValueError, match="the journal's length is"):
        Journal(tmp_path / "journal.jsonl").restore({"bytes": length, "digest": ""})
