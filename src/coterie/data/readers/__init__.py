"""Readers of files: each turns one format into a pooled, checked `Dataset`."""
