"""One model, groups, or alone: the four corners, on clients made for them and on federations whose answer is known."""

from collections.abc import Sequence

import numpy as np
import pytest

from coterie.inspect.advice import Advice, advise
from coterie.inspect.inspection import data_flags, inspect
from coterie.inspect.labels import apart, beyond_chance, recognised
from coterie.run.settings import settings_to_config
from coterie.similarity import ClassMoments, class_moments, label_total_variation


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


def test_labels_that_no_two_share_are_wholly_apart_however_few_samples_there_are() -> None:
    assert beyond_chance(np.array([[1, 1, 0, 0], [0, 0, 1, 1]])) == pytest.approx(np.array([[0, 1], [1, 0]]))


LABELS, FEATURES = 4, 6
CENTRES = np.random.default_rng(9).normal(size=(LABELS, FEATURES)) * 4
EVEN = [25] * LABELS
SKEWED = [[80, 20, 0, 0], [0, 80, 20, 0], [0, 0, 80, 20], [20, 0, 0, 80]]


def client(counts: list[int], shift: float | np.ndarray, names: list[int] | None = None, seed: int = 0) -> ClassMoments:
    """Samples of each label around its centre, or that of another label, all of them shifted."""
    rng, y = np.random.default_rng(seed), np.repeat(np.arange(LABELS), counts)
    seen = CENTRES if names is None else CENTRES[names]
    return class_moments(seen[y] + shift + rng.normal(size=(len(y), FEATURES)), y, LABELS)


def advised(
    counts: list[list[int]], shifts: Sequence[float | np.ndarray], names: list[list[int]] | None = None
) -> Advice:
    each = [None] * len(counts) if names is None else names
    moments = [client(*one, seed=k) for k, one in enumerate(zip(counts, shifts, each, strict=True))]
    return advise(np.array(counts), moments, "--dataset mine")


def test_labels_alike_that_look_the_same_make_one_model() -> None:
    given = advised([EVEN] * 8, [0.0] * 8)
    assert (given.choice, given.groups, given.offsets) == ("one model", 1, False)
    assert given.command == "coterie run --algorithm fedavg --dataset mine"
    assert f"{given.evidence['excess']:.3g} times chance at most, not over 2" in given.sentence
    assert "differ no more than by chance" in given.sentence


def test_labels_that_differ_and_look_the_same_make_one_model_with_offsets() -> None:
    given = advised(SKEWED * 3, [0.0] * 12)
    assert (given.choice, given.groups, given.offsets) == ("one model", 1, True)
    assert given.command == "coterie run --algorithm kindred --dataset mine"
    pairs = label_total_variation(np.array(SKEWED * 3))[np.triu_indices(12, 1)]
    assert given.evidence["labels_apart"] == pytest.approx(pairs.mean(), abs=0.05)
    assert f"differ by {100 * given.evidence['labels_apart']:.0f} % beyond chance" in given.sentence  # type: ignore[operator]
    assert "no reason to split" in given.sentence


def test_labels_alike_that_look_different_make_groups() -> None:
    given = advised([EVEN] * 9, [0.0, 3.0, 6.0] * 3)
    assert (given.choice, given.groups, given.offsets) == ("cluster", 3, False)
    assert given.command == "coterie run --algorithm kindred --dataset mine"
    assert f"mean silhouette of {given.evidence['silhouette']:.2f}" in given.sentence
    assert f"{given.evidence['excess']:.3g} times what chance explains" in given.sentence


def test_labels_that_differ_and_look_different_make_groups_with_offsets() -> None:
    given = advised(SKEWED * 4, [0.0] * 8 + [5.0] * 8)
    assert (given.choice, given.groups, given.offsets) == ("cluster", 2, True)
    assert "within groups, label proportions differ" in given.sentence


def test_labels_that_only_groups_have_in_common_differ_not_within_them() -> None:
    """Two parts: nobody needs offsets."""
    given = advised([[50, 50, 0, 0]] * 5 + [[0, 0, 50, 50]] * 5, [0.0] * 10)
    assert (given.choice, given.groups, given.offsets) == ("cluster", 2, False)
    assert given.evidence["parts"] == 2
    assert "no chain of shared labels" in given.sentence


def test_who_names_labels_in_a_way_of_its_own_trains_alone() -> None:
    namings = [[0, 1, 2, 3], [1, 2, 3, 0], [2, 3, 0, 1], [3, 0, 1, 2]]
    given = advised([EVEN] * 4, [0.0] * 4, namings)
    assert (given.choice, given.groups) == ("alone", 4)
    assert given.command == "coterie run --algorithm solo --dataset mine"
    assert "no clear groups" in given.sentence
    assert "only 0 % of the labels" in given.sentence


def test_like_writers_who_can_read_each_other_clients_train_one_model() -> None:
    """Each differs from each by far more than chance, but by less than labels do."""
    given = advised([EVEN] * 12, [*np.random.default_rng(3).normal(0, 0.5, (12, FEATURES))])
    assert given.evidence["excess"] > 4  # type: ignore[operator]
    assert given.choice == "one model"
    assert "no clear groups" in given.sentence
    assert given.evidence["labels_recognised"] == pytest.approx(1)


def test_labels_that_say_nothing_are_no_reason_to_train_alone() -> None:
    """All labels look the same at a client, and each client differs: nothing is found again, nor could be."""
    given = advised([EVEN] * 8, [*np.random.default_rng(4).normal(size=(8, FEATURES))], [[0] * 4] * 8)
    assert "no clear groups" in given.sentence
    assert given.choice == "one model"
    assert given.evidence["labels_recognised"] is None


def test_too_few_samples_to_compare_are_said() -> None:
    given = advised([[3, 3, 0, 0], [0, 0, 3, 3], [3, 0, 0, 3]], [0.0] * 3)
    assert (given.choice, given.evidence["compared"], given.evidence["excess"]) == ("one model", 0, None)
    assert "too few to tell" in given.sentence
    one = advised([EVEN, [3, 3, 0, 0]], [0.0, 9.0])
    assert one.choice == "one model"
    some = advised([EVEN] * 4 + [[1, 0, 0, 0]], [0.0] * 5)
    assert some.evidence["compared"] == 4
    assert "parts" not in some.sentence


def test_nobody_with_a_label_in_common_is_one_model_with_offsets() -> None:
    given = advised([[90 * (i == k) for i in range(4)] for k in range(4)], [0.0] * 4)
    assert (given.choice, given.offsets, given.evidence["parts"]) == ("one model", True, 4)
    assert "no two clients have a label in common" in given.sentence


def test_recognised_is_what_counting_by_hand_gives() -> None:
    rng = np.random.default_rng(1)
    clients = [client(rng.choice([0, 30], 4).tolist(), 0.4 * k, seed=k) for k in range(6)]
    found = recognised(clients)
    assert np.isfinite(found).any()
    for i, here in enumerate(clients):
        for j, there in enumerate(clients):
            mine, theirs = np.flatnonzero(here.counts), np.flatnonzero(there.counts)
            shared = [label for label in mine if label in theirs]
            if i == j or not shared or len(theirs) < 2:
                assert np.isnan(found[i, j])
                continue
            nearest = [min(theirs, key=lambda y: np.linalg.norm(here.means[k] - there.means[y])) for k in shared]
            guess = 1 / len(theirs)
            right = np.mean([a == b for a, b in zip(nearest, shared, strict=True)])
            assert found[i, j] == pytest.approx((right - guess) / (1 - guess))


def test_labels_of_one_distribution_are_one_chance_apart() -> None:
    """On average; those of one label only are not apart."""
    same = [apart(client([20] * 4, 0.0, [0] * 4, seed)) for seed in range(200)]
    assert np.mean(same) == pytest.approx(1, abs=0.05)
    assert np.isnan(apart(client([20, 0, 0, 0], 0.0)))
    assert apart(client([20] * 4, 0.0)) > 50


@pytest.mark.parametrize(
    ("settings", "flags"),
    [
        ({"dataset": "digits", "clients": 8}, "--dataset digits --clients 8 --partition iid"),
        ({"partition": "label-skew:rho=0.2", "seed": 3}, "--dataset digits --partition label-skew:rho=0.2 --seed 3"),
        ({"surplus": 2}, "--dataset digits --partition iid --surplus 2"),
        (
            {"partition": "rotated:parts=dirichlet:alpha=0.1", "server_share": 0.1},
            "--dataset digits --server-share 0.1 --partition 'rotated:parts=\"dirichlet:alpha=0.1\",groups=4'",
        ),
    ],
)  # fmt: skip
def test_flags_say_which_data_were_looked_at(settings: dict[str, object], flags: str) -> None:
    config = settings_to_config(None, settings, method="pacfl")
    assert data_flags(config) == flags


PAIRS_OF_LABELS = {"dataset": "digits", "partition": "given-labels:labels=0+1/2+3/4+5/6+7/8+9"}
BOTH = {"dataset": "digits", "partition": "rotated:groups=2,parts=label-skew:rho=0.5"}
KNOWN = [
    ({"dataset": "digits", "clients": 20}, ("one model", 1, False)),
    ({"dataset": "digits-rotated", "clients": 20}, ("cluster", 4, False)),
    ({"dataset": "digits-permuted", "clients": 20}, ("cluster", 4, False)),
    ({"dataset": "digits-permuted", "clients": 4}, ("alone", 4, False)),
    ({**PAIRS_OF_LABELS, "clients": 5}, ("one model", 1, True)),
    ({**PAIRS_OF_LABELS, "clients": 20}, ("cluster", 5, False)),
    ({"dataset": "digits", "partition": "label-skew:rho=0.2", "clients": 20}, ("one model", 1, True)),
    ({"dataset": "digits", "partition": "dirichlet:alpha=0.5", "clients": 20}, ("one model", 1, True)),
    ({**BOTH, "clients": 12}, ("cluster", 2, True)),
    ({"dataset": "digits", "clients": 200}, ("one model", 1, False)),
]  # fmt: skip


@pytest.mark.integration
@pytest.mark.parametrize(("settings", "answer"), KNOWN, ids=range(len(KNOWN)))
def test_federations_whose_answer_is_known(settings: dict[str, object], answer: tuple[str, int, bool]) -> None:
    given = inspect(settings_to_config(None, settings, method="pacfl"), measures="labels").advice
    assert (given.choice, given.groups, given.offsets) == answer


@pytest.mark.integration
def test_advice_does_not_depend_on_the_method_that_forms_groups() -> None:
    settings = {"dataset": "digits", "partition": "label-skew:rho=0.2", "clients": 12}
    found = [
        inspect(settings_to_config(None, settings, method=name), measures="labels") for name in ("pacfl", "kindred")
    ]
    assert found[0].advice == found[1].advice
    assert found[0].view.groups.grouping.n_groups > 1 == found[1].view.groups.grouping.n_groups
    assert [each.to_json()["method"] for each in found] == ["pacfl", "kindred"]
