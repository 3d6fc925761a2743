"""Which methods find the groups that data really have: five seeds each, the true number given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import coterie


def agreement(method: str, dataset: str, **settings: Any) -> float:
    found = [
        coterie.cluster(algorithm=method, dataset=dataset, clients=20, groups=4, seed=seed, **settings).ari
        for seed in range(5)
    ]
    return float(np.mean(found))


@pytest.mark.integration
@pytest.mark.parametrize(
    ("method", "settings", "least"),
    [
        ("pacfl", {}, 1.0),
        ("flag", {}, 1.0),
        ("fedgroup", {}, 0.9),  # 50 mini-batches of pre-training, the default
        ("fedgroup", {"algorithm_options": {"measure": "madc"}}, 0.9),
        ("fedgroup", {"algorithm_options": {"pretrain_epochs": 1}}, 0.9),
        ("flis-hc", {"epochs": 20, "algorithm_options": {"soft": True}}, 0.9),
    ],
)
def test_turned_digits(method: str, settings: dict[str, Any], least: float) -> None:
    assert agreement(method, "digits-rotated", **settings) >= least


@pytest.mark.integration
def test_permuted_labels_are_seen_by_gradients_and_class_wise_angles_but_not_by_data_alone() -> None:
    assert agreement("flag", "digits-permuted") == 1.0
    assert agreement("fedgroup", "digits-permuted") == 1.0
    assert agreement("pacfl", "digits-permuted") < 0.2
