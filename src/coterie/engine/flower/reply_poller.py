"""Looking for the replies of nodes that belong to others, which may hold up or break the look."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flwr.app import Message
    from flwr.serverapp import Grid

HELD_UP = 2.0
"""Seconds for which one reply may hold up the others; then it is left to its thread."""


@dataclass(frozen=True)
class NoReply:
    """Why a node sent no message, as the kind and the detail of a failure."""

    kind: str
    detail: str


class ReplyPoller:
    """Looks for the reply to each message alone, in a thread that may be left behind.

    Flower unpacks what nodes send before anybody can look at it, and what can't be unpacked ends the look. It also
    waits while a node has not sent all of its reply, which may take minutes.
    """

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._looks, self._lock = 0, threading.Lock()
        self._under_way: set[str] = set()
        """Messages whose replies a thread is looking for, or has found."""
        self._taken: set[str] = set()
        """Of these, those whose replies this look received. Flower gives nothing twice: only a new look may ask."""
        self._arrivals: queue.SimpleQueue[tuple[str, Message | NoReply | BaseException]] = queue.SimpleQueue()
        self._replies: dict[str, Message | NoReply] = {}
        self._unwanted: set[str] = set()

    def poll(self, message_ids: Iterable[str]) -> Iterator[tuple[str, Message | NoReply]]:
        """Look once for the replies to messages; yield those that have come, by the message they reply to."""
        wanted = set(message_ids)
        with self._lock:  # which ends earlier looks
            self._looks += 1
            self._under_way -= self._taken
            self._taken.clear()
        arguments = self._looks, [*((wanted | self._unwanted) - self._replies.keys())]
        thread = threading.Thread(target=self._pull_all, args=arguments, name="replies", daemon=True)
        thread.start()
        thread.join(HELD_UP)
        while not self._arrivals.empty():
            message_id, reply = self._arrivals.get()
            self._taken.add(message_id)
            if isinstance(reply, BaseException):
                raise reply
            self._replies[message_id] = reply
        for message_id in self._unwanted & self._replies.keys():
            self._unwanted.remove(message_id)
            del self._replies[message_id]
        for message_id in wanted & self._replies.keys():
            yield message_id, self._replies.pop(message_id)

    def abandon(self, message_ids: Iterable[str]) -> None:
        """Stop waiting for these replies, but take them when they come: Flower would keep them until the end."""
        self._unwanted.update(message_ids)

    def _pull_all(self, look: int, message_ids: Sequence[str]) -> None:
        for message_id in message_ids:
            with self._lock:
                if look != self._looks:  # this look was held up, and the next has begun
                    return
                if message_id in self._under_way:
                    continue
                self._under_way.add(message_id)
            try:
                reply = self._pull(message_id)
                if reply is None:
                    self._under_way.discard(message_id)
                else:
                    self._arrivals.put((message_id, reply))
            except BaseException as error:
                self._arrivals.put((message_id, error))

    def _pull(self, message_id: str) -> Message | NoReply | None:
        """Look for one reply; nothing that it says of itself, not even that it is a message, can be trusted."""
        from flwr.app import Message

        try:
            pulled = list(self._grid.pull_messages([message_id]))
        except Exception as error:
            if _is_connection_error(error):
                raise
            return NoReply("invalid", f"can't be unpacked: {type(error).__name__}")
        for reply in pulled:
            if isinstance(reply, Message) and reply.metadata.reply_to_message_id == message_id:
                return reply
        return NoReply("invalid", "not a reply to what was asked") if pulled else None


def _is_connection_error(error: Exception) -> bool:
    """Say whether the SuperLink can't be reached, as opposed to a message that can't be unpacked."""
    from httpx import HTTPError

    return isinstance(error, HTTPError | OSError)
