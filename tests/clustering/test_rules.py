"""Rules on proximities whose groups are known, and on hard cases."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import silhouette_score

from coterie.clustering import (
    Auto,
    Count,
    Demo,
    Gap,
    Grouping,
    GroupingOptions,
    Silhouette,
    Threshold,
    Trial,
    cut,
    elbow,
    granularity_for,
    number_of_groups,
    silhouette,
    tree,
)
from coterie.clustering.rules import silhouettes

RULES = [Auto(1.4), Threshold("weighted", "degrees", 5.0), Count("weighted", "degrees", 2), Gap("average"),
         Silhouette("average"), Demo("weighted")]  # fmt: skip


def blocks(sizes: list[int], inside: float = 2.0, between: float = 40.0, seed: int = 0) -> np.ndarray:
    """Groups of these sizes: distances around `inside` in them, around `between` else."""
    labels = np.repeat(np.arange(len(sizes)), sizes)
    rng = np.random.default_rng(seed)
    matrix = np.where(labels[:, None] == labels, inside, between) * rng.uniform(0.8, 1.2, (len(labels), len(labels)))
    matrix = (matrix + matrix.T) / 2
    np.fill_diagonal(matrix, 0)
    return matrix


def grouped(rule, proximity) -> Grouping:
    return rule.group(proximity, np.full(len(proximity), 2.0 / np.sqrt(2)))


@pytest.mark.parametrize(
    "rule",
    [
        Auto(1.4),
        Threshold("weighted", "degrees", 10.0),
        Count("weighted", "degrees", 3),
        Gap("average"),
        Silhouette("average"),
    ],
    ids=lambda rule: rule.name,
)
def test_clear_groups_are_found(rule) -> None:
    found = grouped(rule, blocks([4, 6, 5]))
    assert found.labels.tolist() == [0] * 4 + [1] * 6 + [2] * 5
    assert found.n_groups == 3
    assert found.confidence > 0.5
    assert found.reason.endswith(".")
    assert number_of_groups(found.tree, found.threshold) == 3
    assert [float(found.weights[found.members(z)].sum()) for z in range(3)] == pytest.approx([1, 1, 1])


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_clients(rule, n: int) -> None:
    found = grouped(rule, blocks([n]))
    assert len(found.labels) == n
    assert found.confidence is None if n == 1 else 0 <= found.confidence <= 1


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_everything_identical(rule) -> None:
    found = grouped(rule, np.zeros((5, 5)))
    if rule.name == "count":
        assert found.n_groups == 2
    else:
        assert found.labels.tolist() == [0] * 5


def test_one_distribution_is_one_group_by_auto() -> None:
    found = grouped(Auto(1.4), blocks([20]))
    assert found.n_groups == 1
    assert "chance" in found.reason


def test_granularity_is_a_dial() -> None:
    proximity = blocks([3, 3, 3], inside=2, between=6)
    assert [grouped(Auto(g), proximity).n_groups for g in (0.1, 1.4, 5.0)] == [9, 3, 1]


def test_granularity_follows_the_samples_up_to_a_point() -> None:
    values = [granularity_for(n) for n in (0, 12, 24, 36, 500)]
    assert values == sorted(values)
    assert values[0] == 1
    assert values[-1] == values[-2] == granularity_for(np.inf)


def test_many_distributions_come_with_a_hint_at_fewer_models() -> None:
    far = blocks([2] * 8, inside=2, between=8)
    far[:8, 8:] *= 5
    far[8:, :8] *= 5
    found = grouped(Auto(1.4), far)
    assert found.n_groups == 8
    assert "8 distributions" in found.reason
    assert "2 groups" in found.reason
    number = float(found.reason.split("granularity ")[1].split(")")[0])
    assert grouped(Auto(number), far).n_groups == 2


def test_a_threshold_below_zero_merges_nothing() -> None:
    assert grouped(Threshold("weighted", "degrees", -1.0), np.zeros((4, 4))).n_groups == 4


def test_more_groups_than_clients_leave_each_alone_and_say_so() -> None:
    found = grouped(Count("weighted", "degrees", 9), blocks([4]))
    assert found.n_groups == 4
    assert "only 4 clients" in found.reason


def test_no_structure_is_one_group_by_silhouette() -> None:
    assert grouped(Silhouette("average"), blocks([12], inside=10)).n_groups == 1


def test_demo_is_the_loop_of_the_notebook() -> None:
    proximity = blocks([4, 5, 3], seed=2)
    merges, beta = tree(proximity, "weighted"), 100.0
    while number_of_groups(merges, beta / 1.1) - number_of_groups(merges, beta) <= 1:
        beta /= 1.1
    assert grouped(Demo("weighted"), proximity).labels.tolist() == cut(merges, threshold=beta).tolist()


@given(st.integers(3, 12), st.integers(0, 10_000))
@settings(deadline=None, max_examples=60)
def test_silhouette_is_that_of_scikit_learn(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n, 2))
    proximity = np.linalg.norm(points[:, None] - points, axis=-1)
    labels = cut(tree(proximity), count=int(rng.integers(2, n)))
    assert silhouette(proximity, labels) == pytest.approx(silhouette_score(proximity, labels, metric="precomputed"))


@pytest.mark.parametrize("linkage", ["average", "centroid"])
@pytest.mark.parametrize("n", [1, 2, 3, 5, 40])
def test_the_silhouettes_of_all_cuts_are_those_of_each(n: int, linkage: str) -> None:
    points = np.random.default_rng(n).standard_normal((n, 2))
    proximity = np.sqrt(((points[:, None] - points) ** 2).sum(axis=2))
    merges = tree(proximity, linkage)
    each = {k: silhouette(proximity, cut(merges, count=k)) for k in range(2, n)}
    assert silhouettes(proximity, merges) == pytest.approx(each)


def test_confidence_is_the_gap_around_the_cut() -> None:
    line = np.abs(np.subtract.outer([0.0, 1.0, 5.0], [0.0, 1.0, 5.0]))
    assert grouped(Threshold("single", "degrees", 2.0), line).confidence == pytest.approx(1 - 1 / 4)
    assert grouped(Threshold("single", "degrees", 8.0), line).confidence == pytest.approx(1 - 4 / 8)
    assert grouped(Threshold("single", "degrees", 0.5), line).confidence == pytest.approx(1 - 0.5 / 1)


def test_auto_without_noise_says_what_is_missing() -> None:
    with pytest.raises(ValueError, match="noise"):
        Auto().group(np.zeros((2, 2)))


def test_a_grouping_is_saved_without_its_proximities() -> None:
    found = grouped(Gap("average"), blocks([3, 3]))
    again = Grouping(**found.save())
    assert again.proximity is None
    assert again.summary() == found.summary()
    assert again.labels.tolist() == found.labels.tolist()


@pytest.mark.parametrize(
    ("wish", "rule"),
    [
        (GroupingOptions(), Auto(samples=100)),
        (GroupingOptions(threshold=5), Threshold("weighted", "degrees", 5)),
        (GroupingOptions(groups=4), Count("weighted", "degrees", 4)),
        (GroupingOptions(granularity=2.0), Auto(2.0, samples=100)),
        (GroupingOptions(rule="gap", linkage="single"), Gap("single")),
        (GroupingOptions(linkage="complete"), Auto(linkage="complete", samples=100)),
    ],
)
def test_a_number_names_its_rule(wish: GroupingOptions, rule) -> None:
    assert wish.problem() is None
    assert wish.make(Auto(), samples=100) == rule


@pytest.mark.parametrize(
    ("wish", "named"),
    [
        (GroupingOptions(threshold=5, groups=4), "threshold and groups"),
        (GroupingOptions(rule="gap", threshold=5), "belongs to rule 'degrees'"),
        (GroupingOptions(rule="degrees"), "needs a threshold"),
        (GroupingOptions(rule="count"), "number of groups"),
    ],
)
def test_wishes_that_contradict_themselves(wish: GroupingOptions, named: str) -> None:
    assert named in wish.problem()


def test_a_trial_cuts_where_more_groups_gain_little() -> None:
    """Four blocks: a score that rewards finding them, and little more, is followed; each cut is tried once."""
    proximity = blocks([5, 5, 5, 5], inside=0.1, between=0.7)
    truth, tried = np.repeat(np.arange(4), 5), []

    def score(labels: np.ndarray) -> float:
        tried.append(int(labels.max()) + 1)
        return 0.5 if labels.max() == 0 else 0.9 if np.array_equal(labels, truth) else 0.85

    found = Trial("average", "of the largest", score).group(proximity / proximity.max())
    assert found.labels.tolist() == truth.tolist()
    assert tried == sorted(set(tried))
    assert tried[0] == 1
    assert found.rule == "trial"
    assert "4: 0.900" in found.reason


def test_a_trial_that_sees_no_gain_leaves_one_group() -> None:
    found = Trial("average", "of the largest", lambda labels: 0.8 - 0.001 * labels.max()).group(blocks([4, 4]) / 100)
    assert found.n_groups == 1


def test_a_trial_of_one_client() -> None:
    assert Trial("average", "of the largest", lambda labels: 0.5).group(np.zeros((1, 1))).labels.tolist() == [0]


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=12))
def test_no_smaller_count_is_as_good_as_the_elbow(thousandths: list[int]) -> None:
    scores = [number / 1000 for number in thousandths]
    at = elbow(list(range(1, len(scores) + 1)), scores)
    assert all(score < scores[at] for score in scores[:at])
    assert scores[at] >= min(scores[0], scores[-1]) - 0.01 - 1e-9


def test_a_wish_keeps_the_methods_own_linkage() -> None:
    """FLAG's is UPGMA for all rules, FLIS-HC's WPGMA; beside auto, PACFL's paper has WPGMA."""
    for own in ("average", "weighted"):
        for wish in (GroupingOptions(groups=2), GroupingOptions(threshold=0.5), GroupingOptions(rule="gap")):
            assert wish.make(Silhouette(own, "1 − agreement")).linkage == own
    assert GroupingOptions(groups=2).make(Auto()).linkage == "weighted"
    assert GroupingOptions(rule="gap").make(Auto()).linkage == "average"
    assert GroupingOptions(rule="trial").make(Trial("average")).name == "trial"


@pytest.mark.parametrize("step", [0.1, 0.05, 0.01, 0.3])
def test_no_cut_of_a_trial_parts_duplicates(step: float) -> None:
    proximity = np.array([[0.0, 0.0, 0.8], [0.0, 0.0, 0.8], [0.8, 0.8, 0.0]])
    found = Trial("average", "of the largest", lambda labels: float(labels.max()), step).group(proximity)
    assert found.labels.tolist() == [0, 0, 1]
    assert found.threshold >= 0
