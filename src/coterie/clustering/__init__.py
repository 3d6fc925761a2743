"""Who belongs together: groups from proximities, features or updates, and how well two groupings agree."""

from coterie.clustering.agreement import adjusted_rand_index, clustering_error, normalised_mutual_information
from coterie.clustering.bipartition import bipartition, should_split, update_norms
from coterie.clustering.calibration import in_units_of_noise, noise
from coterie.clustering.grouping import Grouping
from coterie.clustering.hierarchical import LINKAGES, canonical, condensed, cut, heights, number_of_groups, tree
from coterie.clustering.k_means import KMeans, k_means
from coterie.clustering.newcomers import distance_to_groups, extend, matched
from coterie.clustering.options import GroupingOptions, Linkage, RuleSupport
from coterie.clustering.rows import row_groups
from coterie.clustering.rule import Cut, Evidence, Rule
from coterie.clustering.rules import RULES, rule
from coterie.clustering.rules.auto import Auto, granularity_for
from coterie.clustering.rules.count import Count
from coterie.clustering.rules.degrees import Threshold
from coterie.clustering.rules.demo import Demo
from coterie.clustering.rules.gap import Gap
from coterie.clustering.rules.silhouette import Silhouette
from coterie.clustering.rules.trial import Trial, elbow
from coterie.clustering.silhouettes import silhouette

__all__ = [
    "LINKAGES",
    "RULES",
    "Auto",
    "Count",
    "Cut",
    "Demo",
    "Evidence",
    "Gap",
    "Grouping",
    "GroupingOptions",
    "KMeans",
    "Linkage",
    "Rule",
    "RuleSupport",
    "Silhouette",
    "Threshold",
    "Trial",
    "adjusted_rand_index",
    "bipartition",
    "canonical",
    "clustering_error",
    "condensed",
    "cut",
    "distance_to_groups",
    "elbow",
    "extend",
    "granularity_for",
    "heights",
    "in_units_of_noise",
    "k_means",
    "matched",
    "noise",
    "normalised_mutual_information",
    "number_of_groups",
    "row_groups",
    "rule",
    "should_split",
    "silhouette",
    "tree",
    "update_norms",
]
