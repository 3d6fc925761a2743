"""The one door: names, paths, options, and what is said when they are wrong."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coterie.data import DATASETS, PARTITIONS, check, default_clients, load, stored_names, traits
from coterie.data.federated import PUBLISHED
from coterie.errors import CoterieError

SaveNpz = Callable[..., Path]


@pytest.fixture(autouse=True)
def no_folder(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if "real" not in request.fixturenames:
        monkeypatch.delenv("COTERIE_DATA", raising=False)


def test_a_file_is_loaded_by_its_path(save: SaveNpz) -> None:
    data = load(str(save()), None, ("label-skew", {"rho": 0.34}), 6, 1)
    assert (data.name, data.clients, data.classes, data.common_test) == ("own", 6, 3, True)
    assert all(len(np.unique(data.train.y[part])) == 1 for part in data.train_parts)
    assert len(data.train) + len(data.server) == 60


def test_a_relative_path_and_the_home_folder_work(save: SaveNpz, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save()
    monkeypatch.chdir(path.parent)
    monkeypatch.setenv("HOME", str(path.parent))
    assert load("own.npz", clients=5).name == load("~/own.npz", clients=5).name == "own"


def test_a_file_of_the_folder_is_loaded_by_its_name(save: SaveNpz, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save("clothes.v2.npz")
    monkeypatch.setenv("COTERIE_DATA", str(path.parent))
    assert stored_names() == ["clothes.v2"]
    assert load("clothes.v2", clients=5).name == "clothes.v2"


def test_a_pooled_data_set_is_divided_evenly_unless_told_otherwise() -> None:
    plain, told = load("digits", clients=9, seed=4), load("digits", {}, ("iid", {}), 9, 4)
    assert np.array_equal(plain.train.x, told.train.x)
    sizes = [len(part) for part in plain.train_parts]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(
    ("name", "clients"),
    [("digits", 20), ("digits-rotated", 20), ("digits-permuted", 20), ("mnist", 100), ("some/file.npz", 100)],
)
def test_default_clients(name: str, clients: int) -> None:
    assert default_clients(name) == clients


WRONG: list[tuple[tuple[Any, ...], str]] = [
    (("digts",), r"unknown data set 'digts': did you mean 'digits'\?"),
    (("qqqq",), r"unknown data set 'qqqq': there are: .*cifar10, cifar100, digits, .*path of a file or folder"),
    (("digits", {"groups": 2}), r"data set 'digits' has no option 'groups': it has no options"),
    (("digits-rotated", {"group": 2}), r"no option 'group': did you mean 'groups'\?"),
    (("digits-rotated", {"groups": 5}), r"groups = 5 is not valid: .*less than or equal to 4"),
    (("digits-permuted", {"groups": 0}), r"groups = 0 is not valid: .*greater than or equal to 1"),
    (("digits", {}, "label-skw"), r"unknown partition 'label-skw': did you mean 'label-skew'\?"),
    (("digits", {}, "label-skew", {"rho": 2}), r"rho = 2 is not valid"),
    (("digits", {}, None, {"rho": 0.2}), r"partition 'iid' has no option 'rho'"),
    (("digits-rotated", {}, "iid"), r"'digits-rotated' comes divided among clients: leave out the partition"),
    (("digits-permuted", {}, "no-such"), r"'digits-permuted' comes divided among clients"),
    (("mnist",), r"'mnist\.npz' is looked for in the folder COTERIE_DATA, which is not set: set it to"),
    (("no/such/file.npz",), r"no file 'no/such/file\.npz' in the folder '.*such': there are no \.npz files"),
    (("no/such/table.csv",), r"no file 'no/such/table\.csv' in the folder '.*such': there are no \.csv files"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG, ids=[message for _, message in WRONG])
def test_check_names_the_mistake_and_load_the_same(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(CoterieError, match=message):
        check(*arguments)
    name, options, partition, partition_options = (*arguments, *[None] * 4)[:4]
    if partition or not partition_options:
        with pytest.raises(CoterieError, match=message):
            load(name, options, (partition, partition_options or {}) if partition else None)


def test_check_reads_no_data(save: SaveNpz, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save()
    path.write_bytes(b"not to be looked into")
    monkeypatch.setenv("COTERIE_DATA", str(path.parent))

    def forbidden(*arguments: object) -> None:
        raise AssertionError("data were read")

    monkeypatch.setattr("coterie.data.readers.npz.read_npz", forbidden)
    monkeypatch.setattr("coterie.data.sources.without_files._digits", forbidden)
    check(str(path), {}, "label-skew", {"rho": 0.5})
    check("own")
    check("digits", {}, "iid", {})
    check("digits-rotated", {"groups": 2})


def test_a_file_takes_the_options_of_its_format_only(save: SaveNpz) -> None:
    with pytest.raises(CoterieError, match=r"format 'npz' has no option 'groups': there are: class_names, classes"):
        check(str(save()), {"groups": 2})
    assert load(str(save()), {"classes": 17}, clients=3).classes == 17


def test_missing_files_say_where_they_were_looked_for(save: SaveNpz, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = save("clothing.npz").parent
    monkeypatch.setenv("COTERIE_DATA", str(folder))
    with pytest.raises(CoterieError, match=rf"there is no 'cifar10\.npz' in '{folder}', the folder COTERIE_DATA: put"):
        check("cifar10")
    with pytest.raises(CoterieError, match=r"unknown data set 'cloting': did you mean 'clothing'\?"):
        check("cloting")
    with pytest.raises(CoterieError, match=rf"in the folder '{folder}': did you mean 'clothing\.npz'\?"):
        check(str(folder / "clothin.npz"))
    check(str(folder))  # a folder with a single data set in it is that data set
    (folder / "table.txt").write_text("1,2,3\n")
    with pytest.raises(CoterieError, match=r"table\.txt' is not a data set that Coterie can read \(.*npz.*np\.savez"):
        check(str(folder / "table.txt"))
    monkeypatch.setenv("COTERIE_DATA", str(folder / "elsewhere"))
    assert stored_names() == []
    with pytest.raises(CoterieError, match=r"but '.*elsewhere' is no folder"):
        check("mnist")


def test_every_entry_describes_itself_and_its_options() -> None:
    assert {"digits", "digits-rotated", "digits-permuted", *PUBLISHED} <= set(DATASETS)
    assert {"iid", "label-skew"} <= set(PARTITIONS)
    ours = {name for name in DATASETS if DATASETS[name].__module__.startswith("coterie.data.")}  # not of other tests
    ours -= {name for name in ours if name.startswith(("arrays-", "table-"))}
    for registry, names in ((DATASETS, ours), (PARTITIONS, {*PARTITIONS})):
        for name in names:
            assert registry.summary(name).endswith(".")
            assert all(option.help.endswith(".") for option in registry.options(name).values())
    assert sorted(name for name in ours if traits(name).divided) == [
        "digits-permuted",
        "digits-rotated",
        "mix",
        "mix-4",
        "synthetic",
    ]


@pytest.mark.integration
def test_importing_stays_fast() -> None:
    program = "import sys, coterie.data; print({'torch', 'scipy', 'sklearn', 'pydantic'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_real_images_are_divided_and_normalised(real: Path) -> None:
    data = load("usps", None, ("label-skew", {"rho": 0.2}), 50, 0)
    assert (data.classes, data.shape, len(data.test), len(data.server)) == (10, (1, 16, 16), 2007, 365)
    assert np.bincount(data.test.y).tolist() == [359, 264, 198, 166, 200, 160, 170, 147, 166, 177]
    assert np.ptp(np.bincount(data.server.y)) <= 1
    assert sum(map(len, data.train_parts)) == 7291 - 365
    assert data.normalise.mean == (0.1307,)
    # Known statistics of the training part: mean 0.2545, deviation 0.3846.
    x = data.normalise(np.concatenate([data.train.x, data.server.x]))
    assert x.mean() == pytest.approx((0.2545 - 0.1307) / 0.3081, abs=1e-3)
    assert x.std() == pytest.approx(0.3846 / 0.3081, abs=1e-3)


def test_real_packed_images_say_how_to_unpack_them(real: Path) -> None:
    if not (real / "cifar10.npz").is_file():
        pytest.skip(f"no cifar10.npz in {real}")
    with np.load(real / "cifar10.npz") as file:
        if "x_train" in file.files:
            pytest.skip("cifar10.npz is unpacked here")
    with pytest.raises(CoterieError, match="packed images"):
        load("cifar10")


def test_real_writers_are_known(real: Path) -> None:
    if not (real / "mnist.npz").is_file():
        pytest.skip(f"no mnist.npz in {real}")
    users = DATASETS["mnist"]().users
    assert len(np.unique(users)) == 539
