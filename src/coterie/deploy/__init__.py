"""Federations of real machines: what all agree on, what a site brings, and what the server does."""
