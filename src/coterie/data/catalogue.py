"""What is known of the named data sets: size, licence, where they come from, and whether they are here."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from coterie.data.folder import find, places, stored_names
from coterie.data.registries import DATASETS, traits


@dataclass(frozen=True)
class File:
    """A file to download: its name, and its checksum as ``md5:...`` or ``sha256:...``."""

    name: str
    checksum: str


@dataclass(frozen=True)
class DatasetRecord:
    """What is known of one data set."""

    size: str
    """Of what is downloaded."""
    licence: str
    page: str
    """Where to read about it."""
    addresses: tuple[str, ...] = ()
    """Folders on the net which hold its files, the best first."""
    files: tuple[File, ...] = ()
    how: str = ""
    """How to get it where it cannot be downloaded at once."""
    also: tuple[str, ...] = ()
    """Other names under which it may be in the folder of data sets."""
    by_user: bool = False
    """True: it is divided by user unless the user says otherwise."""


def _md5(files: dict[str, str]) -> tuple[File, ...]:
    return tuple(File(name, f"md5:{checksum}") for name, checksum in files.items())


_LEAF = "https://github.com/TalwalkarLab/leaf"
_IDX = tuple(f"{part}-{what}-ubyte.gz" for part in ("train", "t10k") for what in ("images-idx3", "labels-idx1"))


def _idx(*checksums: str) -> tuple[File, ...]:
    return _md5(dict(zip(_IDX, checksums, strict=True)))


CATALOGUE: dict[str, DatasetRecord] = {
    "digits": DatasetRecord("in scikit-learn", "CC BY 4.0", "https://archive.ics.uci.edu/dataset/80"),
    "digits-rotated": DatasetRecord("in scikit-learn", "CC BY 4.0", "https://archive.ics.uci.edu/dataset/80"),
    "digits-permuted": DatasetRecord("in scikit-learn", "CC BY 4.0", "https://archive.ics.uci.edu/dataset/80"),
    "synthetic": DatasetRecord("made when it is used", "none needed", "https://arxiv.org/abs/1812.06127"),
    "mix-4": DatasetRecord("its four parts", "those of its parts", "https://arxiv.org/abs/2209.10526"),
    "mnist": DatasetRecord(
        "12 MB",
        "CC BY-SA 3.0",
        "http://yann.lecun.com/exdb/mnist/",
        ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/"),
        _idx(
            "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "d53e105ee54ea40749a09fcbcd1e9432",
            "9fb629c4189551a2d022fa330f9573f3",
            "ec29112dd5afa0611ce80d1b7f02629c",
        ),
    ),
    "fashion_mnist": DatasetRecord(
        "31 MB",
        "MIT",
        "https://github.com/zalandoresearch/fashion-mnist",
        (
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
        ),
        _idx(
            "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "25c81989df183df01b3e8a0aad5dffbe",
            "bef4ecab320f06d8554ea6380940ec79",
            "bb300cfdad3c16e7a12a480ee83cd310",
        ),
    ),
    "emnist": DatasetRecord(
        "562 MB",
        "public domain (NIST)",
        "https://www.nist.gov/itl/products-and-services/emnist-dataset",
        ("https://biometrics.nist.gov/cs_links/EMNIST/",),
        _md5({"gzip.zip": "58c8d27c78d21e728a6bc7b3cc06412e"}),
    ),
    "cifar10": DatasetRecord(
        "170 MB",
        "none stated: cite the report",
        "https://www.cs.toronto.edu/~kriz/cifar.html",
        ("https://www.cs.toronto.edu/~kriz/",),
        _md5({"cifar-10-python.tar.gz": "c58f30108f718f92721af3b95e74349a"}),
    ),
    "cifar100": DatasetRecord(
        "169 MB",
        "none stated: cite the report",
        "https://www.cs.toronto.edu/~kriz/cifar.html",
        ("https://www.cs.toronto.edu/~kriz/",),
        _md5({"cifar-100-python.tar.gz": "eb9058c3a382ffc7106e4002c42a8d85"}),
    ),
    "svhn": DatasetRecord(
        "246 MB",
        "non-commercial use only",
        "http://ufldl.stanford.edu/housenumbers/",
        ("http://ufldl.stanford.edu/housenumbers/",),
        _md5(
            {
                "train_32x32.mat": "e26dedcc434d2e4c54c9b2d4a06d8373",
                "test_32x32.mat": "eb5a983be6a315427106f1b164d9cef3",
            }
        ),
    ),
    "usps": DatasetRecord(
        "8 MB",
        "none stated: research use",
        "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass.html#usps",
        ("https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass/",),
        _md5({"usps.bz2": "ec16c51db3855ca6c91edd34d0e9b197", "usps.t.bz2": "8ea070ee2aca1ac39742fdd1ef5ed118"}),
    ),
    "stl10": DatasetRecord(
        "2.6 GB",
        "none stated: cite the paper",
        "https://cs.stanford.edu/~acoates/stl10/",
        ("http://ai.stanford.edu/~acoates/stl10/",),
        _md5({"stl10_binary.tar.gz": "91f7769df0f17e558f3565bffb0c7dfb"}),
    ),
    "shakespeare": DatasetRecord(
        "1 MB",
        "public domain",
        "https://github.com/karpathy/char-rnn",
        ("https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/",),
        (File("input.txt", "sha256:86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"),),
        also=("shakespeare_roles",),
        by_user=True,
    ),
    "femnist": DatasetRecord(
        "about 5 GB as JSON",
        "public domain (NIST)",
        f"{_LEAF}/tree/master/data/femnist",
        how="LEAF's ./preprocess.sh -s niid --sf 0.05 -k 0 -t sample in data/femnist makes its folder data",
        by_user=True,
    ),
    "sent140": DatasetRecord(
        "about 0.4 GB as JSON, and 1 GB of GloVe's vectors",
        "research use",
        f"{_LEAF}/tree/master/data/sent140",
        how="LEAF's ./preprocess.sh -s niid --sf 0.3 -k 30 -t sample in data/sent140 makes its folder data, and "
        "glove.6B.300d.txt comes in https://nlp.stanford.edu/data/glove.6B.zip",
        by_user=True,
    ),
    "celeba": DatasetRecord(
        "1.4 GB",
        "non-commercial research only",
        "https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html",
        how="its page gives img_align_celeba.zip (unpack it), list_attr_celeba.txt and identity_CelebA.txt",
        by_user=True,
    ),
}


def located(name: str) -> Path | None:
    """Return where a data set is that comes in files: an .npz file or a folder of its name; None if it is not here.

    A folder into which it was downloaded counts only once all files are there.
    """
    entry = CATALOGUE[name]
    for place in places():
        for stem in (name, *entry.also):
            if (place / f"{stem}.npz").is_file():
                return place / f"{stem}.npz"
        inside = {file.name for file in (place / name).glob("[!.]*")}
        downloads = {file.name for file in entry.files}
        if inside and (downloads <= inside or not downloads & inside):
            return place / name
    return None


def where(name: str) -> Path:
    """Return where a data set of the catalogue is, which must be here."""
    return located(name) or find(f"{name}.npz", advice(name))


def advice(name: str) -> str:
    """Say how to get a data set."""
    entry = CATALOGUE[name]
    if entry.files:
        return f"'coterie data get {name}' downloads it ({entry.size})"
    return f"get it from {entry.page} ({entry.how}) and put it into the folder '{places()[0] / name}'"


def is_here(name: str) -> bool:
    """Whether a data set can be used at once."""
    if name not in CATALOGUE:
        return True
    entry, parts = CATALOGUE[name], traits(name).made_of if name in DATASETS else ()
    return all(map(is_here, parts)) if parts or not (entry.files or entry.how) else located(name) is not None


def listing() -> list[tuple[str, str]]:
    """Return names and texts of all data sets: what it is; then size, licence, source, and whether it is here."""
    rows = []
    for name in DATASETS:
        rows.append((name, DATASETS.summary(name)))
        if name in CATALOGUE:
            rows.append(("", "; ".join(facts(name))))
    listed = {stem for name, entry in CATALOGUE.items() for stem in (name, *entry.also)}
    return rows + [(name, f"your own, here: {places()[0] / name}.npz") for name in stored_names() if name not in listed]


def facts(name: str) -> Iterable[str]:
    """Return size, licence, source, and whether a data set is here."""
    entry = CATALOGUE[name]
    yield from (entry.size, entry.licence, entry.page)
    if entry.files or entry.how:
        place = located(name)
        yield f"here: {place}" if place else "not here"
    elif not is_here(name):
        yield "not all parts are here"
