"""Where models wait that came early: in memory up to a limit, beyond it in a temporary file."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import get_origin, get_type_hints

import numpy as np

from coterie.files import ScratchFile
from coterie.messages import Answer, Array, Params, Reply
from coterie.messages.limits import bytes_of

WAITING_IN_MEMORY = 256 * 2**20
"""Bytes of models that wait in memory before others go to the disk."""


class Spool:
    """Keeps models until they are wanted."""

    def __init__(self, folder: Path | None = None, limit: float | None = None) -> None:
        """`folder` is where the temporary file is, by default where the system has them; `limit` is in bytes."""
        self._folder, self._limit = folder, WAITING_IN_MEMORY if limit is None else limit
        self._in_memory = 0
        """Bytes."""
        self._file: ScratchFile | None = None
        self._on_disk = 0
        """How many models."""

    def keep(self, model: Params) -> Params:
        """Return a model that can be read later as this one can, tensor by tensor, from memory or from the disk."""
        size = bytes_of(model)
        if self._in_memory + size <= self._limit:
            self._in_memory += size
            return model
        self._file = self._file or ScratchFile(self._folder)
        self._on_disk += 1
        return OnDisk(self._file, model)

    def take(self, model: Params) -> Params:
        """Return a model that was kept, in memory; then there is room for others."""
        if not isinstance(model, OnDisk):
            self._in_memory -= bytes_of(model)
            return model
        read = {**model}
        self._on_disk -= 1
        if not self._on_disk and self._file is not None:
            self._file.clear()
        return read

    def keep_reply(self, reply: Reply) -> Reply:
        """Return a reply whose models are kept."""
        return _with_models(reply, self.keep)

    def take_reply(self, reply: Reply) -> Reply:
        """Return a reply that was kept, with its models in memory."""
        return _with_models(reply, self.take)


class OnDisk(Mapping[str, Array]):
    """A model in a temporary file: a tensor is read when it is asked for."""

    def __init__(self, file: ScratchFile, model: Params) -> None:
        self._file = file
        self._tensors = {
            name: (file.append(_bytes(np.ascontiguousarray(value))), value.shape, value.dtype)
            for name, value in model.items()
        }

    def __getitem__(self, name: str) -> Array:
        at, shape, dtype = self._tensors[name]
        value = np.empty(shape, dtype)
        self._file.read_into(_bytes(value), at)
        value.flags.writeable = False
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)


def _bytes(value: Array) -> memoryview:
    return value.reshape(-1).view(np.uint8).data


def _with_models(reply: Reply, change: Callable[[Params], Params]) -> Reply:
    """Return a reply whose models, which are the large part of it, are replaced; one without any as it is."""
    if not any(_models_in(type(answer)) for answer in reply.answers):  # type: ignore[arg-type]
        return reply

    def changed(answer: Answer) -> Answer:
        models = {name: change(getattr(answer, name)) for name in _models_in(type(answer))}  # type: ignore[arg-type]
        return replace(answer, **models) if models else answer

    answers = tuple(map(changed, reply.answers))
    same = all(new is old for new, old in zip(answers, reply.answers, strict=True))
    return reply if same else replace(reply, answers=answers)


@cache
def _models_in(kind: type) -> tuple[str, ...]:
    """Name the fields of an answer that hold models.

    >>> from coterie.messages import SignatureReply, TrainReply
    >>> _models_in(TrainReply), _models_in(SignatureReply)
    (('params', 'control'), ())
    """
    return tuple(name for name, hint in get_type_hints(kind).items() if get_origin(hint) is Mapping)
