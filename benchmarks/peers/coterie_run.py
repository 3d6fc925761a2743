"""Coterie's `fedavg` on two workers, with a run folder: client states and checkpoints are written as always."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
from common import Clock, arguments, read_federation, report

import coterie
from coterie.client import RequestHandler
from coterie.client.verbs import HANDLERS
from coterie.federation.checkpoint import load_checkpoint
from coterie.messages import Train, TrainReply
from coterie.run.progress import Progress


class RoundsAreOver(Exception):
    """The round after them would be evaluated."""


class RoundClock(Progress):
    """Times the rounds, and stops after them."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds

    def round(self, round: int, row: object) -> None:
        if round == 0:
            self.clock = Clock()
            return
        self.clock.round_is_over()
        if round == self.rounds:
            raise RoundsAreOver


def count_steps() -> list[int]:
    """Note the steps of each local training from now on."""
    train, steps = HANDLERS[Train], list[int]()

    def noted(handler: RequestHandler, verb: Train) -> TrainReply:
        answer = train(handler, verb)
        assert isinstance(answer, TrainReply)
        steps.append(answer.steps)
        return answer

    HANDLERS[Train] = noted
    return steps


def main() -> None:
    options = arguments("trainer")
    folder: Path = options.folder
    federation = read_federation(folder)
    steps, clock, out = count_steps(), RoundClock(federation.rounds), folder / f"coterie-{options.trainer}"
    with suppress(RoundsAreOver):
        coterie.run(
            algorithm="fedavg", dataset=str(folder / "images.npz"), partition="iid", model="lenet5",
            clients=federation.clients, fraction=federation.cohort / federation.clients, rounds=federation.rounds + 1,
            epochs=federation.epochs, batch_size=federation.batch_size, lr=federation.lr, momentum=federation.momentum,
            eval_every=0, trainer=options.trainer, workers=2, seed=federation.seed, out=str(out), overwrite=True,
            progress=clock,
        )  # fmt: skip
    model = load_checkpoint(out / "checkpoint.safetensors")["algorithm"]["model"]
    last = np.concatenate([array.ravel() for array in model.values()])
    report(clock.clock, sum(steps), float(np.linalg.norm(last - np.load(folder / "start.npy"))), ["coterie"])


if __name__ == "__main__":
    main()
