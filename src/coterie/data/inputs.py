"""Inputs to predict labels for."""

from __future__ import annotations
