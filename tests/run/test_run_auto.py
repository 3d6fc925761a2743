"""Rule `auto`, and FLAG's trial, on data whose groups are known."""

import os
from pathlib import Path

import numpy as np
import pytest

import coterie


def found(dataset: str, clients: int, seed: int, **settings):
    return coterie.cluster(dataset=dataset, clients=clients, seed=seed, **settings)


@pytest.mark.integration
@pytest.mark.parametrize("clients", [20, 40])
@pytest.mark.parametrize("seed", range(3))
def test_rotated_digits_fall_into_their_groups_and_iid_ones_into_one(clients: int, seed: int) -> None:
    assert found("digits-rotated", clients, seed).ari > 0.9
    assert found("digits", clients, seed).grouping.n_groups == 1


@pytest.mark.slow
@pytest.mark.parametrize(("clients", "least"), [(20, 0.99), (40, 0.95)])
def test_over_twenty_seeds(clients: int, least: float) -> None:
    assert np.mean([found("digits-rotated", clients, seed).ari for seed in range(20)]) >= least
    assert sum(found("digits", clients, seed).grouping.n_groups == 1 for seed in range(20)) >= 19


@pytest.fixture
def real_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of real data sets, which COTERIE_DATA then names."""
    place = Path(os.environ.get("COTERIE_DATA") or Path(__file__).parents[3] / "shared" / "data")
    missing = [name for name in ("fashion_mnist", "cifar10", "svhn", "usps") if not (place / f"{name}.npz").exists()]
    if missing:
        pytest.skip(f"no {', '.join(missing)} in {place}: set COTERIE_DATA to the folder of real data sets")
    monkeypatch.setenv("COTERIE_DATA", str(place))


@pytest.mark.slow
@pytest.mark.usefixtures("real_data")
def test_iid_fashion_mnist_is_one_group() -> None:
    assert found("fashion_mnist", 100, 0, partition="iid").grouping.n_groups == 1


@pytest.mark.slow
@pytest.mark.usefixtures("real_data")
@pytest.mark.parametrize("seed", range(5))
def test_mix_4_falls_into_its_four_data_sets(seed: int) -> None:
    assert found("mix-4", 100, seed).ari == 1.0


@pytest.mark.slow
@pytest.mark.usefixtures("real_data")
@pytest.mark.parametrize("settings", [{"groups": 4}, {}])
def test_flag_tells_the_four_data_sets_of_mix_4_apart(settings: dict[str, int]) -> None:
    """With their number given, and by its own trial."""
    assert found("mix-4", 100, 0, algorithm="flag", **settings).ari == 1.0


@pytest.mark.integration
def test_pictures_can_be_drawn_for_many_clients(tmp_path: Path) -> None:
    groups = found("digits", 250, 0)
    assert len(groups.save(tmp_path)) == 6
