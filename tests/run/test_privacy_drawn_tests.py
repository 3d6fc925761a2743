"""Where simulated clients are tested on a part of their own samples, what they tell has more noise."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coterie.client import MemoryStore
from coterie.client.verbs import signature
from coterie.data import FederatedData
from coterie.data.joining import joined_by
from coterie.engine.embedded import SimulatedClients
from coterie.engine.flower.sharing import share
from coterie.federation.loop import rounds
from coterie.privacy import gaussian_sigma
from coterie.run.building import completed, load_data, make_plan, session
from coterie.run.config import Config
from coterie.run.settings import settings_to_config
from coterie.training import Job, Outcome
from coterie.training.torch_trainer import TorchTrainer

SMALL: dict[str, Any] = {
    "clients": 4, "rounds": 1, "fraction": 1.0, "epochs": 1, "workers": 1, "lr": 0.1, "trainer": "torch",
}  # fmt: skip
IMAGES = "a data set with a test part"
DRAWN: dict[str, dict[str, Any]] = {
    "no test part": {"dataset": "digits"},
    "groups, no test part": {"dataset": "digits-rotated"},
    "drift, no test part": {"dataset": "digits-permuted", "dataset_options": {"drift_at": 1}},
    "computed": {"dataset": "synthetic"},
    "a partition with test parts of its own": {"dataset": IMAGES, "partition": "power-law"},
    "validation": {"dataset": IMAGES, "partition": "iid", "validation": 0.2},
    "validation of groups": {"dataset": IMAGES, "partition": "rotated", "validation": 0.2},
}
GIVEN: dict[str, dict[str, Any]] = {
    "a test set for all": {"dataset": IMAGES, "partition": "iid"},
    "shares of a test set": {"dataset": IMAGES, "partition": "rotated"},
    "test samples of own labels": {"dataset": IMAGES, "partition": "label-skew:rho=0.3"},
}


def arrays(test: bool, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    parts = {"train": 400} | ({"test": 120} if test else {})
    return {
        f"{name}_{part}": rng.integers(0, 256, (count, 8, 8), dtype=np.uint8) if name == "x" else np.arange(count) % 10
        for part, count in parts.items()
        for name in ("x", "y")
    }


def config_of(case: str, folder: Path, **more: Any) -> Config:
    settings = {"algorithm": "fedavg", **SMALL, **(DRAWN | GIVEN)[case], **more}
    if settings["dataset"] == IMAGES:
        settings["dataset"] = str(folder / "images.npz")
        np.savez(settings["dataset"], **arrays(test=True))
    return settings_to_config(None, settings)


def drawn(data: FederatedData) -> set[bool]:
    """What the clients say, before and after any drift."""
    clients = SimulatedClients(data, MemoryStore(), TorchTrainer())
    return {client.data_at(round).drawn_tests for client in clients for round in (0, 9)}


@pytest.mark.parametrize("case", [*DRAWN, *GIVEN])
def test_clients_know_whether_their_test_part_is_of_their_own_samples(case: str, tmp_path: Path) -> None:
    data = load_data(config_of(case, tmp_path))
    assert drawn(data) == {case in DRAWN}
    assert drawn(share(data, tmp_path / "shared").open()) == {case in DRAWN}  # as processes of Ray have them


@pytest.mark.parametrize("case", ["groups, no test part", "validation of groups", "shares of a test set"])
def test_private_steps_of_a_run_have_twice_the_noise(case: str, tmp_path: Path) -> None:
    class Recording(TorchTrainer):
        def train(self, job: Job) -> Outcome:
            noises.append(job.plan.private.noise if job.plan.private else 0.0)
            return super().train(job)

    noises: list[float] = []
    config = config_of(case, tmp_path, dp_sgd="epsilon=8,delta=1e-5,shuffled=true")
    data, stated = load_data(config), make_plan(config).private
    with session(completed(config, data), data, MemoryStore(), Recording()) as run:
        for _ in rounds(run.fed, run.algorithm, run.evaluator, every=1):
            pass
    assert stated is not None
    assert noises == [(2 if case in DRAWN else 1) * stated.noise] * 4


@pytest.mark.parametrize("case", ["groups, no test part", "validation of groups", "shares of a test set"])
def test_private_signatures_of_a_run_have_more_noise(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sigmas, made = list[float](), signature.private_second_moments

    def recording(rows: Any, sigma: float, *more: Any) -> Any:
        sigmas.append(sigma)
        return made(rows, sigma, *more)

    monkeypatch.setattr(signature, "private_second_moments", recording)
    config = config_of(case, tmp_path, algorithm="pacfl", dp_signature="epsilon=8,delta=1e-5")
    data = load_data(config)
    with session(completed(config, data), data, MemoryStore()) as run:
        for _ in rounds(run.fed, run.algorithm, run.evaluator, every=1):
            pass
    larger = math.sqrt(2) if case in DRAWN else 1
    assert sigmas == [pytest.approx(larger * gaussian_sigma(8.0, 1e-5))] * 4


@pytest.mark.parametrize("case", ["no test part", "a test set for all"])
@pytest.mark.parametrize("own", [[True], [False], [True, False]])
def test_clients_who_come_later_have_test_parts_of_their_own(case: str, own: list[bool], tmp_path: Path) -> None:
    """Whatever the others have; where some of a folder's have none, all of them take the larger noise."""
    config, folder = config_of(case, tmp_path), tmp_path / "later"
    data, like = load_data(config), case == "no test part"
    folder.mkdir()
    for number, test in enumerate(own):
        made = arrays(test, number)
        np.savez(folder / f"{number}.npz", **{k: v // 16 if like and k[0] == "x" else v for k, v in made.items()})
    joined = joined_by(data, folder, {}, 0)
    clients = SimulatedClients(joined, MemoryStore(), TorchTrainer())
    told = [client.data_at(0).drawn_tests for client in clients]
    assert told == [like] * 4 + [not all(own)] * len(own)


def test_exchanged_or_noisy_samples_change_nothing(tmp_path: Path) -> None:
    assert drawn(load_data(config_of("no test part", tmp_path, noise=0.1))) == {True}
    assert drawn(load_data(config_of("a test set for all", tmp_path, noise=0.1))) == {False}
