"""How alike are clients: pure functions on arrays, each in the words of its paper.

| what is compared | functions | paper |
|---|---|---|
| samples | `signature`, `vectors_per_label`, `principal_angles` | PACFL |
| halves of the samples | `split_half_distance` | ours |
| predictions on the server's samples | `inference_similarity` | FLIS |
| updates | `update_cosines`, `cosine_features`, `edc`, `madc` | FedGroup |
| samples by class, and updates | `classwise_angles`, `gradient_angles`, `mixed_proximity`, `Scales` | FLAG |

Angles are in degrees. No result has a NaN: what is undefined follows a rule that the function states, and a NaN in the
input is a ValueError. Given `b` or `others`, each function compares all of the first with all of the second, which is
how newcomers are placed.
"""

from coterie.similarity.angles import MEASURES, Measure, principal_angles
from coterie.similarity.classwise import Scales, classwise_angles, gradient_angles, mixed_proximity
from coterie.similarity.halves import split_half_distance
from coterie.similarity.inference import inference_similarity
from coterie.similarity.signatures import signature, vectors_per_label
from coterie.similarity.updates import cosine_features, edc, madc, update_cosines

__all__ = [
    "MEASURES",
    "Measure",
    "Scales",
    "classwise_angles",
    "cosine_features",
    "edc",
    "gradient_angles",
    "inference_similarity",
    "madc",
    "mixed_proximity",
    "principal_angles",
    "signature",
    "split_half_distance",
    "update_cosines",
    "vectors_per_label",
]
