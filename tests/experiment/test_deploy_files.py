"""``coterie deploy``: the files of a federation, and what a site is told before it joins. It needs no Flower."""

import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from coterie.cli.deploy import deploy_app
from coterie.errors import CoterieError
from coterie.experiment.app_folder import check, init, leaving
from coterie.experiment.deployment import read_site, read_terms, site_data


@pytest.fixture
def app(tmp_path: Path) -> Path:
    init(tmp_path / "app")
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (60, 1, 8, 8)).astype(np.uint8), np.arange(60) % 10
    np.savez(tmp_path / "app" / "data.npz", x_train=x, y_train=y)
    return tmp_path / "app"


def changed(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_what_is_written_is_ready(app: Path) -> None:
    terms = read_terms(app)
    assert (terms.config.algorithm.name, terms.config.engine.name, terms.spec.shape) == ("pacfl", "flower", (1, 8, 8))
    components = tomllib.loads((app / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["components"]
    for reference in components.values():
        assert (app / f"{reference.partition(':')[0]}.py").exists()
    assert read_site(app / "site.toml").state == str(app / "state")


def test_the_command_line(app: Path) -> None:
    told = CliRunner().invoke(deploy_app, ["check", str(app)], catch_exceptions=False)
    assert told.exit_code == 0
    assert "'site-1' fits 'app': 48 samples to train on, 12 to test on, uint8 of 1 x 8 x 8" in told.stdout
    assert "array vectors: float32 64 x 3" in told.stdout
    again = CliRunner().invoke(deploy_app, ["init", str(app)])
    assert isinstance(again.exception, CoterieError)
    assert "is there already" in str(again.exception)


@pytest.mark.parametrize("algorithm", ["fedavg", "pacfl", "flis-dc", "flag", "ifca", "sub-fedavg-un", "solo"])
def test_what_would_leave_is_what_the_ledger_counts(app: Path, algorithm: str) -> None:
    """Every method can be rehearsed; and a model leaves unless the method sends none."""
    changed(app / "federation.toml", '"pacfl"', f'"{algorithm}"')
    terms = read_terms(app)
    left = leaving(terms, site_data(read_site(app / "site.toml"), terms))
    arrays = {name for answer in left for name in answer.arrays}
    assert ("params fc1.weight" in arrays) == (algorithm != "solo")
    assert not any(name in ("x", "y") for name in arrays)
    assert all(answer.bytes > 0 for answer in left)


def test_data_that_do_not_fit(app: Path) -> None:
    def told() -> str:
        with pytest.raises(CoterieError) as error:
            check(app)
        return str(error.value)

    changed(app / "federation.toml", "shape = [1, 8, 8]", "shape = [1, 9, 8]")
    assert "are uint8 samples of shape [1, 8, 8], the federation has uint8 ones of [1, 9, 8]" in told()
    changed(app / "federation.toml", "shape = [1, 9, 8]", "shape = [1, 8, 8]")
    changed(app / "federation.toml", "classes = 10", "classes = 9")
    assert "have labels 0 to 9, the federation has 0 to 8" in told()
    changed(app / "federation.toml", 'dtype = "uint8"', 'dtype = "float32"')
    assert "the federation has float32 ones" in told()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("classes = 10", "classes = 1", "classes: should be greater than or equal to 2"),
        ("std = [0.37]", "std = [0.1, 0.2]", "std has 2 numbers: give one, or 1"),
        ("std = [0.37]", "std = [0.0]", "std must be positive"),
        ("[server]", "[data]\nname = 'digits'\n[server]", r"\[data\] is for simulations"),
        ('name = "pacfl"', 'name = "pacfll"', "did you mean 'pacfl'"),
        ("deadline = 300.0", "deadline = -1.0", "deadline"),
        ("min_clients = 2", "min_client = 2", "no key 'min_client': did you mean 'min_clients'"),
        ("[engine]", "[engine]\naddress = 'auto'", "name and address are for simulations"),
        ("[engine]", "[engine]\nname = 'embedded'", "name and address are for simulations"),
    ],
)
def test_wrong_terms(app: Path, old: str, new: str, message: str) -> None:
    changed(app / "federation.toml", old, new)
    with pytest.raises(CoterieError, match=message):
        read_terms(app)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('state = "state"', 'stat = "state"', "'state' is missing"),
        ('state = "state"', 'state = "data.npz"', "there is a file in its place"),
        ('state = "state"', 'state = ""', "state is empty"),
        ("trainer =", "trainr =", "no key 'trainr': did you mean 'trainer'"),
        ('"site-1"', '"ward 7"', "name 'ward 7': use at most 64 letters"),
        ('"site-1"', '""', "name '': use at most 64 letters"),
        ('"data.npz"', '"none.npz"', "there is no file or folder 'none.npz'"),
        ('data = "data.npz"', 'hook = "mine.py:load"', "mine.py:load' failed: FileNotFoundError"),
        ('data = "data.npz"', 'hook = "mine.py"', "should read file.py:function"),
        ("test_share = 0.2", "test_share = 1", "test_share: should be less than 1"),
    ],
)
def test_wrong_sites(app: Path, old: str, new: str, message: str) -> None:
    changed(app / "site.toml", old, new)
    with pytest.raises(CoterieError, match=message):
        check(app)


def test_places_where_no_app_can_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder, name, message in (
        (tmp_path / "file", None, "is there already"),
        (tmp_path / "file" / "app", None, "can't be written: Not a directory"),
        (tmp_path / "two words", None, "can't be the name of an app"),
        (tmp_path / "app", "two words", "can't be the name of an app"),
    ):
        with pytest.raises(CoterieError, match=message):
            init(folder, name)
    assert [item.name for item in tmp_path.iterdir()] == ["file"]
    odd = tmp_path / 'a "quoted" \\ folder' / "app"
    init(odd)
    assert read_terms(odd).config.run.out == str(odd.parent / "app-run")


def test_a_hook_in_place_of_a_file(app: Path) -> None:
    (app / "mine.py").write_text(
        "import numpy as np\nfrom coterie.data import Dataset, Samples\n"
        "def load(name):\n"
        "    x = np.full((20, 1, 8, 8), len(name), np.uint8)\n"
        "    return Dataset(name, Samples(x, np.arange(20) % 3), None, 3)\n"
        "def broken(name):\n    raise OSError('no such table')\n"
        "def odd(name):\n    return [1, 2]\n"
        "def ends(name):\n    raise SystemExit(3)\n"
        "def empty(name):\n    return Dataset(name, None, None, 3)\n"
        "def lists(name):\n    return Dataset(name, Samples([[1]], [1]), None, 3)\n"
        "def floats(name):\n    return Dataset(name, Samples(np.zeros((2, 1, 8, 8), np.uint8), np.zeros(2)), None, 3)\n"
        "def few(name):\n    return Dataset(name, Samples(np.zeros((2, 1, 8, 8), np.uint8), np.arange(1)), None, 3)\n"
    )
    changed(app / "site.toml", 'data = "data.npz"', 'hook = "mine.py:load"')
    terms = read_terms(app)
    local = site_data(read_site(app / "site.toml"), terms)
    assert (len(local.train), len(local.test), local.classes) == (16, 4, 10)
    assert set(local.x.ravel()) == {6}
    for function, message in (
        ("broken", "failed: OSError: no such table"),
        ("odd", "returned a list"),
        ("ends", "failed: SystemExit: 3"),
        ("empty", "must be coterie.data.Samples, not NoneType"),
        ("lists", "must be NumPy arrays"),
        ("floats", "labels must be integers in one row"),
        ("few", "2 samples, but 1 labels"),
    ):
        with pytest.raises(CoterieError, match=message):
            site_data(read_site(app / "site.toml", {"hook": str(app / f"mine.py:{function}")}), terms)
    with pytest.raises(CoterieError, match="one of them"):
        read_site(app / "site.toml", {"data": "data.npz"})


def test_the_node_s_configuration_goes_before_the_file(app: Path) -> None:
    site = read_site(app / "site.toml", {"name": "other", "partition-id": 3})
    assert site.name == "other"
    alone = read_site(None, {"name": "n", "data": str(app / "data.npz"), "state": "/var/x"})
    assert (alone.name, alone.state) == ("n", "/var/x")


def test_the_test_part_is_always_the_same(app: Path) -> None:
    terms = read_terms(app)
    first, again = (site_data(read_site(app / "site.toml"), terms) for _ in range(2))
    assert np.array_equal(first.test, again.test)
    assert not set(first.test) & set(first.train)


def test_checking_needs_no_flower(app: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "flwr"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "flwr", None)
    monkeypatch.delitem(sys.modules, "coterie.engine.flower.app", raising=False)
    assert check(app)
