"""``coterie completion``: what a shell needs to complete commands, flags and names; and what it is answered."""

from collections.abc import Callable, Iterable
from typing import Annotated, Any, Literal

import click
import typer
from click.shell_completion import BashComplete, CompletionItem, FishComplete, ShellComplete, ZshComplete

PROGRAM = "coterie"
QUESTION = "_COTERIE_COMPLETE"
"""The variable by which a shell asks; it says which shell."""


def completion(
    shell: Annotated[
        Literal["bash", "zsh", "fish"], typer.Argument(metavar="SHELL", hidden=True, case_sensitive=False)
    ],
) -> None:
    """Print what your shell needs to complete commands, flags and names.

    SHELL: bash (4.4 or later), zsh or fish.

    Bash, in ~/.bashrc:  eval "$(coterie completion bash)"

    Zsh, in ~/.zshrc below compinit:  eval "$(coterie completion zsh)"

    Fish, in ~/.config/fish/config.fish:  coterie completion fish | source
    """
    typer.echo(SHELLS[shell](click.Command(PROGRAM), {}, PROGRAM, QUESTION).source())


def answer(program: click.Command, question: str) -> int:
    """Print what could be typed next, as the shell wants it; return the exit code."""
    shell = SHELLS.get(question.removesuffix("_complete"))
    if shell is None:
        return 1
    try:
        typer.echo(shell(program, {}, PROGRAM, QUESTION).complete())
    except Exception:  # a line that is half typed may be anything, and a message would stand in the middle of it
        return 1
    return 0


class Names(click.ParamType):
    """A text for which names are offered; where none fits, shells offer files."""

    name = "text"

    def __init__(self, names: Callable[[click.Context], Iterable[str]], several: bool = False) -> None:
        """`names` is called when a shell asks; with `several`, names are separated by commas."""
        self._names, self._several = names, several

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Take any text: what reads it knows more of names than a list could say."""
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Offer the names that begin as the last one typed does."""
        before, comma, begun = incomplete.rpartition(",") if self._several else ("", "", incomplete)
        return [CompletionItem(f"{before}{comma}{name}") for name in self._names(ctx) if name.startswith(begun)]


def names_of(kind: str) -> Iterable[str]:
    """Return all names of a kind, which is called as the command that lists them."""
    from coterie.algorithms import ALGORITHMS
    from coterie.clustering import RULES
    from coterie.data import DATASETS, PARTITIONS
    from coterie.data.folder import stored_names
    from coterie.models import MODELS
    from coterie.registry import Registry
    from coterie.similarity import MEASURES

    if kind == "datasets":
        return dict.fromkeys([*DATASETS, *stored_names()])
    registries: dict[str, Registry[Any]] = {
        "algorithms": ALGORITHMS,
        "partitions": PARTITIONS,
        "models": MODELS,
        "rules": RULES,
        "measures": MEASURES,
    }
    return registries[kind]


class _OrFiles(ShellComplete):
    """Offers files where nothing else is known."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        """Return what may follow."""
        return super().get_completions(args, incomplete) or [CompletionItem(incomplete, type="file")]


class _Bash(_OrFiles, BashComplete):
    """Bash, to which ``--flag=value`` is three words."""

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the cursor but for ``=``, and what is typed of the next."""
        words, begun = super().get_completion_args()
        return [word for word in words if word != "="], begun


class _Zsh(_OrFiles, ZshComplete):
    """Zsh."""


class _Fish(_OrFiles, FishComplete):
    """Fish, with values that may hold commas."""

    source_template = FishComplete.source_template.replace('string split ","', 'string split --max 1 ","')


SHELLS: dict[str, type[ShellComplete]] = {"bash": _Bash, "zsh": _Zsh, "fish": _Fish}
