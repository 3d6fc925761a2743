"""What the layer study measures, by key: one table for its numbers, its tables and its pictures."""

from typing import NamedTuple


class LayerMeasure(NamedTuple):
    """How alike two models are in a layer."""

    heading: str
    sentence: str


LAYER_MEASURES = {
    "cka": LayerMeasure(
        "CKA", "linear CKA of the layer's outputs for the same inputs: 1 is the same up to rotation and scale"
    ),
    "theta1": LayerMeasure(
        "smallest angle (°)", "degrees, the smallest angle between the spaces that the outputs span (Eq. 5.1)"
    ),
    "sum_angles": LayerMeasure("sum of angles (°)", "degrees, the sum of the angles between these spaces (Eq. 5.2)"),
}
