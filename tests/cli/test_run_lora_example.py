"""examples/lora_shakespeare.py: a network is trained, frozen, and fine-tuned by adapters; only they are sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import coterie

PLUGIN = Path(__file__).parents[2] / "examples" / "lora_shakespeare.py"
SMALL: dict[str, Any] = {"width": 8, "layers": 1, "heads": 2}


@pytest.fixture(autouse=True)
def _put_back(registries_put_back: None) -> None:
    """Whatever is registered here."""


@pytest.fixture
def plays(tmp_path: Path) -> Path:
    """Three roles, each with words of its own."""
    said = [
        b"to be or not to be that is the question ",
        b"a horse my kingdom for a horse ",
        b"all the world is a stage ",
    ]
    text = b"".join((line * 50)[:1100] for line in said)
    np.savez(tmp_path / "roles.npz", text=np.frombuffer(text, np.uint8), role_off=np.arange(4) * 1100)
    return tmp_path / "roles.npz"


def trained(folder: Path, file: Path) -> dict[str, np.ndarray]:
    coterie.export(folder, file, plugins=[PLUGIN])
    return load_file(file)


@pytest.mark.integration
@pytest.mark.parametrize("method", ["fedavg", "scaffold"])
def test_only_adapters_learn_and_travel(method: str, plays: Path, tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "algorithm": method, "dataset": str(plays), "plugin": [str(PLUGIN)], "model": "letters", "rounds": 2,
        "epochs": 1, "batch_size": 20, "lr": 0.1, "fraction": 1.0, "eval_every": 0,
    }  # fmt: skip
    whole = coterie.run(**settings, model_options=SMALL, out=str(tmp_path / "base"))
    base = trained(tmp_path / "base", tmp_path / "base.safetensors")
    result = coterie.run(
        **settings,
        model_options={**SMALL, "learns": "adapters"},
        initial=str(tmp_path / "base.safetensors"),
        batch_clients=3,
        out=str(tmp_path / "adapted"),
    )
    adapted = trained(tmp_path / "adapted", tmp_path / "adapted.safetensors")
    assert adapted.keys() == base.keys()
    adapters = {name for name in base if name.endswith((".down", ".up"))}
    assert len(adapters) == 4
    for name, value in adapted.items():
        assert np.array_equal(value, base[name]) == (name not in adapters), name
    assert not any(base[name].any() for name in adapters if name.endswith(".up"))  # which were frozen before
    messages, parts = 2 * len(result.per_client["L"]), 2 if method == "scaffold" else 1
    sizes = []
    for traffic, names in ((result.traffic, adapters), (whole.traffic, base.keys() - adapters)):
        sizes.append(sum(base[name].nbytes for name in names))
        for way in ("up", "down"):
            beside = traffic["by_kind"]["train"][way] / messages - parts * sizes[-1]
            assert 0 < beside < 2000 + 200 * parts * len(names)  # the plan; names and shapes
    assert sizes[0] < sizes[1] / 20
