"""The text of plugin files: what a user might write."""

METHOD = '''
@coterie.algorithm("median")
@dataclass(kw_only=True)
class Median(coterie.Algorithm):
    """One model for all: the coordinate-wise median of what the cohort trained."""

    damping: Annotated[float, "how far to go towards the median"] = 1.0

    def begin(self, fed):
        self.model = fed.initial()

    def round(self, fed, cohort):
        replies = fed.ask(dict.fromkeys(cohort, fed.request(Train(fed.plan), model=self.model)))
        trained = [reply.answer(TrainReply).params for reply in replies.values()]
        if trained:
            self.model = {
                name: (old + self.damping * (np.median([t[name] for t in trained], axis=0) - old)).astype(old.dtype)
                for name, old in self.model.items()
            }

    def model_for(self, client):
        return self.model

    def save(self):
        return {"model": self.model}

    def load(self, state):
        self.model = state["model"]
'''

MODEL = '''
@coterie.model("narrow")
def narrow(shape, classes, *, width: Annotated[int, Ge(1), "of the hidden layer"] = 7):
    """A narrow network."""
    from torch import nn

    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), width), nn.ReLU(), nn.Linear(width, classes))
'''

PARTITION = '''
@coterie.partition("stripes")
def stripes(data, clients, rng, *, offset: Annotated[int, Ge(0), "of the first client"] = 0):
    """Every so manieth sample."""
    return Partition([np.arange((client + offset) % clients, len(data.train), clients) for client in range(clients)])
'''

DATASET = '''
@coterie.dataset("blobs", clients=5)
def blobs(*, samples: Annotated[int, Ge(30), "in all"] = 120):
    """Three clouds of points."""
    y = np.arange(samples) % 3
    x = np.random.default_rng(0).normal(size=(samples, 4)) + 3 * y[:, None]
    return Dataset("blobs", Samples(x.astype(np.float32), y), None, 3)
'''

HEAD = '''"""My own."""

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from annotated_types import Ge

import coterie
from coterie.data import Dataset, Partition, Samples
from coterie.messages import Train, TrainReply
'''

FUTURE = "from __future__ import annotations\n"

ALL = HEAD + METHOD + MODEL + PARTITION + DATASET
