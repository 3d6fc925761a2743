"""pfl's `FederatedAveraging` on two processes, which `torchrun` starts; each trains half of a cohort.

pfl takes a client's batches in the order of its samples, every epoch the same, and evaluates in round 0, the warm-up.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from common import Clock, LeNet5, arguments, read_federation, report, samples_of, sgd, start
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam.base import NNTrainHyperParams
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel
from torch.nn.functional import cross_entropy


class Network(LeNet5):
    """With the two functions that pfl asks for."""

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return cross_entropy(self(x), y)

    @torch.no_grad()
    def metrics(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, Weighted]:
        return {"loss": Weighted(cross_entropy(self(x), y, reduction="sum").item(), len(y))}


class RoundClock(TrainingProcessCallback):
    """Times the rounds."""

    def on_train_begin(self, *, model: PyTorchModel) -> Metrics:
        self.clock = Clock()
        return Metrics()

    def after_central_iteration(
        self, aggregate_metrics: Metrics, model: PyTorchModel, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        self.clock.round_is_over()
        return False, Metrics()


def main() -> None:
    folder: Path = arguments().folder
    federation = read_federation(folder)
    torch.set_num_threads(1)
    np.random.seed(federation.seed)  # both processes draw the same cohorts
    network = Network()
    network.load_state_dict(start(folder, federation).state_dict())
    first = network.vector
    model = PyTorchModel(
        model=network,
        local_optimizer_create=lambda parameters, lr: sgd(network, federation),
        central_optimizer=torch.optim.SGD(network.parameters(), lr=1.0),
    )
    data = FederatedDataset(
        lambda client: PyTorchTensorDataset(samples_of(client, folder, federation)),
        get_user_sampler("minimize_reuse", list(range(federation.clients))),
    )
    clock = RoundClock()
    FederatedAveraging().run(
        algorithm_params=NNAlgorithmParams(
            central_num_iterations=federation.rounds,
            evaluation_frequency=federation.rounds + 1,
            train_cohort_size=federation.cohort,
            val_cohort_size=0,
        ),
        backend=SimulatedBackend(training_data=data, val_data=data),
        model=model,
        model_train_params=NNTrainHyperParams(
            local_learning_rate=federation.lr,
            local_num_epochs=federation.epochs,
            local_batch_size=federation.batch_size,
        ),
        callbacks=[clock],
    )
    steps = torch.tensor(network.steps)
    torch.distributed.all_reduce(steps)
    if torch.distributed.get_rank() == 0:
        report(clock.clock, int(steps), float(torch.dist(network.vector, first)), ["pfl"])
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
