"""A run whose training diverged says so, cause by cause; what was not measured is not what is not defined."""

from dataclasses import replace
from typing import Any

import pytest

import coterie
from coterie.messages import Schedule, Train
from coterie.report.comparison import comparison_text
from coterie.report.pages.events import MEANINGS
from coterie.report.tables import result_table
from coterie.results.comparison_table import make_table
from coterie.results.events import divergence, never_asked, not_measured
from coterie.testing import small_federation, small_run


def events(result: coterie.Result) -> dict[str, dict[str, Any]]:
    return {event["kind"]: event for event in result.events}


@pytest.fixture(scope="module")
def wild() -> coterie.Result:
    """With a learning rate of 1000 some trainings end in infinities, and others in losses of hundreds."""
    return small_run("fedavg", lr=1000, rounds=2)


@pytest.mark.integration
def test_a_run_that_diverged_says_so(wild: coterie.Result) -> None:
    text = (
        "training diverged at 6 of 6 clients, so accuracies say nothing about the method: most often --lr is too high"
    )
    assert wild.divergence == divergence(wild.to_json()) == text
    diverged = events(wild)["diverged"]
    assert diverged["at_end"] == 6
    assert any("10 times that of guessing" in detail for detail in diverged["details"])  # finite, and of no use
    table = result_table([wild.to_json()])
    assert f"what went wrong: diverged {diverged['count']} × (6 clients)" in table
    assert "missed" not in table
    assert "training diverged at 6 of 6 clients" in table


@pytest.mark.integration
@pytest.mark.parametrize(
    ("trouble", "kind", "words"),
    [
        ({"drop": 0.5}, "dropped", "not reached {} × ("),
        ({"straggle": 0.5}, "late", "late {} × ("),
        ({"hostile": 0.3}, "invalid", "nonsense {} × ("),
    ],
    ids=str,
)
def test_other_causes_are_told_apart_and_are_no_divergence(trouble: dict[str, Any], kind: str, words: str) -> None:
    result = small_run("fedavg", rounds=2, **trouble)
    assert result.divergence is None
    assert words.format(events(result)[kind]["count"]) in result_table([result.to_json()])


def test_the_causes_have_names_of_their_own() -> None:
    told = {kind: name for kind, (name, _) in MEANINGS.items()}
    assert len({*told.values()}) == len(told)
    assert told["empty"].startswith("never trained")
    assert told["untested"].startswith("not tested")


@pytest.mark.integration
def test_only_the_latest_training_of_a_client_counts() -> None:
    """Who diverged and has learnt since is not counted; who has not, is, also after a resume."""
    rates = {1: 1e30, 2: 0.05}
    with small_federation("fedavg", fraction=1.0) as (run, _):
        fed = run.fed
        for round, clients in ((1, [0, 1, 2]), (2, [0, 2])):
            fed.start_round(round)
            plan = replace(fed.plan, lr=Schedule(rates[round]))
            fed.ask(dict.fromkeys(clients, fed.request(Train(plan), model=fed.initial())))
        assert fed.diverged == {1}
        assert fed.events.kinds["diverged"]["count"] == 3
        state = fed.save()
    with small_federation("fedavg", fraction=1.0) as (run, _):
        run.fed.load(state)
        assert run.fed.diverged == {1}
        del state["diverged"]  # of a run that began under an earlier version
        run.fed.load(state)
        assert run.fed.diverged == set()


@pytest.mark.integration
def test_who_was_never_asked_is_counted() -> None:
    result = small_run("fedavg", rounds=1, clients=6, fraction=0.4)
    assert never_asked(result.to_json()) == 4
    assert "4 of 6 clients were never asked to train: the L of each is that of the model it" in result_table(
        [result.to_json()]
    )
    everyone = small_run("fedavg", rounds=1, fraction=1.0)
    assert "never asked" not in result_table([everyone.to_json()])


def test_what_is_defined_but_was_not_measured() -> None:
    assert not_measured({"L": 0.5, "C": 0.5, "G": None, "plus": 0.5}) == set()  # a method with groups
    assert not_measured({"L": 0.5, "C": None, "G": None, "plus": None}) == set()  # clients alone
    assert not_measured({"L": None, "C": 0.5, "G": 0.5, "plus": None}) == {"L", "plus"}


@pytest.mark.integration
def test_tables_tell_not_measured_from_not_defined(wild: coterie.Result) -> None:
    fields = wild.to_json()
    fields["accuracy"] = {**fields["accuracy"], "plus": None, "G": None}
    row = result_table([fields]).splitlines()[4]
    assert row.split()[3:6] == ["–", "not", "measured"]
    table = make_table({"fedavg": {0: fields}, "solo": {}}, [0], title="t")
    lines = comparison_text(table, "text").splitlines()
    assert next(line for line in lines if line.startswith(" fedavg")).count("not measured") == 1
    assert next(line for line in lines if line.startswith(" solo")).count("not measured") == 4


@pytest.mark.integration
def test_a_comparison_marks_what_diverged(wild: coterie.Result) -> None:
    sound = small_run("fedavg", rounds=2)
    runs = {"fast": {0: wild.to_json(), 1: wild.to_json()}, "slow": {0: sound.to_json(), 1: sound.to_json()}}
    notes = make_table(runs, [0, 1], title="t").notes
    assert [note for note in notes if "diverged" in note] == [
        "fast: training diverged at most clients with seed 0, 1, so its accuracies say nothing about it: most often "
        "lr is too high."
    ]
