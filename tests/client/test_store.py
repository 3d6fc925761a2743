"""States in memory, on disk and in both: the same behaviour, that of a dictionary of the last two generations."""

import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from client_world import same
from hypothesis import given
from hypothesis import strategies as st

from coterie.client import CachedStore, DiskStore, MemoryStore, State, Store
from coterie.errors import CoterieError
from coterie.files import sealed


class Settled(CachedStore):
    """Waits until what it is given is written, as a run does before anything counts on it."""

    def save(self, client: int, round: int, state: State) -> None:
        super().save(client, round, state)
        self.settle()


MAKERS: dict[str, Callable[[Path], Store]] = {
    "memory": lambda folder: MemoryStore(),
    "disk": DiskStore,
    "cached": lambda folder: Settled(DiskStore(folder)),
}
every_store = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
on_disk = pytest.mark.parametrize("make", [MAKERS["disk"], MAKERS["cached"]], ids=["disk", "cached"])


def state(number: int) -> State:
    """A state that can be told from others, with all that states hold."""
    return {
        "model": {
            "fc.weight": np.full((2, 3), number, np.float32),
            "bn.num_batches_tracked": np.array(number),
            "a/b": np.zeros((0, 2), np.float32),
        },
        "mask": {"fc.weight": np.arange(6).reshape(2, 3) % 2 == number % 2},
        "control": {"Ärger.weight": np.full(4, -number, np.float64)},
    }


class Model:
    """What a store is, in the fewest words."""

    def __init__(self) -> None:
        self.states: dict[int, dict[int, State]] = {}

    def save(self, client: int, round: int, kept: State) -> None:
        states = {r: s for r, s in self.states.get(client, {}).items() if r < round} | {round: kept}
        self.states[client] = dict(sorted(states.items())[-2:])

    def load(self, client: int, before: int) -> State:
        earlier = [(r, s) for r, s in self.states.get(client, {}).items() if r < before]
        return max(earlier, key=lambda item: item[0])[1] if earlier else {}


operations = st.lists(
    st.tuples(st.sampled_from(["save", "save", "load", "restart"]), st.integers(0, 2), st.integers(0, 12)),
    max_size=25,
)


@pytest.mark.integration
@every_store
@given(operations)
def test_any_sequence_of_saves_and_loads(make: Callable[[Path], Store], steps: list[tuple[str, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store, expected = make(Path(folder)), Model()
        for number, (operation, client, round) in enumerate(steps):
            if operation == "save":
                store.save(client, round, state(number))
                expected.save(client, round, state(number))
            elif operation == "restart" and not isinstance(store, MemoryStore):
                store = make(Path(folder))
            for someone in range(3):
                for before in (0, round, round + 1, 99):
                    assert same(store.load(someone, before), expected.load(someone, before))
        assert not list(Path(folder).rglob("*.part"))
        if not isinstance(store, MemoryStore):
            files = {(int(p.parent.name), int(p.stem)) for p in Path(folder).rglob("*.safetensors")}
            assert files == {(client, round) for client, states in expected.states.items() for round in states}


@every_store
def test_two_generations_and_no_more(make: Callable[[Path], Store], tmp_path: Path) -> None:
    store = make(tmp_path)
    for round in (1, 4, 6):
        store.save(0, round, state(round))
    assert same(store.load(0, before=99), state(6))
    assert same(store.load(0, before=6), state(4))
    assert store.load(0, before=4) == {}


@every_store
def test_a_round_that_is_redone_starts_from_before_it(make: Callable[[Path], Store], tmp_path: Path) -> None:
    store = make(tmp_path)
    store.save(0, 4, state(4))
    store.save(0, 5, state(51))
    assert same(store.load(0, before=5), state(4))
    store.save(0, 5, state(52))
    assert same(store.load(0, before=6), state(52))
    assert same(store.load(0, before=5), state(4))


@every_store
def test_later_rounds_are_dropped(make: Callable[[Path], Store], tmp_path: Path) -> None:
    store = make(tmp_path)
    store.save(0, 4, state(4))
    store.save(0, 7, state(7))
    store.save(0, 5, state(5))
    assert same(store.load(0, before=99), state(5))
    assert same(store.load(0, before=5), state(4))


@every_store
def test_clients_do_not_meet(make: Callable[[Path], Store], tmp_path: Path) -> None:
    store = make(tmp_path)
    store.save(1, 3, state(1))
    store.save(11, 4, state(11))
    assert same(store.load(1, 99), state(1))
    assert same(store.load(11, 99), state(11))
    assert store.load(111, 99) == {}


@on_disk
def test_a_restart_finds_everything(make: Callable[[Path], Store], tmp_path: Path) -> None:
    first = make(tmp_path)
    first.save(0, 4, state(4))
    first.save(0, 5, state(5))
    again = make(tmp_path)
    assert same(again.load(0, before=6), state(5))
    assert same(again.load(0, before=5), state(4))
    again.save(0, 5, state(52))
    assert same(make(tmp_path).load(0, before=99), state(52))


@on_disk
def test_a_store_on_disk_does_not_change_with_what_it_was_given(make: Callable[[Path], Store], tmp_path: Path) -> None:
    given_state = state(4)
    make(tmp_path).save(0, 4, given_state)
    given_state["model"]["fc.weight"][:] = 99
    assert same(make(tmp_path).load(0, before=5), state(4))


@on_disk
def test_a_damaged_file_says_so(make: Callable[[Path], Store], tmp_path: Path) -> None:
    make(tmp_path).save(7, 4, state(4))
    (path,) = tmp_path.rglob("*.safetensors")
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(CoterieError) as raised:
            make(tmp_path).load(7, before=5)
        assert "client 7" in str(raised.value)
        assert str(path) in str(raised.value)
    path.write_bytes(b"\xff" * 64)
    with pytest.raises(CoterieError):
        make(tmp_path).load(7, before=5)
    path.write_bytes(whole)
    assert same(make(tmp_path).load(7, before=5), state(4))


def test_processes_that_share_a_folder_see_each_others_states(tmp_path: Path) -> None:
    """In those of Ray any process answers for any client."""
    one, other = DiskStore(tmp_path), DiskStore(tmp_path)
    one.save(0, 2, state(2))
    other.save(0, 3, state(3))
    assert same(one.load(0, before=4), state(3))
    other.save(0, 4, state(4))  # the first process's own is gone
    assert same(one.load(0, before=5), state(4))
    assert same(one.load(0, before=4), state(3))
    server = DiskStore(tmp_path)
    server.go_on_from({0: (4, one.stamps([0], 4)[0])})
    other.save(0, 5, state(5))
    assert server.stamps([0], 5) == other.stamps([0], 5)


@on_disk
def test_every_flipped_bit_is_refused(make: Callable[[Path], Store], tmp_path: Path) -> None:
    make(tmp_path).save(7, 4, state(4))
    (path,) = tmp_path.rglob("*.safetensors")
    whole = path.read_bytes()
    for position in range(0, 8 * len(whole), 5):
        flipped = bytearray(whole)
        flipped[position // 8] ^= 1 << position % 8
        path.write_bytes(flipped)
        with pytest.raises(CoterieError, match=r"client 7.*4\.safetensors.*put back a copy"):
            make(tmp_path).load(7, before=5)


@on_disk
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"data_offsets"', b'"data_offxets"'),
        (b'"shape":[2,3]', b'"shape":[2,9]'),
        (b'"dtype":"F32"', b'"dtype":"X99"'),
        (b'"shape":[2,3]', b'"shape":"2,3"'),
    ],
)
def test_a_state_that_is_none_is_refused_though_its_digest_is_right(
    old: bytes, new: bytes, make: Callable[[Path], Store], tmp_path: Path
) -> None:
    make(tmp_path).save(7, 4, state(4))
    (path,) = tmp_path.rglob("*.safetensors")
    content = path.read_bytes()
    header = content[8 : 8 + int.from_bytes(content[:8], "little")]
    changed = header.replace(old, new)
    assert changed != header
    assert len(changed) == len(header)
    path.write_bytes(sealed(content[:8] + changed + content[8 + len(header) :])[0])
    with pytest.raises(CoterieError, match=r"client 7.*4\.safetensors.*put back a copy"):
        make(tmp_path).load(7, before=5)


@on_disk
def test_states_are_not_kept_behind_a_link(make: Callable[[Path], Store], tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "1.safetensors").write_text("precious")
    (tmp_path / "clients").mkdir()
    (tmp_path / "clients" / "7").symlink_to(home)
    with pytest.raises(CoterieError, match="is a link"):
        make(tmp_path / "clients").save(7, 4, state(4))
    assert (home / "1.safetensors").read_text() == "precious"
    assert len(list(home.iterdir())) == 1


@on_disk
def test_a_damaged_file_does_not_hinder_an_earlier_state(make: Callable[[Path], Store], tmp_path: Path) -> None:
    store = make(tmp_path)
    store.save(0, 4, state(4))
    store.save(0, 5, state(5))
    (tmp_path / "0" / "5.safetensors").write_bytes(b"half")
    assert same(make(tmp_path).load(0, before=5), state(4))
    again = make(tmp_path)
    again.save(0, 5, state(52))  # the round is redone
    assert same(make(tmp_path).load(0, before=6), state(52))


@on_disk
def test_what_an_interrupted_save_left_is_ignored(make: Callable[[Path], Store], tmp_path: Path) -> None:
    store = make(tmp_path)
    store.save(0, 4, state(4))
    (tmp_path / "0" / "5.safetensors.part").write_bytes(b"half")
    assert same(make(tmp_path).load(0, before=99), state(4))
    store.save(0, 5, state(5))
    assert same(make(tmp_path).load(0, before=99), state(5))
    assert not list(tmp_path.rglob("*.part"))


@on_disk
def test_a_failed_save_leaves_no_part_and_the_old_state(make: Callable[[Path], Store], tmp_path: Path) -> None:
    store = make(tmp_path)
    store.save(0, 4, state(4))
    blocked = tmp_path / "0" / "5.safetensors"
    blocked.mkdir()  # in the way of the file
    with pytest.raises(OSError, match=r"5\.safetensors"):
        store.save(0, 5, state(5))
    assert not list(tmp_path.rglob("*.part"))
    blocked.rmdir()
    if isinstance(store, DiskStore):  # in memory it is, and the run ends
        assert same(store.load(0, before=99), state(4))
    assert same(make(tmp_path).load(0, before=99), state(4))


class Slow(DiskStore):
    """A disk that takes its time: as long as the door is closed."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.door = threading.Event()

    def save(self, client: int, round: int, state: State) -> None:
        assert self.door.wait(30)
        super().save(client, round, state)


def test_clients_go_on_while_their_states_are_written_in_order(tmp_path: Path) -> None:
    disk = Slow(tmp_path)
    store = CachedStore(disk)
    for round in (1, 2, 3):
        store.save(0, round, state(round))
    assert same(store.load(0, before=99), state(3))
    assert not [*tmp_path.iterdir()]
    disk.door.set()
    assert store.stamps([0], 3) == DiskStore(tmp_path).stamps([0], 3) != {}  # it waits until all is there
    assert same(DiskStore(tmp_path).load(0, before=3), state(2))
    assert same(DiskStore(tmp_path).load(0, before=99), state(3))


def test_a_state_that_was_not_written_is_an_error_before_anything_counts_on_it(tmp_path: Path) -> None:
    store = CachedStore(DiskStore(tmp_path))
    (tmp_path / "0").write_bytes(b"in the way")
    store.save(0, 4, state(4))
    with pytest.raises(CoterieError, match="can't be made"):
        store.stamps([0], 4)
    store.close()


def values(kept: State) -> list[Any]:
    return [value for params in kept.values() for value in params.values()]


@every_store
def test_states_can_be_trained_from(make: Callable[[Path], Store], tmp_path: Path) -> None:
    """What is loaded consists of arrays of their own kinds, not of views that something else may change."""
    store = make(tmp_path)
    store.save(0, 4, state(4))
    for loaded, kept in zip(values(store.load(0, 5)), values(store.load(0, 5)), strict=True):
        assert isinstance(loaded, np.ndarray)
        assert loaded.dtype == kept.dtype
