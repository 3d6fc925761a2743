"""One model, groups, or alone: the rule, on numbers made for it and on federations whose answer is known."""

from collections.abc import Sequence

import numpy as np
import pytest

from coterie.clustering import Auto, Grouping
from coterie.inspect.advice import advise
from coterie.inspect.inspection import inspect
from coterie.inspect.labels import Vectors, beyond_chance, recognisable, recognised, samples_per_label
from coterie.run.settings import settings_to_config
from coterie.similarity import label_total_variation


@pytest.mark.integration
def test_mixtures_that_differ_by_chance_only_are_not_apart() -> None:
    """The correction is the mean of what drawing gives, and leaves real differences."""
    rng = np.random.default_rng(0)
    counts = rng.multinomial(40, np.full(10, 0.1), size=300)
    pairs = np.triu_indices(300, 1)
    raw, apart = label_total_variation(counts)[pairs], beyond_chance(counts)[pairs]
    assert raw.mean() > 0.2
    assert apart.mean() < 0.05
    expected = [label_total_variation(rng.multinomial(40, np.full(10, 0.1), size=2))[0, 1] for _ in range(3000)]
    e = np.sqrt(2 / np.pi * 0.1 * 0.9 * 2 / 40) * 10 / 2
    assert np.mean(expected) == pytest.approx(e, rel=0.03)
    many = beyond_chance(counts[:2] * 10_000)[0, 1]  # so many samples leave nothing to chance
    assert many == pytest.approx(label_total_variation(counts[:2])[0, 1], abs=0.01)


@pytest.mark.parametrize("size", [3, 7, 40])
def test_few_samples_of_one_mixture_are_not_apart_on_average(size: int) -> None:
    """However few samples there are: the expectation is that of the pooled mixture, and pairs are not cut off at 0."""
    counts = np.random.default_rng(2).multinomial(size, [0.4, 0.2, *[0.05] * 8], size=200)
    assert beyond_chance(counts)[np.triu_indices(200, 1)].mean() == pytest.approx(
        0, abs=0.05
    )  # two standard deviations of such draws of 3


@pytest.mark.slow
def test_iid_digits_of_too_few_samples_train_one_model() -> None:
    config = settings_to_config(None, {"dataset": "digits", "partition": "iid", "clients": 200}, method="pacfl")
    given = inspect(config, measures="labels").advice
    assert given.choice == "one model"
    assert "too few to tell" in given.sentence
    assert given.evidence["labels_apart"] == pytest.approx(0, abs=0.05)


def test_too_few_samples_are_said_in_one_group_and_in_several() -> None:
    counts = np.array([[4, 0, 4, 0]] * 3 + [[0, 4, 0, 4]] * 3)
    assert samples_per_label(counts) == 4
    for labels in ([0] * 6, [0, 0, 0, 1, 1, 1]):
        few, enough = (advise(grouping(labels), each, SAME) for each in (counts, counts * 2))
        assert few.choice == "one model"
        assert "too few to tell" in few.sentence
        assert "too few" not in enough.sentence
    assert enough.choice == "cluster"


def test_labels_that_no_two_share_are_wholly_apart_however_few_samples_there_are() -> None:
    assert beyond_chance(np.array([[1, 1, 0, 0], [0, 0, 1, 1]])) == pytest.approx(np.array([[0, 1], [1, 0]]))


def test_recognised_is_what_counting_by_hand_gives() -> None:
    rng = np.random.default_rng(1)
    clients = []
    for size in (3, 5, 2, 4, 1):
        vectors = rng.normal(size=(size, 7))
        clients.append(
            Vectors(np.sort(rng.choice(6, size, replace=False)), vectors / np.linalg.norm(vectors, axis=1)[:, None])
        )
    found = recognised(clients)
    for i, here in enumerate(clients):
        for j, there in enumerate(clients):
            shared = [k for k, label in enumerate(here.labels) if label in there.labels]
            if i == j or not shared or len(there.labels) < 2:
                assert np.isnan(found[i, j])
                continue
            right = 0
            for k in shared:
                angles = [np.arccos(min(1.0, abs(here.vectors[k] @ v))) for v in there.vectors]
                right += there.labels[int(np.argmin(angles))] == here.labels[k]
            guess = 1 / len(there.labels)
            assert found[i, j] == pytest.approx((right / len(shared) - guess) / (1 - guess))


def grouping(labels: Sequence[int]) -> Grouping:
    """Groups of the rule `auto`: within a group at the noise, between groups at five times that."""
    given = np.asarray(labels)
    apart = np.where(given[:, None] == given, 1.0, 5.0) * (1 - np.eye(len(given)))
    made = Auto().group(apart, np.full(len(given), np.sqrt(0.5)))
    assert made.labels.tolist() == given.tolist()
    return made


def named(orders: Sequence[Sequence[int]], labels: int = 4) -> list[Vectors]:
    """Clients that all see the same directions, and name them in these orders."""
    return [Vectors(np.arange(labels), np.eye(labels)[list(order)]) for order in orders]


EVEN = np.full((6, 4), 50)
SAME = named([[0, 1, 2, 3]] * 6)
STRANGE = named([[0, 1, 2, 3]] * 3 + [[1, 2, 3, 0]] * 3)


def test_one_group_trains_one_model() -> None:
    given = advise(grouping([0] * 6), EVEN, SAME)
    assert (given.choice, given.groups) == ("one model", 1)
    assert "than chance explains" in given.sentence


def test_one_group_whose_labels_mean_different_things_is_clustered_by_them() -> None:
    given = advise(grouping([0] * 6), EVEN, named([[0, 1, 2, 3]] * 2 + [[1, 2, 3, 0]] * 2 + [[2, 3, 0, 1]] * 2))
    assert (given.choice, given.groups) == ("cluster", 3)
    assert "name them differently" in given.sentence


def noise(clients: int, labels: int = 3, features: int = 6, seed: int = 0) -> list[Vectors]:
    """Clients whose labels say nothing of their samples."""
    x = np.random.default_rng(seed).random((clients, labels, 4, features))
    return [Vectors(np.arange(labels), np.linalg.svd(each, full_matrices=False)[2][:, 0]) for each in x]


@pytest.mark.parametrize("clients", [2, 3, 5, 20])
@pytest.mark.parametrize("seed", range(5))
def test_labels_that_say_nothing_are_not_recognisable(clients: int, seed: int) -> None:
    made = noise(clients, seed=seed)
    assert not recognisable(made)
    found = recognised(made)
    given = advise(grouping([0] * clients), np.full((clients, 3), 50), made)
    assert given.choice == "one model"
    assert ("cannot be told apart" in given.sentence) == (np.nanmean(found) < 1 / 3)


def test_vectors_that_tie_are_guessed_among() -> None:
    """Constant inputs: all labels have the same direction, but for the last digits."""
    rng = np.random.default_rng(3)
    same = [Vectors(np.arange(4), np.full((4, 9), 1 / 3) + rng.normal(size=(4, 9)) * 1e-8) for _ in range(6)]
    assert recognised(same)[0, 1:] == pytest.approx(0)
    assert not recognisable(same)
    given = advise(grouping([0] * 6), EVEN, same)
    assert given.choice == "one model"
    assert "cannot be told apart" in given.sentence


def test_labels_are_recognisable_whatever_they_are_called() -> None:
    rng = np.random.default_rng(4)
    assert recognisable(named([rng.permutation(4).tolist() for _ in range(6)]))
    assert recognisable(named([rng.permutation(10).tolist() for _ in range(2)], 10))
    assert not recognisable(named([[0], [0], [0]], 1))


def test_groups_of_one_label_do_not_differ_by_labels() -> None:
    one = [Vectors(np.arange(1), np.eye(2)[[i // 3]]) for i in range(6)]
    given = advise(grouping([0, 0, 0, 1, 1, 1]), np.full((6, 1), 50), one)
    assert given.choice == "one model"
    assert "not by labels: there is one label only" in given.sentence
    equal = advise(grouping([0, 0, 0, 1, 1, 1]), EVEN, SAME)
    assert equal.choice == "one model"
    assert "not by labels: mixtures of labels are the same" in equal.sentence


def test_the_same_labels_that_look_different_are_clustered() -> None:
    given = advise(grouping([0, 0, 0, 1, 1, 1]), EVEN, STRANGE)
    assert (given.choice, given.groups) == ("cluster", 2)
    assert "look different" in given.sentence


def test_without_mates_clients_go_alone() -> None:
    given = advise(grouping(range(4)), EVEN[:4], named([[0, 1, 2, 3], [1, 2, 3, 0], [2, 3, 0, 1], [3, 0, 1, 2]]))
    assert (given.choice, given.groups) == ("alone", 4)


@pytest.mark.parametrize(
    ("common", "choice"), [(0.2, "cluster"), (0.28, "cluster"), (0.32, "one model"), (0.8, "one model")]
)
def test_overlapping_mixtures_train_one_model(common: float, choice: str) -> None:
    """Groups that differ in a share of their labels only."""
    n = 100_000
    one = [n * (1 - common), 0, n * common / 2, n * common / 2]
    two = [0, n * (1 - common), n * common / 2, n * common / 2]
    counts = np.array([one] * 3 + [two] * 3).astype(np.int64)
    given = advise(grouping([0, 0, 0, 1, 1, 1]), counts, SAME)
    assert given.choice == choice
    assert given.evidence["labels_apart_between_groups"] == pytest.approx(1 - common, abs=0.01)


KNOWN = [
    ({"dataset": "digits", "clients": 20}, ("one model", 1)),
    ({"dataset": "digits-rotated", "clients": 20}, ("cluster", 4)),
    ({"dataset": "digits-permuted", "clients": 20}, ("cluster", 4)),
    ({"dataset": "digits", "partition": "given-labels:labels=0+1/2+3/4+5/6+7/8+9", "clients": 5}, ("alone", 5)),
    ({"dataset": "digits", "partition": "given-labels:labels=0+1/2+3/4+5/6+7/8+9", "clients": 20}, ("cluster", 5)),
    ({"dataset": "digits", "partition": "label-skew:rho=0.2", "clients": 20}, ("cluster", 8)),
    ({"dataset": "digits", "partition": "dirichlet:alpha=0.5", "clients": 20}, ("one model", 1)),
]  # fmt: skip


@pytest.mark.integration
@pytest.mark.parametrize(("settings", "answer"), KNOWN, ids=range(len(KNOWN)))
def test_federations_whose_answer_is_known(settings: dict[str, object], answer: tuple[str, int]) -> None:
    given = inspect(settings_to_config(None, settings, method="pacfl"), measures="labels").advice
    assert (given.choice, given.groups) == answer
