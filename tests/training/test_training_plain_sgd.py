"""Oracle 1 of ALGORITHMS 12: federated averaging with one client per round and one batch is plain SGD."""

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from coterie.algorithms.fedavg import FedAvg
from coterie.client import MemoryStore
from coterie.data import FederatedData
from coterie.data.federated import Normalisation, Samples
from coterie.engine import EmbeddedEngine
from coterie.federation import Federation, FederationSettings, ServerData
from coterie.federation.evaluation import Evaluator
from coterie.federation.loop import rounds
from coterie.messages import ModelSpec, Plan, Schedule
from coterie.models import build, initial
from coterie.streams import stream
from coterie.training import steps
from coterie.training.torch_trainer import TorchTrainer

CLIENTS, PER_CLIENT, ROUNDS, SEED, RATE = 5, 9, 8, 11, 0.3


def divided() -> FederatedData:
    rng = np.random.default_rng(0)
    n = CLIENTS * PER_CLIENT
    train = Samples(rng.normal(size=(n, 6)), rng.integers(4, size=n))
    test = Samples(rng.normal(size=(20, 6)), rng.integers(4, size=20))
    parts = np.split(rng.permutation(n), CLIENTS)
    return FederatedData(
        "hand-made", 4, train, test, parts, [np.arange(20)] * CLIENTS, True, test, Normalisation(1.0, (0.0,), (1.0,))
    )


@pytest.mark.parametrize("name", ["mclr", "mlp"])
@pytest.mark.parametrize("batch_size", [PER_CLIENT, 1000])
def test_one_client_one_batch_is_sgd(name: str, batch_size: int) -> None:
    data, spec = divided(), ModelSpec(name, (6,), 4)
    plan = Plan(Schedule(RATE), epochs=1, batch_size=batch_size)
    trainer, algorithm = TorchTrainer(), FedAvg()
    cohorts = []
    with EmbeddedEngine(data, MemoryStore(), trainer, workers=2) as engine:
        server = ServerData(data.normalise(data.server.x), data.server.y)
        settings = FederationSettings(spec=spec, seed=SEED, plan=plan, rounds=ROUNDS, fraction=0.2, server_data=server)
        fed = Federation(engine, trainer, settings)
        for t, _ in rounds(fed, algorithm, Evaluator(fed, algorithm), every=0):
            if t:
                cohorts.append(fed.cohort(t))

    module = build(spec)
    module.load_state_dict({k: torch.tensor(v) for k, v in initial(spec, SEED).items()})
    optimiser = torch.optim.SGD(module.parameters(), lr=RATE)
    x, y = data.normalise(data.train.x), data.train.y
    for t, cohort in enumerate(cohorts, start=1):
        (client,) = cohort
        ((batch,),) = steps(PER_CLIENT, plan, stream(SEED, "train", client, t))
        chosen = data.train_parts[client][batch]
        assert sorted(chosen) == sorted(data.train_parts[client])
        optimiser.zero_grad()
        cross_entropy(module(torch.tensor(x[chosen])), torch.tensor(y[chosen])).backward()
        optimiser.step()

    assert len(cohorts) == ROUNDS
    assert len({client for (client,) in cohorts}) > 1
    for layer, tensor in module.state_dict().items():
        np.testing.assert_array_equal(algorithm.model[layer], tensor.numpy(), err_msg=layer)
