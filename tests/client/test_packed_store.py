"""States of many clients in a few files: what any store does, after any kill, in bounded space."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import pytest
from client_world import same
from hypothesis import given, settings
from test_store import Model, operations, state

import coterie
from coterie.client import DiskStore, PackedStore, State, packed_store, states_in
from coterie.client.packed_store import HEADER
from coterie.errors import CoterieError
from coterie.run import runner
from coterie.run.progress import Progress
from coterie.run.trained_models import find_model
from coterie.testing import outcome, small_run


def small(number: int) -> State:
    return {"model": {"w": np.full(30, number, np.float32)}}


@pytest.fixture
def short_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_store, "LARGEST_LOG", 3000)


@pytest.mark.integration
@given(operations)
@settings(max_examples=40, deadline=None)
def test_any_sequence_of_saves_and_loads(steps: list[tuple[str, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr(packed_store, "LARGEST_LOG", 3000)
        store, expected = PackedStore(Path(folder)), Model()
        for number, (operation, client, round) in enumerate(steps):
            if operation == "save":
                store.save(client, round, state(number))
                expected.save(client, round, state(number))
            elif operation == "restart":
                store = PackedStore(Path(folder))
            for someone in range(3):
                for before in (0, round, round + 1, 99):
                    assert same(store.load(someone, before), expected.load(someone, before))


def test_space_stays_bounded_and_files_few(short_logs: None, tmp_path: Path) -> None:
    store, luck = PackedStore(tmp_path), Random(0)
    for round in range(1, 120):
        for client in luck.sample(range(20), 3):
            store.save(client, round, small(round * 100 + client))
    one = len(packed_store.content_of(small(0))[0]) + HEADER.size
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < 3 * 2 * 20 * one + 4 * 3000
    again = PackedStore(tmp_path)
    for client in range(20):
        assert same(again.load(client, 999), store.load(client, 999))
        latest = int(store.load(client, 999)["model"]["w"][0])
        assert latest % 100 == client
        assert same(again.load(client, latest // 100), store.load(client, latest // 100))


def test_a_kill_within_a_write_leaves_what_was_saved_before(tmp_path: Path) -> None:
    PackedStore(tmp_path / "whole").save(7, 4, state(4))
    (file,) = (tmp_path / "whole").iterdir()
    first = file.stat().st_size
    store = PackedStore(tmp_path / "whole")
    store.save(7, 5, state(5))
    (second,) = {*(tmp_path / "whole").iterdir()} - {file}
    content = second.read_bytes()
    for length in [*range(0, len(content), 37), len(content) - 1]:
        second.write_bytes(content[:length])
        again = PackedStore(tmp_path / "whole")
        assert same(again.load(7, 99), state(4))
    again.save(7, 5, state(52))
    assert same(PackedStore(tmp_path / "whole").load(7, 99), state(52))
    assert file.stat().st_size == first


def test_what_a_lost_attempt_left_never_comes_back(short_logs: None, tmp_path: Path) -> None:
    store = PackedStore(tmp_path)
    store.save(7, 3, state(3))
    store.save(7, 5, state(5))
    stamp = {7: (5, store.stamps([7], 5)[7])}
    store.save(7, 6, state(6))
    store.save(8, 6, state(8))
    again = PackedStore(tmp_path)
    again.go_on_from(stamp)
    again.remove_later()
    assert same(again.load(7, 99), state(5))
    assert again.clients() == {7}
    again.save(7, 9, state(9))
    for reader in (again, PackedStore(tmp_path)):
        assert same(reader.load(7, before=9), state(5))
        assert reader.load(8, 99) == {}


def test_a_state_that_is_missing_or_another_is_refused(tmp_path: Path) -> None:
    PackedStore(tmp_path).save(7, 4, state(4))
    store = PackedStore(tmp_path)
    with pytest.raises(CoterieError, match=r"client 7 of round 5 .*it is missing.*put back a copy"):
        store.go_on_from({7: (5, "5f")})
    store.go_on_from({7: (4, "5f")})
    with pytest.raises(CoterieError, match="another than the one that the checkpoint names"):
        store.load(7, 99)


def load_named(folder: Path, stamp: dict[int, tuple[int, str]]) -> State:
    store = PackedStore(folder)
    store.go_on_from(stamp)
    return store.load(7, before=5)


def test_flipped_bits_are_refused_or_the_state_is_missing(tmp_path: Path) -> None:
    saved = PackedStore(tmp_path)
    saved.save(7, 4, state(4))
    stamp = {7: (4, saved.stamps([7], 4)[7])}
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    for position in range(0, 8 * len(whole), 11):
        flipped = bytearray(whole)
        flipped[position // 8] ^= 1 << position % 8
        file.write_bytes(flipped)
        with pytest.raises(CoterieError, match=r"client 7 .*put back a copy"):
            load_named(tmp_path, stamp)


def test_states_are_not_kept_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "clients").symlink_to(tmp_path / "home")
    with pytest.raises(CoterieError, match="is a link"):
        PackedStore(tmp_path / "clients").save(7, 4, state(4))
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "home" / "1.states").symlink_to(tmp_path / "precious")
    assert PackedStore(tmp_path / "home").load(7, 99) == {}
    assert (tmp_path / "precious").read_text() == "precious"
    (tmp_path / "home" / "2.states").mkdir()
    with pytest.raises(CoterieError, match=r"2\.states' can't be read"):
        PackedStore(tmp_path / "home").load(7, 99)


def test_which_store_a_folder_has_is_seen(tmp_path: Path) -> None:
    stores: dict[str, Callable[[Path], PackedStore | DiskStore]] = {"a": PackedStore, "b": DiskStore}
    for name, make in stores.items():
        make(tmp_path / name).save(3, 1, state(1))
        found = states_in(tmp_path / name)
        assert type(found) is make
        assert same(found.load(3, 99), state(1))
        assert found.clients() == {3}


class BreaksOff(Progress):
    def round(self, round: int, row: object) -> None:
        if round == 2:
            raise KeyboardInterrupt


@pytest.mark.integration
def test_a_run_with_packed_states_ends_as_with_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = small_run("scaffold", out=str(tmp_path / "folders"))
    monkeypatch.setattr(runner, "MOST_FOLDERS", 3)
    with pytest.raises(KeyboardInterrupt):
        small_run("scaffold", out=str(tmp_path / "packed"), progress=BreaksOff())
    result = coterie.resume(tmp_path / "packed")
    assert outcome(result) == outcome(whole)
    assert all(file.suffix == ".states" for file in (tmp_path / "packed" / "clients").iterdir())
    for client in range(6):
        packed, other = (find_model(tmp_path / name, client=client) for name in ("packed", "folders"))
        assert packed.whose == other.whose == f"client {client}'s own model"
        assert same({"model": packed.params}, {"model": other.params})
