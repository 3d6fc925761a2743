"""The protocols under which accuracies are measured: how each is written, and what it measures."""

PROTOCOLS = {
    "L": ("L", "each client's own model after its last training, on its own test part; mean over clients"),
    "C": ("C", "the model that each client would receive now, on its own test part; mean over clients"),
    "G": ("G", "the server's model, on the whole test set"),
    "plus": ("+", "the final model, trained once more by each client, on its own test part; mean over clients"),
    "W_max": ("W-max", "as C, but over all clients' test samples pooled; the best evaluated round"),
}
"""Those of a result, by its keys: name and meaning."""
CURVES = {
    **{protocol: PROTOCOLS[protocol] for protocol in ("L", "C", "G")},
    "W": ("W", "as C, but over all clients' test samples pooled"),
}
"""Those that are followed over rounds, by the keys of metrics.jsonl."""
EACH_CLIENT = ("L", "C")
"""Those of which a result has a number for each client."""
BRIEF = {
    "L": "each client's own model after its last training",
    "C": "the model it would receive now",
    "G": "the server's model on the whole test set",
    "+": "the final model fine-tuned once by every client",
    "W max": "right answers over all clients' samples, best round",
}
"""Meanings in a few words, by name, for the foot of a table."""
CARDS = {
    "L": "own models",
    "C": "models received",
    "G": "server's model",
    "plus": "fine-tuned once",
    "W_max": "best round, samples pooled",
}
"""Meanings in a word or two, by the keys of a result."""
WORST = 0.1
"""Which share of the clients is looked at as the worst."""


def held_out(share: float) -> str:
    """Say what was tested on where it was no test sample; empty where it was.

    >>> held_out(0.2)
    "Test samples are here 20 % of each client's training samples, held out; those of the data set were not looked at."
    """
    who = f"{100 * share:g} % of each client's training samples, held out"
    return f"Test samples are here {who}; those of the data set were not looked at." if share else ""


def brief(names: set[str]) -> list[str]:
    """Return what protocols mean, like ``G: the server's model on the whole test set``.

    >>> brief({"G", "ARI"})
    ["G: the server's model on the whole test set"]
    """
    return [f"{name}: {what}" for name, what in BRIEF.items() if name in names]
