"""Groups that the user gives, which is what practitioners do first: by region, device, ward or customer."""

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from coterie.algorithms import algorithm
from coterie.algorithms.grouped import GroupedMethod
from coterie.bounded import parse_json, read_text
from coterie.errors import CoterieError, one_line
from coterie.federation import ClientSampler, Federation, saved
from coterie.messages import ClientId, ModelSpec, Weighing
from coterie.registry import Check, FileName

KINDS = "write data, one, the groups of clients 0, 1, … as in 0+0+1+1, or file=groups.csv"
LONGEST = 100
"""Letters of a group's name."""


def error_in_groups_of(value: int | str | list[int | str]) -> str | None:
    """Say why a setting names no groups, or None."""
    names = listed(value)
    if value in ("data", "one") or (names and all(names)):
        return None
    return f"it names no groups: {KINDS}"


def listed(value: int | str | list[int | str]) -> list[str]:
    """Return the names of the groups of clients 0, 1, …; a single word is none, but a slip.

    >>> listed("north+north+south"), listed([0, 0, 1]), listed("dta"), listed(0)
    (['north', 'north', 'south'], ['0', '0', '1'], [], ['0'])
    """
    if isinstance(value, list):
        return [str(name).strip() for name in value]
    pieces = [name.strip() for name in str(value).split("+")]
    return pieces if len(pieces) > 1 or pieces[0].isdecimal() else []


@algorithm("given-groups")
@dataclass(kw_only=True)
class GivenGroups(GroupedMethod):
    """One model per group that the user gives: those that the data have, of a file, or of a setting."""

    not_private = None
    traits = replace(
        GroupedMethod.traits, rules=None, battery={"algorithm_options": {"groups_of": "+".join("01" * 10)}}
    )

    groups_of: Annotated[
        int | str | list[int | str],
        Check(error_in_groups_of),
        "data: the groups that the data have, by attribute, super-cluster or angle, as the partition made them; one: "
        "all clients are in one; or the groups of clients 0, 1, …, by number or name, as in 0+0+1+1",
    ] = "data"
    file: Annotated[
        str | None,
        FileName(),
        "a .csv file with a line 'client,group' for each client, or a .json file with an object of the same or a list",
    ] = None

    names: list[str] = saved(default_factory=list)
    """What the user calls the groups."""
    given: dict[ClientId, int] = saved(default_factory=dict)
    """The groups of all clients that the user named, whether they are there or not."""

    @property
    def rehearsal_options(self) -> dict[str, Any]:
        """What is asked does not depend on the groups; a site does not have the file."""
        return {"groups_of": "one", "file": None}

    @property
    def source(self) -> str:
        """Where the groups are from, for sentences."""
        return f"'{self.file}'" if self.file else f"groups_of = {one_line(str(self.groups_of), 60)!r}"

    def check(self, spec: ModelSpec, sampler: ClientSampler) -> None:
        """Groups come from one place."""
        if self.file and self.groups_of != "data":
            raise CoterieError("given-groups: file and groups_of both say who is in which group: leave one of them out")

    @property
    def weighing(self) -> Weighing:
        """In groups clients count by their samples."""
        return "samples"

    def begin(self, fed: Federation) -> None:
        """θ_z ← θ⁰ for all groups z that are named."""
        self.start = fed.initial()
        self.note_groups(self.read(fed))
        self.models = [self.start] * max(len(self.names), 1)
        unknown = [client for client in fed.trainable if client not in self.given and self.groups_of != "one"]
        if unknown:
            add = f"add a line '{unknown[0]},GROUP'" if self.file else "name a group for each client, newcomers too"
            raise CoterieError(
                f"given-groups: client {unknown[0]} is in no group; {self.source} names those of {len(self.given)} "
                f"clients, and there are {len(fed.trainable)}: {add}"
            )
        self.place(fed, fed.trainable)

    def read(self, fed: Federation) -> Mapping[ClientId, str]:
        """Return the group of each client, as the user calls it."""
        if self.file:
            return read_groups(Path(self.file))
        if self.groups_of == "one":
            return {}
        if self.groups_of != "data":
            return dict(enumerate(listed(self.groups_of)))
        held = [start for start in fed.settings.true_groups if start <= fed.round]
        if not held:
            raise CoterieError(
                "given-groups: these data have no groups that are known: write given-groups:groups_of=0+0+1+1, a group "
                "for each client, or given-groups:file=groups.csv"
            )
        return {client: str(group) for client, group in enumerate(fed.settings.true_groups[max(held)])}

    def note_groups(self, named: Mapping[ClientId, str]) -> None:
        """Number the groups by first appearance, those that are known already as they are."""
        self.names = [*dict.fromkeys([*self.names, *named.values()])]
        numbers = {name: number for number, name in enumerate(self.names)}
        self.given = {client: numbers[name] for client, name in named.items()}

    def round(self, fed: Federation, cohort: Sequence[ClientId]) -> None:
        """FedAvg inside groups; where the data have other groups from this round on, clients go there first."""
        if self.groups_of == "data" and not self.file and fed.round in fed.settings.true_groups:
            self.note_groups(self.read(fed))
            self.models += [self.start] * (len(self.names) - len(self.models))
            self.member.update({client: self.given[client] for client in self.member if client in self.given})
        super().round(fed, cohort)

    def place(self, fed: Federation, clients: Sequence[ClientId]) -> None:
        """Put clients where the user says; a newcomer that nobody named takes the model that fits it best."""
        known = self.given if self.names else dict.fromkeys(clients, 0)
        unknown = [client for client in clients if client not in known]
        for client in unknown:
            if not fed.events.noted(client, "no group"):
                fed.note(client, "no group", f"{self.source} does not name it: it takes the model of smallest loss")
        self.member.update({client: known[client] for client in clients if client in known})
        if unknown:
            self.member.update(self.best_models(fed, unknown))

    @property
    def reason(self) -> str:
        """Where the groups are from."""
        return f"Groups are as given by {self.source}."

    def details(self) -> dict[str, Any]:
        """What the user calls the groups, in their order."""
        return {"groups": list(self.names)} if self.names else {}


def read_groups(path: Path) -> dict[ClientId, str]:
    """Read the group of each client from a file; whatever is wrong with it is told in a sentence."""
    try:
        pairs = _json_pairs(path) if path.suffix.lower() == ".json" else _csv_pairs(path)
    except (OSError, ValueError, csv.Error) as error:
        raise CoterieError(f"the groups in '{path}' can't be read: {one_line(str(error), 200)}") from None
    groups: dict[ClientId, str] = {}
    for client, group in pairs:
        if not re.fullmatch(r"\d{1,9}", client) or not 0 < len(group) <= LONGEST:
            raise CoterieError(
                f"'{path}' says '{one_line(client, 60)},{one_line(group, 60)}' where a client's number and the name "
                "of its group should be, as in '3,north'"
            )
        if groups.setdefault(int(client), group) != group:
            raise CoterieError(f"'{path}' names two groups for client {int(client)}: keep one")
    if not groups:
        raise CoterieError(f"'{path}' names no client: write a line 'client,group' for each")
    return groups


def _text(path: Path) -> str:
    """Return what a file holds, without the mark that Excel begins UTF-8 with."""
    return read_text(path).removeprefix("\ufeff")


def _csv_pairs(path: Path) -> list[tuple[str, str]]:
    rows = [[cell.strip() for cell in row] for row in csv.reader(_text(path).splitlines()) if any(row)]
    wrong = next((row for row in rows if len(row) != 2), None)
    if wrong is not None:
        raise ValueError(f"a line has {len(wrong)} columns in place of two, client and group: {','.join(wrong)}")
    if rows and [cell.casefold() for cell in rows[0]] == ["client", "group"]:
        rows = rows[1:]
    return [(client, group) for client, group in rows]


def _json_pairs(path: Path) -> list[tuple[str, str]]:
    content = parse_json(_text(path))
    if isinstance(content, list):
        content = dict(enumerate(content))
    plain = isinstance(content, dict) and all(isinstance(group, str | int) for group in content.values())
    if not plain:
        raise ValueError('it should be {"0": "north", "1": "south"}, or ["north", "south"] for clients 0 and 1')
    return [(str(client).strip(), str(group).strip()) for client, group in content.items()]
