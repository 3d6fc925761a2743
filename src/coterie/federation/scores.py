"""What clients have scored through a run: of many, a checkpoint has arrays, written once for each evaluation."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from coterie.federation.by_client import SMALL
from coterie.federation.checkpoint import WriteOnce
from coterie.federation.state import Resumable, saved
from coterie.messages import ClientId

Score = tuple[float, int]
"""Correct answers and samples; of another metric what it says, times the samples. No samples: it is not known."""
PAIRS = ("own", "received", "own_unadapted", "received_unadapted", "tuned")
TEXTS = ("seen", "seen_by_label")
NUMBERS = ("best", "by_own_frequencies", "on_lacking", "losses")


@dataclass
class Scores(Resumable):
    """Scores by client, and which models they belong to."""

    own: dict[ClientId, Score] = saved(default_factory=dict)
    received: dict[ClientId, Score] = saved(default_factory=dict)
    seen: dict[ClientId, str] = saved(default_factory=dict)
    """Digest of the model that the score in `received` belongs to."""
    own_unadapted: dict[ClientId, Score] = saved(default_factory=dict)
    received_unadapted: dict[ClientId, Score] = saved(default_factory=dict)
    tuned: dict[ClientId, Score] = saved(default_factory=dict)
    """Under protocol +."""
    best: dict[ClientId, float] = saved(default_factory=dict)
    """The best accuracy that each client's own model has had."""
    by_own_frequencies: dict[ClientId, float] = saved(default_factory=dict)
    """The accuracy of what each receives at the end, with its labels as often as it has them."""
    on_lacking: dict[ClientId, float] = saved(default_factory=dict)
    """The same on labels that it lacks."""
    seen_by_label: dict[ClientId, str] = saved(default_factory=dict)
    """Digest of the model that these belong to."""
    losses: dict[ClientId, float] = saved(default_factory=dict)
    """Of what each has trained last, for itself or under protocol +."""
    _whole: WriteOnce | None = field(default=None, init=False, repr=False, compare=False)
    """The scores as they were last saved, where they are many."""

    def changing(self) -> None:
        """Say that scores are about to change; call it before they do."""
        self._whole = None

    def save(self) -> dict[str, Any]:
        """Return the scores; where they are many, as a part that is written once."""
        if max(len(getattr(self, name)) for name in (*PAIRS, *TEXTS, *NUMBERS)) <= SMALL:
            return super().save()
        if self._whole is None:
            columns = {name: _columns_of_pairs(getattr(self, name)) for name in PAIRS}
            columns |= {name: _columns_of_texts(getattr(self, name)) for name in TEXTS}
            columns |= {name: _columns_of_numbers(getattr(self, name)) for name in NUMBERS}
            self._whole = WriteOnce(columns)
        return {"whole": self._whole}

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore them; a run that began under an earlier version has no losses, or accuracies by label, yet."""
        whole = state.get("whole")
        if isinstance(whole, WriteOnce):
            columns = whole.value
            state = {name: dict(zip(*_lists(columns[name], "clients", "values"), strict=True)) for name in NUMBERS}
            for name in PAIRS:
                clients, right, samples = _lists(columns[name], "clients", "right", "samples")
                state[name] = dict(zip(clients, zip(right, samples, strict=True), strict=True))
            for name in TEXTS:
                clients, which = _lists(columns[name], "clients", "which")
                texts = columns[name]["texts"].tobytes().decode().split("\n")
                state[name] = {client: texts[k] for client, k in zip(clients, which, strict=True)}
        super().load({"by_own_frequencies": {}, "on_lacking": {}, "seen_by_label": {}, "losses": {}, **state})
        self._whole = whole if isinstance(whole, WriteOnce) else None


def _columns_of_pairs(scores: Mapping[ClientId, Score]) -> dict[str, Any]:
    right, samples = [score[0] for score in scores.values()], [score[1] for score in scores.values()]
    return {**_clients(scores), "right": _numbers(right), "samples": np.array(samples, np.int64)}


def _columns_of_numbers(numbers: Mapping[ClientId, float]) -> dict[str, Any]:
    return {**_clients(numbers), "values": _numbers([*numbers.values()])}


def _columns_of_texts(texts: Mapping[ClientId, str]) -> dict[str, Any]:
    """Return names of models, each of which is there once."""
    places = {text: place for place, text in enumerate(dict.fromkeys(texts.values()))}
    which = np.array([places[text] for text in texts.values()], np.int64)
    joined = np.frombuffer("\n".join(places).encode(), np.uint8) if places else np.zeros(0, np.uint8)
    return {**_clients(texts), "which": which, "texts": joined}


def _clients(of: Mapping[ClientId, Any]) -> dict[str, Any]:
    return {"clients": np.fromiter(of, np.int64, len(of))}


def _numbers(values: list[float]) -> Any:
    return np.array(values, np.int64 if all(type(value) is int for value in values) else np.float64)


def _lists(columns: Mapping[str, Any], *names: str) -> list[list[Any]]:
    return [columns[name].tolist() for name in names]
