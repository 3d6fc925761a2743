"""Checkpoints: their format, and parts that are written once."""

from pathlib import Path

import numpy as np
import pytest

from coterie.errors import CoterieError
from coterie.federation.checkpoint import WriteOnce, load_checkpoint, save_checkpoint
from coterie.files import Flush
from coterie.messages import wire


def files(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir()}


def test_a_lasting_part_is_written_once_and_read_back(tmp_path: Path) -> None:
    path, part = tmp_path / "checkpoint.safetensors", WriteOnce({3: np.arange(5.0)})
    save_checkpoint(path, {"round": 1, "algorithm": {"sent": part}})
    (beside,) = files(tmp_path) - {path.name}
    written = (tmp_path / beside).stat().st_mtime_ns
    save_checkpoint(path, {"round": 2, "algorithm": {"sent": part}})
    assert (tmp_path / beside).stat().st_mtime_ns == written
    state = load_checkpoint(path)
    assert state["round"] == 2
    assert state["algorithm"]["sent"].value[3].tolist() == [0, 1, 2, 3, 4]


def test_a_part_that_changed_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.safetensors"
    for values in ([1.0], [1.0, 2.0]):
        save_checkpoint(path, {"sent": WriteOnce({"a": np.array(values)})})
    assert len(files(tmp_path)) == 2
    assert load_checkpoint(path)["sent"].value["a"].tolist() == [1, 2]


def test_the_old_part_stays_until_the_new_checkpoint_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill between the two files leaves a checkpoint that can be read."""
    from coterie.federation import checkpoint

    path = tmp_path / "checkpoint.safetensors"
    save_checkpoint(path, {"sent": WriteOnce({"a": np.zeros(1)})})
    real = checkpoint.write_whole

    def killed(target: Path, content: bytes, *flush: Flush) -> None:
        if target == path:
            raise KeyboardInterrupt
        real(target, content, *flush)

    monkeypatch.setattr(checkpoint, "write_whole", killed)
    with pytest.raises(KeyboardInterrupt):
        save_checkpoint(path, {"sent": WriteOnce({"a": np.ones(1)})})
    assert load_checkpoint(path)["sent"].value["a"].tolist() == [0]


def test_a_missing_or_damaged_part_is_named(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.safetensors"
    save_checkpoint(path, {"sent": WriteOnce({"a": np.zeros(100)})})
    (beside,) = files(tmp_path) - {path.name}
    content = bytearray((tmp_path / beside).read_bytes())
    content[-3] ^= 1
    (tmp_path / beside).write_bytes(content)
    with pytest.raises(CoterieError, match="damaged"):
        load_checkpoint(path)
    (tmp_path / beside).unlink()
    with pytest.raises(CoterieError, match=r"incomplete.*missing"):
        load_checkpoint(path)


@pytest.mark.parametrize("state", [{"round": 3, "algorithm": {}}, {"format": 2, "state": {}}, {"format": 99}])
def test_another_format_is_refused_in_one_sentence(tmp_path: Path, state: dict[str, object]) -> None:
    """The first is how checkpoints were before they had a number."""
    path = tmp_path / "checkpoint.safetensors"
    path.write_bytes(wire.pack(state, checksum=True))
    with pytest.raises(CoterieError, match=f"has format {state.get('format', 1)}, this version of Coterie reads"):
        load_checkpoint(path)


def test_every_flipped_bit_is_refused(tmp_path: Path) -> None:
    """Also in the header, and in the digest itself."""
    path = tmp_path / "checkpoint.safetensors"
    save_checkpoint(path, {"round": 3, "model": {"bias": np.arange(4.0)}})
    content = path.read_bytes()
    for position in range(0, 8 * len(content), 3):
        flipped = bytearray(content)
        flipped[position // 8] ^= 1 << position % 8
        path.write_bytes(flipped)
        with pytest.raises(CoterieError, match=r"checkpoint\.safetensors (is damaged|has format)"):
            load_checkpoint(path)


def test_a_part_that_a_power_cut_left_half_is_written_again(tmp_path: Path) -> None:
    path, part = tmp_path / "checkpoint.safetensors", WriteOnce({"a": np.arange(100.0)})
    (tmp_path / f"checkpoint-{part.name}.safetensors").write_bytes(bytes(500))
    save_checkpoint(path, {"sent": part})
    assert load_checkpoint(path)["sent"].value["a"][99] == 99
