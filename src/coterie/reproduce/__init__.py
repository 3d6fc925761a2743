"""The papers' tables and figures: settings and published numbers as data, and what makes them again."""

from coterie.reproduce.catalogue import Catalogue, Reproducible, catalogue, read_own
from coterie.reproduce.reproducing import reproduce

__all__ = ["Catalogue", "Reproducible", "catalogue", "read_own", "reproduce"]
