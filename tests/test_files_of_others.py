"""What a user has named is written only where nothing else is."""

import os
from pathlib import Path

import pytest

from coterie.errors import CoterieError
from coterie.files import new_files, write_new


def test_another_file_stays(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    write_new(file, b"ours")
    write_new(file, b"ours")  # the same again does no harm
    with pytest.raises(CoterieError, match=r"a\.txt' is there already: .* --overwrite"):
        write_new(file, b"other")
    assert file.read_bytes() == b"ours"
    write_new(file, b"other", overwrite=True)
    assert file.read_bytes() == b"other"


@pytest.mark.parametrize("what", ["link", "broken link", "folder"])
def test_what_is_no_file_stays(tmp_path: Path, what: str) -> None:
    (tmp_path / "target").write_bytes(b"ours")
    place = tmp_path / "place"
    if what == "folder":
        place.mkdir()
    else:
        place.symlink_to("target" if what == "link" else "nothing")
    with pytest.raises(CoterieError, match="is there already"):
        write_new(place, b"ours")
    assert os.path.lexists(place)
    assert (tmp_path / "target").read_bytes() == b"ours"


def write(folder: Path, content: bytes, overwrite: bool = False, error: type[Exception] | None = None) -> None:
    with new_files(folder, overwrite) as place:
        (place / "a").write_bytes(content)
        (place / "b").write_bytes(content)
        if error is not None:
            raise error


def test_of_several_files_all_are_written_or_none(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    for content, overwrite in ((b"1", False), (b"1", False), (b"2", True)):
        write(folder, content, overwrite)
    (folder / "a").write_bytes(b"mine")
    (folder / "c").write_bytes(b"mine")
    with pytest.raises(CoterieError, match="a' is there already"):
        write(folder, b"3")
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == {"a": b"mine", "b": b"2", "c": b"mine"}


def test_an_error_on_the_way_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        write(tmp_path / "folder", b"1", error=ZeroDivisionError)
    assert [*(tmp_path / "folder").iterdir()] == []
