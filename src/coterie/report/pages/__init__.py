"""The pages, a module each: `run`, `comparison`, `sweep`, `reproduction`, `inspection`; beside them what they share.

`curves`, `clients` and `origin` hold what the pages of runs and of comparisons have in common; `groups`, `special` and
`events` are sections of a run's page, `tables` and `seeds` those of a comparison's.
"""
