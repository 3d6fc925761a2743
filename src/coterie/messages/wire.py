"""The wire format: one safetensors blob per message, no pickle.

The JSON tree of a message lies in the blob's metadata; wherever it holds an array, the tree names a tensor of
the blob. Only the classes listed here can be made by decoding. A float has the same width whatever its value, so
that how long a message is does not depend on how a computation was rounded.
"""

import hashlib
import json
import struct
import types
from collections.abc import Hashable, Mapping
from dataclasses import fields
from json.encoder import encode_basestring
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from coterie.bounded import check_header
from coterie.errors import one_line
from coterie.files import UNSEALED, sealed
from coterie.messages.envelope import Failure, Reply, Request, read_only
from coterie.messages.params import SENT_IF_SET, Array, ModelSpec
from coterie.messages.standardisation import Standardisation
from coterie.messages.verbs import VERBS

Message = Request | Reply | Failure

CLASSES: dict[str, type] = {
    **{cls.__name__: cls for cls in (Request, Reply, Failure, ModelSpec, Standardisation)},
    **{cls.__name__: cls for verb in VERBS for cls in (verb, *verb.parts)},
    **{verb.answer_type.wire_name: verb.answer_type for verb in VERBS},
}
"""What bytes may become, by the name that travels."""

_TAGS = {cls: tag for tag, cls in CLASSES.items()}
_FIELDS = {cls: [field.name for field in fields(cls)] for cls in CLASSES.values()}
_IF_SET = {
    cls: {field.name for field in fields(cls) if field.metadata.items() >= SENT_IF_SET.items()}
    for cls in CLASSES.values()
}
_PLAIN = {bool, int, str}
_ENCODER = json.JSONEncoder(separators=(",", ":"))
MOST_VALUES = 2_000_000
"""Beside arrays, in a message or a checkpoint: a checkpoint of 100,000 clients has as many."""
_HINTS: dict[str, dict[str, Any]] = {
    name: {field: hint for field, hint in get_type_hints(cls).items() if field in _FIELDS[cls]}
    for name, cls in CLASSES.items()
}


LONGEST = 300
"""Letters of what is said about bytes that can't be read: they are quoted in it."""
LARGEST_TREE = 2**22
"""Bytes of a message beside its arrays: what is made of them takes up to 30 times as much memory."""


class WireError(ValueError):
    """Bytes that are not a message."""


def encode(message: Message) -> bytes:
    """Return a message as bytes."""
    return pack(message)


def decode(blob: bytes) -> Message:
    """Return the message that `encode` made, its arrays read-only; raise WireError for anything else."""
    if (length := int.from_bytes(blob[:8], "little")) > LARGEST_TREE:
        raise WireError(f"not readable: {length} bytes beside its arrays, expected up to {LARGEST_TREE}")
    message = unpack(blob)
    if not isinstance(message, Request | Reply | Failure):
        raise WireError(f"not a message: {type(message).__name__}")
    return read_only(message)


def pack(value: Any, checksum: bool = False) -> bytes:
    """Return as bytes: arrays, numbers, texts, lists and text-keyed dictionaries of these, parts of messages.

    With a checksum, the bytes hold a digest of themselves (`coterie.files.seal`).
    """
    from safetensors.numpy import save

    tree, arrays = _take_apart(value)
    content = bytes(save(arrays, metadata={"tree": tree, **(UNSEALED if checksum else {})}))
    return sealed(content)[0] if checksum else content


def unpack(blob: bytes) -> Any:
    """Return what `pack` was given, with tuples for lists; raise WireError for anything else."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        length = int.from_bytes(blob[:8], "little")
        check_header(blob[8 : 8 + length], MOST_VALUES)
        header = json.loads(blob[8 : 8 + length])
        metadata = header["__metadata__"]
        arrays = load(blob)
        if unsendable := [array.dtype for array in arrays.values() if array.dtype not in _DTYPES]:
            raise WireError(f"arrays of type {unsendable[0]} are not sent")
        return _build(json.loads(metadata["tree"]), arrays)
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError, struct.error) as error:
        raise WireError(f"not readable: {one_line(str(error), LONGEST)}") from None


def digest(value: Any, size: int = 16) -> str:
    """Return a name of what `pack` can write, that no other content has; of `size` bytes."""
    tree, arrays = _take_apart(value)
    content = hashlib.blake2b(tree.encode(), digest_size=size)
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        content.update(f" {name} {array.dtype.str} {arrays[name].shape} ".encode())
        content.update(array.data)
    return content.hexdigest()


def question_of(request: Request) -> str:
    """Name what clients are asked, all the same: masks cancel only among those who were asked this."""
    return digest(request, 32)


def size(message: Message) -> int:
    """Return the exact number of bytes of `encode(message)`, without copying its arrays.

    Messages of one form, which many clients send, have one size.
    """
    form = _form(message)
    if (known := _SIZES.get(form)) is None:
        if len(_SIZES) >= MOST_FORMS:
            _SIZES.clear()
        known = _SIZES[form] = _size(message)
    return known


MOST_FORMS = 1024
"""Of messages whose sizes are remembered."""
_SIZES: dict[Hashable, int] = {}


def _form(value: Any) -> Any:
    """Return all that the size of a message depends on: of a number its digits, of an array its type and shape."""
    kind = type(value)
    if kind is float or value is None:
        return kind
    if kind is int:
        return len(str(value))
    if kind is str or kind is bool:
        return (kind, value)
    if kind is np.ndarray:
        return (value.dtype, value.shape)
    if kind in _FIELDS:
        return (kind, *[_form(getattr(value, name)) for name in _FIELDS[kind]])
    if isinstance(value, tuple | list):
        return (tuple, *map(_form, value))
    if isinstance(value, Mapping):
        return (Mapping, *value, *map(_form, value.values()))
    if isinstance(value, np.ndarray):
        return (value.dtype, value.shape)
    return _form(value.item()) if isinstance(value, np.generic) else (kind, value)


def _size(message: Message) -> int:
    tree, arrays = _take_apart(message)
    entries, offset = [f'{{"__metadata__":{{"tree":{encode_basestring(tree)}}}}}'], 0
    for name, array in sorted(arrays.items(), key=lambda item: (_ORDER[item[1].dtype], item[0])):
        shape, end = ",".join(map(str, array.shape)), offset + array.nbytes
        dtype = _DTYPES[array.dtype]
        entries.append(f'"{name}":{{"dtype":"{dtype}","shape":[{shape}],"data_offsets":[{offset},{end}]}}')
        offset = end
    return 8 + -(-len(",".join(entries).encode()) // 8) * 8 + offset


_DTYPES = {
    np.dtype(name): short
    for name, short in {
        "uint64": "U64", "int64": "I64", "float64": "F64", "float32": "F32", "uint32": "U32", "int32": "I32",
        "float16": "F16", "uint16": "U16", "int16": "I16", "int8": "I8", "uint8": "U8", "bool": "BOOL",
    }.items()
}  # fmt: skip
_ORDER = {dtype: rank for rank, dtype in enumerate(_DTYPES)}
"""safetensors lays tensors out in this order of their types, then by name."""


def _take_apart(value: Any) -> tuple[str, dict[str, Array]]:
    arrays: dict[str, Array] = {}
    return _ENCODER.encode(_tree(value, arrays)), arrays


def _tree(value: Any, arrays: dict[str, Array]) -> Any:
    """Return a value as JSON can hold it, and collect its arrays.

    It is no function inside the other, which would be a cycle that keeps the arrays until they are collected.
    """
    kind = type(value)
    if value is None or kind in _PLAIN:
        return value
    if kind is float:
        return {"$float": struct.pack(">d", value).hex()}
    if isinstance(value, np.ndarray):
        name = str(len(arrays))
        plain = value.flags.c_contiguous and value.dtype.isnative
        arrays[name] = value if plain else np.asarray(value, value.dtype.newbyteorder("="), order="C")
        return {"$array": name}
    if kind in _FIELDS:
        tree, optional = {"$": _TAGS[kind]}, _IF_SET[kind]
        for name in _FIELDS[kind]:
            if (item := getattr(value, name)) is not None or name not in optional:
                tree[name] = _tree(item, arrays)
        return tree
    if isinstance(value, tuple | list):
        return [_tree(item, arrays) for item in value]
    if isinstance(value, Mapping):  # after the others, as it takes longest to tell
        return {"$map": {key: _tree(item, arrays) for key, item in value.items()}}
    if isinstance(value, np.generic):
        return _tree(value.item(), arrays)
    return value


def _build(tree: Any, arrays: Mapping[str, Array]) -> Any:
    if isinstance(tree, list):
        return tuple(_build(item, arrays) for item in tree)
    if not isinstance(tree, dict):
        return tree
    if "$float" in tree:
        return struct.unpack(">d", bytes.fromhex(tree["$float"]))[0]
    if "$array" in tree:
        return arrays[tree["$array"]]
    if "$map" in tree:
        return {key: _build(item, arrays) for key, item in tree["$map"].items()}
    name = tree.pop("$")
    values = {key: _build(item, arrays) for key, item in tree.items()}
    for key, value in values.items():
        if not _fits(value, _HINTS[name][key]):
            raise WireError(f"{name}.{key} is a {type(value).__name__}, not {_HINTS[name][key]}")
    return CLASSES[name](**values)


def _fits(value: Any, hint: Any) -> bool:
    """Say whether a decoded value has the declared type, as deeply as these messages go."""
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, types.UnionType):
        return any(_fits(value, option) for option in args)
    if origin is Literal:
        return any(type(value) is type(option) and value == option for option in args)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        return all(_fits(item, args[0]) for item in value) if args[-1] is ... else len(value) == len(args)
    if origin is np.ndarray:
        return isinstance(value, np.ndarray)
    if origin is not None and issubclass(origin, Mapping):
        return isinstance(value, Mapping) and all(_fits(item, args[1]) for item in value.values())
    if hint is float:
        return isinstance(value, float) or _fits(value, int)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63
    return isinstance(value, hint)
