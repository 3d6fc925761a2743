"""Groups that pool what they told: what a client's distance to a group is, and what is found that pairs do not show."""

import numpy as np
import pytest

from coterie.clustering import Concepts, adjusted_rand_index
from coterie.clustering.forest import forest
from coterie.clustering.hierarchical import cut
from coterie.clustering.pooled import Told, judged, merged, pooled_groups, settle, spread_out, to_pools
from coterie.similarity import ClassMoments, class_distances, class_moments

LABELS, FEATURES = 10, 16
pytestmark = pytest.mark.integration


def federation(
    groups: list[int], shift: float, samples: int, labels: int = LABELS, seed: int = 0
) -> tuple[list[ClassMoments], np.ndarray]:
    """Clients with samples of some labels, drawn for each; group g sees label y at a centre of its own."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(max(groups) + 1, LABELS, FEATURES)) * shift
    clients = []
    for group in groups:
        own = rng.choice(LABELS, labels, replace=False)
        y = np.sort(rng.choice(own, samples))
        clients.append(class_moments(centres[group, y] + rng.normal(size=(samples, FEATURES)), y, LABELS))
    return clients, class_distances(clients)


def test_a_client_is_compared_with_the_pooled_samples_of_others() -> None:
    """As with one client that had all samples of the group, without those of the client itself."""
    rng = np.random.default_rng(1)
    y = [np.sort(rng.integers(0, 3, 30)) for _ in range(5)]
    x = [rng.normal(size=(30, 4)) + k for k in range(5)]
    told = Told.of([class_moments(a, b, 4) for a, b in zip(x, y, strict=True)])
    labels = np.array([0, 0, 1, 1, 1])
    seen = to_pools(told, labels)
    for i in range(5):
        for group in (0, 1):
            mates = [j for j in range(5) if labels[j] == group and j != i]
            squares, by_chance, weight = 0.0, 0.0, 0.0
            for label in range(3):
                own = x[i][y[i] == label]
                theirs = [x[j][y[j] == label] for j in mates]
                n, m = len(own), sum(map(len, theirs))
                s = own.var(axis=0, ddof=1).sum()
                t = sum(len(a) * a.var(axis=0, ddof=1).sum() for a in theirs) / m  # within clients
                d = ((own.mean(axis=0) - np.concatenate(theirs).mean(axis=0)) ** 2).sum()
                chance, w = s / n + t / m, n * m / (n + m)
                squares += w * d
                by_chance += w * chance
                weight += w * (n * s + m * t) / (n + m)
            assert seen.distances[i, group] == pytest.approx((squares - by_chance) / weight, rel=1e-6)
            assert seen.squares[i, group] == pytest.approx(squares, rel=1e-6)
            assert seen.chance[i, group] == pytest.approx(by_chance, rel=1e-6)


def test_without_a_common_label_there_is_no_distance_and_nobody_moves() -> None:
    x = np.random.default_rng(0).normal(size=(20, 4))
    told = Told.of([class_moments(x, np.full(20, label), 3) for label in (0, 0, 1, 2)])
    seen = to_pools(told, np.array([0, 0, 1, 1]))
    unknown = [[False, True]] * 2 + [[True, True]] * 2
    assert np.isnan(seen.distances).tolist() == (seen.chance == 0).tolist() == unknown
    assert settle(told, np.array([0, 0, 1, 1])).tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("samples", [20, 60, 500])
def test_of_one_distribution_excess_is_one_and_distance_zero_on_average(samples: int) -> None:
    """For groups that were not chosen by it; with variances of a few samples, too."""
    far, squares, chance = [], 0.0, 0.0
    for seed in range(12):
        clients, _ = federation([0] * 20, 0.0, samples, labels=3, seed=seed)
        usable = [client for client in clients if client.counts.any()]
        seen = to_pools(Told.of(usable), np.arange(len(usable)) % 2)
        far.append(np.nanmean(seen.distances))
        squares, chance = squares + seen.squares.sum(), chance + seen.chance.sum()
    assert squares / chance == pytest.approx(1, abs=0.05)
    assert np.mean(far) == pytest.approx(0, abs=0.1 / samples**0.5)


@pytest.mark.parametrize("labels", [2, 3, LABELS])
@pytest.mark.parametrize("samples", [30, 60, 300])
@pytest.mark.parametrize("seed", range(4))
def test_one_distribution_is_one_group_whatever_labels_clients_have(labels: int, samples: int, seed: int) -> None:
    """One in each part, where few labels make several of them."""
    clients, _ = federation([0] * 40, 0.0, samples, labels, seed)
    clients = [client for client in clients if client.counts.any()]
    pairs, rule = class_distances(clients), Concepts()
    grouping = rule.group(pairs)
    assert rule.pool(grouping, pairs, clients) is grouping


def test_groups_are_found_that_pairs_do_not_show() -> None:
    """Few samples of each label: pairs are less than twice chance apart, clients and groups are more."""
    true = [k % 4 for k in range(60)]
    clients, pairs = federation(true, 0.31, 80)
    rule = Concepts()
    first = rule.group(pairs)
    assert adjusted_rand_index(first.labels, true) < 0.7
    found = rule.pool(first, pairs, clients)
    assert adjusted_rand_index(found.labels, true) == 1
    assert "to the mean of another group" in found.reason
    assert np.bincount(found.labels, found.weights) == pytest.approx(np.ones(4))
    assert found.threshold < np.inf


def test_groups_are_found_where_some_shared_labels_look_alike_to_all() -> None:
    """Three labels of ten each; half of the ten look the same in all groups: pairs that share these are led astray."""
    rng, true = np.random.default_rng(3), [k % 3 for k in range(90)]
    centres = 0.5 * rng.normal(size=(3, LABELS, FEATURES))
    centres[:, ::2] = centres[:1, ::2]
    clients = []
    for group in true:
        y = np.sort(rng.choice(rng.choice(LABELS, 3, replace=False), 120))
        clients.append(class_moments(centres[group, y] + rng.normal(size=(120, FEATURES)), y, LABELS))
    pairs = class_distances(clients)
    first = Concepts().group(pairs)
    found = Concepts().pool(first, pairs, clients)
    telling = [k for k, client in enumerate(clients) if client.counts[1::2].any()]  # of others nobody could know
    agreement = [adjusted_rand_index(g.labels[telling], np.array(true)[telling]) for g in (first, found)]
    assert agreement[0] < 0.7
    assert agreement[1] == 1


def test_groups_within_groups_are_found() -> None:
    """Two pairs of groups, each pair far from the other and near to itself: the clearest cut is not the last."""
    rng = np.random.default_rng(5)
    far, near = rng.normal(size=(LABELS, FEATURES)), 0.45 * rng.normal(size=(LABELS, FEATURES))
    true, clients = [k % 4 for k in range(48)], []
    for group in true:
        y = np.sort(rng.integers(0, LABELS, 120))
        centres = (group // 2) * 2 * far + (group % 2) * near
        clients.append(class_moments(centres[y] + rng.normal(size=(120, FEATURES)), y, LABELS))
    pairs, told = class_distances(clients), Told.of(clients)
    scores = {int(made.labels.max()) + 1: made.silhouette for made in merged(told, np.arange(48) % 12)}
    labels = pooled_groups(told, pairs, np.zeros(48, np.int64), 2.0, 0.7)
    assert adjusted_rand_index(labels, true) == 1
    assert judged(told, labels).excess > 2
    assert {2, 4} <= scores.keys()


def test_each_in_its_own_way_is_no_group() -> None:
    rng, clients = np.random.default_rng(6), []
    for _ in range(40):
        y = np.sort(rng.integers(0, LABELS, 200))
        clients.append(class_moments(rng.normal(size=FEATURES) + rng.normal(size=(200, FEATURES)), y, LABELS))
    pairs, rule = class_distances(clients), Concepts()
    grouping = rule.group(pairs)
    assert grouping.n_groups == 1
    assert rule.pool(grouping, pairs, clients) is grouping


def test_parts_are_divided_each_by_itself() -> None:
    rng, clients = np.random.default_rng(7), []
    for k in range(24):
        y = np.sort(rng.integers(0, 3, 60)) + 3 * (k % 2)
        shift = 0.8 * (k // 2 % 2) * (k % 2)  # the second part only
        clients.append(class_moments(shift + rng.normal(size=(60, FEATURES)), y, LABELS))
    pairs, rule = class_distances(clients), Concepts()
    found = rule.pool(rule.group(pairs), pairs, clients)
    assert adjusted_rand_index(found.labels, [k % 2 * (1 + k // 2 % 2) for k in range(24)]) == 1
    assert found.reason.startswith("2 parts are connected by no chain of shared labels")


@pytest.mark.parametrize("count", [1, 2, 3])
def test_very_few_clients_are_left_as_they_are(count: int) -> None:
    clients, pairs = federation([0, 1, 2][:count], 3.0, 60)
    grouping = Concepts().group(pairs)
    assert Concepts().pool(grouping, pairs, clients) is grouping


def test_who_was_not_sought_is_not_spread_out_by_chance() -> None:
    """The whole is judged before it is divided, so that no choice is in it."""
    for seed in range(20):
        one, _ = federation([0] * 40, 0.0, 40, labels=3, seed=seed)
        two, _ = federation([0, 1] * 20, 0.6, 40, labels=3, seed=seed)
        assert not spread_out(Told.of([client for client in one if client.counts.any()]), 2.0)
        assert spread_out(Told.of([client for client in two if client.counts.any()]), 2.0)


def test_a_few_clients_with_few_labels_and_numbers_are_seldom_divided() -> None:
    """Where chance leaves the most room: a dozen clients, two labels, looks that vary in two directions."""
    rng, divided = np.random.default_rng(8), 0
    for _ in range(100):
        clients = []
        for _ in range(12):
            y = np.repeat([0, 1], 40)
            clients.append(class_moments(rng.normal(size=(80, 2)), y, LABELS))
        pairs, rule = class_distances(clients), Concepts()
        divided += rule.pooled(pairs, np.zeros(12, np.int64), clients) is not None
    assert divided <= 2


def test_of_groupings_that_are_as_clear_the_fewest_groups_are_taken() -> None:
    """Samples vary along one line, so that parts of a group are apart by chance; far groups make both as clear."""
    rng, truth, clients = np.random.default_rng(0), [i % 2 for i in range(40)], []
    centres, spread = rng.normal(size=(2, LABELS, 4)) * 20, [1, 1e-3, 1e-3, 1e-3]
    for group in truth:
        y = np.sort(rng.choice(rng.choice(LABELS, 2, replace=False), 60))
        clients.append(class_moments(centres[group, y] + rng.normal(size=(60, 4)) * spread, y, LABELS))
    told, one = Told.of(clients), np.zeros(40, np.int64)
    pairs = class_distances(clients)
    start = cut(forest(pairs["distance"], pairs["weight"]), count=13)
    clear = {made.labels.max() + 1: made for made in merged(told, start) if made.excess > 2}
    assert [round(clear[groups].silhouette, 2) for groups in (2, 3)] == [1.0, 1.0]
    assert adjusted_rand_index(truth, pooled_groups(told, pairs, one, chance=2.0, least=0.7)) == 1
