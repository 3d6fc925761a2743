"""Numbers by client: a dictionary, of which a checkpoint writes the changes."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import coterie
from coterie.federation import by_client
from coterie.federation.by_client import IntsByClient
from coterie.federation.checkpoint import load_checkpoint, save_checkpoint
from coterie.run.progress import Progress
from coterie.testing import outcome, small_run

OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.integers(0, 9), st.integers(-(2**40), 2**40)),
        st.tuples(st.just("remove"), st.integers(0, 9)),
        st.tuples(st.just("save")),
        st.tuples(st.just("restart")),
    ),
    max_size=40,
)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three are many, and so are a few changes."""
    monkeypatch.setattr(by_client, "SMALL", 2)
    monkeypatch.setattr(by_client, "CHANGES_A_ROUND", 3)


@given(OPERATIONS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_saved_at_any_time_it_is_the_same_dictionary_in_the_same_order(few: None, operations: list[Any]) -> None:
    kept, plain = IntsByClient(), dict[int, int]()
    for what, *more in operations:
        if what == "set":
            kept[more[0]] = plain[more[0]] = more[1]
        elif what == "remove":
            assert kept.pop(more[0], None) == plain.pop(more[0], None)
        else:
            state = kept.save()
            kept = IntsByClient.load(state) if what == "restart" else kept
        assert kept == plain
    assert [*IntsByClient.load(kept.save()).items()] == [*plain.items()]


def test_of_many_clients_a_checkpoint_holds_what_changed(tmp_path: Path) -> None:
    path, kept = tmp_path / "checkpoint.safetensors", IntsByClient(dict.fromkeys(range(50_000), 1))
    save_checkpoint(path, {"kept": kept.save()})
    [part] = tmp_path.glob("checkpoint-*")
    written = part.stat()
    for t in range(2, 12):
        kept |= dict.fromkeys(range(100 * t, 100 * t + 100), t)
        save_checkpoint(path, {"kept": kept.save()})
    assert [*tmp_path.glob("checkpoint-*")] == [part]
    assert (part.stat().st_mtime_ns, part.stat().st_ino) == (written.st_mtime_ns, written.st_ino)
    assert path.stat().st_size < 20_000 < 50_000 * 16 < part.stat().st_size
    again = IntsByClient.load(load_checkpoint(path)["kept"])
    assert again == kept
    again |= dict.fromkeys(range(20_000), 7)  # many changes make a new whole
    save_checkpoint(path, {"kept": again.save()})
    [new] = tmp_path.glob("checkpoint-*")
    assert new != part
    assert IntsByClient.load(load_checkpoint(path)["kept"]) == again


def test_what_earlier_versions_saved_is_read() -> None:
    assert IntsByClient.load({4: 2, 1: 9}) == {4: 2, 1: 9}
    assert IntsByClient.load({3, 1}) == {1: 0, 3: 0}
    assert IntsByClient.load({}) == {}


class BreaksOff(Progress):
    def round(self, round: int, row: object) -> None:
        if round == 2:
            raise KeyboardInterrupt


@pytest.mark.integration
@pytest.mark.parametrize("method", ["fedavg", "ifca"])
def test_a_run_resumed_from_changes_ends_alike(few: None, method: str, tmp_path: Path) -> None:
    usual = {"newcomers": 0.34, "join_at": 1, "drop": 0.2}
    whole = small_run(method, **usual)
    with pytest.raises(KeyboardInterrupt):
        small_run(method, **usual, out=str(tmp_path / "run"), progress=BreaksOff())
    assert any((tmp_path / "run").glob("checkpoint-*"))
    assert outcome(coterie.resume(tmp_path / "run")) == outcome(whole)
