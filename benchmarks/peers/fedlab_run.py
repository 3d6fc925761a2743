"""FedLab's standalone simulation: its serial trainer and synchronous server, all clients in one process.

FedLab imports torchvision for data sets that are not used here; an empty module stands in for it.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from types import ModuleType

import torch
from common import Clock, Federation, arguments, read_federation, report, samples_of, sgd, start
from torch.utils.data import DataLoader, TensorDataset

sys.modules["torchvision"] = ModuleType("torchvision")
sys.modules["torchvision"].transforms = sys.modules["torchvision.transforms"] = ModuleType("torchvision.transforms")

from fedlab.contrib.algorithm.fedavg import FedAvgSerialClientTrainer, FedAvgServerHandler  # noqa: E402
from fedlab.contrib.dataset.basic_dataset import FedDataset  # noqa: E402
from fedlab.core.standalone import StandalonePipeline  # noqa: E402


class Samples(FedDataset):
    """Gives FedLab a loader per client, as its own data sets do."""

    def __init__(self, folder: Path, federation: Federation) -> None:
        super().__init__()
        self.num, self.folder, self.federation = federation.clients, folder, federation

    def get_dataloader(self, id: int, batch_size: int, type: str = "train") -> DataLoader:
        return DataLoader(TensorDataset(*samples_of(id, self.folder, self.federation)), batch_size, shuffle=True)


class Trainer(FedAvgSerialClientTrainer):
    """FedLab's, with momentum, which starts from zero for every client."""

    federation: Federation

    def train(self, model_parameters: torch.Tensor, train_loader: DataLoader) -> list[torch.Tensor]:
        self.optimizer = sgd(self.model, self.federation)
        return super().train(model_parameters, train_loader)


class Pipeline(StandalonePipeline):
    """Times the rounds where FedLab would evaluate."""

    clock: Clock

    def evaluate(self) -> None:
        self.clock.round_is_over()


def main() -> None:
    folder: Path = arguments().folder
    federation = read_federation(folder)
    random.seed(federation.seed)
    model = start(folder, federation)
    handler = FedAvgServerHandler(model, federation.rounds, federation.cohort / federation.clients)
    trainer = Trainer(model, federation.clients)
    trainer.federation = federation
    trainer.setup_dataset(Samples(folder, federation))
    trainer.setup_optim(federation.epochs, federation.batch_size, federation.lr)
    pipeline = Pipeline(handler, trainer)
    pipeline.clock = Clock()
    pipeline.main()
    report(pipeline.clock, trainer.model.steps, float(torch.dist(handler.model_parameters, model.vector)), ["fedlab"])


if __name__ == "__main__":
    main()
