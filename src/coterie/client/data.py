"""A client's own samples."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from coterie.messages import Array, Standardisation
from coterie.streams import stream
from coterie.training import CommonTest
from coterie.training.job import Floats, Index

MOST_LENT = 100_000
"""Test samples of others that a simulation lends; of more, so many are drawn, so that a test takes no longer."""


@dataclass(frozen=True)
class LocalData:
    """Positions in raw arrays, gathered and normalised when they are used."""

    x: Array
    y: Index
    train: Index
    test_x: Array
    test_y: Index
    test: Index
    classes: int
    normalise: Callable[[Array], Floats]
    common_test: CommonTest | None = None
    """Set where the test part is a part of a test set for all."""
    others_tests: bool = False
    """Whether the test samples of others are here too, as a simulation may lend them: a client's own are at `test`."""
    test_views: Index | None = None
    """As which group sees it each test sample is there; None: all see them alike."""
    drawn_tests: bool = False
    """Whether test samples were drawn from the same ones as training samples: one more may move another."""

    @property
    def counts(self) -> Index:
        """Training samples of each label, (classes,)."""
        return np.bincount(self.y[self.train], minlength=self.classes)

    def tests_lacking(self, most: int) -> Index:
        """Return test samples of labels that the client lacks, spread evenly if there are more than `most`.

        Where groups see samples in different ways, they are as the client sees its own test samples.
        """
        if not self.others_tests or (self.test_views is not None and not len(self.test)):
            return self.test[:0]
        lent = _lent(len(self.test_y))
        lacking = self.counts[self.test_y[lent]] == 0
        if self.test_views is not None:
            lacking &= self.test_views[lent] == self.test_views[self.test[0]]
        index: Index = lent[lacking]
        return index if len(index) <= most else index[np.arange(most) * len(index) // most]

    def test_part(self, most: int | None, seed: int, client: int) -> Index:
        """Return the test samples, or `most` of them, always the same ones."""
        if most is None or len(self.test) <= most:
            return self.test
        return np.sort(stream(seed, "test samples", client).choice(self.test, most, replace=False))

    def training_part(self, share: float, seed: int, client: int) -> tuple[Index, Index]:
        """Divide the training samples into those used and those held out, always the same ones."""
        held = int(share * len(self.train) + 1e-9)
        if held == 0:
            return self.train, self.train[:0]
        shuffled = stream(seed, "holdout", client).permutation(self.train)
        return np.sort(shuffled[held:]), shuffled[:held]

    def standardised(self, standardise: Standardisation | None) -> "LocalData":
        """Return the same samples, which networks see standardised; None: as they are."""
        if standardise is None:
            return self
        return replace(self, normalise=lambda raw: standardise(self.normalise(raw)), common_test=None)

    def load(self, index: Index) -> tuple[Floats, Index]:
        """Return training samples, normalised, and their labels."""
        return self.normalise(self.x[index]), self.y[index]


@lru_cache(maxsize=2)
def _lent(tests: int) -> Index:
    """Return which of so many test samples are lent: the same to every client."""
    if tests <= MOST_LENT:
        return np.arange(tests)
    return np.sort(stream(0, "lent tests").choice(tests, MOST_LENT, replace=False))
