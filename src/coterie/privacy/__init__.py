"""Differential privacy as pure functions: mechanisms, what they cost, and the ledger of what a client has told.

Nothing here asks a client or sends anything. Verbs, trainers and engines use it.
"""

from coterie.privacy.accounting import (
    Filter,
    Release,
    epsilon_of,
    filter_order,
    fixed_size_epsilon,
    noise_for,
    renyi,
    spent,
)
from coterie.privacy.gaussian import (
    composed_noise,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_sigma,
    update_noise,
)
from coterie.privacy.ledger import BudgetSpent, OpenRelease, PrivacyLimit, PrivacySpent, ReleaseLedger
from coterie.privacy.randomness import Randomness, SecretRandomness, derived_key
from coterie.privacy.signatures import (
    bounded_rows,
    leading_vectors,
    mapped_shape,
    noised,
    private_label_counts,
    private_second_moments,
    public_map,
    smat,
    svec,
)
from coterie.privacy.updates import cut, hidden

__all__ = [
    "BudgetSpent",
    "Filter",
    "OpenRelease",
    "PrivacyLimit",
    "PrivacySpent",
    "Randomness",
    "Release",
    "ReleaseLedger",
    "SecretRandomness",
    "bounded_rows",
    "composed_noise",
    "cut",
    "derived_key",
    "epsilon_of",
    "filter_order",
    "fixed_size_epsilon",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_sigma",
    "hidden",
    "leading_vectors",
    "mapped_shape",
    "noise_for",
    "noised",
    "private_label_counts",
    "private_second_moments",
    "public_map",
    "renyi",
    "smat",
    "spent",
    "svec",
    "update_noise",
]
