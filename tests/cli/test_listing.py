"""`coterie --help` and the lists answer without importing what is heavy."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import cli

HEAVY = ["matplotlib", "pandas", "plotly", "rich", "safetensors", "scipy", "sklearn", "torch"]
LISTS = {
    "algorithms": ["fedavg", "solo"],
    "datasets": ["digits", "digits-permuted", "digits-rotated", "fashion_mnist"],
    "partitions": ["iid", "label-skew"],
    "models": ["lenet5", "mclr", "mlp"],
    "rules": ["auto", "count", "degrees", "silhouette"],
    "measures": ["emd", "labels", "theta1"],
}


@pytest.mark.integration
def test_nothing_heavy_is_imported() -> None:
    """But for the networks, which are built to see whether they run compiled."""
    commands = ["--help", "run --help", "run --print-config", "algorithms solo", *(LISTS.keys() - {"models"})]
    code = (
        "import sys\n"
        "from coterie.cli.main import main\n"
        f"for command in {commands!r}:\n"
        "    sys.argv = ['coterie', *command.split()]\n"
        "    try:\n        main()\n"
        "    except SystemExit as end:\n        assert not end.code, command\n"
        f"    heavy = sorted(set(sys.modules) & set({HEAVY!r}))\n"
        "    assert not heavy, f'{command} imports {heavy}'\n"
        "    print('that was', command)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert all(f"that was {command}\n" in done.stdout for command in commands)


@pytest.mark.parametrize("kind", LISTS)
def test_a_list_has_a_line_for_each(kind: str) -> None:
    answer = cli(kind)
    assert (answer.code, answer.err) == (0, "")
    first_words = [line.split()[0] for line in answer.out.splitlines() if line]
    assert set(LISTS[kind]) <= set(first_words)
    for name in LISTS[kind]:
        line = next(line for line in answer.out.splitlines() if line.split()[:1] == [name])
        assert len(line.split()) > 3, f"{name} is not explained"


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["algorithms", "solo"], ["epochs = None", "epochs in all"]),
        (
            ["algorithms", "fedavg"],
            ["labels = 'none'", "serving = 'lacking'", "server_optimiser = 'sgd'  [sgd | adam | yogi]"],
        ),
        (["models", "mclr"], ["no options"]),
        (["partitions", "label-skew"], ["rho = 0.2", "Fraction of the labels"]),
        (["models", "mlp"], ["hidden = 128", "width of the hidden layer"]),
        (["datasets", "digits-rotated"], ["groups = 4", "turned"]),
    ],
    ids=lambda value: " ".join(value),
)
def test_parameters_are_shown_on_request(arguments: list[str], shown: list[str]) -> None:
    answer = cli(*arguments)
    assert (answer.code, answer.err) == (0, "")
    assert [text for text in shown if text not in answer.out] == []


def test_the_users_files_are_among_the_data_sets(
    place: Path, save: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--dataset own` finds own.npz in COTERIE_DATA, so the list of what there is has it."""
    save()
    monkeypatch.setenv("COTERIE_DATA", str(place))
    assert cli("run", "--dataset", "own", "--print-config").code == 0
    assert any(line.split()[:1] == ["own"] for line in cli("datasets").out.splitlines())


def test_a_method_shows_types_choices_and_how_it_forms_groups() -> None:
    shown = cli("algorithms", "PACFL").out
    for line in [
        "  p = 3  [whole number, at least 1]",
        "  signature = None  [whole | per-label]",
        "  groups = None  [whole number, at least 1, at most 10,000]",
        "  linkage = None  [single | complete | average | weighted | centroid | median | ward]",
        "  scale = None  [exact | landmarks]",
    ]:
        assert line in shown.splitlines()
    assert "degrees" in next(line for line in shown.splitlines() if line.startswith("  rule = None"))
    assert "theta1" in next(line for line in shown.splitlines() if line.startswith("  measure = None"))
    ifca = cli("algorithms", "ifca").out
    assert "  rule = None  [count]" in ifca.splitlines()
    assert "threshold" not in ifca
    assert "linkage" not in ifca
    assert "How it forms groups" not in cli("algorithms", "fedavg").out


def test_lists_whose_words_stand_apart(place: Path) -> None:
    spaced = cli("compare", "--algorithms", "fedavg", "pacfl:p=5", "--seeds", "0-1", "4", "--tune", "lr=0.1", "0.01",
                 "epochs=1,2", "--dataset", "digits", "--print-config")  # fmt: skip
    joined = cli("compare", "--algorithms", "fedavg,pacfl:p=5", "--seeds", "0,1,4", "--tune", "lr=0.1,0.01",
                 "--tune", "epochs=1,2", "--dataset", "digits", "--print-config")  # fmt: skip
    assert (spaced.code, spaced.err) == (0, "")
    assert spaced.out == joined.out
    (place / "base.toml").write_text("[training]\nlr = 0.5\n")
    with_file = cli("compare", "--seeds", "0", "1", "base.toml", "--algorithms", "fedavg,solo", "--print-config")
    assert "lr = 0.5" in with_file.out
