"""Models that wait, in memory or on disk, come back as they were."""

from pathlib import Path

import numpy as np
import pytest

from coterie.errors import CoterieError
from coterie.federation.spool import OnDisk, Spool
from coterie.files import ScratchFile
from coterie.messages import ClassCountsReply, Params, Reply, TrainReply

MODELS: list[Params] = [
    {
        "w": np.arange(6, dtype=np.float32).reshape(2, 3) * k,
        "transposed": np.arange(6.0).reshape(2, 3).T * k,
        "seen": np.array(k),
        "none": np.zeros((0, 3), np.float32),
    }
    for k in range(5)
]


def assert_same(got: Params, wanted: Params) -> None:
    assert [*got] == [*wanted]
    for name, value in wanted.items():
        np.testing.assert_array_equal(got[name], value)
        assert (got[name].dtype, got[name].shape) == (value.dtype, value.shape)


def test_beyond_the_limit_models_are_on_disk_and_come_back_bit_for_bit(tmp_path: Path) -> None:
    size = sum(value.nbytes for value in MODELS[0].values())
    spool = Spool(tmp_path, limit=2 * size)
    kept = [spool.keep(model) for model in MODELS]
    assert [isinstance(model, OnDisk) for model in kept] == [False, False, True, True, True]
    assert not [*tmp_path.iterdir()]  # the file has no name: nothing is left however the process ends
    for place in (4, 0, 2, 1, 3):
        assert_same(kept[place], MODELS[place])
        assert_same(spool.take(kept[place]), MODELS[place])
    assert isinstance(spool.keep(MODELS[1]), dict)  # there is room again


def test_the_file_is_given_back_when_nobody_waits_on_disk(tmp_path: Path) -> None:
    spool = Spool(tmp_path, limit=0)
    for _ in range(3):
        kept = [spool.keep(model) for model in MODELS[:2]]
        assert_same(spool.take(kept[1]), MODELS[1])
        assert_same(spool.take(kept[0]), MODELS[0])
        assert spool._file is not None
        assert spool._file._end == 0


def test_a_reply_comes_back_whole_with_what_is_no_model() -> None:
    counts = ClassCountsReply(np.array([3, 4]))
    reply = Reply(7, 2, (TrainReply(5, 3, 0.5, MODELS[1], {"w": MODELS[2]["w"]}), counts))
    spool = Spool(limit=0)
    back = spool.take_reply(spool.keep_reply(reply))
    trained = back.answer(TrainReply)
    assert (back.client, back.round, trained.samples, trained.steps, trained.loss) == (7, 2, 5, 3, 0.5)
    assert_same(trained.params, MODELS[1])
    assert_same(trained.control, {"w": MODELS[2]["w"]})
    assert back.answers[1] is counts


def test_no_room_is_told_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(CoterieError, match="make room there, or ask fewer clients"):
        ScratchFile(tmp_path / "missing")
