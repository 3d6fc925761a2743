"""A request, an honest reply to it, and a server that does not wait for nodes that have just come."""

import pytest

from coterie.messages import ModelSpec, Plan, Reply, Request, Schedule, Train, TrainReply
from coterie.models import initial

SPEC = ModelSpec("mlp", (1, 8, 8), 10, {"hidden": 16})
REQUEST = Request(3, 0, SPEC, (Train(Plan(lr=Schedule(0.1), epochs=1)),), {"model": initial(SPEC, 0)})
HONEST = Reply(4, 3, (TrainReply(10, 1, 0.5, initial(SPEC, 0)),))


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coterie.engine.flower.deployment.NEWCOMER_WAIT", 0.0)
