"""The server's secret: coins and noise that nobody can draw again, and models that are published once."""

import stat
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import kstest

from coterie.errors import CoterieError
from coterie.federation.noise_source import SecretNoise, SeededNoise
from coterie.messages import Params


def model(value: float) -> dict[str, np.ndarray]:
    return {"w": np.full(3, value, np.float32)}


def values(models: dict[int, Params]) -> dict[int, float]:
    return {group: float(params["w"][0]) for group, params in models.items()}


def test_numbers_are_those_of_the_secret_and_the_address(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    source, again, other = SecretNoise(tmp_path), SecretNoise(tmp_path), SecretNoise(tmp_path / "other")
    drawn = source.draw("training noise", 3, 1).standard_normal(4000)
    assert np.array_equal(drawn, again.draw("training noise", 3, 1).standard_normal(4000))
    assert kstest(drawn, "norm").pvalue > 0.001
    different = [
        other.draw("training noise", 3, 1), source.draw("training noise", 3, 2), source.draw("training noise", 31),
        source.draw("coin", 3, 1), SeededNoise(0).draw("training noise", 3, 1),
    ]  # fmt: skip
    for others in different:
        assert abs(np.corrcoef(drawn, others.standard_normal(4000))[0, 1]) < 0.08
    fresh = [source.noise("training noise", 3, 1).standard_normal(4000) for _ in range(2)]
    for one, two in ((drawn, fresh[0]), fresh):
        assert abs(np.corrcoef(one, two)[0, 1]) < 0.08
    assert kstest(fresh[0], "norm").pvalue > 0.001
    seeded = [SeededNoise(0).noise("training noise", 3, 1).standard_normal(4) for _ in range(2)]
    assert np.array_equal(*seeded)
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600


def test_what_a_round_published_is_published_again_whatever_it_comes_to_now(tmp_path: Path) -> None:
    """Also by another process, and beside a group that has come since, which nobody has seen."""
    first, clip = SecretNoise(tmp_path).publish(1, {0: model(1.0), 1: model(2.0)}, 0.5)
    assert (values(first), clip) == ({0: 1.0, 1: 2.0}, 0.5)
    again, clip = SecretNoise(tmp_path).publish(1, {0: model(7.0), 1: model(8.0), 2: model(9.0)}, 0.7)
    assert (values(again), clip) == ({0: 1.0, 1: 2.0, 2: 9.0}, 0.5)
    fewer, _ = SecretNoise(tmp_path).publish(1, {0: model(5.0)}, 0.9)
    assert values(fewer) == {0: 1.0}
    once_more, _ = SecretNoise(tmp_path).publish(1, {0: model(5.0), 1: model(5.0), 2: model(5.0)}, 0.9)
    assert values(once_more) == {0: 1.0, 1: 2.0, 2: 9.0}
    later, clip = SecretNoise(tmp_path).publish(2, {0: model(3.0)}, 0.4)
    assert (values(later), clip) == ({0: 3.0}, 0.4)


def test_rounds_of_which_nobody_knows_what_was_published_are_refused(tmp_path: Path) -> None:
    source = SecretNoise(tmp_path)
    for round in (1, 2):
        source.publish(round, {0: model(1.0)}, 1.0)
    with pytest.raises(CoterieError, match=r"says that round 2 is over.*put back the newest copy"):
        source.publish(1, {0: model(2.0)}, 1.0)  # an old checkpoint was put back
    old = (tmp_path / "published.safetensors").read_bytes()
    for round in (3, 4):
        source.publish(round, {0: model(1.0)}, 1.0)
    (tmp_path / "published.safetensors").write_bytes(old)  # beside the checkpoint of round 3
    with pytest.raises(CoterieError, match="says that round 2 is the last"):
        source.publish(4, {0: model(2.0)}, 1.0)
    (tmp_path / "published.safetensors").unlink()
    with pytest.raises(CoterieError, match="is missing"):
        source.publish(3, {0: model(2.0)}, 1.0)
