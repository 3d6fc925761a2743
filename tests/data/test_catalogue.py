"""The named data sets: what is known of them, whether they are here, and reading them from wherever they are."""

import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pooch
import pytest
from dataset_writers import pixels, python2_pickle, tar_gz, write_idx_set

from coterie.data import DATASETS, check, default_partition, is_here, listing, load
from coterie.data.catalogue import CATALOGUE, located, where
from coterie.data.folder import cache
from coterie.errors import CoterieError

CONTRACT = [
    "digits",
    "digits-rotated",
    "digits-permuted",
    "mnist",
    "fashion_mnist",
    "emnist",
    "femnist",
    "cifar10",
    "cifar100",
    "svhn",
    "usps",
    "stl10",
    "sent140",
    "shakespeare",
    "celeba",
    "synthetic",
    "mix-4",
]
IN_FILES = [name for name, entry in CATALOGUE.items() if entry.files or entry.how]
DIGITS = {
    "x_train": pixels(40, 28, 28),
    "y_train": np.arange(40, dtype=np.uint8) % 4,
    "x_test": pixels(8, 28, 28),
    "y_test": np.arange(8, dtype=np.uint8) % 4,
}


@pytest.fixture(autouse=True)
def no_folder(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if "real" not in request.fixturenames:
        monkeypatch.delenv("COTERIE_DATA", raising=False)


def test_the_contract_is_kept() -> None:
    assert sorted(CONTRACT) == sorted(CATALOGUE) == sorted(name for name in DATASETS if name in CATALOGUE)


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_entry_is_complete(name: str) -> None:
    entry = CATALOGUE[name]
    assert entry.size
    assert entry.licence
    assert entry.page.startswith("http")
    assert bool(entry.files) == bool(entry.addresses)
    assert not (entry.files and entry.how)
    for file in entry.files:
        assert re.fullmatch(r"md5:[0-9a-f]{32}|sha256:[0-9a-f]{64}", file.checksum)
    assert all(address.endswith("/") for address in entry.addresses)


@pytest.mark.parametrize("value", [None, "", "/elsewhere/cache"])
def test_the_cache_folder_is_the_one_of_pooch(monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    if value is None:
        monkeypatch.delenv("XDG_CACHE_HOME")
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", value)
    assert cache() == Path(pooch.os_cache("coterie"))


@pytest.mark.parametrize("name", IN_FILES)
def test_what_is_not_here_says_how_to_get_it(name: str) -> None:
    assert not is_here(name)
    with pytest.raises(CoterieError, match=rf"'{name}\.npz' is looked for in the folder COTERIE_DATA") as raised:
        check(name)
    remedy = f"'coterie data get {name}' downloads it" if CATALOGUE[name].files else CATALOGUE[name].page
    assert remedy in str(raised.value)


def test_a_file_of_the_folder_counts_before_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    downloaded = write_idx_set(cache() / "mnist", DIGITS, gz=True)
    assert where("mnist") == downloaded
    assert is_here("mnist")
    monkeypatch.setenv("COTERIE_DATA", str(tmp_path))
    assert where("mnist") == downloaded
    own = write_idx_set(tmp_path / "mnist", DIGITS)
    assert where("mnist") == own
    np.savez(tmp_path / "mnist.npz", **DIGITS)
    assert where("mnist") == tmp_path / "mnist.npz"


def test_half_a_download_does_not_count(tmp_path: Path) -> None:
    folder = write_idx_set(cache() / "mnist", DIGITS, gz=True)
    (folder / "t10k-labels-idx1-ubyte.gz").rename(tmp_path / "elsewhere")
    assert located("mnist") is None
    (tmp_path / "elsewhere").rename(folder / "t10k-labels-idx1-ubyte.gz")
    assert located("mnist") == folder
    for file in folder.iterdir():
        file.rename(file.with_name("." + file.name))
    assert located("mnist") is None


def test_a_named_data_set_is_read_from_its_original_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COTERIE_DATA", str(tmp_path))
    write_idx_set(tmp_path / "fashion_mnist", DIGITS, gz=True)
    data = load("fashion_mnist", clients=4)
    assert (data.name, data.clients, data.classes, len(data.test)) == ("fashion_mnist", 4, 4, 8)
    assert data.normalise.mean == (0.1307,)
    (tmp_path / "cifar100").mkdir()
    labels = {"fine_labels": list(range(20)) * 2, "coarse_labels": [0, 1] * 20}
    files = {f"cifar-100-python/{part}": python2_pickle(pixels(40, 3072), labels) for part in ("train", "test")}
    tar_gz(tmp_path / "cifar100" / "cifar-100-python.tar.gz", files)
    assert load("cifar100", clients=4).classes == 100
    assert load("cifar100", {"labels": "coarse"}, clients=4).classes == 20
    write_idx_set(tmp_path / "emnist", DIGITS, prefix="emnist-balanced-", test="test")
    write_idx_set(tmp_path / "emnist", DIGITS, prefix="emnist-digits-", test="test")
    data = load("emnist", {"split": "digits"}, clients=4)
    assert {image.tobytes() for image in data.test.x[:, 0]} == {image.T.tobytes() for image in DIGITS["x_test"]}


def test_an_option_without_meaning_for_the_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COTERIE_DATA", str(tmp_path))
    np.savez(tmp_path / "stl10.npz", **DIGITS)
    assert load("stl10", clients=4).shape == (1, 28, 28)
    with pytest.raises(CoterieError, match=r"'stl10': size = 48 has no meaning for .*stl10\.npz: leave it out"):
        load("stl10", {"size": 48}, clients=4)


def test_what_is_made_of_others_is_here_when_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COTERIE_DATA", str(tmp_path))
    for part in ("usps", "cifar10", "svhn"):
        np.savez(tmp_path / f"{part}.npz", **DIGITS)
    assert not is_here("mix-4")
    with pytest.raises(CoterieError, match=r"there is no 'fashion_mnist\.npz' .*coterie data get fashion_mnist"):
        check("mix-4")
    np.savez(tmp_path / "fashion_mnist.npz", **DIGITS)
    assert is_here("mix-4")
    check("mix-4")


def test_data_by_user_are_divided_by_user() -> None:
    by_user = [name for name in CATALOGUE if default_partition(name) == "by-user"]
    assert sorted(by_user) == ["celeba", "femnist", "sent140", "shakespeare"]
    assert default_partition("mnist") == default_partition("some/file.npz") == "iid"


def test_the_list_says_what_is_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COTERIE_DATA", str(tmp_path))
    np.savez(tmp_path / "usps.npz", **DIGITS)
    np.savez(tmp_path / "my_own.npz", **DIGITS)
    names, texts = zip(*listing(), strict=True)
    for name in DATASETS:
        at = names.index(name)
        assert texts[at] == DATASETS.summary(name)
        if name in CATALOGUE:
            entry = CATALOGUE[name]
            assert all(fact in texts[at + 1] for fact in (entry.size, entry.licence, entry.page))
            assert ("not here" in texts[at + 1]) == (name in IN_FILES and name != "usps")
    assert any(f"here: {tmp_path / 'usps.npz'}" in text for text in texts)
    assert str(tmp_path) in texts[names.index("my_own")]


@pytest.mark.integration
def test_the_list_is_made_fast() -> None:
    program = (
        "import sys; from coterie.data import listing; listing();"
        "print({'torch', 'scipy', 'sklearn', 'pydantic', 'pooch', 'requests', 'PIL', 'h5py'} & set(sys.modules))"
    )
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
    assert time.monotonic() - began < 5  # about 0.2 s on a machine with nothing else to do
