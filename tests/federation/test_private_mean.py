"""Private training: the formula by hand, sensitivity over neighbours, the noise, and privacy as a hypothesis test."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import kstest

from coterie.errors import CoterieError
from coterie.federation.aggregation import Contribution
from coterie.federation.private_mean import PrivateSums, PrivateTraining, clipped, error_in_network
from coterie.messages import ModelSpec, Params
from coterie.privacy import gaussian_sigma

START: Params = {"w": np.float64([1.0, 2.0]), "b": np.float64([0.0])}
UPDATES = [np.float64([3.0, 0.0, 4.0]), np.float64([0.1, 0.2, 0.0]), np.float64([0.0, -2.0, 0.0])]


def private(**changes: float) -> PrivateTraining:
    settings = {"epsilon": 1.0, "delta": 1e-5, "clip": 1.0, "noise": 1e-12, "rate": 0.5, "min_group": 1, **changes}
    return PrivateTraining(**settings)  # type: ignore[arg-type]


def moved(update: np.ndarray, client: int = 0) -> Contribution:
    params = {"w": START["w"] + update[:2], "b": START["b"] + update[2:]}
    return Contribution(client, params, START, weight=1000.0 * client)


def flat(model: Params) -> np.ndarray:
    return np.concatenate([model["w"], model["b"]])


def trained(updates: list[np.ndarray], how: PrivateTraining, size: int = 6, round: int = 1, groups: int = 1) -> Params:
    sums = PrivateSums[int](how)
    for client, update in enumerate(updates):
        sums.add(0, moved(update, client))
    return sums.means(dict.fromkeys(range(groups), START), dict.fromkeys(range(groups), size), 0, round)[0]


def test_updates_are_cut_count_alike_and_are_divided_by_how_many_were_expected() -> None:
    """Whatever their weights, and however many came."""
    expected = flat(START) + ([0.6, 0, 0.8] + UPDATES[1] + [0, -1, 0]) / (0.5 * 6)
    np.testing.assert_allclose(flat(trained(UPDATES, private())), expected, atol=1e-9)
    half = flat(START) + (UPDATES[1]) / (0.5 * 6)
    np.testing.assert_allclose(flat(trained(UPDATES[1:2], private())), half, atol=1e-9)


def test_one_client_moves_a_sum_by_the_clip_at_most() -> None:
    """Over all pairs of neighbouring rounds of up to three clients."""
    alphabet = [*UPDATES, np.float64([1e9, -1e9, 1e9])]
    reached = []
    for others in itertools.chain.from_iterable(itertools.product(alphabet, repeat=n) for n in range(3)):
        without = flat(trained([*others], private(clip=2.0), size=1))
        for one in alphabet:
            apart = flat(trained([*others, one], private(clip=2.0), size=1)) - without
            reached.append(float(np.linalg.norm(apart)) * 0.5)  # the divisor is q n = 0.5
    assert max(reached) == pytest.approx(2.0)


def test_noise_is_there_for_everybody_also_where_nobody_came() -> None:
    """Of a standard deviation of z S / (q n), new in each round and group, and the same again."""
    how = private(clip=2.0, noise=3.0)
    wide: Params = {"w": np.zeros(5000)}
    sums = PrivateSums[int](how)
    first, second = sums.means({0: wide, 1: wide}, {0: 4, 1: 4}, seed=0, round=1).values()
    later = sums.means({0: wide}, {0: 4}, seed=0, round=2)[0]
    again = sums.means({0: wide}, {0: 4}, seed=0, round=1)[0]
    for model in (first, second, later):
        assert kstest(model["w"] / (3.0 * 2.0 / (0.5 * 4)), "norm").pvalue > 0.001
    assert len(np.unique(np.concatenate([first["w"], second["w"], later["w"]]))) == 15_000
    assert np.array_equal(again["w"], first["w"])


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_a_round_is_private_and_one_with_half_the_noise_is_not(share: float) -> None:
    """Who sees the model guesses whether a client was there, by the direction of its update."""
    epsilon, delta, count = 1.0, 0.1, 4000
    how, update = private(noise=share * gaussian_sigma(epsilon, delta), rate=1.0), UPDATES[0]
    scores = [
        np.array([flat(trained(there, how, size=1, round=t)) @ update for t in range(begin, begin + count)])
        for there, begin in (([update], 0), ([], count))
    ]
    cuts = np.linspace(scores[1].min(), scores[0].max(), 80)
    excess = max((scores[0] > t).mean() - math.exp(epsilon) * (scores[1] > t).mean() for t in cuts)
    chance = 4 * math.sqrt((1 + math.exp(2 * epsilon)) * 0.1 / count)
    assert (excess <= delta + chance) == (share == 1.0)


def test_small_groups_are_refused() -> None:
    with pytest.raises(CoterieError, match="3 clients, fewer than min_group = 4"):
        trained(UPDATES, private(min_group=4), size=3)


def test_an_update_of_nothing_stays_nothing() -> None:
    assert clipped(START, START, 1.0)["w"].tolist() == [0.0, 0.0]


def test_what_is_counted_has_no_bounded_update() -> None:
    assert error_in_network(ModelSpec("mlp", (6,), 3), 0) is None
    assert "BatchNorm" in str(error_in_network(ModelSpec("lenet5-bn", (1, 28, 28), 10), 0))
