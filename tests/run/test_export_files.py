"""What an exported file says of itself, and what it is called."""

import json
from pathlib import Path

import pytest

import coterie
from coterie.errors import CoterieError
from coterie.run.export import export, load_exported
from coterie.testing import small_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("exported") / "first"
    small_run("pacfl", rounds=2, out=str(place))
    return place


@pytest.mark.parametrize(
    ("whose", "name"),
    [
        ({"group": 2}, "group-2.safetensors"),
        ({"client": 5}, "client-5.safetensors"),
        ({"client": 5, "smaller": True}, "client-5-compact.safetensors"),
    ],
)
def test_a_file_is_called_by_whose_it_is(folder: Path, whose: dict[str, int], name: str) -> None:
    path, summary = export(folder, **whose)  # type: ignore[arg-type]
    assert (path, path.is_file(), name in summary) == (folder / name, True, True)


def test_another_model_is_not_replaced(folder: Path, tmp_path: Path) -> None:
    path, _ = export(folder, tmp_path / "a.safetensors", group=0)
    before = path.read_bytes()
    with pytest.raises(CoterieError, match="is there already"):
        export(folder, path, group=1)
    assert path.read_bytes() == before
    export(folder, path, group=1, overwrite=True)
    assert load_exported(path)[1]["group"] == 1


def told(folder: Path, path: Path) -> dict[str, object]:
    """Return what a file says."""
    if path.suffix == ".safetensors":
        return load_exported(path)[1]
    import onnx

    props = {prop.key: prop.value for prop in onnx.load(path).metadata_props}
    assert props.pop("coterie") == coterie.__version__
    assert props.pop("whose")
    return {"coterie": coterie.__version__} | {key: json.loads(value) for key, value in props.items()}


@pytest.mark.integration
@pytest.mark.parametrize("format", ["safetensors", "onnx"])
def test_a_file_says_what_it_is(folder: Path, tmp_path: Path, format: str) -> None:
    if format == "onnx":
        pytest.importorskip("onnxscript")
    path, _ = export(folder, tmp_path / f"a.{format}", client=5, format=format)  # type: ignore[arg-type]
    says = told(folder, path)
    groups = coterie.resume(folder).groups
    assert groups is not None
    expected = {
        "coterie": coterie.__version__,
        "run": {"folder": "first", "algorithm": "pacfl", "data": "digits-rotated", "seed": 0},
        "round": 2,
        "client": 5,
        "group": groups[5],
        "classes": [str(label) for label in range(10)],
    }
    assert {key: says[key] for key in expected} == expected
    assert set(says["normalise"]) == {"scale", "mean", "std"}  # type: ignore[call-overload]


def test_classes_have_the_names_of_their_folders(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    for index, label in enumerate(("ash", "beech", "oak")):
        for number in range(8):
            file = tmp_path / "trees" / label / f"{number}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            image.new("L", (8, 8), 80 * index + number).save(file)
    data = str(tmp_path / "trees")
    coterie.run(dataset=data, clients=2, rounds=1, epochs=1, model="mlp", out=str(tmp_path / "run"))
    says = load_exported(export(tmp_path / "run")[0])[1]
    assert says["classes"] == ["ash", "beech", "oak"]
    assert says["run"]["data"] == "trees"  # not where it lies
