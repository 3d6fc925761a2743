"""What the layer study measures: the heading and the meaning of each, by key."""

LAYER_MEASURES = {
    "cka": ("CKA", "linear CKA of the layer's outputs for the same inputs: 1 is the same up to rotation and scale"),
    "theta1": ("smallest angle (°)", "degrees, the smallest angle between the spaces that the outputs span (Eq. 5.1)"),
    "trace": ("paired angles (°)", "degrees, the sum of the angles between their vectors of the same rank (Eq. 5.2)"),
    "sum_angles": ("sum of angles (°)", "degrees, the sum of all principal angles between these spaces"),
}
