"""What can go wrong without stopping a run: the kinds of events, and what each means."""

from collections.abc import Mapping
from typing import Any

MEANINGS = {
    "invalid": (
        "nonsense",
        "The reply held no usable numbers (NaN, a wrong shape, a wrong round): it was not used.",
    ),
    "left out": ("left out", "Too many replies of the client were nonsense: it is asked no more."),
    "dropped": ("not reached", "The client did not get the request, or its machine was gone: it took no part."),
    "late": ("late", "The reply did not come in time: it was not used."),
    "failed": ("failed", "The client's program stopped with an error: there is no reply."),
    "refused": ("refused", "The client would not do what it was asked."),
    "diverged": ("diverged", "The client's training came to infinite or undefined numbers: it sent nothing."),
    "too few": ("too few replies", "Fewer clients answered than `min_replies` asks for: the training changed nothing."),
    "surplus": ("not needed", "More clients were asked than needed, and enough others answered first."),
    "turned away": (
        "turned away",
        "A machine could not take part: its name is another's, its data can't be used, or it does not say who it is.",
    ),
    "empty": ("no training samples", "The client has no training samples: it is never asked to train."),
    "untested": ("no test samples", "The client has no test samples: no mean includes it."),
}
"""Kinds of events: a name, and what it means. Another kind is shown by its own name."""
IMPERSONAL = ("too few", "turned away")
"""Kinds that are nobody's."""


def meaning(kind: str) -> tuple[str, str]:
    """Return the name of a kind, and what it means."""
    return MEANINGS.get(kind, (kind, ""))


def clients_of(event: Mapping[str, Any]) -> dict[int, int]:
    """Return how often an event was whose, the most often first; of older results nothing is known."""
    if event.get("kind") in IMPERSONAL:
        return {}
    counts = {int(client): int(count) for client, count in event.get("clients", {}).items()}
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))
