"""Which trackers a run has: those that its configuration names, and objects of the program."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from coterie.errors import CoterieError
from coterie.results.formats import toml_value
from coterie.results.run_folder import RunFolder
from coterie.run.config import Config
from coterie.run.values import parse_choice, split_list
from coterie.tracking import Callback, Tracker, make_tracker
from coterie.tracking.several import check_tracker


def divided(track: Any) -> tuple[list[str], list[Tracker]]:
    """Divide what a program gives as ``track`` into names, and objects; a function is told the rows."""
    one = isinstance(track, str | Tracker) or callable(track) or not isinstance(track, Iterable)
    given = [] if track is None else [track] if one else [*track]
    names = [name for item in given if isinstance(item, str) for name in split_list(item)]
    objects = list[Tracker]()
    for item in given:
        if isinstance(item, Tracker):
            objects.append(item)
        elif callable(item) and not isinstance(item, type):
            objects.append(Callback(item))
        elif not isinstance(item, str):
            raise CoterieError(
                f"track can't be {item!r}: give a name, a function that takes a row, or an object derived from "
                "coterie.Tracker"
            )
    return names, objects


def make_trackers(names: Iterable[str], folder: RunFolder | None) -> list[Tracker]:
    """Make the trackers that are named; refuse one that would have no place to write."""
    made = []
    for choice in map(parse_choice, names):
        if folder is None and "folder" not in choice:
            name = choice["name"]
            raise CoterieError(f"track = '{name}' needs a run folder: add out=, or write {name}:folder=DIR")
        made.append(make_tracker(choice["name"], choice.get("folder")))
    return made


def trackers_of(config: Config, folder: RunFolder | None, more: Sequence[Tracker | str]) -> list[Tracker]:
    """Return all trackers of a run, and `more`; one that is named twice is one."""
    names = [absolute(name) for name in (*config.run.track, *more) if isinstance(name, str)]
    objects = [tracker for tracker in more if isinstance(tracker, Tracker)]
    return [*make_trackers(dict.fromkeys(names), folder), *objects]


def absolute(text: str) -> str:
    """Return a tracker with the absolute path of the folder that it writes into, if it names one."""
    choice = parse_choice(text)
    check_tracker(choice)
    if "folder" not in choice:
        return text
    path = Path(os.path.abspath(os.path.expanduser(choice["folder"])))
    return f"{choice['name']}:folder={toml_value(str(path)) if {*' ,'} & {*str(path)} else path}"
