"""By attribute: parts that have one attribute and none of the others, in shards (PACFL's case study on CelebA)."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from partition_world import pooled

import coterie
from coterie.data import PARTITIONS, Dataset, load
from coterie.errors import CoterieError

NAMES = ("Male", "Smiling", "Wavy_Hair", "Wearing_Hat")


def faces(samples: int = 600, seed: int = 0) -> Dataset:
    rng = np.random.default_rng(seed)
    data = pooled(rng.integers(0, 2, samples))
    has = rng.random((samples, 4)) < [0.5, 0.5, 0.3, 0.1]
    return Dataset("faces", data.train, None, 2, attributes=has, attribute_names=NAMES)


def divided(data: Dataset, clients: int, seed: int = 0, **options: Any) -> Any:
    values = PARTITIONS.validate("by-attribute", options)
    return PARTITIONS["by-attribute"](data, clients, np.random.default_rng(seed), **values)


def test_each_client_has_one_attribute_and_none_of_the_others() -> None:
    data = faces()
    made = divided(data, 20)
    has = data.attributes[:, 1:]
    assert set(made.true_groups.tolist()) == {0, 1, 2}
    for part, group in zip(made.parts, made.true_groups, strict=True):
        assert np.array_equal(has[part].any(axis=0), np.eye(3, dtype=bool)[group])
        assert has[part].sum() == len(part)
    held = np.concatenate(made.parts)
    assert len(np.unique(held)) == len(held) == (has.sum(axis=1) == 1).sum()
    sizes = np.array([(has[:, k] & (has.sum(axis=1) == 1)).sum() for k in range(3)])
    assert np.bincount(made.true_groups) == pytest.approx(20 * sizes / sizes.sum(), abs=1)
    assert made.own_test == 0.2
    assert f"{600 - len(held)} samples have none or several" in made.notes[0]


def test_several_shards_may_mix_attributes_and_the_seed_decides() -> None:
    made, again, other = (divided(faces(), 10, seed, per_client=3) for seed in (1, 1, 2))
    assert made.true_groups is None
    assert all(np.array_equal(a, b) for a, b in zip(made.parts, again.parts, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(made.parts, other.parts, strict=True))


def test_an_npz_file_with_attributes_is_divided_by_columns(tmp_path: Path) -> None:
    """Each attribute brightens another row of the image, so that PACFL finds the groups."""
    rng = np.random.default_rng(0)
    has = rng.integers(0, 2, (900, 3)) * 2 - 1  # as CelebA's list: 1 and -1
    x = 0.1 * rng.random((900, 6, 6))
    for column in range(3):
        x[has[:, column] > 0, 2 * column] += rng.random((int((has[:, column] > 0).sum()), 6))
    file = tmp_path / "faces.npz"
    np.savez(file, x_train=x.astype(np.float32), y_train=rng.integers(0, 2, 900), attributes=has)
    data = load(str(file), partition=("by-attribute", {"attributes": "0+1+2"}), clients=9)
    assert np.bincount(data.true_groups).tolist() == [3, 3, 3]
    found = coterie.cluster(algorithm="pacfl", dataset=str(file), partition="by-attribute:attributes=0+1+2", clients=9)
    assert found.ari == 1.0


@pytest.mark.parametrize(
    ("options", "clients", "error"),
    [
        ({"attributes": "Smiling+Hat"}, 20, "has no attribute 'Hat'"),
        ({"attributes": "Smiling+1"}, 20, "should name each once"),
        ({"attributes": 7}, 20, "has no attribute '7'"),
        ({}, 2, "2 shards cannot be made of parts of"),
        ({}, 2000, "2000 shards cannot be made of parts of"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], clients: int, error: str) -> None:
    with pytest.raises(CoterieError, match=error):
        divided(faces(), clients, **options)


def test_data_without_attributes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CoterieError, match="needs attributes of samples, which data set 'digits' does not have"):
        load("digits", partition=("by-attribute", {}), clients=5)
    arrays = {"x_train": np.zeros((8, 3)), "y_train": np.arange(8) % 2}
    for attributes, names, error in (
        (np.zeros((7, 2), int), None, "attributes has shape"),
        (np.zeros((8, 2), int), np.array(["a"]), "1 attribute_names for 2 columns"),
    ):
        more = {"attributes": attributes} | ({} if names is None else {"attribute_names": names})
        np.savez(tmp_path / "odd.npz", **arrays, **more)
        with pytest.raises(CoterieError, match=error):
            load(str(tmp_path / "odd.npz"), clients=2)
