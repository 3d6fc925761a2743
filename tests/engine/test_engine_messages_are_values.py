"""Neither side can change what the other holds, whether clients live in this process or bytes pass between them."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from coterie.client import MemoryStore
from coterie.data import load
from coterie.engine import EmbeddedEngine
from coterie.federation import Engine
from coterie.messages import (
    ClassCounts,
    ClassCountsReply,
    ModelSpec,
    Plan,
    Prune,
    PruneReply,
    Reply,
    Request,
    Schedule,
    Signature,
    SignatureReply,
    Train,
    TrainReply,
)
from coterie.models import MODELS, initial
from coterie.testing import OnTheWire
from coterie.training import Job, Outcome
from coterie.training.torch_trainer import TorchTrainer

SPEC = ModelSpec("mclr", (1, 8, 8), 10)
VERBS = (Train(Plan(Schedule(0.1))), Prune(("fc.weight",), distance=-1.0, accuracy=0.0), Signature(), ClassCounts())

Wrap = Callable[[Engine], Engine]
engines = pytest.mark.parametrize("wrap", [lambda engine: engine, OnTheWire], ids=["embedded", "bytes"])


class Inquisitive(TorchTrainer):
    """Tries to change what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: list[str] = []

    def train(self, job: Job) -> Outcome:
        for array in job.start.values():
            try:
                array += 7
            except ValueError as error:
                self.refused.append(str(error))
        return super().train(job)


@contextmanager
def asked(wrap: Wrap, trainer: TorchTrainer | None = None) -> Iterator[tuple[Reply, MemoryStore, Request]]:
    """Ask a client for everything that has arrays, with a model that the server could change."""
    model = {name: array.copy() for name, array in initial(SPEC, 0).items()}
    request, store = Request(1, 0, SPEC, VERBS, {"model": model}), MemoryStore()
    with EmbeddedEngine(load("digits", clients=4), store, trainer or TorchTrainer()) as embedded:
        [reply] = wrap(embedded).exchange({2: request}, None)
        assert isinstance(reply, Reply)
        yield reply, store, request


@engines
def test_a_server_can_not_change_what_a_client_keeps(wrap: Wrap) -> None:
    with asked(wrap) as (reply, store, _):
        kept = store.load(2, before=2)["model"]
        before = {name: array.copy() for name, array in kept.items()}
        params = reply.answer(TrainReply).params
        for name in params:
            with pytest.raises(ValueError, match="read-only"):
                params[name][...] += 7
        params.clear()  # type: ignore[attr-defined]
        reply.answer(PruneReply).params.clear()  # type: ignore[attr-defined]
        after = store.load(2, before=2)["model"]
        assert list(after) == list(before)
        assert all(np.array_equal(after[name], before[name]) for name in before)


@engines
def test_no_array_of_a_reply_can_be_changed(wrap: Wrap) -> None:
    with asked(wrap) as (reply, _, _):
        pruned, signature = reply.answer(PruneReply), reply.answer(SignatureReply)
        arrays = [*reply.answer(TrainReply).params.values(), *pruned.params.values(), *pruned.bitmaps.values()]
        arrays += [signature.vectors, signature.labels, reply.answer(ClassCountsReply).counts]
        assert pruned.bitmaps
        assert not any(array.flags.writeable for array in arrays)


@engines
def test_a_client_can_not_change_the_servers_model(wrap: Wrap) -> None:
    trainer = Inquisitive()
    with asked(wrap, trainer) as (_, _, request):
        assert len(trainer.refused) == len(request.models["model"])
        assert all("read-only" in error for error in trainer.refused)
        for name, array in request.models["model"].items():
            assert array.flags.writeable  # the server's own array is still its own
            assert np.array_equal(array, initial(SPEC, 0)[name])


@engines
def test_a_client_can_not_change_the_options_of_the_servers_network(
    wrap: Wrap, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MODELS, "_items", dict(MODELS._items))

    @MODELS.register("wide")
    def wide(shape: tuple[int, ...], classes: int, *, widths: Any) -> Any:
        return MODELS["mclr"](shape, classes)

    class Meddler(TorchTrainer):
        def train(self, job: Job) -> Outcome:
            with pytest.raises(TypeError, match="does not support item assignment"):
                job.spec.options["hidden"] = 7  # type: ignore[index]
            assert job.spec.options["widths"] == ((3,), 4)
            return super().train(replace(job, spec=SPEC))

    given: dict[str, Any] = {"widths": [[3], 4]}
    spec, model = ModelSpec("wide", (1, 8, 8), 10, given), initial(SPEC, 0)
    request = Request(1, 0, spec, (Train(Plan(Schedule(0.1))),), {"model": model})
    with EmbeddedEngine(load("digits", clients=4), MemoryStore(), Meddler()) as embedded:
        [reply] = wrap(embedded).exchange({2: request}, None)
    given["widths"][0].append(5)
    assert spec.options == {"widths": ((3,), 4)}
    assert isinstance(reply, Reply)
    assert pickle.loads(pickle.dumps(spec)) == copy.deepcopy(spec) == spec


def test_nothing_is_copied_on_the_way() -> None:
    with asked(lambda engine: engine) as (reply, store, _):
        sent, kept = reply.answer(PruneReply).params["fc.bias"], store.load(2, before=2)["model"]["fc.bias"]
        assert np.shares_memory(sent, kept)
