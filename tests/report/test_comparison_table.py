"""Tables of comparisons: what they say, and what they refuse to say."""

from __future__ import annotations

import csv
import io
import math
import re
from typing import Any

import numpy as np
import pytest
from scipy import stats

from coterie.results.comparison_table import ComparisonTable, make_table
from coterie.results.formats import TABLE_FORMATS

Labelled = tuple[str, dict[int, dict[str, Any]]]

SEEDS = (0, 1, 2)


def result(L: float | None, C: float | None = None, G: float | None = None, **more: Any) -> dict[str, Any]:
    return {
        "accuracy": {"L": L, "C": C, "G": G, "plus": None, "W_max": None},
        "groups": None, "ari": None, "traffic": {"up_bytes": 1_500_000, "down_bytes": 500_000}, "targets": [],
        "seconds": 2.0, "events": [], "per_client": {},
    } | more  # fmt: skip


def cell(label: str, *runs: dict[str, Any] | None) -> Labelled:
    return label, {seed: run for seed, run in enumerate(runs) if run is not None}


def table(*cells: Labelled, seeds: tuple[int, ...] = SEEDS, **more: Any) -> ComparisonTable:
    return make_table(dict(cells), seeds, title="digits, 20 clients", **more)


GOOD = cell("good_one", *(result(L, C) for L, C in ((0.91, 0.90), (0.93, 0.91), (0.92, 0.93))))
BAD = cell("bad", *(result(L, C, G=0.5) for L, C in ((0.51, 0.5), (0.52, 0.51), (0.515, 0.53))))


def test_numbers_are_numpys_and_scipys() -> None:
    made = table(BAD, GOOD)
    row = made["good_one"]
    assert row.accuracy["L"] is not None
    assert row.accuracy["L"].mean == pytest.approx(0.92)
    assert row.accuracy["L"].std == pytest.approx(np.std([0.91, 0.93, 0.92], ddof=1))
    assert row.differences is not None
    found = row.differences["L"]
    assert found is not None
    low, high = stats.ttest_rel([0.91, 0.93, 0.92], [0.51, 0.52, 0.515]).confidence_interval(0.95)
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))
    assert made.baseline == "bad"
    assert made["bad"].differences is None
    assert (row.megabytes and row.megabytes.mean, row.seconds and row.seconds.mean) == (2.0, 2.0)


def test_the_best_is_marked_in_every_format() -> None:
    made = table(BAD, GOOD)
    assert made.best("L") == "good_one"
    assert made.best("C") is None or made.best("C") == "good_one"
    assert made.best("G") is None  # only one has it
    assert made.best("plus") is None
    assert "92.00 ± 1.00*" in made.report()
    assert "**92.00 ± 1.00**" in made.report("markdown")
    assert r"good\_one & \textbf{92.00 $\pm$ 1.00}" in made.report("latex")
    lines = {line["method"]: line for line in csv.DictReader(io.StringIO(made.report("csv")))}
    assert (lines["good_one"]["L_best"], lines["bad"]["L_best"]) == ("True", "False")
    assert float(lines["good_one"]["L_mean"]) == pytest.approx(0.92)
    assert float(lines["good_one"]["L_difference"]) == pytest.approx(0.405)
    assert lines["good_one"]["G_mean"] == lines["bad"]["L_difference"] == ""
    assert "Bonferroni" in made.report()


def test_means_over_true_groups_have_columns_where_any_run_has_them() -> None:
    known = [result(0.9, 0.7, accuracy_group_mean={"L": L, "C": None, "plus": 0.5}) for L in (0.8, 0.82, 0.84)]
    made = table(cell("known", *known), BAD)
    assert made["known"].L_by_group is not None
    assert made["known"].L_by_group.mean == pytest.approx(0.82)
    assert made["bad"].L_by_group is None
    for format in ("text", "markdown", "latex"):
        text = made.report(format)
        assert "L by group" in text
        assert "82.00" in text
        assert "C by group " not in text.partition("Accuracy in %")[0]  # no run has it
    assert "means over the true groups" in " ".join(made.report().split())
    lines = {line["method"]: line for line in csv.DictReader(io.StringIO(made.report("csv")))}
    assert float(lines["known"]["L_by_group_mean"]) == pytest.approx(0.82)
    assert float(lines["known"]["L_by_group_std"]) == pytest.approx(0.02)
    assert lines["bad"]["L_by_group_mean"] == lines["known"]["C_by_group_mean"] == ""
    assert "L by group" not in table(BAD, GOOD).report("markdown").partition("Accuracy in %")[0]


def test_accuracies_by_label_stand_in_a_table_of_their_own_so_that_lines_stay_short() -> None:
    known = []
    for own in (0.8, 0.82, 0.84):
        run = result(0.9, 0.7)
        run["accuracy"] |= {"C_own": own, "C_lacking": 0.25}
        known.append(run)
    made = table(cell("known", *known), BAD)
    assert made["known"].C_own is not None
    assert made["known"].C_own.mean == pytest.approx(0.82)
    assert made["bad"].C_own is None  # of an earlier version
    first, second, *_ = re.findall(r"^ method .*$", made.report(), re.MULTILINE)
    assert "C own" not in first
    assert second.split() == ["method", "C", "own", "C", "lacking"]
    assert "82.00 ± 2.00   25.00 ± 0.00" in made.report()
    assert "C own: as C, each label as often as the client has it." in " ".join(made.report().split())
    lines = {line["method"]: line for line in csv.DictReader(io.StringIO(made.report("csv")))}
    assert (float(lines["known"]["C_lacking_mean"]), lines["bad"]["C_lacking_mean"]) == (0.25, "")
    assert "C own" not in table(BAD, GOOD).report().partition("Accuracy in %")[0]


def test_what_can_not_be_told_apart_is_not_marked_and_said() -> None:
    near = cell("near", *(result(L) for L in (0.915, 0.925, 0.922)))
    made = table(GOOD, near)
    assert made.best("L") is None
    assert "near has the highest mean; not significantly different from good_one" in " ".join(made.report().split())
    assert "*" not in made.report()


def test_one_seed_has_no_interval_and_says_so() -> None:
    made = table(cell("a", result(0.9)), cell("b", result(0.5)), seeds=(0,))
    text = made.report()
    assert "One seed only (0)" in text
    assert "±" not in text.replace("mean ± standard", "")
    assert "[" not in text
    assert made.best("L") is None
    assert re.search(r"b +-40\.00\n", text)


def test_nan_is_in_no_mean() -> None:
    made = table(cell("a", result(0.9), result(math.nan), result(0.8)), BAD)
    assert made["a"].accuracy["L"] is not None
    assert (made["a"].accuracy["L"].n, made["a"].accuracy["L"].mean) == (2, pytest.approx(0.85))
    assert "a: L of seed 1 is not a number; means leave it out." in made.report()
    assert "(2 of 3)" in made.report()
    for format in TABLE_FORMATS:
        assert "nan" not in made.report(format).lower()
    assert made.leaders["L"] is not None
    assert made.leaders["L"].label == "bad"  # the other lacks a seed, and so does not lead; nor is it beaten
    assert made.leaders["L"].rivals == ("a",)


def test_a_missing_run_and_a_protocol_of_some_seeds_only_are_said() -> None:
    made = table(cell("a", result(0.9, G=0.7), None, result(0.8)), BAD)
    assert "a: there is no result of seed 1." in made.report()
    assert "a: G is defined for seed 0 only." in made.report()
    difference = (made["bad"].differences or {})["G"]
    assert difference is not None
    assert difference.n == 1
    assert difference.low is None


def test_no_common_protocol() -> None:
    one, other = cell("one", *[result(0.9)] * 3), cell("other", *[result(None, C=0.8)] * 3)
    made = table(one, other)
    assert "No protocol has numbers of all of them" in made.report()
    assert (made["other"].differences or {})["L"] is None
    assert all(found is None for found in made.leaders.values())
    assert "minus" not in made.report()


def test_nothing_at_all() -> None:
    made = table(cell("a"), cell("b"))
    for format in TABLE_FORMATS:
        assert made.report(format)
    assert "there is no result of seed 0, 1, 2" in made.report()


def target(protocol: str, round: int | None, bytes: int | None) -> list[dict[str, Any]]:
    return [{"protocol": protocol, "value": 0.8, "round": round, "bytes": bytes}]


def test_targets_reached_by_some_by_none_and_not_defined() -> None:
    some = cell(
        "some", *(result(0.9, targets=target("L", r, b)) for r, b in ((10, 10**6), (None, None), (20, 3 * 10**6)))
    )
    never = cell("never", *[result(0.5, targets=target("L", None, None))] * 3)
    made = table(some, never)
    assert [(one.target, one.n, one.seeds, one.rounds, one.megabytes) for one in made["some"].reached] == [
        ("L=0.8", 2, 3, 15.0, 2.0)
    ]
    assert "15.0 (2 of 3)" in made.report()
    assert re.search(r"never +never +never", made.report())
    undefined = table(cell("solo", *[result(0.9, targets=target("C", None, None))] * 3), never)
    assert re.search(r"solo +– +–", undefined.report()) or "rounds to" not in undefined.report()
    assert undefined["solo"].reached[0].seeds == 0


def test_groups_and_agreement() -> None:
    runs = [result(0.9, groups=[0, 1, None, 1], ari=0.5), result(0.9, groups=[0, 1, 2, 2], ari=1.0)]
    made = table(cell("a", *runs), cell("b", result(0.9), result(0.8)), seeds=(0, 1))
    row = made["a"]
    assert row.groups is not None
    assert (row.groups.mean, row.ari and row.ari.mean) == (2.5, 0.75)
    assert "2.5 ± 0.7" in made.report()
    assert made["b"].groups is None


def test_columns_are_straight() -> None:
    lines = table(BAD, GOOD).report().splitlines()
    head, *body = (line for line in lines[2:6] if "─" not in line)
    assert "*" in body[1]
    assert "*" not in body[0]
    assert {line.index(" ±") for line in body} == {body[0].index(" ±")}
    assert {line.rindex("2.0") for line in body} == {head.index("seconds") + len("secon") - 1}


def test_latex_takes_any_label() -> None:
    made = table(cell("50%_&#{}~^\\$", *[result(0.9)] * 3), BAD)
    line = next(line for line in made.report("latex").splitlines() if line.startswith("50"))
    assert line.startswith(r"50\%\_\&\#\{\}\textasciitilde{}\textasciicircum{}\textbackslash{}\$ & ")
    assert "$-$" in made.report("latex")


def test_markdown_takes_a_bar_in_a_label() -> None:
    lines = table(cell("a|b", *[result(0.9)] * 3), BAD).report("markdown").splitlines()
    widths = {len(re.findall(r"(?<!\\)\|", line)) for line in lines[2:6]}
    assert len(widths) == 1


def test_a_table_of_held_out_training_samples_says_so() -> None:
    held = cell("held", *(result(L, validation=0.25) for L in (0.8, 0.81, 0.82)))
    assert "Test samples are here 25 % of each client's training samples" in " ".join(
        table(GOOD, held).report().split()
    )
    assert "held out" not in table(GOOD, BAD).report()


@pytest.mark.parametrize("format", ["text", "markdown", "csv", "latex"])
def test_every_format_names_the_metric(format: Any) -> None:
    def named(**more: Any) -> str:
        return table(*(cell(label, *(result(L, L, **more) for L in (0.5, 0.6, 0.7))) for label in "ab")).report(format)

    assert "AUC" in named(metric="auc")
    assert "ccuracy" not in named(metric="auc")
    assert named() == named(metric="accuracy")
    assert "AUC" not in named()


def test_where_metrics_differ_none_is_named() -> None:
    mixed = table(cell("a", result(0.5, 0.5, metric="auc")), cell("b", result(0.5, 0.5, metric="f1")), seeds=(0,))
    assert mixed.metric == "metric"


def test_the_legend_explains_only_columns_that_have_numbers() -> None:
    told = " ".join(table(BAD, GOOD).report().partition("Accuracy in %")[2].split())
    assert "G: the server's model" in told
    assert "MB: megabytes" in told
    for absent in ("ARI:", "C own:", "by group:", "+: the final model"):
        assert absent not in told
    grouped = cell("grouped", *(result(0.9, ari=0.5, groups=[0, 1]) for _ in SEEDS))
    assert "ARI: agreement" in table(grouped, BAD).report()


def test_a_method_that_always_finds_one_group_is_said_to_have_one_model_for_all() -> None:
    one = cell("pacfl", *(result(0.9, groups=[0, 0]) for _ in SEEDS))
    sometimes = cell("kindred", *(result(0.9, groups=[0, seed % 2]) for seed in SEEDS))
    notes = table(one, sometimes, BAD).notes
    assert [note for note in notes if "one group" in note] == [
        "pacfl: one group with every seed, so that all clients share one model."
    ]
