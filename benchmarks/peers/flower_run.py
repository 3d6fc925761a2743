"""Flower's simulation on Ray with two actors: `FedAvg`, and a ClientApp around the usual PyTorch loop."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import torch
from common import Clock, LeNet5, arguments, read_federation, report, samples_of, start, train
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation


class TimedFedAvg(FedAvg):
    """Notes when a round is over: no evaluation follows, so that is when the models are averaged."""

    clock: Clock
    steps = 0

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        replies = list(replies)
        averaged = super().aggregate_train(server_round, replies)
        self.steps += sum(int(reply.content["metrics"]["steps"]) for reply in replies)
        self.clock.round_is_over()
        return averaged


def main() -> None:
    folder: Path = arguments().folder.absolute()
    federation = read_federation(folder)
    client_app, server_app = ClientApp(), ServerApp()

    @client_app.train()
    def local_training(message: Message, context: Context) -> Message:
        torch.set_num_threads(1)
        model = LeNet5()
        model.load_state_dict(message.content["arrays"].to_torch_state_dict())
        train(model, *samples_of(int(context.node_config["partition-id"]), folder, federation), federation)
        metrics = MetricRecord({"num-examples": federation.samples, "steps": model.steps})
        content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics})
        return Message(content=content, reply_to=message)

    strategy = TimedFedAvg(
        fraction_train=federation.cohort / federation.clients,
        fraction_evaluate=0.0,
        min_available_nodes=federation.clients,
    )
    moved: list[float] = []

    @server_app.main()
    def rounds(grid: Grid, context: Context) -> None:
        model = start(folder, federation)
        first = model.vector
        strategy.clock = Clock()
        result = strategy.start(grid, ArrayRecord(model.state_dict()), num_rounds=federation.rounds)
        model.load_state_dict(result.arrays.to_torch_state_dict())
        moved.append(float(torch.dist(model.vector, first)))

    run_simulation(
        server_app,
        client_app,
        federation.clients,
        backend_config={
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
            "init_args": {"num_cpus": 2, "include_dashboard": False},
        },
    )
    report(strategy.clock, strategy.steps, moved[0], ["flwr", "ray"])


if __name__ == "__main__":
    main()
