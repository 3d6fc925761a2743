"""The protocols under which accuracies are measured: one table, from which all names and explanations are taken."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from coterie.results.metrics import ACCURACY, scale_of, title_of

ComparedProtocol = Literal["L", "C", "G", "plus"]
"""Those that comparisons have columns for, and may be asked to go by."""


@dataclass(frozen=True)
class AccuracyProtocol:
    """How an accuracy is measured."""

    key: str
    """In ``result.json`` and ``metrics.jsonl``."""
    symbol: str
    """As it is written for readers."""
    sentence: str
    """What it is the accuracy of."""
    brief: str = ""
    """The same in a few words, for the foot of a table."""
    card: str = ""
    """In a word or two."""
    summary: str = ""
    """Part of a sentence about a run; ``{}`` is the accuracy."""


_TABLE = (
    AccuracyProtocol(
        "L",
        "L",
        sentence="each client's own model after its last training, on its own test part; mean over clients",
        brief="each client's own model after its last training",
        card="own models",
        summary="each client's own model is right on {} of its test samples (L)",
    ),
    AccuracyProtocol(
        "C",
        "C",
        sentence="the model that each client would receive now, on its own test part; mean over clients",
        brief="the model it would receive now",
        card="models received",
        summary="the model that it would receive now on {} (C)",
    ),
    AccuracyProtocol(
        "C_own",
        "C own",
        sentence="as C, but each label counts as often as among the client's own training samples; at the end",
        brief="as C, each label as often as the client has it",
        card="labels as often as clients have them",
    ),
    AccuracyProtocol(
        "C_lacking",
        "C lacking",
        sentence="as C, but on test samples of labels that the client lacks; mean over clients that lack some, at the "
        "end of a simulation",
        brief="as C, on labels that the client lacks",
        card="labels that clients lack",
    ),
    AccuracyProtocol(
        "G",
        "G",
        sentence="the server's model, on the whole test set",
        brief="the server's model on the whole test set",
        card="server's model",
        summary="the server's model on {} of the whole test set (G)",
    ),
    AccuracyProtocol(
        "plus",
        "+",
        sentence="the final model, trained once more by each client, on its own test part; mean over clients",
        brief="the final model fine-tuned once by every client",
        card="fine-tuned once",
        summary="the final model fine-tuned once by every client on {} (+)",
    ),
    AccuracyProtocol(
        "W_max",
        "W max",
        sentence="as C, but over all clients' test samples pooled; the best evaluated round",
        brief="right answers over all clients' samples, best round",
        card="best round, samples pooled",
    ),
    AccuracyProtocol("W", "W", sentence="as C, but over all clients' test samples pooled"),
    AccuracyProtocol("L_max", "L max", sentence="as L, in the best evaluated round"),
    AccuracyProtocol(
        "L_best",
        "L best",
        sentence="as L, each client in the evaluated round that was its best",
        brief="as L, each client in its best evaluated round",
    ),
)
PROTOCOLS = {protocol.key: protocol for protocol in _TABLE}
"""All of them, by key."""
AT_END = {key: protocol for key, protocol in PROTOCOLS.items() if protocol.card}
"""Those of ``result.json`` that pages show; `L_max` and `L_best` are in the file only."""
CURVES = {key: PROTOCOLS[key] for key in ("L", "C", "G", "W")}
"""Those of ``metrics.jsonl``."""
FOLLOWED = tuple(key for key in CURVES if key in AT_END)
"""Those measured in every evaluated round and at the end alike: what a target can name, and progress shows."""
BEST = {"W_max": "W", "L_max": "L"}
"""Those of the best evaluated round, each with the column of ``metrics.jsonl`` that it is the best of."""
EACH_CLIENT = ("L", "C")
"""Those of which pages show a number for each client."""
BY_LABEL = ("C_own", "C_lacking")
"""Those by the labels that clients have and lack, which are measured at the end only; also for each client."""
COMPARED = {key: PROTOCOLS[key].symbol for key in get_args(ComparedProtocol)}
"""The symbols of those that comparisons have columns for."""
KEYS = {protocol.symbol: key for key, protocol in PROTOCOLS.items() if protocol.brief}
"""The keys of ``result.json`` by symbol."""
OVER_GROUPS = {key: f"{PROTOCOLS[key].symbol} by group" for key in ("L", "C", "plus")}
"""How columns are headed of the protocols whose mean over true groups a result has."""
OVER_GROUPS_LEGEND = "L, C and + by group: means over the true groups, each with equal weight."
WORST = 0.1
"""The share of the clients that is called the worst."""


def held_out(share: float) -> str:
    """Say what was tested on if not the test samples; empty if it was.

    >>> held_out(0.2)
    "Test samples are here 20 % of each client's training samples, held out; those of the data set were not looked at."
    """
    samples = f"{100 * share:g} % of each client's training samples, held out"
    return f"Test samples are here {samples}; those of the data set were not looked at." if share else ""


def brief(symbols: Collection[str]) -> list[str]:
    """Return what protocols mean, like ``G: the server's model on the whole test set``.

    >>> brief({"G", "ARI"})
    ["G: the server's model on the whole test set"]
    """
    return [f"{p.symbol}: {p.brief}" for p in PROTOCOLS.values() if p.brief and p.symbol in symbols]


def standard_errors(measured: Mapping[str, Any]) -> dict[str, float]:
    """Return the standard errors that a result, or a row of metrics, has under ``measured``, by protocol.

    >>> standard_errors({"measured": {"L": {"standard_error": 0.01}, "C": {"standard_error": None}}})
    {'L': 0.01}
    """
    entries = (measured.get("measured") or {}).items()
    return {key: entry["standard_error"] for key, entry in entries if entry["standard_error"] is not None}


def estimated(result: Mapping[str, Any]) -> str:
    """Say that the numbers of a result are estimates, and from how many clients; empty where they are exact.

    >>> estimated({"measured": {"L": {"clients": 1000, "of": 20000, "standard_error": 0.01}}})
    'Numbers are estimates from 1,000 of 20,000 clients, drawn once by the seed; ± is their standard error.'
    """
    if not standard_errors(result):
        return ""
    L = result["measured"].get("L") or next(iter(result["measured"].values()))
    drawn = ", drawn once by the seed" if L["clients"] < L["of"] else ""
    return f"Numbers are estimates from {L['clients']:,} of {L['of']:,} clients{drawn}; ± is their standard error."


def accuracies_text(accuracy: Mapping[str, Any], separator: str = "  ", digits: int = 2) -> str:
    """Write the accuracies that are defined, each with its symbol; another metric is named first.

    Where `measured` says so they have standard errors.

    >>> accuracies_text({"round": 3, "L": 0.935, "G": None, "plus": 0.95})
    'L 93.50 %  + 95.00 %'
    >>> accuracies_text({"L": 0.935, "measured": {"L": {"clients": 9, "of": 90, "standard_error": 0.0125}}})
    'L 93.50 ± 1.25 %'
    >>> accuracies_text({"metric": "f1", "L": 0.935})
    'F1: L 93.50 %'
    >>> accuracies_text({"metric": "mae", "L": 0.935})
    'MAE: L 0.9350'
    """
    shown, metric, errors = scale_of(accuracy), title_of(accuracy), standard_errors(accuracy)
    texts = [
        f"{symbol} {shown.written(value, digits, errors.get(key))}{shown.behind}"
        for key, symbol in COMPARED.items()
        if (value := accuracy.get(key)) is not None
    ]
    return (f"{metric}: " if texts and metric != ACCURACY else "") + separator.join(texts)
