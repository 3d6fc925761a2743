"""How alike clients are: pure functions on arrays, each in the terms of its paper.

| what is compared | functions | paper |
|---|---|---|
| samples | `signature`, `vectors_per_label`, `principal_angles` | PACFL |
| gradients of a group's clients | `gradient_diversity` | PACFL |
| halves of the samples | `split_half_distance`, `sketched_halves` | ours |
| signatures in a few random directions | `sketch`, `sketch_together`, `projection`, `points` | ours |
| predictions on the server's samples | `inference_similarity` | FLIS |
| updates | `update_cosines`, `cosine_features`, `edc`, `madc` | FedGroup |
| samples by class, and updates | `classwise_angles`, `gradient_angles`, `mixed_proximity`, `Scales` | FLAG |
| samples, simulated | `bhattacharyya`, `kl_divergence`, `mmd`, `sliced_wasserstein`, `emd_pixel`, `moment_cka` | – |
| all pairs of such samples | `pairwise`, `reduced` | – |
| samples of each label that two clients share | `class_moments`, `class_distances` | ours |
| how many samples of each class | `label_total_variation` | – |
| layers' outputs for the same inputs | `linear_cka`, `cka_of_grams` | – |

Angles are in degrees. No result has a NaN: what is undefined follows a rule that the function states, and a NaN in the
input is a ValueError. The one exception are clients that share no label, whose distance is not known. Given `b` or
`others`, each function compares all of the first with all of the second, which is how newcomers are placed.
`MEASURES` holds those that users choose by name, built-in or their own.
"""

from coterie.similarity.angles import principal_angles
from coterie.similarity.classwise import Scales, classwise_angles, gradient_angles, mixed_proximity
from coterie.similarity.halves import split_half_distance
from coterie.similarity.measures import (
    MEASURES,
    Measure,
    error_in_signature_measure,
    measure,
    pairwise,
    signature_measures,
)
from coterie.similarity.measures.angles_and_labels import label_total_variation
from coterie.similarity.measures.samples import (
    bhattacharyya,
    emd_pixel,
    kl_divergence,
    mmd,
    moment_cka,
    sliced_wasserstein,
)
from coterie.similarity.moments import ClassMoments, class_distances, class_moments
from coterie.similarity.samples import centred_gram, cka_of_grams, linear_cka, reduced
from coterie.similarity.signatures import signature, vectors_per_label
from coterie.similarity.sketches import points, projection, sketch, sketched_halves
from coterie.similarity.sketching import Sketched, Sketching, sketch_together
from coterie.similarity.updates import (
    cosine_features,
    edc,
    gradient_diversity,
    inference_similarity,
    madc,
    update_cosines,
)

__all__ = [
    "MEASURES", "ClassMoments", "Measure", "Scales", "Sketched", "Sketching", "bhattacharyya", "centred_gram",
    "cka_of_grams", "class_distances", "class_moments", "classwise_angles", "cosine_features", "edc", "emd_pixel",
    "error_in_signature_measure", "gradient_angles", "gradient_diversity", "inference_similarity", "kl_divergence",
    "label_total_variation", "linear_cka", "madc", "measure", "mixed_proximity", "mmd", "moment_cka", "pairwise",
    "points", "principal_angles", "projection", "reduced", "signature", "signature_measures", "sketch",
    "sketch_together", "sketched_halves", "sliced_wasserstein", "split_half_distance", "update_cosines",
    "vectors_per_label",
]  # fmt: skip
