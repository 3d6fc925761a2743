"""Reading pickles that hold nothing but plain values and arrays of numbers; anything else is refused, never run.

A pickle is a program: it may name any function and call it. This reader knows three names, which NumPy uses to
store an array, and puts its own harmless stand-ins in their place.
"""

import io
import math
import pickle
from typing import Any

import numpy as np

from coterie.data.federated import Array
from coterie.data.readers.files import Unsafe

_MODULES = ("numpy", "numpy.core.multiarray", "numpy._core.multiarray")


def loads(content: bytes | bytearray) -> Any:
    """Return the value of a pickle, arrays of numbers included; texts of Python 2 come as bytes."""
    try:
        value = _Unpickler(io.BytesIO(content), encoding="bytes").load()
        if isinstance(value, dict):  # in which data sets have their arrays
            return {key: _array(item) if isinstance(item, _Stored) else item for key, item in value.items()}
        return _array(value) if isinstance(value, _Stored) else value
    except (Unsafe, pickle.UnpicklingError, MemoryError, RecursionError):
        raise
    except EOFError:
        raise pickle.UnpicklingError("it ends before the pickle does") from None
    except Exception as error:  # nearly anything may come of a garbled pickle
        raise pickle.UnpicklingError(f"not a proper pickle: {error}") from error


class _Stored:
    """An array or a type of numbers, as a pickle describes it: how it is made, and its state."""

    __slots__ = ("made", "state")

    def __init__(self, *made: Any) -> None:
        self.made = made
        self.state: Any = ()

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Unpickler(pickle._Unpickler):  # the one in C takes memory for whatever memo index a pickle names
    def find_class(self, module: str, name: str) -> Any:
        # Each is made anew, so that a pickle which sets an attribute of one has changed nothing.
        if module in _MODULES and name in ("_reconstruct", "dtype"):
            return lambda *made: _Stored(*made)
        if (module, name) == ("numpy", "ndarray"):
            return "ndarray"
        if (module, name) == ("_codecs", "encode"):  # how Python 3 writes bytes for Python 2
            return lambda text, encoding: str(text).encode("latin1")
        raise Unsafe(f"it wants to use {module}.{name}, which has no place in data and could run code; nothing was run")

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("it refers to something outside of itself")


def _array(stored: _Stored) -> Array:
    _, shape, dtype, by_columns, content = stored.state
    kind = dtype.made[0]
    kind = kind.decode("ascii") if isinstance(kind, bytes) else kind
    order: Any = dtype.state[1] if dtype.state else "|"
    order = order.decode("ascii") if isinstance(order, bytes) else order
    if kind not in ("b1", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8"):
        raise pickle.UnpicklingError(f"it holds an array of type {kind!r}: only numbers are read")
    numbers = np.frombuffer(content, np.dtype(kind).newbyteorder(order))
    if math.prod(shape) != len(numbers):
        raise pickle.UnpicklingError(f"it holds an array of shape {shape} with {len(numbers)} numbers")
    return numbers.reshape(shape, order="F" if by_columns else "C")
