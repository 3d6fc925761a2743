"""What a page shows, as plain data; `page` draws it in a browser, `static` in files.

A number that was not measured is None, and is drawn as a gap and written in words. Numbers are in the units of their
labels: an accuracy in % is 93.5, not 0.935.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

Value = float | None
Values = tuple[Value, ...]


def value(number: Any) -> Value:
    """Return a number as plain data; None where there is none, or none that is finite.

    >>> value(np.float32(0.5)), value(float("nan")), value(None)
    (0.5, None, None)
    """
    return float(number) if number is not None and math.isfinite(number) else None


def values(numbers: Iterable[Any], factor: float = 1) -> Values:
    """Return numbers as plain data, perhaps times a factor.

    >>> values([0.5, None, float("inf")], 100)
    (50.0, None, None)
    """
    plain_numbers = (value(number) for number in numbers)
    return tuple(None if number is None else factor * number for number in plain_numbers)


@dataclass(frozen=True, kw_only=True)
class Chart:
    """What all charts have: a title, and a note that says what is seen and how it was measured."""

    title: str
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Series:
    """Numbers with a name: a line, or a bar in each category."""

    name: str
    y: Values
    x: Values = ()
    """Of a line; bars stand at their categories."""
    low: Values = ()
    high: Values = ()
    """The edges of a band around a line, or the ends of a bar's whisker: the spread over seeds, for instance."""
    slot: int | None = None
    """Which colour and marker it has; by default its place among the series."""


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A line across a chart at one place, with a few words: a target, the round in which newcomers came."""

    at: float
    text: str
    axis: str = "x"
    """``x``: an upright line; ``y``: a level one."""


@dataclass(frozen=True, kw_only=True)
class Lines(Chart):
    """Lines over numbers."""

    x_label: str
    y_label: str
    series: tuple[Series, ...]
    marks: tuple[Mark, ...] = ()
    limits: tuple[float, float] | None = None
    """Of the y axis; by default what the numbers need."""
    log_x: bool = False
    digits: int = 2
    """How many are shown behind the point."""


@dataclass(frozen=True, kw_only=True)
class Bars(Chart):
    """Bars over categories, side by side or on top of each other; perhaps with a line and its own axis over them."""

    x_label: str
    y_label: str
    categories: tuple[str, ...]
    series: tuple[Series, ...]
    stacked: bool = False
    line: Series | None = None
    """A value for each category; its `x` is not used."""
    line_label: str = ""
    digits: int = 2


@dataclass(frozen=True, kw_only=True)
class HeatMap(Chart):
    """Numbers by row and column, as colours (viridis)."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[Values, ...]
    unit: str
    row_label: str = ""
    column_label: str = ""
    groups: tuple[int | None, ...] = ()
    """Of a square map: the group of each row; those that stand together are framed."""
    limits: tuple[float, float] | None = None
    """What the ends of the colours stand for, so that maps side by side can be compared."""
    digits: int = 2


@dataclass(frozen=True, kw_only=True)
class Point:
    """A point of a map, with its name."""

    name: str
    x: Value
    y: Value
    group: int | None = None


@dataclass(frozen=True, kw_only=True)
class Scatter(Chart):
    """Points; a colour and a marker per group."""

    points: tuple[Point, ...]
    groups: tuple[str, ...] = ()
    """The names of the groups, in order of their numbers."""
    x_label: str = ""
    y_label: str = ""
    map: bool = False
    """Only distances mean something: both axes have one scale, and no numbers."""
    digits: int = 2


@dataclass(frozen=True, kw_only=True)
class Merge:
    """Two branches become one: where they stand, how high each is, and how high the merge is."""

    left: float
    right: float
    left_height: float
    right_height: float
    height: float
    group: int | None
    """The group that it lies in; None between groups."""


@dataclass(frozen=True, kw_only=True)
class Dendrogram(Chart):
    """A tree of merges with its cut; `tree_of` makes one of a linkage matrix."""

    names: tuple[str, ...]
    """Of the leaves, from left to right; leaf i stands at i."""
    leaf_groups: tuple[int, ...]
    groups: tuple[str, ...]
    """The names of the groups, in order of their numbers."""
    merges: tuple[Merge, ...]
    unit: str
    cut: float | None = None
    digits: int = 2


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Values with a name, and the name of each."""

    name: str
    values: Values
    names: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Distribution(Chart):
    """Each value as a point over a box of quartiles, a row per sample; the worst ones marked, with their mean."""

    x_label: str
    samples: tuple[Sample, ...]
    worst: float = 0.1
    """Which share of the values, rounded up, is marked as the worst; 0: none."""
    digits: int = 2


@dataclass(frozen=True)
class NumberCell:
    """A number of a table, and how it is written there, like ``89.73 ± 1.65``."""

    text: str
    number: Value
    """What it is sorted by; None where there is none, which comes last."""


@dataclass(frozen=True, kw_only=True)
class Table(Chart):
    """Rows of texts and numbers, that a click on a heading sorts."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str | float | NumberCell | None, ...], ...]
    digits: int = 2
    """Behind the point of numbers that are no integers."""
    bold: tuple[tuple[int, int], ...] = ()
    """Cells that stand out, (row, column)."""

    def without_empty(self) -> Table:
        """Return it without columns in which nothing was measured; the first stays."""
        empty = (None, NumberCell("–", None))
        kept = [c for c in range(len(self.columns)) if c == 0 or any(row[c] not in empty for row in self.rows)]
        place = {c: new for new, c in enumerate(kept)}
        return replace(
            self,
            columns=tuple(self.columns[c] for c in kept),
            rows=tuple(tuple(row[c] for c in kept) for row in self.rows),
            bold=tuple((r, place[c]) for r, c in self.bold if c in place),
        )


@dataclass(frozen=True, kw_only=True)
class Code(Chart):
    """Text to be copied as it is: a command, a configuration."""

    text: str


@dataclass(frozen=True, kw_only=True)
class Switch:
    """Variants of one chart, of which a control shows one: protocols, measures."""

    label: str
    variants: tuple[tuple[str, Chart], ...]
    """With the name of each; the first is shown at first."""


Block = Chart | Switch


@dataclass(frozen=True, kw_only=True)
class Fact:
    """A number worth seeing first, with its name and perhaps how it was measured."""

    name: str
    value: str
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Section:
    """A heading, paragraphs, and what there is to see.

    In paragraphs, and in notes of charts, `` `this` `` is set as code; nothing else is special.
    """

    heading: str
    text: tuple[str, ...] = ()
    blocks: tuple[Block, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page: what it comes to in plain words, then sections."""

    title: str
    summary: tuple[str, ...]
    sections: tuple[Section, ...]
    facts: tuple[Fact, ...] = ()


def charts_of(page: Page) -> Iterator[tuple[str, Chart]]:
    """Return all charts of a page, with the name of the variant where there are several."""
    for section in page.sections:
        for block in section.blocks:
            yield from block.variants if isinstance(block, Switch) else [("", block)]


def plain(thing: Any) -> Any:
    """Return a page or a part of it as JSON knows it; `kind` says what each object is.

    >>> plain(Mark(at=3, text="here"))
    {'kind': 'mark', 'at': 3, 'text': 'here', 'axis': 'x'}
    """
    if is_dataclass(thing):
        content = {field.name: plain(getattr(thing, field.name)) for field in fields(thing)}
        return {"kind": type(thing).__name__.lower(), **content}
    if isinstance(thing, (tuple, list)):
        return [plain(part) for part in thing]
    thing = thing.item() if isinstance(thing, np.generic) else thing
    return value(thing) if isinstance(thing, float) else thing


def chart_of(data: Mapping[str, Any]) -> Chart:
    """Return the chart that `plain` wrote; a ValueError says why it can't be one.

    >>> chart = Code(title="again", text="coterie run")
    >>> chart_of(plain(chart)) == chart
    True
    """
    from pydantic import TypeAdapter

    kinds = {kind.__name__.lower(): kind for kind in Chart.__subclasses__()}
    if data.get("kind") not in kinds:
        raise ValueError(f"there is no chart of kind {data.get('kind')!r}")
    chart: Chart = TypeAdapter(kinds[str(data["kind"])]).validate_python(dict(data))
    return chart


def tree_of(
    tree: npt.ArrayLike,
    names: Sequence[str],
    labels: Sequence[int],
    *,
    title: str,
    unit: str,
    cut: float | None = None,
    note: str = "",
) -> Dendrogram:
    """Return the picture of a linkage matrix, (n − 1, 4); `names` and group `labels` are of its n leaves.

    Merges of infinite height, which are never made, are not drawn: there are several trees.
    """
    from scipy.cluster.hierarchy import leaves_list

    linkage = np.asarray(tree, np.float64).reshape(-1, 4)
    n = len(linkage) + 1
    order: list[int] = leaves_list(linkage).tolist() if n > 1 else [0]
    place = [0.0] * n
    for position, leaf in enumerate(order):
        place[leaf] = float(position)
    height, owner, merges = [0.0] * n, [int(label) for label in labels[:n]], []
    for a, b, level in zip(linkage[:, 0].astype(int), linkage[:, 1].astype(int), linkage[:, 2].tolist(), strict=True):
        left, right = sorted((a, b), key=lambda branch: place[branch])
        group = owner[a] if owner[a] == owner[b] else -1
        ends = {"left": place[left], "right": place[right], "left_height": height[left], "right_height": height[right]}
        if math.isfinite(level):
            merges.append(Merge(**ends, height=level, group=None if group < 0 else group))
        place.append((place[a] + place[b]) / 2)
        height.append(level)
        owner.append(group)
    return Dendrogram(
        title=title,
        note=note,
        names=tuple(str(names[leaf]) for leaf in order),
        leaf_groups=tuple(owner[leaf] for leaf in order),
        groups=tuple(f"group {group}" for group in range(max(owner[:n], default=-1) + 1)),
        merges=tuple(merges),
        unit=unit,
        cut=cut,
    )


def worst_of(numbers: Values, share: float, sign: int = 1) -> tuple[list[int], float | None]:
    """Return the positions of the lowest share of the numbers, rounded up, and their mean; of -1 as sign, the highest.

    >>> worst_of((3.0, None, 1.0, 2.0), 0.5)
    ([2, 3], 1.5)
    """
    measured = sorted((sign * number, place) for place, number in enumerate(numbers) if number is not None)
    chosen = measured[: math.ceil(share * len(measured) - 1e-9)]
    return [place for _, place in chosen], sign * sum(n for n, _ in chosen) / len(chosen) if chosen else None


def completed_distances(proximity: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return distances for a map: those that are not known are the largest there is, and none is below 0.

    >>> completed_distances([[0, 2, np.nan], [2, 0, -1], [np.nan, -1, 0]])
    array([[0., 2., 2.],
           [2., 0., 0.],
           [2., 0., 0.]])
    """
    distances = np.asarray(proximity, np.float64)
    largest = float(distances[np.isfinite(distances)].max(initial=0.0)) or 1.0
    return np.maximum(np.where(np.isfinite(distances), distances, largest), 0.0)


def classical_mds(proximity: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return a map of n things, (n, 2), whose distances are near the proximities, (n, n) (classical scaling).

    Signs are fixed, so that the same proximities give the same map.

    >>> places = classical_mds([[0, 3, 4], [3, 0, 5], [4, 5, 0]])
    >>> [round(float(np.linalg.norm(places[i] - places[j])), 6) for i, j in ((0, 1), (0, 2), (1, 2))]
    [3.0, 4.0, 5.0]
    """
    distances = np.asarray(proximity, np.float64)
    n = len(distances)
    squares = ((distances + distances.T) / 2) ** 2
    centred = squares - squares.mean(axis=0) - squares.mean(axis=1)[:, None] + squares.mean()
    scales, vectors = np.linalg.eigh(-centred / 2)
    places = np.zeros((n, 2))
    for axis, place in enumerate(np.argsort(scales)[::-1][:2]):
        vector = vectors[:, place] * math.sqrt(max(float(scales[place]), 0.0))
        places[:, axis] = vector * (-1 if vector[np.argmax(np.abs(vector))] < 0 else 1)
    return places
