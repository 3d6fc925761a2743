"""Completion: what shells are offered, through their own scripts where the shells are here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import cli

from coterie.algorithms import ALGORITHMS
from coterie.cli.main import COMMANDS
from coterie.data import DATASETS, PARTITIONS
from coterie.models import MODELS
from coterie.similarity import MEASURES


def offered(line: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What bash is told when the cursor is at the end of a line, each as ``kind,value``."""
    monkeypatch.setenv("_COTERIE_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
    answer = cli()
    assert (answer.code, answer.err) == (0, "")
    return answer.out.split()


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("coterie ", COMMANDS),
        ("coterie re", ["report", "resume", "reproduce"]),
        ("coterie --ver", ["--version"]),
        ("coterie run --algorithm ", ALGORITHMS),
        ("coterie run --algorithm=fedg", ["fedgroup", "fedgrouprox"]),
        ("coterie run --algorithm = fedg", ["fedgroup", "fedgrouprox"]),  # as bash says it
        ("coterie compare --algorithms fedavg,flis", ["fedavg,flis-dc", "fedavg,flis-hc"]),
        ("coterie run --dataset ", DATASETS),
        ("coterie sweep --partition ", PARTITIONS),
        ("coterie run --rounds 3 --model ", MODELS),
        ("coterie run --linkage c", ["complete", "centroid"]),
        ("coterie run --engine ", ["embedded", "flower"]),
        ("coterie inspect --measures theta1,l", ["theta1,labels"]),
        ("coterie measures ", MEASURES),
        ("coterie models len", [name for name in MODELS if name.startswith("len")]),
        ("coterie data get cifar", ["cifar10", "cifar100"]),
        ("coterie reproduce pacfl-table1", ["pacfl-table1", "pacfl-table10", "pacfl-table11"]),
        ("coterie run --eval", ["--eval-every", "--eval-clients"]),
        ("coterie compare --format ", ["text", "markdown", "csv", "latex"]),
    ],
)
def test_what_may_follow(line: str, names: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert offered(line, monkeypatch) == [f"plain,{name}" for name in names]


@pytest.mark.parametrize(
    "line", ["coterie resume ru", "coterie run ru", "coterie run --dataset ./my", "coterie nosuch x"]
)
def test_files_are_offered_where_nothing_is_known(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert offered(line, monkeypatch) == [f"file,{line.split(' ')[-1]}"]


def test_a_users_own_data_are_offered(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "hospital.npz").touch()
    monkeypatch.setenv("COTERIE_DATA", str(place))
    assert offered("coterie run --dataset hosp", monkeypatch) == ["plain,hospital"]


@pytest.mark.parametrize("question", ["", "bash_complete", "tcsh_complete", "zsh_complete"])
def test_a_shell_that_asks_nonsense_gets_no_message(question: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_COTERIE_COMPLETE", question or "nonsense")
    monkeypatch.setenv("COMP_WORDS", "coterie")
    monkeypatch.setenv("COMP_CWORD", "many")
    answer = cli()
    assert (answer.code, answer.out, answer.err) == (1, "", "")


@pytest.mark.integration
def test_nothing_heavy_is_imported() -> None:
    code = (
        "import atexit, sys\n"
        "atexit.register(lambda: print(sorted(set(sys.modules) & {'torch', 'scipy', 'sklearn', 'matplotlib'})))\n"
        "from coterie.cli.main import main\nmain()\n"
    )
    asked = {"_COTERIE_COMPLETE": "bash_complete", "COMP_WORDS": "coterie run --model mlp", "COMP_CWORD": "3"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | asked)
    assert done.stdout.splitlines() == ["plain,mlp", "[]"]


ZSH = """
compdef() { : }
compadd() { print -l ${(P)argv[-1]} }
_describe() { print -l ${(P)3} }
rehash
eval "$(coterie completion zsh)"
words=(coterie compare --algorithms fedavg,ki) CURRENT=4
_coterie_completion
words=(coterie coreset); CURRENT=2
_coterie_completion
"""
BASH = """
eval "$(coterie completion bash)"
COMP_WORDS=(coterie compare --algorithms fedavg,ki) COMP_CWORD=3
_coterie_completion coterie
echo "${COMPREPLY[@]}"
COMP_WORDS=(coterie coreset) COMP_CWORD=1 COMPREPLY=()
_coterie_completion coterie
echo "${COMPREPLY[@]}"
"""
FISH = """
coterie completion fish | source
complete -C 'coterie compare --algorithms fedavg,ki'
complete -C 'coterie coreset'
"""
SCRIPTS = {
    "bash": (["bash", "--norc", "-c"], BASH, "coreset"),
    "zsh": (["zsh", "-f", "-c"], ZSH, f"coreset:{COMMANDS['coreset']}"),
    "fish": (["fish", "--no-config", "-c"], FISH, f"coreset\t{COMMANDS['coreset']}"),
}


@pytest.mark.integration
@pytest.mark.parametrize("shell", SCRIPTS)
def test_a_shell_takes_its_script_and_the_answers(shell: str, place: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    program = place / "bin" / "coterie"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m coterie "$@"\n')
    program.chmod(0o755)
    call, script, command = SCRIPTS[shell]
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run([*call, script], capture_output=True, text=True, env=os.environ | {"PATH": path})
    assert (done.stdout.splitlines(), done.stderr) == (["fedavg,kindred", command], "")
