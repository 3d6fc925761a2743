"""``coterie deploy``: the files of a federation, and what a site is told before it joins. It needs no Flower."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from coterie.data import FederatedData, Samples
from coterie.deploy.app_folder import init
from coterie.deploy.deployment import make_site, serve
from coterie.deploy.preview import check
from coterie.deploy.samples import server_data, site_data
from coterie.deploy.terms import PROTECTING, read_site, read_terms
from coterie.errors import CoterieError
from coterie.results.formats import toml_value
from coterie.run.building import completed
from coterie.run.config import Config
from coterie.run.validation import make_config


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


def toml_text(tables: dict[str, dict[str, Any]]) -> str:
    lines = ((f"[{name}]", *(f"{key} = {toml_value(value)}" for key, value in table.items()))
             for name, table in tables.items())  # fmt: skip
    return "\n".join(line for part in lines for line in part)


def protection(config: Config) -> tuple[Any, ...]:
    privacy, aggregation = config.privacy, config.aggregation
    limits = privacy.min_samples, privacy.min_label_samples, aggregation.max_samples, aggregation.max_weight
    return *limits, aggregation.rule, config.run.durable


DEPLOYED = 10, 10, 1_000_000, 10.0, "clipped", True


def test_deployments_protect_and_simulations_reproduce(app: Path) -> None:
    """Also where federation.toml does not say so, or says a part of it."""
    file = app / "federation.toml"
    assert protection(read_terms(app).config) == DEPLOYED
    assert protection(make_config({})) == (0, 0, None, None, "mean", False)
    written = tomllib.loads(file.read_text())
    kept = {name: table for name, table in written.items() if name not in PROTECTING}
    file.write_text(toml_text(kept))
    assert protection(read_terms(app).config) == DEPLOYED
    file.write_text(toml_text(kept | {"aggregation": {"rule": "median"}, "run": {"seed": 3}}))
    assert protection(read_terms(app).config) == (*DEPLOYED[:4], "median", True)
    off = {"privacy": {"min_samples": 0}, "aggregation": {"rule": "mean"}, "run": {"durable": False}}
    file.write_text(toml_text(kept | off))
    assert protection(read_terms(app).config) == (0, *DEPLOYED[1:4], "mean", False)


def test_what_is_written_is_what_holds_without_it(app: Path) -> None:
    written = tomllib.loads((app / "federation.toml").read_text())
    for section, defaults in PROTECTING.items():
        assert {key: written[section][key] for key in defaults} == defaults


@pytest.mark.parametrize(
    ("algorithm", "shape", "network"),
    [
        ("fedavg", [1, 8, 8], "mlp"),
        ("fedavg", [3, 32, 32], "lenet5"),
        ("sub-fedavg-hy", [1, 8, 8], "lenet5-bn"),
        ("sub-fedavg-hy", [20], "mlp"),
        ('sub-fedavg-hy"\n[model]\nname = "cnn-bn', [3, 32, 32], "cnn-bn"),
    ],
)
def test_the_network_is_that_of_a_simulation(app: Path, algorithm: str, shape: list[int], network: str) -> None:
    changed(app / "federation.toml", '"pacfl"', f'"{algorithm}"')
    changed(app / "federation.toml", "[1, 8, 8]", str(shape))
    terms = read_terms(app)
    samples = Samples(np.zeros((4, *shape), np.uint8), np.arange(4))
    data = FederatedData(
        "x", 10, samples, samples, [np.arange(4)], [np.arange(4)], False, samples, terms.samples.normalisation
    )
    simulated = make_config({"algorithm": {"name": terms.config.algorithm.name}})
    assert terms.config.model.name == network
    if "model" not in algorithm:
        assert completed(simulated, data).model == terms.config.model


class Nobody:
    """A grid that must not be asked."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"sites were asked for {name}")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {'"pacfl"': '"flis-dc"'},
            r"'flis-dc' .* data in \[server\] .* or write server_data = \"noise\" in \[algorithm\]",
        ),
        ({'"pacfl"': '"flis-hc"'}, r"'flis-hc' .* data in \[server\]"),
        ({'"pacfl"': '"flis-dc"\nserver_data = "test"'}, r"server_data = \"test\" .* simulations"),
        ({'"pacfl"': '"sub-fedavg-hy"\n[model]\nname = "mlp"'}, "no convolution"),
        ({"[engine]": '[model]\nname = "lenet5"\n[engine]', "[1, 8, 8]": "[20]"}, "needs images"),
        ({"[engine]": '[model]\nname = "lenet5-bn"\n[engine]\ntrainer = "native"'}, "compiled trainer"),
    ],
)
def test_what_can_t_run_is_told_before_anybody_is_waited_for(
    app: Path, settings: dict[str, str], message: str, tmp_path: Path
) -> None:
    for old, new in settings.items():
        changed(app / "federation.toml", old, new)
    terms = read_terms(app)
    with pytest.raises(CoterieError, match=message) as error:
        serve(Nobody(), terms)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "app-run").exists()
    if "trainer" not in str(settings):  # that of the server is nothing to sites
        with pytest.raises(CoterieError, match=message):
            check(app)


def test_methods_that_compare_on_noise_need_no_samples(app: Path) -> None:
    changed(app / "federation.toml", '"pacfl"', '"flis-dc"\nserver_data = "noise"')
    assert check(app)


@pytest.mark.parametrize(
    ("y", "y_test"),
    [(np.arange(60) % 2 + 3, None), (np.full(60, 7), None), (np.arange(60) % 2 * 9, [5, 4])],
)
def test_a_site_may_lack_any_class(app: Path, y: np.ndarray, y_test: list[int] | None) -> None:
    arrays = {"x_train": np.zeros((60, 8, 8), np.uint8), "y_train": y}
    if y_test:
        arrays |= {"x_test": np.zeros((len(y_test), 8, 8), np.uint8), "y_test": np.array(y_test)}
    np.savez(app / "data.npz", **arrays)
    found = next(line for line in check(app) if line.startswith("samples per class: "))
    numbers = [int(number) for number in re.findall(r"\d+", found)]
    assert np.flatnonzero(numbers).tolist() == np.unique(y).tolist()
    assert sum(numbers) == (60 if y_test else 48)
    local = site_data(read_site(app / "site.toml"), read_terms(app))
    assert np.array_equal(local.y, y)


def save_images(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).mkdir(parents=True)
        for copy in range(10):
            Image.fromarray(np.full((8, 8), 10 * copy, np.uint8)).save(folder / name / f"{copy}.png")


def test_folders_of_images_are_numbered_alike_at_all_sites(app: Path) -> None:
    changed(app / "site.toml", '"data.npz"', '"img"')
    changed(app / "federation.toml", "classes = 10", "classes = 3")
    save_images(app / "img", "dog", "fox")
    with pytest.raises(CoterieError, match=r"add class_names = \[.*\], the names of all 3 classes, to \[samples\]"):
        check(app)
    changed(app / "federation.toml", "classes = 3", 'classes = 3\nclass_names = ["cat", "dog", "fox"]')
    assert any(re.fullmatch(r"samples per class: cat 0, dog \d, fox \d", line) for line in check(app))
    local = site_data(read_site(app / "site.toml"), read_terms(app))
    assert set(local.y.tolist()) == {1, 2}
    save_images(app / "img", "wolf")
    with pytest.raises(CoterieError, match=r"no class 'wolf': rename the folder, or add it to class_names"):
        check(app)


def test_a_site_may_say_how_its_files_are_read(app: Path) -> None:
    names = 'classes = 2\nclass_names = ["cat", "dog"]'
    changed(app / "federation.toml", "classes = 10", names)
    changed(app / "federation.toml", "[1, 8, 8]", "[1, 4, 4]")
    save_images(app / "img", "cat")
    changed(app / "site.toml", '"data.npz"', '"img"')
    with pytest.raises(CoterieError, match=r"of shape \[1, 8, 8\], the federation has uint8 ones of \[1, 4, 4\]"):
        check(app)
    text = (app / "site.toml").read_text()
    for options, wrong in (
        ("{size = 4}", None),
        ("{sise = 4}", "sise"),
        ("{size = 4, class_names = ['cat']}", "class_names is agreed on by all sites"),
    ):
        (app / "site.toml").write_text(f"{text}\noptions = {options}\n")
        if wrong is None:
            assert check(app)
        else:
            with pytest.raises(CoterieError, match=wrong):
                check(app)


def test_text_is_for_simulations(app: Path) -> None:
    texts = {"users": ["a"], "num_samples": [2], "user_data": {"a": {"x": ["to be or", "not to b"], "y": ["n", "e"]}}}
    (app / "texts.json").write_text(json.dumps(texts))
    changed(app / "site.toml", '"data.npz"', '"texts.json"')
    changed(app / "federation.toml", "[1, 8, 8]", "[8]")
    changed(app / "federation.toml", "classes = 10", "classes = 80")
    with pytest.raises(CoterieError, match="are text, which only simulations can use"):
        check(app)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (np.zeros((9, 8, 8), np.uint8), np.arange(9) % 2 + 4, None),
        (np.zeros((9, 9, 8), np.uint8), np.arange(9), r"the server's samples are uint8 samples of shape \[1, 9, 8\]"),
        (np.zeros((9, 8, 8), np.float32), np.arange(9), r"the server's samples are float32 samples of shape"),
        (np.zeros((9, 8, 8), np.uint8), np.arange(9) + 3, r"y_train holds the label 11, but there are 10 classes"),
    ],
)
def test_samples_of_the_server_are_checked_as_those_of_sites(
    app: Path, x: np.ndarray, y: np.ndarray, message: str | None
) -> None:
    np.savez(app / "server.npz", x_train=x, y_train=y)
    changed(app / "federation.toml", '# data = "/srv/server.npz"', f"data = {json.dumps(str(app / 'server.npz'))}")
    terms = read_terms(app)
    if message is None:
        assert server_data(terms).server.y.tolist() == y.tolist()
        return
    with pytest.raises(CoterieError, match=message):
        server_data(terms)


def test_a_path_of_the_server_from_home(app: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(app))
    changed(app / "federation.toml", '# data = "/srv/server.npz"', 'data = "~/data.npz"')
    assert len(server_data(read_terms(app)).server) == 60


def test_data_that_do_not_fit(app: Path) -> None:
    def told() -> str:
        with pytest.raises(CoterieError) as error:
            check(app)
        return str(error.value)

    changed(app / "federation.toml", "shape = [1, 8, 8]", "shape = [1, 9, 8]")
    assert "are uint8 samples of shape [1, 8, 8], the federation has uint8 ones of [1, 9, 8]" in told()
    changed(app / "federation.toml", "shape = [1, 9, 8]", "shape = [1, 8, 8]")
    changed(app / "federation.toml", "classes = 10", "classes = 9")
    assert "y_train holds the label 9, but there are 9 classes, 0 to 8" in told()
    changed(app / "federation.toml", "classes = 9", "classes = 10")
    changed(app / "federation.toml", 'dtype = "uint8"', 'dtype = "float32"')
    assert "the federation has float32 ones" in told()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("classes = 10", "classes = 1", "classes = 1 is not valid: should be greater than or equal to 2"),
        ("# mean = [0.5]", "std = [0.1, 0.2]\nmean = [0.5]", "std has 2 numbers: give one, or 1"),
        ("# mean = [0.5]", "std = [0.0]\nmean = [0.5]", "std must be positive"),
        ("# mean = [0.5]", "std = [nan]\nmean = [0.5]", "finite number"),
        ("# mean = [0.5]", "mean = [0.5]", "give both mean and std, or neither: then sites measure them"),
        ("classes = 10", 'classes = 2\nclass_names = ["cat"]', "class_names has 1 names, but there are 2 classes"),
        ("classes = 10", 'classes = 2\nclass_names = ["a", "a"]', "class_names has a name twice, or an empty one"),
        ("classes = 10", 'classes = 2\nclass_names = ["a", ""]', "class_names has a name twice, or an empty one"),
        (
            '# data = "/srv/server.npz"',
            'data = "server.npz"',
            "data 'server.npz': give an absolute path, or one from ~",
        ),
        ('# data = "/srv/server.npz"', 'data = "~no-such-user/x"', "data '~no-such-user/x': give an absolute path"),
        ("[server]", "[data]\nname = 'digits'\n[server]", r"\[data\] is for simulations"),
        ('name = "pacfl"', 'name = "pacfll"', "did you mean 'pacfl'"),
        ("deadline = 300.0", "deadline = -1.0", "deadline"),
        ("min_clients = 2", "min_client = 2", "no key 'min_client': did you mean 'min_clients'"),
        ("[engine]", "[engine]\naddress = 'auto'", "name, address and gpu_share are for simulations"),
        ("[engine]", "[engine]\nname = 'embedded'", "name, address and gpu_share are for simulations"),
        ("[engine]", "[engine]\ngpu_share = 0.5", "name, address and gpu_share are for simulations"),
        ("[engine]", "[engine]\nbatch_clients = 2", "batch_clients is for the engine 'embedded'"),
        ("[engine]", "[model]\ninitial = 'start.safetensors'\n[engine]", r"\[model\] initial is for simulations"),
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
        ("trainer =", 'device = "gpu"\ntrainer =', "device 'gpu' can't be used here"),
        ('"site-1"', '"ward 7"', "name 'ward 7': use at most 64 letters"),
        ('"site-1"', '""', "name '': use at most 64 letters"),
        ('"data.npz"', '"none.npz"', "there is no file or folder 'none.npz'"),
        ('data = "data.npz"', 'hook = "mine.py:load"', "mine.py:load' failed: FileNotFoundError"),
        ('data = "data.npz"', 'hook = "mine.py"', "should read file.py:function"),
        ("test_share = 0.2", "test_share = 1", "test_share = 1 is not valid: should be less than 1"),
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
        (tmp_path / "file" / "app", None, "can't be made: Not a directory"),
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
        "def above(name):\n"
        "    return Dataset(name, Samples(np.zeros((2, 1, 8, 8), np.uint8), np.full(2, 10)), None, 3)\n"
        "def table(name):\n"
        "    return Dataset(name, Samples(np.zeros((2, 1, 8, 8), np.uint8), np.arange(2)), np.zeros(5), 3)\n"
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
        ("above", "have labels 10 to 10, the federation has 0 to 9"),
        ("table", "must be coterie.data.Samples, not ndarray"),
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


@pytest.mark.integration
def test_the_test_part_is_drawn_from_the_secret_that_the_server_does_not_know(app: Path) -> None:
    """Not by the site's name, which it does: the same in all federations, so that no two differ by a few samples."""
    terms, site = read_terms(app), read_site(app / "site.toml")
    parts = {secret: site_data(site, terms, secret).test.tolist() for secret in ("a" * 32, "b" * 32)}
    assert len({*map(tuple, parts.values())}) == 2
    Path(site.state).mkdir()
    (Path(site.state) / "secret").write_text("b" * 32)
    assert make_site(terms, site).data().test.tolist() == parts["b" * 32]
    told = check(app)
    train = site_data(site, terms, "b" * 32)
    counts = np.bincount(train.y[train.train], minlength=10).tolist()
    assert f"samples per class: {', '.join(map(str, counts))}" in told


@pytest.mark.integration
def test_a_check_writes_nothing(app: Path) -> None:
    before = sorted(app.rglob("*"))
    check(app)
    assert sorted(app.rglob("*")) == before


@pytest.mark.parametrize("kind", ["int32", "uint64", "uint8"])
def test_labels_of_any_integers_become_those_that_trainers_take(app: Path, kind: str) -> None:
    (app / "mine.py").write_text(
        "import numpy as np\nfrom coterie.data import Dataset, Samples\n\n\ndef load(name):\n"
        f"    samples = Samples(np.zeros((20, 1, 8, 8), np.uint8), (np.arange(20) % 10).astype('{kind}'))\n"
        "    return Dataset(name, samples, samples, 10)\n"
    )
    changed(app / "site.toml", 'data = "data.npz"', 'hook = "mine.py:load"')
    local = site_data(read_site(app / "site.toml"), read_terms(app))
    assert local.y.dtype == local.test_y.dtype == np.int64


@pytest.mark.parametrize("name", ["0" * 5000, "a\\u0000b"])
@pytest.mark.parametrize("key", ["state", "data"])
def test_a_path_that_can_t_be_is_refused(app: Path, key: str, name: str) -> None:
    lines = [line for line in (app / "site.toml").read_text().splitlines() if not line.startswith(f"{key} ")]
    (app / "site.toml").write_text("\n".join([f'{key} = "{name}"', *lines]))
    with pytest.raises(CoterieError, match="there can't be a path") as error:
        read_site(app / "site.toml")
    assert str(error.value).isprintable()
