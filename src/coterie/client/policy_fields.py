"""What of a question may differ from one of the rehearsal, field by field and with the reason; all else is as it was.

Less of a training may be asked for: no step, fewer parameters, a result that is not kept. Beyond that a field has room
only where the method says that it depends on what sites have, or who answers, which no rehearsal can show
(`Algorithm.unfixed`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coterie.errors import counted

LONGER = 10
"""How many times more epochs, or models, there may be than in the rehearsal."""
STRONGER = 2
"""How many times stronger anchors may draw than in the rehearsal."""
Verbatim = Mapping[str, Any]
"""A verb in plain data: its name as ``verb``, and its fields."""


@dataclass(frozen=True)
class Room:
    """How far a question may go beyond what was seen."""

    samples: int | None = None
    """How many training samples the site has; None: not known, so that nothing depends on it."""
    longer: int = 1
    stronger: float = 1.0
    unfixed: Sequence[str] = ()
    """The fields that may do so: those that depend on what sites have."""


@dataclass(frozen=True)
class Field:
    """A field that may differ."""

    fits: Callable[[Any, Verbatim, Room], bool]
    """Whether a value is asked for where this verb was seen."""
    wanted: Callable[[Any, Room], str]
    """What may be asked for, given what was seen."""
    value: Callable[[Any], str] = repr
    """A value as a sentence has it."""


def _epochs(asked: Any, seen: Verbatim, room: Room) -> bool:
    """SOLO spreads epochs over the rounds; FLAG's trial is longer where sites have few samples."""
    if asked == seen["epochs"] or "epochs" not in room.unfixed:
        return bool(asked == seen["epochs"])
    return type(asked) is int and 1 <= asked <= room.longer * seen["epochs"]


def _steps(asked: Any, seen: Verbatim, room: Room) -> bool:
    """FedGroup with `continue_pretraining` counts the steps that are left of a site's epochs.

    No step at all tells nothing of the samples: LG-FedAvg with `broadcast_all` only hands layers over.
    """
    if asked == seen["steps"] or asked == 0:
        return True
    most = room.longer * seen["epochs"] * (room.samples or 0) if "steps" in room.unfixed else 0
    return type(asked) is int and 0 < asked <= most


def _batch_size(asked: Any, seen: Verbatim, room: Room) -> bool:
    """PACFL's `diversity` takes all samples at once, by a batch as large as the largest site is.

    A batch of all but one is no such: it leaves one sample over.
    """
    if asked == seen["batch_size"] or "batch_size" not in room.unfixed:
        return bool(asked == seen["batch_size"])
    return type(asked) is int and asked >= max(room.samples or 1, 1)


def _anchors(asked: Any, seen: Verbatim, room: Room) -> bool:
    """FedSoft's strengths are a site's shares in all centres; MTL's depends on how many others answered.

    Stronger ones would let a training forget all but its last samples, negative ones would drive it away.
    """
    if asked == seen["anchors"] or "anchors" not in room.unfixed:
        return bool(asked == seen["anchors"])
    names, strengths = {name for name, _ in seen["anchors"]}, [strength for _, strength in asked]
    return (
        len(asked) <= len(seen["anchors"])
        and all(name in names for name, _ in asked)
        and all(strength >= 0 for strength in strengths)
        and sum(strengths) <= room.stronger * _pull(seen["anchors"]) * (1 + 1e-9)
    )


def _models(asked: Any, seen: Verbatim, room: Room) -> bool:
    """IFCA and FLIS-DC have as many models as a cohort of that size leads to."""
    if asked == seen["models"] or "models" not in room.unfixed:
        return bool(asked == seen["models"])
    return set(asked) <= set(seen["models"]) and 1 <= len(asked) <= room.longer * len(seen["models"])


def _send(asked: Any, seen: Verbatim, room: Room) -> bool:
    """Fewer parameters tell less: newcomers send none."""
    return asked is False or asked == seen["send"] or (seen["send"] is True and type(asked) is list)


def _keep(asked: Any, seen: Verbatim, room: Room) -> bool:
    """The answer is the same where the result is not kept: CFL trains to place a site, after a split."""
    return asked is False or (asked is True and seen["keep"] is True)


def _pull(anchors: Sequence[Sequence[Any]]) -> float:
    return float(sum(strength for _, strength in anchors))


def _wanted_epochs(seen: Any, room: Room) -> str:
    return f"1 to {room.longer * seen} epochs" if "epochs" in room.unfixed and seen else counted(seen, "epoch")


def _wanted_anchors(seen: Any, room: Room) -> str:
    strength = room.stronger * _pull(seen) if "anchors" in room.unfixed else _pull(seen)
    return f"{'up to ' * ('anchors' in room.unfixed)}{len(seen)} anchors of strength {strength:g}" if seen else "none"


def _wanted_models(seen: Any, room: Room) -> str:
    most = f"up to {room.longer * len(seen)}" if "models" in room.unfixed else len(seen)
    return f"{most} models by the name of {' or '.join(sorted(set(seen)))}"


FIELDS: dict[str, Field] = {
    "epochs": Field(_epochs, _wanted_epochs, lambda asked: f"{asked!r} epochs"),
    "steps": Field(_steps, lambda seen, room: "any number of steps" if "steps" in room.unfixed else f"steps {seen}"),
    "batch_size": Field(
        _batch_size,
        lambda seen, room: f"batch_size {seen}{', or all samples' if 'batch_size' in room.unfixed else ''}",
    ),
    "anchors": Field(_anchors, _wanted_anchors, lambda asked: f"{len(asked)} anchors of strength {_pull(asked):g}"),
    "models": Field(_models, _wanted_models, lambda asked: f"{len(asked)} models"),
    "send": Field(_send, lambda seen, room: "send all" if seen is True else f"send {', '.join(seen)}"),
    "keep": Field(_keep, lambda seen, room: "keep the result"),
    "train": Field(
        lambda asked, seen, room: asked == seen["train"], lambda seen, room: f"only {', '.join(seen)} learn"
    ),
}
"""The fields that may differ; every other one must be as it was seen."""


def misfits(asked: Verbatim, seen: Verbatim, room: Room) -> list[str]:
    """Name the fields by which what is asked for is not what was seen, nor less than that."""
    alone = asked.keys() ^ seen.keys()  # fields that came later than the policy are none of its question
    if unknown := sorted(name for name in alone if (asked.get(name), seen.get(name)) != (None, None)):
        return unknown
    return [name for name, value in asked.items() if name not in alone and not _fits(name, value, seen, room)]


def _fits(name: str, value: Any, seen: Verbatim, room: Room) -> bool:
    if name in FIELDS:
        return FIELDS[name].fits(value, seen, room)
    return bool(value == seen[name])


def is_part(asked: Sequence[Verbatim], seen: Sequence[Verbatim], room: Room) -> bool:
    """Say whether verbs are among those seen, in their order: with some left out, less is told."""
    later = iter(seen)
    return all(any(not misfits(verb, candidate, room) for candidate in later) for verb in asked)
