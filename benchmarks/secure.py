"""What a secure sum costs: bytes of its messages, and seconds of one client and of the server, by size of a group.

    python benchmarks/secure.py [--sizes 5,20,100,500] [--models lenet5,resnet9] [--dropped 0.1]

Seconds are CPU time of one core without any training. The server restores the own mask of each survivor, and the masks
that the dropped clients share with their neighbours.
"""

import argparse
import time

import numpy as np

from coterie.messages import (
    Keys,
    KeysReply,
    MaskedReply,
    MaskedTrain,
    Masking,
    ModelSpec,
    Plan,
    Reply,
    Request,
    Schedule,
    Shares,
    SharesReply,
    Unmask,
    UnmaskReply,
    wire,
)
from coterie.messages.masking import SumLayout
from coterie.models import initial
from coterie.secure import Words, advertise_keys, masked_input, neighbours, remaining_masks, reveal, share_keys

IMAGES, CLASSES = (3, 32, 32), 10


class Group:
    """Clients that have advertised keys and shared secrets."""

    def __init__(self, size: int, dropped: float) -> None:
        clients = range(size)
        people = {i: advertise_keys(i, "0 1") for i in clients}
        self.keys = {i: keys for i, (_, keys) in people.items()}
        self.graph = neighbours(clients, 0, 1)
        began = time.process_time()
        self.shared = {i: share_keys(people[i][0], {j: self.keys[j] for j in self.graph[i]}) for i in clients}
        self.share_seconds = (time.process_time() - began) / size
        self.survivors = range(size - int(dropped * size))
        self.messages = {i: [self.shared[j][1][i] for j in self.graph[i]] for i in self.survivors}
        self.revealed = {
            i: reveal(self.shared[i][0], dict(zip(self.graph[i], self.messages[i], strict=True)), self.survivors)
            for i in self.survivors
        }

    def bytes(self, spec: ModelSpec, layout: SumLayout) -> tuple[int, int]:
        """Return what one client sends in a round, and what it is sent, beside the model."""
        clients, near = tuple(self.keys), [self.keys[j] for j in self.graph[0]]
        masks, shares = tuple(keys.mask.hex() for keys in near), tuple(keys.share.hex() for keys in near)
        masking = Masking(clients, 5, "samples", 100.0, 1.0, 1.0)
        asked = [
            Keys(),
            Shares(clients, masks, shares),
            MaskedTrain(Plan(Schedule(0.1)), masking=masking),
            Unmask(tuple(self.survivors), tuple(message.hex() for message in self.messages[0])),
        ]
        wide, narrow = layout.sizes
        answers = [
            KeysReply(masks[0], shares[0]),
            SharesReply(tuple(message.hex() for message in self.shared[0][1].values())),
            MaskedReply(np.zeros(wide, np.uint64), np.zeros(narrow, np.uint32)),
            UnmaskReply(tuple(share.hex() for share in self.revealed[0].values())),
        ]
        up = sum(wire.size(Reply(0, 1, (answer,))) for answer in answers)
        return up, sum(wire.size(Request(1, 0, spec, (verb,))) for verb in asked)

    def seconds(self, layout: SumLayout) -> tuple[float, float]:
        """Return those of a client that shares and masks, and those of the server that unmasks."""
        wide, narrow = layout.sizes
        began = time.process_time()
        masked_input(self.shared[0][0], Words(np.zeros(wide, np.uint64), np.zeros(narrow, np.uint32)), self.keys)
        client = self.share_seconds + time.process_time() - began
        began = time.process_time()
        remaining_masks(self.graph, self.keys, "0 1", self.survivors, self.revealed, (wide, narrow))
        return client, time.process_time() - began


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="5,20,100,500")
    parser.add_argument("--models", default="lenet5,resnet9")
    parser.add_argument("--dropped", type=float, default=0.1)
    options = parser.parse_args()
    print("| network | clients | neighbours | up, kB | in clear | down beside the model | client, s | server, s |")
    print("|---|---|---|---|---|---|---|---|")
    for size in map(int, options.sizes.split(",")):
        group = Group(size, options.dropped)
        for name in options.models.split(","):
            spec = ModelSpec(name, IMAGES, CLASSES)
            template = initial(spec, 0)
            layout = SumLayout.of(template, [*template], [])
            up, down = group.bytes(spec, layout)
            clear = sum(array.nbytes for array in template.values())
            client, server = group.seconds(layout)
            row = [name, size, len(group.graph[0]), *(f"{b / 1e3:,.0f}" for b in (up, clear, down))]
            print("|", " | ".join(map(str, [*row, f"{client:.2f}", f"{server:.2f}"])), "|", flush=True)


if __name__ == "__main__":
    main()
