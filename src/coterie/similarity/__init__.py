"""How alike are clients: pure functions on arrays, each in the words of its paper.

| what is compared | functions | paper |
|---|---|---|
| samples | `signature`, `vectors_per_label`, `principal_angles` | PACFL |
| halves of the samples | `split_half_distance` | ours |
| predictions on the server's samples | `inference_similarity` | FLIS |
| updates | `update_cosines`, `cosine_features`, `edc`, `madc` | FedGroup |
| samples by class, and updates | `classwise_angles`, `gradient_angles`, `mixed_proximity`, `Scales` | FLAG |
| samples, simulated | `bhattacharyya`, `kl_divergence`, `mmd`, `sliced_wasserstein`, `emd_pixel`, `moment_cka` | – |
| all pairs of such samples | `pairwise` of one of `SAMPLE_MEASURES`, `reduced` | – |
| how many samples of each class | `label_total_variation` | – |
| layers' outputs for the same inputs | `linear_cka` | – |

Angles are in degrees. No result has a NaN: what is undefined follows a rule that the function states, and a NaN in the
input is a ValueError. Given `b` or `others`, each function compares all of the first with all of the second, which is
how newcomers are placed.
"""

from coterie.similarity.angles import MEASURES, Measure, principal_angles
from coterie.similarity.classwise import Scales, classwise_angles, gradient_angles, mixed_proximity
from coterie.similarity.distributions import (
    SAMPLE_MEASURES,
    SampleMeasure,
    bhattacharyya,
    emd_pixel,
    kl_divergence,
    label_total_variation,
    linear_cka,
    mmd,
    moment_cka,
    pairwise,
    reduced,
    sliced_wasserstein,
)
from coterie.similarity.halves import split_half_distance
from coterie.similarity.inference import inference_similarity
from coterie.similarity.signatures import signature, vectors_per_label
from coterie.similarity.updates import cosine_features, edc, madc, update_cosines

__all__ = [
    "MEASURES",
    "SAMPLE_MEASURES",
    "Measure",
    "SampleMeasure",
    "Scales",
    "bhattacharyya",
    "classwise_angles",
    "cosine_features",
    "edc",
    "emd_pixel",
    "gradient_angles",
    "inference_similarity",
    "kl_divergence",
    "label_total_variation",
    "linear_cka",
    "madc",
    "mixed_proximity",
    "mmd",
    "moment_cka",
    "pairwise",
    "principal_angles",
    "reduced",
    "signature",
    "sliced_wasserstein",
    "split_half_distance",
    "update_cosines",
    "vectors_per_label",
]
