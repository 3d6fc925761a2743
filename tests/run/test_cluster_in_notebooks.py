"""Groups as a notebook shows them."""

from __future__ import annotations

import numpy as np
import pytest

import coterie


def test_groups_are_a_table_a_map_and_a_tree() -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    groups = coterie.cluster(dataset="digits-rotated", clients=6, groups=2)
    assert repr(groups).startswith("ClusterResult(pacfl on digits-rotated, 6 clients, seed 0: 2 groups by rule 'count'")
    page = groups._repr_html_()
    for group in range(2):
        members = " ".join(str(client) for client in np.flatnonzero(groups.grouping.labels == group))
        assert f">{members}<" in page
    assert groups.grouping.proximity is not None
    drawn = groups.plot().images[0].get_array()
    assert drawn is not None
    assert np.allclose(np.sort(drawn, axis=None), np.sort(groups.grouping.proximity, axis=None))
    levels = [line.get_ydata()[1] for line in groups.plot("dendrogram").lines if len(line.get_ydata()) == 4]
    assert np.allclose(sorted(levels), groups.grouping.heights)
    pyplot.close("all")
    with pytest.raises(coterie.CoterieError, match="there is no 'tree' of these groups: there is proximity or dendro"):
        groups.plot("tree")  # type: ignore[arg-type]
