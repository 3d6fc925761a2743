"""Trackers: what is told of a run while it goes on, row by row, as ``metrics.jsonl`` is."""

from coterie.tracking.finished import track_folders
from coterie.tracking.several import Trackers, make_tracker
from coterie.tracking.tracker import Callback, Row, TrackedRun, Tracker, run_name, scalars, settings_of

__all__ = [
    "Callback",
    "Row",
    "TrackedRun",
    "Tracker",
    "Trackers",
    "make_tracker",
    "run_name",
    "scalars",
    "settings_of",
    "track_folders",
]
