"""What a result says of differential privacy, in words."""

from collections.abc import Mapping
from typing import Any

UNITS = {"sample": "one sample of a client", "client": "one client"}
"""What may be added or removed without anybody being able to tell, by the name in ``result.json``."""
DESCRIPTIONS = "what clients tell to describe themselves"
"""Of what a claim is that is about signatures and label counts; others are about models."""
COUNTS = "numbers of samples"
"""What a client declares, where it does not hide it."""


def privacy_text(result: Mapping[str, Any]) -> list[str]:
    """Say how private what clients told is, of what, and what that does not cover; nothing if nothing is.

    >>> entry = {"what": "signatures", "unit": "sample", "epsilon": 1.0, "delta": 1e-05, "releases": 1}
    >>> entry |= {"mechanism": "Gaussian noise", "simulated": True, "not_covered": ["train"]}
    >>> print(*privacy_text({"privacy": [entry]}))
    Privacy of signatures: ε = 1, δ = 1e-05 for one sample of a client, by Gaussian noise, which here is simulated: \
drawn from the seed, it hides nothing from who knows it. Not covered: train.
    """
    return [_entry_text(entry) for entry in result.get("privacy") or []]


def _entry_text(entry: Mapping[str, Any]) -> str:
    releases = f" in {entry['releases']} answers" if entry["releases"] > 1 else ""
    simulated = ", which here is simulated: drawn from the seed, it hides nothing from who knows it"
    beside = f" Not covered: {', '.join(entry['not_covered'])}." if entry["not_covered"] else ""
    return (
        f"Privacy of {entry['what']}: ε = {entry['epsilon']:.3g}, δ = {entry['delta']:g} for {UNITS[entry['unit']]}"
        f"{releases}, by {entry['mechanism']}{simulated if entry['simulated'] else ''}.{beside}"
    )
