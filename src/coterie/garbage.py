"""When Python looks for objects that only point at each other."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_search_for_cycles() -> Iterator[None]:
    """Leave cycles alone for a while, in which many objects are made that are not in any.

    With each quarter more objects Python would go through all that there are: it took a fifth of the time in which
    100,000 clients describe themselves.
    """
    searches = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if searches:
            gc.enable()
