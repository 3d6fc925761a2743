"""Flower's own programs, started for a site or for a trial: what they say is kept, and they end with the block."""

from __future__ import annotations

import ctypes
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from coterie.engine.flower import QUIET, require
from coterie.errors import CoterieError, one_line
from coterie.files import extend

GRACE = 10.0
"""Seconds that a program has to end before it is killed."""
MARK = "COTERIE_STARTED_BY"
"""By this variable all processes are known that a program has started, also those that left its session."""
PR_SET_PDEATHSIG = 1
"""Of <linux/prctl.h>: which signal the kernel sends when the parent ends."""
LINES = 200
"""Of what a program said, how many are remembered."""
NOT_REGISTERED, KEY_NEEDED = "[code: 2004]", "[code: 2001]"
"""What a SuperNode says when the SuperLink does not know its key, and when it has none."""


class Program:
    """A program that was started; its lines go to a log, and to whoever wants to hear them."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], log: Path | None, hear: Callable[[str], None]):
        self.name, self.process, self._log, self._hear = name, process, log, hear
        self.lines: deque[str] = deque(maxlen=LINES)
        self._reader = threading.Thread(target=self._read, name=name, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as said:
            for raw in said:
                self._take(raw)

    def _take(self, raw: bytes) -> None:
        line = raw.decode("utf-8", "replace").rstrip()
        self.lines.append(line)
        if self._log is not None:
            with suppress(OSError):  # a full disk does not keep it from going on
                extend(self._log, raw)
        with suppress(OSError):  # nor does a terminal that was closed
            self._hear(line)

    @property
    def ended(self) -> bool:
        """Whether it has ended; then all that it said has been heard."""
        if self.process.poll() is None:
            return False
        self.hear_all()
        return True

    def hear_all(self) -> None:
        """Wait for the rest of what it said; what it started may hold the pipe open."""
        self._reader.join(1.0)


class Programs:
    """Starts programs; they end with the block, and so does all that they have started."""

    def __init__(self, folder: Path | None = None, environment: Mapping[str, str] | None = None) -> None:
        """With a `folder`, programs work in it, and their logs are in ``logs`` there."""
        require()
        self._folder, self._running = folder, list[Program]()
        self._mark, self._signals = secrets.token_hex(16), ExitStack()
        places = [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
        self._environment = {
            **QUIET, **os.environ, "PATH": os.pathsep.join(places), MARK: self._mark, **(environment or {})
        }  # fmt: skip

    def __enter__(self) -> Programs:
        self._signals.enter_context(_handled(signal.SIGTERM, _end))
        return self

    def __exit__(self, *_: object) -> None:
        ignored = _handled(signal.SIGINT, signal.SIG_IGN), _handled(signal.SIGTERM, signal.SIG_IGN)
        with self._signals, ignored[0], ignored[1]:  # another Ctrl-C must not leave anything behind
            self.stop()

    def start(self, name: str, command: Sequence[str], hear: Callable[[str], None] = lambda line: None) -> Program:
        """Start a program in a session of its own, so that Ctrl-C is for this process, which then ends it."""
        process = subprocess.Popen(
            [_found(command[0]), *command[1:]],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_end_with_parent if sys.platform == "linux" else None,
        )
        log = None if self._folder is None else self._folder / "logs" / f"{name}.log"
        self._running.append(started := Program(name, process, log, hear))
        return started

    def stop(self) -> None:
        """End all programs, and whatever they have started and left behind."""
        for program in reversed(self._running):
            program.process.terminate()
        end = time.monotonic() + GRACE
        for program in self._running:
            with suppress(subprocess.TimeoutExpired):
                program.process.wait(max(end - time.monotonic(), 0.0))
            program.process.kill()
            program.process.wait()
        end = time.monotonic() + GRACE
        while (left := self.left()) and time.monotonic() < end:
            for process in left:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            time.sleep(0.05)
        for program in self._running:
            program.hear_all()

    def left(self) -> list[int]:
        """Return all processes that were started here and by these; where there is no /proc, none is known."""
        mark, found = f"{MARK}={self._mark}".encode(), []
        for place in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                alive = (place / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
                if alive and mark in (place / "environ").read_bytes().split(b"\0"):
                    found.append(int(place.name))
        return found


def supernode(
    site: Path,
    superlink: str,
    *,
    certificates: Path | None = None,
    key: Path | None = None,
    insecure: bool = False,
    **node: str,
) -> list[str]:
    """Return the command that starts a site's SuperNode; `node` are keys that go before those of its file."""
    settings = {"site": str(site.absolute()), **node}
    return [
        "flower-supernode",
        *(["--insecure"] if insecure else []),
        *([] if certificates is None else ["--root-certificates", str(certificates)]),
        *["--superlink", superlink, "--host", "127.0.0.1", "--port", str(free_port())],
        *([] if key is None else ["--auth-supernode-private-key", str(key)]),
        *[
            "--node-config",
            " ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in settings.items()),
        ],
    ]


def join(
    site: Path,
    superlink: str,
    *,
    certificates: Path | None,
    key: Path | None,
    insecure: bool,
    say: Callable[[str], None],
) -> None:
    """Run a site's SuperNode until it ends, and say why if the SuperLink refused it."""
    with Programs() as programs:
        command = supernode(site, superlink, certificates=certificates, key=key, insecure=insecure)
        node = programs.start("supernode", command, say)
        while not node.ended:
            time.sleep(0.2)
    raise CoterieError(refusal(node.lines, key) or f"the SuperNode ended with code {node.process.returncode}")


def refusal(lines: Sequence[str], key: Path | None) -> str | None:
    """Say in a sentence why a SuperLink refused a SuperNode that said this, or None.

    >>> refusal(["Failed to initialize ...", "[code: 2004] Failed to activate SuperNode."], Path("keys/a.key"))[:52]
    "this site is not registered: send 'keys/a.key.pub' t"
    """
    said = " ".join(lines)
    if NOT_REGISTERED in said:
        return (
            f"this site is not registered: send '{key}.pub' to whoever runs the server, who types "
            "'flwr supernode register', the file and the name of the connection; then start this again"
        )
    if KEY_NEEDED in said:
        return (
            "the server takes registered sites only, and this one has no key: make one with 'ssh-keygen -q -t ecdsa -b "
            '384 -N "" -f site.key\', have site.key.pub registered at the server, and add --key site.key'
        )
    return None


def free_port() -> int:
    """Return a port of this machine that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listens(port: int) -> bool:
    """Say whether somebody listens on a port of this machine."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def last_words(program: Program) -> str:
    """Return the end of what a program said, for an error."""
    return one_line(" | ".join([line for line in program.lines if line.strip()][-3:]), 500)


def _found(name: str) -> str:
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise CoterieError(f"'{name}' is not installed here: pip install 'coterie[flower]'")
    return found


@contextmanager
def _handled(which: signal.Signals, handler: Any) -> Iterator[None]:
    """Handle a signal so within the block; only the first thread may do this."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(which, handler)
    try:
        yield
    finally:
        signal.signal(which, before)


def _end(number: int, frame: FrameType | None) -> None:
    """Let the block end when this process is told to."""
    sys.exit(128 + number)


def _end_with_parent() -> None:
    """Let the process that is about to start be killed when this one is."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
