"""What a client holds back, whoever asks."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from coterie.training.job import Index


class Withheld(Exception):
    """An answer that would stand on too few samples; the message says of what, and quotes no sample."""


@dataclass(frozen=True)
class Protection:
    """How many samples an answer stands on at least, and whose randomness chooses them.

    Without limits, as in simulations, everything is answered, and the seed of the run chooses.
    """

    min_samples: int = 0
    """Distinct samples that enter an answer to ``Train``, ``Evaluate`` or ``Losses``."""
    min_label_samples: int = 0
    """Samples per vector of a label, or of all samples where labels are not told apart; counts are one vector."""
    entropy: int | None = None
    """A secret in place of the seed: who knows the seed could tell which samples were held out, and in which order
    they were shuffled."""

    @property
    def even_batches(self) -> bool:
        """Whether a pass ends without a batch of what is left over.

        A sample counts 1/n in a batch of n, and chance says who is in the last: with another shuffle those few would
        count otherwise, and the difference of two trainings would tell of them.
        """
        return self.min_samples > 0

    def seed(self, common: int) -> int:
        """Return what hold-outs and shuffles are drawn from; `common` is what the server knows."""
        return common if self.entropy is None else self.entropy

    def check_count(self, samples: int) -> None:
        """Refuse an answer that stands on a few samples; on none, it tells nothing."""
        if 0 < samples < self.min_samples:
            raise Withheld(f"the answer would stand on fewer than {self.min_samples} samples")

    def check_training(self, batches: Iterable[tuple[Index, ...]], outer_only: bool) -> None:
        """Refuse a training in whose steps too few distinct samples take part.

        With `outer_only` the first half-step of a pair counts for nothing: it only shifts where the gradient of the
        other is taken.
        """
        used: set[int] = set()
        for step in batches:
            for batch in step[-1:] if outer_only else step:
                used.update(batch.tolist())
            if len(used) >= self.min_samples:
                return
        self.check_count(len(used))

    def check_parts(self, used: Index, held_out: Index) -> None:
        """Refuse to train on all samples but a few: beside a training on all, it would tell of those few."""
        if len(used):
            self.check_count(len(held_out))

    def enough(self, samples: int, vectors: int = 1) -> bool:
        """Say whether so many samples may be described by so many vectors."""
        return samples >= self.min_label_samples * max(vectors, 1)

    def shown(self, counts: Index) -> Index:
        """Return class counts, with 0 for classes of which there are too few."""
        return np.where(counts >= self.min_label_samples, counts, 0)


UNPROTECTED = Protection()
"""As in simulations."""
