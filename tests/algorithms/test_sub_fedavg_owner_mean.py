"""The mean of Sub-FedAvg, in which each weight is averaged over the clients that still have it."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.algorithms.sub_fedavg import owner_mean
from coterie.messages import Params, PruneReply, weighted_mean


def answers(
    seed: int, count: int, kept: float
) -> tuple[dict[str, np.ndarray], list[Params], list[Params], list[PruneReply]]:
    """A server model, clients' models and masks, and how these are sent."""
    rng = np.random.default_rng(seed)
    shapes = {"conv.weight": (4, 3, 2, 2), "conv.bias": (4,), "fc.weight": (5, 7)}

    def model() -> dict[str, np.ndarray]:
        return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()} | {
            "count": np.array(int(rng.integers(100)))
        }

    old, models = model(), [model() for _ in range(count)]
    masks = [{name: rng.random(shapes[name]) < kept for name in ("conv.weight", "fc.weight")} for _ in range(count)]
    sent = [PruneReply.of(m, k, m, "pruned", None) for m, k in zip(models, masks, strict=True)]
    return old, models, masks, sent


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("count", "kept"), [(1, 0.5), (2, 0.3), (7, 0.2), (4, 0.95)])
def test_each_weight_is_averaged_over_its_owners(seed: int, count: int, kept: float) -> None:
    old, models, masks, sent = answers(seed, count, kept)
    mean, unowned = owner_mean(old, sent), 0
    for name in ("conv.weight", "conv.bias", "fc.weight"):
        for place in np.ndindex(old[name].shape):
            mine = [
                float(m[name][place]) for m, k in zip(models, masks, strict=True) if name not in k or k[name][place]
            ]
            unowned += not mine
            expected = sum(mine) / len(mine) if mine else old[name][place]
            assert mean[name][place] == pytest.approx(expected, rel=1e-6, abs=1e-7)
            if not mine:
                assert mean[name][place] == old[name][place]
    assert kept > 0.9 or unowned > 0
    assert mean["count"] == max(int(m["count"]) for m in models)
    assert all(mean[name].dtype == old[name].dtype for name in old)


def test_whole_masks_make_it_the_plain_mean() -> None:
    old, models, _, _ = answers(0, 5, 1.0)
    sent = [PruneReply.of(m, {}, m, "unchanged", None) for m in models]
    mean, plain = owner_mean(old, sent), weighted_mean(models, [1] * 5)
    for name in old:
        np.testing.assert_allclose(mean[name], plain[name], rtol=1e-6)


def test_what_everybody_has_pruned_keeps_its_value() -> None:
    old, models, _, _ = answers(1, 3, 1.0)
    nobody = {"fc.weight": np.zeros((5, 7), bool)}
    mean = owner_mean(old, [PruneReply.of(m, nobody, m, "pruned", None) for m in models])
    assert mean["fc.weight"].tobytes() == old["fc.weight"].tobytes()
    assert not np.allclose(mean["conv.bias"], old["conv.bias"])


def test_nobody_answers() -> None:
    old, *_ = answers(2, 1, 1.0)
    assert owner_mean(old, []) is old
