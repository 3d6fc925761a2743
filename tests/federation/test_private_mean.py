"""Private training: the formula by hand, sensitivity over neighbours, the noise, and privacy as a hypothesis test."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import kstest

from coterie.errors import CoterieError
from coterie.federation.aggregation import Contribution
from coterie.federation.noise_source import SeededNoise
from coterie.federation.private_mean import CLIP_RATE, PrivateSums, PrivateTraining, error_in_network
from coterie.messages import ModelSpec, Params
from coterie.privacy import composed_noise, gaussian_sigma
from coterie.streams import stream

START: Params = {"w": np.float64([1.0, 2.0]), "b": np.float64([0.0])}
UPDATES = [np.float64([3.0, 0.0, 4.0]), np.float64([0.1, 0.2, 0.0]), np.float64([0.0, -2.0, 0.0])]


def private(**changes: float | bool) -> PrivateTraining:
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
    return sums.means(dict.fromkeys(range(groups), START), dict.fromkeys(range(groups), size), SeededNoise(0), round)[0]


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
    first, second = sums.means({0: wide, 1: wide}, {0: 4, 1: 4}, source=SeededNoise(0), round=1).values()
    later = sums.means({0: wide}, {0: 4}, source=SeededNoise(0), round=2)[0]
    again = sums.means({0: wide}, {0: 4}, source=SeededNoise(0), round=1)[0]
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


def test_a_group_that_becomes_small_later_keeps_its_model() -> None:
    """As when a site is away, or a newcomer founds a group: the run goes on, and nothing of its updates is told."""
    sums = PrivateSums[int](private(min_group=4, noise=1.0, quantile=0.5))
    start: Params = {"w": np.arange(5.0)}
    for group in (0, 1):
        sums.add(group, Contribution(group, {"w": np.ones(5)}, start, 1.0))
    models = sums.means({0: start, 1: start}, {0: 3, 1: 4}, source=SeededNoise(0), round=2)
    assert np.array_equal(models[0]["w"], start["w"])
    assert not np.array_equal(models[1]["w"], start["w"])
    alone = PrivateSums[int](private(min_group=4, noise=1.0, quantile=0.5), clip=0.25)
    assert np.array_equal(alone.means({0: start}, {}, source=SeededNoise(0), round=2)[0]["w"], start["w"])
    assert alone.clip == 0.25


@pytest.mark.parametrize(("quantile", "first"), [(0.5, 0.1), (0.8, 30.0)])
def test_an_adaptive_clip_comes_to_the_quantile_of_lengths(quantile: float, first: float) -> None:
    """Of log-normal lengths, from below and above, with a cohort by coins in each round; its mean over 300 rounds."""
    how, rng, clip = private(quantile=quantile, rate=0.5, noise=1.0), np.random.default_rng(0), first
    clips = []
    for _ in range(400):
        lengths = rng.lognormal(0.5, 0.7, size=400)[rng.random(400) < 0.5]
        within = float(np.sum((lengths <= clip) - 0.5))
        clip = how.next_clip(clip, within, 400, rng)
        clips.append(clip)
    wanted = np.quantile(np.random.default_rng(1).lognormal(0.5, 0.7, size=200_000), quantile)
    assert np.mean(clips[100:]) == pytest.approx(wanted, rel=0.05)
    assert np.std(np.log(clips[100:])) < 0.1


def test_the_next_clip_by_hand() -> None:
    """Two of three updates are longer than 1; six clients are expected by halves, so that z is more than 3/20."""
    sums = PrivateSums[int](private(quantile=0.3, noise=2.0))
    for client, update in enumerate(UPDATES):
        sums.add(0, moved(update, client))
    sums.means({0: START}, {0: 6}, source=SeededNoise(5), round=7)
    bits = (0.5 - 0.5 - 0.5) + 2.0 * stream(5, "clip noise", 7).standard_normal()
    share = min(max(0.5 + bits / 3, 0.0), 1.0)
    assert sums.clip == pytest.approx(1.0 * math.exp(-CLIP_RATE * (share - 0.3)))


@pytest.mark.parametrize("clients", [12, 100_000])
def test_updates_and_bits_together_cost_what_the_noise_does(clients: int) -> None:
    """One client moves the two sums, each in units of its noise, by 1/z at most, and by that where it can."""
    how = private(quantile=0.5, noise=1.5, rate=1.0, clip=2.0)
    updates, bits = how.noise_of_updates(clients), how.bits_noise(clients)
    assert composed_noise([updates, 2 * bits]) == pytest.approx(1.5)
    assert updates < 1.16 * 1.5
    for update, longest in ((UPDATES[0], True), (UPDATES[1], False)):
        apart = flat(trained([update], private(clip=2.0), size=1)) - flat(trained([], private(clip=2.0), size=1))
        told = math.hypot(float(np.linalg.norm(apart)) * 0.5 / (updates * 2.0), 0.5 / bits)
        assert told == pytest.approx(1 / 1.5) if longest else told < 1 / 1.5


def test_dp_accounting_finds_the_same_cost_of_both_sums() -> None:
    """Ten rounds of both, against ten of the noise that was configured."""
    accounting = pytest.importorskip("dp_accounting", reason="needs the extra: pip install 'coterie[private]'")
    pytest.importorskip("dp_accounting.pld")
    how = private(quantile=0.5, noise=4.0)

    def cost(*multipliers: float) -> float:
        accountant = accounting.pld.PLDAccountant()
        for z in multipliers:
            accountant.compose(accounting.GaussianDpEvent(z), 10)
        return float(accountant.get_epsilon(1e-5))

    both = cost(how.noise_of_updates(40), 2 * how.bits_noise(40))
    assert both == pytest.approx(cost(4.0), abs=2e-3)
    assert cost(how.noise_of_updates(40) / 2, how.bits_noise(40)) > 2 * both


def test_what_clients_have_hidden_gets_no_more_noise_and_is_not_cut() -> None:
    expected = flat(START) + np.sum(UPDATES, axis=0) / (0.5 * 6)
    np.testing.assert_allclose(flat(trained(UPDATES, private(local=True, noise=100.0))), expected)


def test_what_is_counted_has_no_bounded_update() -> None:
    assert error_in_network(ModelSpec("mlp", (6,), 3), 0) is None
    assert "BatchNorm" in str(error_in_network(ModelSpec("lenet5-bn", (1, 28, 28), 10), 0))
