"""Reading pickles that hold nothing but plain values and arrays of numbers; anything else is refused, never run.

A pickle is a program: it may name any function and call it. This reader knows three names, which NumPy uses to
store an array, and puts its own harmless stand-ins in their place. It takes only the steps that such values need, and
not too many of them.
"""

import io
import math
import pickle
from typing import Any, ClassVar

import numpy as np

from coterie.data.federated import Array
from coterie.data.readers.files import Unsafe

_STEPS = 1_000_000
"""How many a pickle may have: CIFAR-100 has 250,000."""
_ALLOWED = (
    "PROTO", "FRAME", "STOP", "MARK", "NONE", "NEWTRUE", "NEWFALSE", "INT", "BININT", "BININT1", "BININT2", "LONG",
    "LONG1", "FLOAT", "BINFLOAT", "STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8",
    "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "EMPTY_LIST", "LIST", "APPEND", "APPENDS",
    "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "EMPTY_DICT", "DICT", "SETITEM", "SETITEMS", "PUT",
    "BINPUT", "LONG_BINPUT", "MEMOIZE", "GET", "BINGET", "LONG_BINGET", "GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD",
    "POP", "DUP", "INST",
)  # fmt: skip
"""The steps that plain values need; a name is looked up by `find_class`."""
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


_parts: Any = pickle
_Base: Any = _parts._Unpickler


class _Plain(dict[Any, Any]):
    """A dictionary whose keys are texts or numbers: a tuple that holds itself many times takes for ever to hash."""

    def __setitem__(self, key: Any, value: Any) -> None:
        if type(key) not in (str, bytes, int):
            raise pickle.UnpicklingError(f"a key in it is a {type(key).__name__}")
        super().__setitem__(key, value)


class _Unpickler(_Base):  # type: ignore[misc]  # the one in C takes memory for whatever memo index a pickle names
    dispatch: ClassVar[dict[int, Any]] = {
        code[0]: _Base.dispatch[code[0]] for code in (getattr(pickle, n) for n in _ALLOWED)
    }

    def _empty_dictionary(self) -> None:
        self.append(_Plain())

    def _dictionary(self) -> None:
        items, content = self.pop_mark(), _Plain()
        for key, value in zip(items[::2], items[1::2], strict=True):
            content[key] = value
        self.append(content)

    dispatch[pickle.EMPTY_DICT[0]] = _empty_dictionary
    dispatch[pickle.DICT[0]] = _dictionary

    def load(self) -> Any:
        """Go through the steps, of which only some are allowed, and not too many."""
        self._unframer = _parts._Unframer(self._file_read, self._file_readline)
        self.read, self.readinto = self._unframer.read, self._unframer.readinto
        self.readline = self._unframer.readline
        self.metastack, self.proto = list[Any](), 0
        self.stack = list[Any]()
        self.append = self.stack.append
        try:
            for _ in range(_STEPS):
                step = self.read(1)
                if not step:
                    raise EOFError
                self.dispatch[step[0]](self)
        except _parts._Stop as end:
            return end.value
        raise pickle.UnpicklingError(f"it has more than {_STEPS:,} steps")

    def find_class(self, module: str, name: str) -> Any:
        # Each is made anew, so that a pickle which sets an attribute of one has changed nothing.
        if module in _MODULES and name in ("_reconstruct", "dtype"):
            return lambda *made: _Stored(*made)
        if (module, name) == ("numpy", "ndarray"):
            return "ndarray"
        if (module, name) == ("_codecs", "encode"):  # how Python 3 writes bytes for Python 2
            return _encoded
        raise Unsafe(f"it wants to use {module}.{name}, which has no place in data and could run code; nothing was run")

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("it refers to something outside of itself")


def _encoded(text: Any, encoding: Any) -> bytes:
    if not isinstance(text, str):
        raise pickle.UnpicklingError("it encodes something that is no text")
    return text.encode("latin1")


def _array(stored: _Stored) -> Array:
    _, shape, dtype, by_columns, content = stored.state
    if not isinstance(shape, tuple) or not all(type(size) is int and 0 <= size < 2**40 for size in shape):
        raise pickle.UnpicklingError("it holds an array without a proper shape")
    kind = dtype.made[0]
    kind = kind.decode("ascii") if isinstance(kind, bytes) else kind
    order: Any = dtype.state[1] if dtype.state else "|"
    order = order.decode("ascii") if isinstance(order, bytes) else order
    if kind not in ("b1", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8"):
        raise pickle.UnpicklingError(f"it holds an array of type {kind!r}: only numbers are read")
    if not isinstance(content, bytes | bytearray):
        raise pickle.UnpicklingError("it holds an array without content")
    numbers = np.frombuffer(content, np.dtype(kind).newbyteorder(order))
    if math.prod(shape) != len(numbers):
        raise pickle.UnpicklingError(f"it holds an array of shape {shape} with {len(numbers)} numbers")
    return numbers.reshape(shape, order="F" if by_columns else "C")
