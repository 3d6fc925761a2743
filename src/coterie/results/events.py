"""What the events of a run say about its numbers."""

from collections.abc import Mapping
from typing import Any

DIVERGED, NO_SAMPLES = "diverged", "empty"
"""Kinds of events."""


def divergence(result: Mapping[str, Any]) -> str | None:
    """Say that training diverged at most clients, if it did: then no accuracy tells anything about the method.

    A client counts if that is what its latest training came to. `result` has the fields of result.json.

    >>> events = [{"kind": "diverged", "count": 9, "at_end": 3}, {"kind": "late", "count": 2}]
    >>> divergence({"events": events, "per_client": {"L": [0.1, 0.1, 0.2, None]}})
    'training diverged at 3 of 4 clients, so accuracies say nothing about the method: most often --lr is too high'
    >>> divergence({"events": events, "per_client": {"L": [0.1] * 6}})
    >>> divergence({"events": [{**events[0], "of": 4}], "per_client": {"L": [0.1] * 6}})[:45]
    'training diverged at 3 of 4 evaluated clients'
    """
    events = {event["kind"]: event for event in result["events"]}
    diverged = events.get(DIVERGED, {}).get("at_end", 0)  # which earlier versions do not say
    clients = len(result["per_client"].get("L") or []) - len(events.get(NO_SAMPLES, {}).get("clients", {}))
    evaluated = events.get(DIVERGED, {}).get("of")  # where not all were evaluated
    if 2 * diverged <= (clients if evaluated is None else evaluated):
        return None
    among = f"{clients} clients" if evaluated is None else f"{evaluated} evaluated clients"
    return (
        f"training diverged at {diverged} of {among}, so accuracies say nothing about the method: "
        "most often --lr is too high"
    )


def never_asked(result: Mapping[str, Any]) -> int:
    """Count the clients to which nothing was ever sent in training: they were in no cohort."""
    received = result["traffic"].get("by_client", {}).get("down", [])
    return sum(not count for count in received)


def not_measured(accuracy: Mapping[str, Any]) -> set[str]:
    """Name the protocols that have no value though they are defined: L always is, and + where C is.

    >>> sorted(not_measured({"L": None, "C": 0.5, "G": None, "plus": None}))
    ['L', 'plus']
    """
    defined = {"L", *(["plus"] if accuracy.get("C") is not None else [])}
    return {protocol for protocol in defined if accuracy.get(protocol) is None}
