"""Who belongs together: groups from proximities, features or updates, and how well two groupings agree."""

from coterie.clustering.agreement import adjusted_rand_index, clustering_error, normalised_mutual_information
from coterie.clustering.bipartition import bipartition, should_split, update_norms
from coterie.clustering.calibration import in_units_of_noise, noise, noise_beside, wide_halves
from coterie.clustering.forest import forest, mean_between
from coterie.clustering.grouping import Grouping, distance_to_groups, extend, matched, row_groups
from coterie.clustering.hierarchical import LINKAGES, canonical, condensed, cut, heights, number_of_groups, tree
from coterie.clustering.k_means import KMeans, k_means
from coterie.clustering.landmarks import Crowd, LandmarkGroups, by_landmarks
from coterie.clustering.options import GroupingOptions, Linkage, RuleSupport
from coterie.clustering.rules import RULES, Cut, Evidence, Rule, rule
from coterie.clustering.rules.automatic import Auto, Demo, Gap, Silhouette, Trial, elbow, granularity_for, silhouette
from coterie.clustering.rules.concepts import Concepts
from coterie.clustering.rules.given import Count, Threshold
from coterie.clustering.rules.graph import Components, Spectral

__all__ = [
    "LINKAGES", "RULES", "Auto", "Components", "Concepts", "Count", "Crowd", "Cut", "Demo", "Evidence", "Gap",
    "Grouping", "GroupingOptions", "KMeans", "LandmarkGroups", "Linkage", "Rule", "RuleSupport", "Silhouette",
    "Spectral", "Threshold", "Trial", "adjusted_rand_index", "bipartition", "by_landmarks", "canonical",
    "clustering_error", "condensed", "cut", "distance_to_groups", "elbow", "extend", "forest", "granularity_for",
    "heights", "in_units_of_noise", "k_means", "matched", "mean_between", "noise", "noise_beside",
    "normalised_mutual_information", "number_of_groups", "row_groups", "rule", "should_split", "silhouette", "tree",
    "update_norms", "wide_halves",
]  # fmt: skip
