"""What the layer study measures: the heading and the meaning of each, by key."""

LAYER_MEASURES = {
    "cka": ("CKA", "linear CKA of the layer's outputs for the same inputs: 1 is the same up to rotation and scale"),
    "theta1": ("smallest angle (°)", "degrees, the smallest angle between the spaces that the outputs span (Eq. 5.1)"),
    "sum_angles": ("sum of angles (°)", "degrees, the sum of the angles between these spaces (Eq. 5.2)"),
}
