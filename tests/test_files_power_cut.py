"""A power cut costs at most the round: whatever the disk kept, a durable run goes on and ends in the same result."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import coterie
from coterie import files
from coterie.client import DiskStore, MemoryStore, PackedStore, State, packed_store
from coterie.privacy import BudgetSpent, PrivacyLimit, Release, ReleaseLedger, gaussian_sigma
from coterie.results.run_folder import RunFolder
from coterie.run import runner
from coterie.run.progress import Progress
from coterie.run.runner import resume
from coterie.run.settings import settings_to_config
from coterie.testing import outcome, small_settings
from power_cuts import Event, HastyDisk, RecordingDisk, RoundIsOver, digest_of, folders_after, materialise

SEED = 20261117


class Listener(Progress):
    """Notes rounds that are over on a recording disk, and how many were done before."""

    def __init__(self, disk: RecordingDisk | None = None) -> None:
        self.disk, self.done = disk, 0

    def begin(self, title: str, rounds: int, done: int) -> None:
        self.done = done

    def round(self, round: int, row: object) -> None:
        if self.disk is not None:
            self.disk.round_is_over(round)


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "DISK", HastyDisk())


def recorded(
    place: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], one_by_one: bool = False
) -> tuple[list[Event], dict[str, Any]]:
    """Run into `place`/run, and return what was asked of the disk, and the outcome."""
    place.mkdir()
    disk = RecordingDisk(place, one_by_one)
    with monkeypatch.context() as patched:
        patched.setattr(files, "DISK", disk)
        result = coterie.run(out=str(place / "run"), progress=Listener(disk), **settings)
    return disk.events, outcome(result)


def survives(
    events: list[Event], whole: dict[str, Any], settings: dict[str, Any], place: Path, cuts: range | list[int]
) -> int:
    """Go on from everything that a power cut can leave at these moments; return how many folders that were."""
    luck, seen = Random(SEED), set[str]()
    for cut in cuts:
        over = max((event.round for event in events[:cut] if isinstance(event, RoundIsOver)), default=0)
        for tree in folders_after(events, cut, luck):
            if (mark := digest_of(tree)) in seen:
                continue
            seen.add(mark)
            again, listener = place / f"{len(seen)}", Listener()
            again.mkdir()
            materialise(tree, again)
            where = f"after {cut} of {len(events)} events, folder {again}"
            if (again / "run" / "config.toml").exists():
                finished = RunFolder(again / "run").finished
                result = resume(again / "run", listener)
                assert finished or listener.done >= over, f"{over} rounds were over, {listener.done} are left {where}"
            else:
                assert over == 0, where
                result = coterie.run(out=str(again / "run"), **settings)
            assert outcome(result) == whole, where
            assert not list(again.rglob("*.part")), where
    return len(seen)


SCENARIOS: dict[str, tuple[str, dict[str, Any]]] = {
    "a state per client": ("scaffold", {"rounds": 3}),
    "parts written once": ("pacfl", {"rounds": 2}),
    "newcomers after training": ("lg-fedavg", {"rounds": 2, "newcomers": 0.34, "newcomer_epochs": 1}),
    "masks": ("sub-fedavg-un", {"rounds": 2}),
    "groups that change": ("flis-dc", {"rounds": 2, "drop": 0.2}),
}


def settings_of(scenario: str) -> dict[str, Any]:
    method, more = SCENARIOS[scenario]
    return {"algorithm": method, **small_settings(method), "workers": 1, "eval_every": 1, "durable": True, **more}


@pytest.mark.integration
@pytest.mark.parametrize("scenario", ["a state per client", "parts written once"])
def test_a_power_cut_costs_at_most_the_round(scenario: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of(scenario)
    events, whole = recorded(tmp_path / "recorded", monkeypatch, settings)
    cuts = sorted(Random(SEED).sample(range(len(events) + 1), 6))
    assert survives(events, whole, settings, tmp_path, [*cuts, len(events)]) > 6


def test_after_a_power_cut_what_a_client_has_told_is_charged_and_told_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every moment of two answers that are its limit, and whatever the disk kept."""
    half = Release("signature", gaussian_sigma(2.0, 1e-5) * 2**0.5)

    def answer(place: Path, question: bytes) -> bytes:
        ledger = ReleaseLedger(place / "ledger", PrivacyLimit(2.0, 1e-5))
        return ledger.answer(question, half, lambda randomness: randomness.standard_normal(3).tobytes())

    recording, sent = tmp_path / "recorded", list[tuple[int, bytes]]()
    recording.mkdir()
    disk = RecordingDisk(recording)
    with monkeypatch.context() as patched:
        patched.setattr(files, "DISK", disk)
        for question in (b"1", b"2"):
            told = answer(recording, question)
            sent.append((len(disk.events), told))
    luck, seen = Random(SEED), set[str]()
    for cut in range(len(disk.events) + 1):
        before = [told for end, told in sent if end <= cut]
        for tree in folders_after(disk.events, cut, luck, drawn=2):
            if (mark := f"{len(before)} {digest_of(tree)}") in seen:
                continue
            seen.add(mark)
            materialise(tree, place := tmp_path / str(len(seen)))
            assert [answer(place, question) for question in (b"1", b"2")][: len(before)] == before, cut
            with pytest.raises(BudgetSpent):
                answer(place, b"3")
    assert len(seen) > 20


@pytest.mark.slow
@pytest.mark.parametrize("one_by_one", [False, True], ids=["syncfs", "fsync"])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_power_cut_at_every_moment(
    scenario: str, one_by_one: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(scenario)
    events, whole = recorded(tmp_path / "recorded", monkeypatch, settings, one_by_one)
    assert survives(events, whole, settings, tmp_path, range(len(events) + 1)) > len(events) / 2


@pytest.mark.slow
@pytest.mark.parametrize("one_by_one", [False, True], ids=["syncfs", "fsync"])
def test_a_power_cut_where_states_are_packed(one_by_one: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "MOST_FOLDERS", 3)
    monkeypatch.setattr(packed_store, "LARGEST_LOG", 20_000)
    settings = settings_of("a state per client") | {"rounds": 6}
    events, whole = recorded(tmp_path / "recorded", monkeypatch, settings, one_by_one)
    assert survives(events, whole, settings, tmp_path, range(len(events) + 1)) > len(events) / 2


@pytest.mark.slow
def test_a_power_cut_while_a_resumed_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the first attempt left behind its checkpoint does not come back."""
    settings = settings_of("a state per client")
    events, whole = recorded(tmp_path / "recorded", monkeypatch, settings)
    over = events.index(RoundIsOver(1))
    tree = next(folders_after(events, (over + events.index(RoundIsOver(2))) // 2, Random(0)))
    (tmp_path / "resumed").mkdir()
    materialise(tree, tmp_path / "resumed")
    disk = RecordingDisk(tmp_path / "resumed")
    disk.round_is_over(1)
    begun = len(disk.events)
    with monkeypatch.context() as patched:
        patched.setattr(files, "DISK", disk)
        assert outcome(resume(tmp_path / "resumed" / "run", Listener(disk))) == whole
    assert survives(disk.events, whole, settings, tmp_path, range(begun, len(disk.events) + 1)) > 10


def test_without_durable_it_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test itself: states that are not flushed are lost, and a run without them is refused, not continued."""
    settings = {**settings_of("a state per client"), "durable": False}
    events, whole = recorded(tmp_path / "recorded", monkeypatch, settings)
    cut = events.index(RoundIsOver(2)) + 1
    trees = list(folders_after(events, cut, Random(SEED)))
    refused = []
    for number, tree in enumerate(trees):
        if "run/config.toml" in tree and "run/checkpoint.safetensors" in tree:
            (tmp_path / str(number)).mkdir()
            materialise(tree, tmp_path / str(number))
            try:
                assert outcome(resume(tmp_path / str(number) / "run")) == whole
            except coterie.CoterieError as error:
                refused.append(str(error))
    assert refused
    assert all("can't be used" in why or "damaged" in why for why in refused)


def state(number: int) -> State:
    return {"model": {"weight": np.full((2, 3), number, np.float32)}}


def test_the_store_of_a_site_keeps_what_it_has_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the disk kept, a site has the state of each round that it has answered, or of the one it was at."""
    (tmp_path / "site").mkdir()
    disk = RecordingDisk(tmp_path / "site")
    rounds, saved_at = [1, 2, 4, 4, 5], [0]  # after 4 the server went on from its checkpoint, and asked again
    with monkeypatch.context() as patched:
        patched.setattr(files, "DISK", disk)
        store = DiskStore(tmp_path / "site" / "state", durable=True)
        for number, round in enumerate(rounds):
            store.save(7, round, state(100 * round + number))
            saved_at.append(len(disk.events))
        store.save(7, 3, state(300))  # an older copy of the server was put back
    folders = 0
    for cut in range(saved_at[-1] + 1):
        memory, done = MemoryStore(), max(n for n, at in enumerate(saved_at) if at <= cut)
        for number, round in enumerate(rounds[:done]):
            memory.save(7, round, state(100 * round + number))
        before = rounds[done] if cut > saved_at[done] else (rounds[done - 1] + 1 if done else 1)
        for tree in folders_after(disk.events, cut, Random(cut)):
            folders += 1
            materialise(tree, tmp_path / "cut" / f"{folders}")
            again = DiskStore(tmp_path / "cut" / f"{folders}" / "state").load(7, before)
            assert number_of(again) == number_of(memory.load(7, before)), f"after {cut} events: {tree.keys()}"
    assert folders > 100
    for tree in folders_after(disk.events, len(disk.events), Random(SEED)):
        materialise(tree, tmp_path / "older")
        assert number_of(DiskStore(tmp_path / "older" / "state").load(7, before=99)) == 300


@pytest.mark.integration
def test_packed_states_that_a_checkpoint_names_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while files are cleared, of which what counts is copied."""
    monkeypatch.setattr(packed_store, "LARGEST_LOG", 1000)
    (tmp_path / "run").mkdir()
    disk, luck, expected = RecordingDisk(tmp_path / "run"), Random(1), MemoryStore()
    named: list[dict[int, tuple[int, str]]] = [{}]
    after: list[dict[int, float | None]] = [dict.fromkeys(range(4))]
    with monkeypatch.context() as patched:
        patched.setattr(files, "DISK", disk)
        store = PackedStore(tmp_path / "run" / "clients")
        for round in range(1, 11):
            for client in luck.sample(range(4), 2):
                store.save(client, round, state(10 * round + client))
                expected.save(client, round, state(10 * round + client))
            stamps = store.stamps(range(4), round)
            named.append(named[-1] | {client: (round, digest) for client, digest in stamps.items()})
            after.append({client: number_of(expected.load(client, round + 1)) for client in range(4)})
            files.write_whole(tmp_path / "run" / "checkpoint", b"%d" % round, "system")
    assert not (tmp_path / "run" / "clients" / "1.states").exists()  # it was cleared
    for cut in range(0, len(disk.events) + 1, 2):
        for number, tree in enumerate(folders_after(disk.events, cut, Random(cut))):
            place = tmp_path / f"{cut}-{number}"
            place.mkdir()
            materialise(tree, place)
            done = int((place / "checkpoint").read_text()) if (place / "checkpoint").exists() else 0
            again = PackedStore(place / "clients")
            again.go_on_from(named[done])
            again.remove_later()
            found = {client: number_of(again.load(client, 99)) for client in range(4)}
            assert found == after[done], f"after {cut} events, {sorted(tree)}"


def number_of(kept: State) -> float | None:
    return float(kept["model"]["weight"][0, 0]) if kept else None


def test_a_secret_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "site").mkdir()
    disk = RecordingDisk(tmp_path / "site")
    monkeypatch.setattr(files, "DISK", disk)
    files.write_first(tmp_path / "site" / "secret", b"only mine", mode=0o600)
    trees = [tree for cut in range(len(disk.events) + 1) for tree in folders_after(disk.events, cut, Random(SEED))]
    assert {tree["secret"] for tree in trees if "secret" in tree} == {b"only mine"}
    assert all("secret" in tree for tree in folders_after(disk.events, len(disk.events), Random(SEED)))


def test_settings_reach_the_run(tmp_path: Path) -> None:
    assert settings_to_config(None, {"durable": True}).run.durable
    assert not settings_to_config(None, {}).run.durable
