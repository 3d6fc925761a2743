"""Rules on proximities whose groups are known, and on hard cases."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import silhouette_score

import coterie
from coterie.clustering import (
    RULES,
    Auto,
    Count,
    Cut,
    Demo,
    Gap,
    Grouping,
    GroupingOptions,
    Rule,
    RuleSupport,
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
from coterie.clustering.rules.automatic import silhouettes
from coterie.errors import CoterieError
from coterie.federation.state import Resumable, saved
from coterie.registry import is_own

EACH = [Auto(granularity=1.4), Threshold(threshold=5.0), Count(groups=2), Gap(), Silhouette(), Demo()]


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
        Auto(granularity=1.4),
        Threshold("weighted", "degrees", threshold=10.0),
        Count("weighted", "degrees", groups=3),
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


@pytest.mark.parametrize("rule", EACH, ids=lambda rule: rule.name)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_clients(rule, n: int) -> None:
    found = grouped(rule, blocks([n]))
    assert len(found.labels) == n
    assert found.confidence is None if n == 1 else 0 <= found.confidence <= 1


@pytest.mark.parametrize("rule", EACH, ids=lambda rule: rule.name)
def test_everything_identical(rule) -> None:
    found = grouped(rule, np.zeros((5, 5)))
    if rule.name == "count":
        assert found.n_groups == 2
    else:
        assert found.labels.tolist() == [0] * 5


def test_one_distribution_is_one_group_by_auto() -> None:
    found = grouped(Auto(granularity=1.4), blocks([20]))
    assert found.n_groups == 1
    assert "chance" in found.reason


def test_granularity_is_a_dial() -> None:
    proximity = blocks([3, 3, 3], inside=2, between=6)
    assert [grouped(Auto(granularity=g), proximity).n_groups for g in (0.1, 1.4, 5.0)] == [9, 3, 1]


def test_granularity_follows_the_samples_up_to_a_point() -> None:
    values = [granularity_for(n) for n in (0, 12, 24, 36, 500)]
    assert values == sorted(values)
    assert values[0] == 1
    assert values[-1] == values[-2] == granularity_for(np.inf)


def test_many_distributions_come_with_a_hint_at_fewer_models() -> None:
    far = blocks([2] * 8, inside=2, between=8)
    far[:8, 8:] *= 5
    far[8:, :8] *= 5
    found = grouped(Auto(granularity=1.4), far)
    assert found.n_groups == 8
    assert "8 distributions" in found.reason
    assert "2 groups" in found.reason
    number = float(found.reason.split("granularity ")[1].split(")")[0])
    assert grouped(Auto(granularity=number), far).n_groups == 2


def test_a_threshold_below_zero_merges_nothing() -> None:
    assert grouped(Threshold("weighted", "degrees", threshold=-1.0), np.zeros((4, 4))).n_groups == 4


def test_more_groups_than_clients_leave_each_alone_and_say_so() -> None:
    found = grouped(Count("weighted", "degrees", groups=9), blocks([4]))
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
    assert grouped(Threshold("single", "degrees", threshold=2.0), line).confidence == pytest.approx(1 - 1 / 4)
    assert grouped(Threshold("single", "degrees", threshold=8.0), line).confidence == pytest.approx(1 - 4 / 8)
    assert grouped(Threshold("single", "degrees", threshold=0.5), line).confidence == pytest.approx(1 - 0.5 / 1)


def test_rules_say_what_is_missing() -> None:
    with pytest.raises(ValueError, match="rule 'auto' needs the noise of each client"):
        Auto().group(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="rule 'trial' needs a trial that scores groups"):
        Trial().group(np.zeros((2, 2)))


def test_a_cut_says_where_it_lies() -> None:
    merges = tree(blocks([3, 3]), "average")
    assert Cut.at(merges, 20.0, "").labels.tolist() == Cut.into(merges, 2, "").labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert number_of_groups(merges, Cut.into(merges, 2, "").threshold) == 2


@dataclass
class Method(Resumable):
    grouping: Grouping | None = saved(default=None)


def test_a_grouping_is_saved_without_its_proximities() -> None:
    method, again = Method(), Method()
    method.grouping = grouped(Gap("average"), blocks([3, 3]))
    again.load(method.save())
    assert again.grouping.proximity is None
    assert again.grouping.summary() == method.grouping.summary()
    assert again.grouping.labels.tolist() == method.grouping.labels.tolist()


@pytest.mark.parametrize(
    ("asked", "rule"),
    [
        (GroupingOptions(), Auto(samples=100)),
        (GroupingOptions(threshold=5), Threshold("weighted", samples=100, threshold=5)),
        (GroupingOptions(rule="degrees", threshold=5), Threshold("weighted", samples=100, threshold=5)),
        (GroupingOptions(groups=4), Count("weighted", samples=100, groups=4)),
        (GroupingOptions(granularity=2.0), Auto(granularity=2.0, samples=100)),
        (GroupingOptions(rule="gap", linkage="single"), Gap("single", samples=100)),
        (GroupingOptions(linkage="complete"), Auto("complete", samples=100)),
        (GroupingOptions(rule="silhouette", options={"least": 0.4}), Silhouette(samples=100, least=0.4)),
    ],
)
def test_a_number_implies_its_rule(asked: GroupingOptions, rule) -> None:
    assert asked.error() is None
    assert asked.make("auto", samples=100) == rule


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        (GroupingOptions(threshold=5, groups=4), "threshold and groups exclude each other: keep one"),
        (GroupingOptions(rule="gap", threshold=5), "threshold belongs to rule 'degrees', not to 'gap'"),
        (GroupingOptions(rule="degrees"), "rule 'degrees' needs the option 'threshold'"),
        (GroupingOptions(rule="count"), "rule 'count' needs the option 'groups'"),
        (GroupingOptions(rule="silhouete"), "unknown rule 'silhouete': did you mean 'silhouette'?"),
        (GroupingOptions(rule="gap", options={"least": 1}), "rule 'gap' has no option 'least'"),
        (GroupingOptions(rule="silhouette", options={"leats": 1}), "did you mean 'least'?"),
        (GroupingOptions(rule="silhouette", options={"least": 2}), "least = 2 is not valid"),
    ],
)
def test_contradictions_are_named(asked: GroupingOptions, error: str) -> None:
    assert error in asked.error()


def test_a_method_takes_the_rules_that_need_no_more_than_it_offers() -> None:
    def usable(**support) -> list[str]:
        return [name for name in RULES if is_own(RULES[name]) and RuleSupport(**support).accepts(name)]

    assert usable() == ["count"]
    any_unit = {"components", "count", "degrees", "gap", "silhouette", "spectral"}
    assert set(usable(offers=("distances",))) == any_unit | {"demo"}
    assert set(usable(offers=("distances", "noise"))) == any_unit | {"auto", "demo"}
    assert set(usable(offers=("distances", "trial"), unit="share")) == any_unit | {"trial"}
    assert set(usable(offers=("distances",), unit="share", refuses=("degrees",))) == any_unit - {"degrees"}


def test_a_refusal_lists_what_can_be_used() -> None:
    flis = RuleSupport(("distances",), "share", refuses=("degrees",), instead="its option beta")
    error = flis.error_in(GroupingOptions(threshold=1))
    usable = "components or count or gap or silhouette or spectral, or its option beta"
    assert error == f"can't form groups by rule 'degrees': use {usable}"
    assert flis.error_in(GroupingOptions(groups=4, linkage="single")) is None
    assert "there is no linkage" in RuleSupport().error_in(GroupingOptions(linkage="single"))


def test_where_there_is_no_gap_newcomers_may_be_any_distance_away() -> None:
    for rule, groups, reach in ((Gap(), 1, np.inf), (Silhouette(), 1, np.inf), (Count(groups=3), 3, np.inf)):
        found = grouped(rule, np.ones((4, 4)) - np.eye(4))
        assert (found.n_groups, rule.reach(found)) == (groups, reach)
    for rule in (Gap(), Silhouette(), Threshold(threshold=9.0)):
        found = grouped(rule, blocks([4, 5]))
        assert (found.n_groups, rule.reach(found)) == (2, found.threshold)


def test_grouping_anew_keeps_the_cut() -> None:
    before, after = blocks([3, 3]), blocks([3, 3, 3])
    by_threshold, by_count = grouped(Gap(), before), grouped(Count(groups=2), before)
    assert Gap().regroup(by_threshold, after).n_groups == 3
    assert Count(groups=2).regroup(by_count, after).n_groups == 2
    assert Gap().regroup(by_threshold, after).threshold == by_threshold.threshold


def test_what_is_no_rule_is_refused() -> None:
    with pytest.raises(CoterieError, match=r"rule 'no-cut' of .*: it has no function cut"):

        @coterie.rule("no-cut")
        class NoCut(Rule):
            """Cut nothing."""

    with pytest.raises(CoterieError, match="a rule is a subclass of"):
        RULES.register("function")(lambda proximity: proximity)


def test_a_trial_cuts_where_more_groups_gain_little() -> None:
    """Four blocks: a score that rewards finding them, and little more, is followed; each cut is tried once."""
    proximity = blocks([5, 5, 5, 5], inside=0.1, between=0.7)
    truth, tried = np.repeat(np.arange(4), 5), []

    def score(labels: np.ndarray) -> float:
        tried.append(int(labels.max()) + 1)
        return 0.5 if labels.max() == 0 else 0.9 if np.array_equal(labels, truth) else 0.85

    found = Trial("average", "of the largest", score=score).group(proximity / proximity.max())
    assert found.labels.tolist() == truth.tolist()
    assert tried == sorted(set(tried))
    assert tried[0] == 1
    assert found.rule == "trial"
    assert "4: 0.900" in found.reason


def test_a_trial_that_sees_no_gain_leaves_one_group() -> None:
    found = Trial(score=lambda labels: 0.8 - 0.001 * labels.max()).group(blocks([4, 4]) / 100)
    assert found.n_groups == 1


def test_a_trial_of_one_client() -> None:
    assert Trial(score=lambda labels: 0.5).group(np.zeros((1, 1))).labels.tolist() == [0]


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=12))
def test_no_smaller_count_is_as_good_as_the_elbow(thousandths: list[int]) -> None:
    scores = [number / 1000 for number in thousandths]
    at = elbow(list(range(1, len(scores) + 1)), scores)
    assert all(score < scores[at] for score in scores[:at])
    assert scores[at] >= min(scores[0], scores[-1]) - 0.01 - 1e-9


def test_a_methods_own_linkage_holds_for_all_rules() -> None:
    """FLAG's is UPGMA for all rules, FLIS-HC's WPGMA; beside auto, PACFL's paper has WPGMA."""
    for own in ("average", "weighted"):
        for asked in (GroupingOptions(groups=2), GroupingOptions(threshold=0.5), GroupingOptions(rule="gap")):
            assert asked.make("silhouette", unit="1 − agreement", linkage=own).linkage == own
    assert GroupingOptions(groups=2).make("auto").linkage == "weighted"
    assert GroupingOptions(rule="gap").make("auto").linkage == "average"
    assert GroupingOptions(rule="trial").make("trial", step=0.2) == Trial(step=0.2)


@pytest.mark.parametrize("step", [0.1, 0.05, 0.01, 0.3])
def test_no_cut_of_a_trial_parts_duplicates(step: float) -> None:
    proximity = np.array([[0.0, 0.0, 0.8], [0.0, 0.0, 0.8], [0.8, 0.8, 0.0]])
    found = Trial(score=lambda labels: float(labels.max()), step=step).group(proximity)
    assert found.labels.tolist() == [0, 0, 1]
    assert found.threshold >= 0
