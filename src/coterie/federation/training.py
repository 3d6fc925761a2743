"""What a round of local training looked like from the server."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from coterie.federation.served_model import ServedModel, single
from coterie.messages import ClientId, Params, Reply, Request, Train, TrainReply, Verb, distance
from coterie.messages.limits import bytes_of
from coterie.models import initial

OUTLIER = 10.0
"""So many times the usual loss is marked, and left out of the mean that people see."""
MOST_RETURNED = 512 * 2**20
"""Bytes of models for whose discrepancy a round takes memory: 2,600 of LeNet-5, 20 of ResNet-9."""


@dataclass
class Training:
    """Losses and models that clients sent back."""

    usual_loss: float = math.inf
    """That of guessing; one that is many times larger, and larger than most, is an outlier."""
    losses: list[tuple[ClientId, float]] = field(default_factory=list)
    """The clients' mean losses, in the order in which they came."""
    outlying: set[ClientId] = field(default_factory=set)
    """Whose updates were too long."""
    returned: dict[ClientId, Params] = field(default_factory=dict)
    """The whole models that clients sent back, if they are not too many."""
    asked_bytes: int = 0
    """Of the whole models that clients are to send back in this round."""
    replies: int = 0
    """How many clients have trained."""

    @property
    def mean_loss(self) -> float | None:
        """Mean over clients, without outliers; None if nobody trained."""
        limit, total, count = self.largest_loss, 0.0, 0
        for _, loss in self.losses:
            if loss <= limit:
                total, count = total + loss, count + 1
        return total / count if count else None

    @property
    def largest_loss(self) -> float:
        """The loss beyond which one is an outlier: many times the median, and many times that of guessing."""
        ordered = sorted(loss for _, loss in self.losses)
        median = ordered[(len(ordered) - 1) // 2] if ordered else math.inf
        return OUTLIER * max(median, self.usual_loss)

    @property
    def outliers(self) -> list[tuple[ClientId, float]]:
        """The losses that no mean includes."""
        limit = self.largest_loss
        return [(client, loss) for client, loss in self.losses if loss > limit]

    def discrepancy(self, model_for: Callable[[ClientId], ServedModel | None]) -> float | None:
        """Mean of ‖w_i − w‖ between what clients sent back and their latest server models (FedGroup, Eq. 4).

        Without clients whose updates were too long, which all rules but the mean see. None where it would take more
        memory than `MOST_RETURNED` to keep what they sent until the server's models are there.
        """
        models = {client: single(model_for(client)) for client in self.returned if client not in self.outlying}
        apart = [distance(self.returned[client], model) for client, model in models.items() if model is not None]
        return sum(apart) / len(apart) if apart else None

    def expect(self, requests: Mapping[ClientId, Request]) -> None:
        """Prepare for what clients are asked for; if that is too much to keep, forget what was kept."""
        sizes: dict[int, int] = {}  # one request for many is looked at once
        for request in requests.values():
            if (size := sizes.get(id(request))) is None:
                returned = any(_is_returned(verb) for verb in request.verbs)
                size = sizes[id(request)] = bytes_of(initial(request.spec, request.seed)) if returned else 0
            self.asked_bytes += size
        if self.asked_bytes > MOST_RETURNED:
            self.returned.clear()

    def note(self, request: Request, reply: Reply) -> None:
        """Add what a client reports of its training."""
        for verb, answer in zip(request.verbs, reply.answers, strict=True):
            if isinstance(verb, Train) and verb.keep and isinstance(answer, TrainReply) and answer.steps:
                self.replies += 1
                if not verb.is_noised():  # which tells no loss
                    self.losses.append((reply.client, answer.loss))
                if _is_returned(verb) and self.asked_bytes <= MOST_RETURNED:
                    self.returned[reply.client] = answer.params

    def note_sum(self, clients: Iterable[ClientId], loss: float) -> None:
        """Add the mean loss of clients of whom nothing else is known, in the name of each."""
        told = [(client, loss) for client in clients]
        self.losses += told
        self.replies += len(told)


def _is_returned(verb: Verb) -> bool:
    """Say whether it is a training whose whole result is kept and sent back."""
    return isinstance(verb, Train) and verb.keep and verb.send is True
