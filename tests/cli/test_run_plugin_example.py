"""examples/plugin.py: a method, a rule and a measure in one file, each used by its name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import SMALL, cli, outcome, refusal, spawn, spawn_each
from test_main_entry_points import install

PLUGIN = Path(__file__).parents[2] / "examples" / "plugin.py"
FEW = ["--dataset", "digits-rotated", "--clients", "12"]


@pytest.fixture(autouse=True)
def _put_back(registries_put_back: None) -> None:
    """Whatever is registered here."""


def test_it_is_short() -> None:
    assert len(PLUGIN.read_text(encoding="utf-8").splitlines()) <= 60


def test_each_is_listed_with_its_options() -> None:
    shown = cli("algorithms", "capped", "--plugin", PLUGIN).out
    assert "most = 100  [whole number, at least 1]\n      samples of a client that count" in shown
    shown = cli("rules", "ratio", "--plugin", PLUGIN).out
    assert "least = 1.5  [number, at least 1]\n      one group if no factor is larger" in shown
    assert "chordal distance, from vectors" in cli("measures", "chordal", "--plugin", PLUGIN).out
    for kind, name in (("algorithms", "capped"), ("rules", "ratio"), ("measures", "chordal")):
        assert name in [line.split(" ")[0] for line in cli(kind, "--plugin", PLUGIN).out.splitlines()]


@pytest.mark.integration
@pytest.mark.parametrize("plugin", [["--plugin", PLUGIN], [f"--plugin={PLUGIN}"]])
def test_help_lists_them(plugin: list[object]) -> None:
    text = " ".join(spawn("run", *plugin, "--help").out.split())
    assert "pacfl" in text.partition("--algorithm NAME")[2].partition("--rule")[0]
    assert "capped" in text.partition("--algorithm NAME")[2].partition("--rule")[0]
    assert "gap, ratio, silhouette" in text
    assert "chordal, cka" in " ".join(spawn("inspect", "-h", *plugin).out.split())


@pytest.mark.integration
def test_help_is_there_without_the_plugin(place: Path) -> None:
    (place / "broken.py").write_text("1 / 0", encoding="utf-8")
    for name, why in (("lost.py", "there is no plugin file 'lost.py'"), ("broken.py", "ZeroDivisionError")):
        answer = spawn("run", "--plugin", name, "--help")
        assert answer.code == 0
        assert "--algorithm NAME" in answer.out
        assert len(answer.lines) == 1
        assert why in answer.err


@pytest.mark.integration
def test_the_method_runs(place: Path) -> None:
    answer = cli("run", "--plugin", PLUGIN, "--algorithm", "capped:most=50", *SMALL, "--out", "run", "--quiet")
    assert (answer.code, answer.err) == (0, "")
    assert outcome(place / "run")["result"]["algorithm"] == "capped"


@pytest.mark.parametrize("method", ["pacfl", "flis-hc", "flag:warmup=1"])
def test_the_rule_forms_the_groups_of_all_one_shot_methods(method: str, place: Path) -> None:
    flags = ["--algorithm", method, *FEW, "--epochs", "1", "--json", "--quiet"]
    answer = cli("cluster", "--plugin", PLUGIN, "--rule", "ratio:least=1.01", *flags)
    assert answer.code == 0, answer.err
    groups = json.loads(answer.out)
    assert groups["rule"] == "ratio"
    assert groups["n_groups"] > 1
    assert "times as far as the last" in groups["reason"]
    one = json.loads(cli("cluster", "--plugin", PLUGIN, "--rule", "ratio:least=1e6", *flags).out)
    assert one["n_groups"] == 1


@pytest.mark.integration
def test_the_rule_stands_in_a_file_and_in_a_comparison(place: Path) -> None:
    (place / "run.toml").write_text(f'[grouping]\nrule = "ratio:least=1.2"\n[run]\nplugins = ["{PLUGIN}"]\n')
    assert json.loads(cli("cluster", "run.toml", *FEW, "--json").out)["rule"] == "ratio"
    labels = "pacfl:rule=ratio,pacfl:rule=gap"
    answer = cli(
        "compare", "--plugin", PLUGIN, "--algorithms", labels, *SMALL, "--rounds", 1, "--out", "both", "--quiet"
    )
    assert answer.code == 0, answer.err


@pytest.mark.integration
def test_the_measure_is_shown_and_groups_by(place: Path) -> None:
    shown = json.loads(cli("inspect", "--plugin", PLUGIN, "--measures", "chordal,labels", *FEW, "--json").out)
    assert list(shown["measures"]) == ["chordal", "labels"]
    assert shown["measures"]["chordal"]["says"] == "how much of the directions of one client's samples another lacks"
    assert 0 < shown["measures"]["chordal"]["mean"] < 1
    for rule in (["--rule", "ratio"], []):  # by itself, and in units of the clients' noise in that measure
        answer = cli("cluster", "--plugin", PLUGIN, "--algorithm", "pacfl:measure=chordal,p=1", *rule, *FEW, "--json")
        assert json.loads(answer.out)["ari"] > 0.4, answer.err


@pytest.mark.integration
def test_a_run_by_both_goes_on_where_it_was(place: Path) -> None:
    both = ["--algorithm", "pacfl:measure=chordal", "--rule", "ratio", "--newcomers", "0.3"]
    assert cli("run", "--plugin", PLUGIN, *both, *SMALL, "--out", "run", "--quiet").code == 0
    result = outcome(place / "run")["result"]
    assert result["grouping"]["rule"] == "ratio"
    (place / "run" / "result.json").unlink()
    assert spawn("resume", place / "run", "--trust", "--quiet").code == 0
    assert outcome(place / "run")["result"] == result


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--rule", "ratoi"], "unknown rule 'ratoi': did you mean 'ratio'?"),
        (["--rule", "ratio:lest=2"], "rule 'ratio' has no option 'lest': did you mean 'least'? (set by --rule)"),
        (["--rule", "ratio:least=0.5"], "rule 'ratio': least = 0.5 is not valid"),
        (["--rule", "ratio", "--threshold", "3"], "threshold belongs to rule 'degrees', not to 'ratio'"),
        (["--rule", "count:groups=3", "--groups", "4"], "groups is given twice"),
        (["--algorithm", "ifca", "--rule", "ratio"], "method 'ifca' can't form groups by rule 'ratio': use count"),
        (["--algorithm", "pacfl:measure=chordl"], "unknown measure 'chordl': did you mean 'chordal'?"),
        (["--algorithm", "pacfl:measure=emd"], "measure 'emd' is not a distance between signatures: use chordal or"),
    ],
)
def test_mistakes_are_named(flags: list[str], message: str, place: Path) -> None:
    assert message in refusal(cli("run", "--plugin", PLUGIN, "--algorithm", "pacfl", *flags))


@pytest.mark.integration
def test_an_installed_package_needs_no_plugin_flag(place: Path) -> None:
    entries = [("coterie.rules", "ratio", "Ratio"), ("coterie.measures", "chordal", "chordal")]
    env = install(place, *entries, source=PLUGIN.read_text(encoding="utf-8"))
    chosen = ["--algorithm", "pacfl:measure=chordal", "--rule", "ratio"]
    commands = [["rules"], ["measures"], ["run", "--help"], ["cluster", *chosen, *FEW, "--json"]]
    rules, measures, help, groups = (answer.out for answer in spawn_each(*commands, env=env))
    assert "\nratio " in rules
    assert "\nchordal " in measures
    assert "gap, ratio, silhouette" in " ".join(help.split())
    assert json.loads(groups)["rule"] == "ratio"
