"""The mixture of labels as a measure."""

import numpy.typing as npt

from coterie.similarity.labels import Floats, label_total_variation
from coterie.similarity.measures import measure


@measure("labels", needs="label counts", title="total variation of labels", unit="share")
def labels(counts: npt.ArrayLike) -> Floats:
    """Which share of the labels would have to change for two clients to have the same mixture."""
    return label_total_variation(counts)
