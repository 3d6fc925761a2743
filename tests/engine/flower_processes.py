"""Real Flower processes for tests: a SuperLink and SuperNodes on loopback, all ended with the block."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path

EXTRA = "needs the extra: pip install 'coterie[flower]'"
BIN = Path(sys.executable).parent

NAMESPACE = ["unshare", "-rnpf", "--kill-child", "--mount-proc", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
"""A network of its own with loopback only, in which Ray may listen; processes in it end with the first one."""


def namespace_refused() -> str | None:
    """Say why there can't be a network namespace here, or None."""
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        return "needs unshare and ip (util-linux, iproute2)"
    tried = subprocess.run([*NAMESPACE, "true"], capture_output=True, text=True, check=False)
    return None if tried.returncode == 0 else f"no network namespace here: {tried.stderr.strip()}"


@cache
def no_ray() -> str | None:
    """Say why there can't be a Ray here."""
    if find_spec("flwr") is None or find_spec("ray") is None:
        return EXTRA
    refused = namespace_refused()
    return None if refused is None else f"Ray listens on all interfaces; {refused}"


@cache
def no_deployment() -> str | None:
    """Say why there can't be a SuperLink with TLS here."""
    if find_spec("flwr") is None:
        return EXTRA
    missing = [tool for tool in ("openssl", "ssh-keygen") if shutil.which(tool) is None]
    return f"needs {' and '.join(missing)}" if missing else None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def certificates(folder: Path) -> None:
    """Make a CA and a server certificate for localhost."""
    folder.mkdir(parents=True, exist_ok=True)

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", "ca.key", "-out", "ca.crt",
            "-subj", "/CN=test CA", "-addext", "basicConstraints=critical,CA:TRUE",
            "-addext", "keyUsage=critical,keyCertSign,cRLSign")  # fmt: skip
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", "server.key", "-out", "server.csr",
            "-subj", "/CN=localhost")  # fmt: skip
    (folder / "ext").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
            "-extfile", "ext", "-out", "server.pem")  # fmt: skip


class Network:
    """A SuperLink, its SuperNodes, and the runs on it."""

    def __init__(self, folder: Path, tls: bool) -> None:
        self.folder, self.tls, self.port = folder, tls, free_port()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.environment = {
            **os.environ,
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "FLWR_HOME": str(folder / "home"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.25",
            "OMP_NUM_THREADS": "1",
        }
        home = folder / "home"
        home.mkdir(parents=True)
        if tls:
            certificates(folder / "tls")
        secure = f'root-certificates = "{folder}/tls/ca.crt"' if tls else "insecure = true"
        (home / "config.toml").write_text(
            f'[superlink]\ndefault = "loop"\n\n[superlink.loop]\naddress = "127.0.0.1:{self.port}"\n{secure}\n'
        )

    def command(self, name: str, *arguments: str) -> None:
        """Start a process in a group of its own; its output goes to a log."""
        log = (self.folder / f"{name}.log").open("ab")
        self.processes[name] = subprocess.Popen(
            [str(BIN / arguments[0]), *arguments[1:]],
            env=self.environment,
            cwd=self.folder,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=end_with_parent,
        )
        log.close()

    def superlink(self) -> None:
        keys = self.folder / "tls"
        secure = ["--insecure"]
        if self.tls:
            secure = ["--ssl-ca-certfile", f"{keys}/ca.crt", "--ssl-certfile", f"{keys}/server.pem",
                      "--ssl-keyfile", f"{keys}/server.key", "--enable-supernode-auth"]  # fmt: skip
        self.command(
            "superlink", "flower-superlink", *secure, "--host", "127.0.0.1", "--port", str(self.port),
            "--disable-runtime-dependency-installation", "--database", f"{self.folder}/superlink.db",
        )  # fmt: skip
        self.until(lambda: _listens(self.port), "the SuperLink listens")

    def register(self, *names: str) -> None:
        """Make keys for nodes, and enter them at the SuperLink, all at a time: what takes time is starting flwr."""
        keys = [self.folder / "tls" / name for name in names]
        for key in keys:
            subprocess.run(["ssh-keygen", "-q", "-t", "ecdsa", "-b", "384", "-N", "", "-f", str(key)], check=True)
        with ThreadPoolExecutor(len(keys)) as pool:
            list(pool.map(lambda key: self.flwr("supernode", "register", f"{key}.pub", "loop"), keys))

    def supernode(self, name: str, config: str) -> None:
        """Start a SuperNode; with TLS, its key must have been registered."""
        secure = ["--insecure"]
        if self.tls:
            key = self.folder / "tls" / name
            secure = ["--root-certificates", f"{self.folder}/tls/ca.crt", "--auth-supernode-private-key", str(key)]
        self.command(
            name, "flower-supernode", *secure, "--superlink", f"127.0.0.1:{self.port}",
            "--host", "127.0.0.1", "--port", str(free_port()), "--node-config", config,
        )  # fmt: skip

    def flwr(self, *arguments: str, check: bool = True) -> str:
        """Run a command of flwr and return what it says."""
        done = subprocess.run(
            [str(BIN / "flwr"), *arguments],
            env=self.environment, cwd=self.folder, text=True, capture_output=True, timeout=180, check=False,
        )  # fmt: skip
        if check and done.returncode:
            raise AssertionError(f"flwr {arguments}: {done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def run(self, app: Path) -> str:
        """Start an app, and return what flwr says of it."""
        return self.flwr("run", str(app), "loop", "--format", "json")

    def kill(self, name: str, how: int = signal.SIGKILL, family: bool = True) -> None:
        """End a process and, unless told otherwise, all that it started."""
        process = self.processes.pop(name)
        started = descendants(process.pid) if family else []
        process.send_signal(how)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pid in started:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def sweep(self) -> None:
        """End whatever is left of this network, and wait until nothing is."""
        end = time.monotonic() + 30
        while left := self.left():
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            assert time.monotonic() < end, left
            time.sleep(0.05)

    def left(self) -> list[int]:
        """Return the processes of this network: all that was started for it knows its folder."""
        mark = f"FLWR_HOME={self.folder}/home".encode()
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if mark in (place / "environ").read_bytes().split(b"\0"):
                    found.append(int(place.name))
        return found

    def until(self, what, told: str, seconds: float = 180) -> None:
        """Wait for something to be true."""
        end = time.monotonic() + seconds
        while not what():
            assert time.monotonic() < end, f"not within {seconds} s: {told}\n{self.logs()}"
            time.sleep(0.2)

    def logs(self) -> str:
        return "\n".join(f"--- {log.name}\n{log.read_text()[-3000:]}" for log in sorted(self.folder.glob("*.log")))


def end_with_parent() -> None:
    """Let the process that is about to start be killed when this one is, however that happens (prctl, Linux)."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)


def descendants(pid: int) -> list[int]:
    """Return all processes that a process has started, and those that these have."""
    parents: dict[int, list[int]] = {}
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            parents.setdefault(parent, []).append(int(place.name))
    found = list(parents.get(pid, []))
    for child in found:
        found += parents.get(child, [])
    return found


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def network(folder: Path, tls: bool = False) -> Iterator[Network]:
    """Start a SuperLink on loopback; whatever was started is ended."""
    net = Network(folder, tls)
    try:
        net.superlink()
        yield net
    finally:
        for name in [*net.processes][::-1]:
            net.kill(name, signal.SIGTERM)
        net.sweep()
