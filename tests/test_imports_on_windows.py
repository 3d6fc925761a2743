"""What only POSIX systems have is not needed to import Coterie, nor to write and read a file."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

POSIX_MODULES = ("fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty")
POSIX_NAMES = {
    "os": (
        *("O_ASYNC", "O_CLOEXEC", "O_DIRECTORY", "O_NOCTTY", "O_NOFOLLOW", "O_NONBLOCK", "O_SYNC", "fchmod", "fchown"),
        *(
            "chown",
            "fork",
            "getegid",
            "geteuid",
            "getgid",
            "getloadavg",
            "getpgid",
            "getuid",
            "killpg",
            "mkfifo",
            "nice",
        ),
        *(
            "openpty",
            "posix_fadvise",
            "posix_spawn",
            "pread",
            "pwrite",
            "sched_getaffinity",
            "setsid",
            "statvfs",
            "sync",
        ),
        *("sysconf", "uname", "wait4"),
    ),
    "signal": (
        *("SIGALRM", "SIGCHLD", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGQUIT", "SIGSTOP", "SIGTSTP", "SIGUSR1", "SIGUSR2"),
        *("SIGWINCH", "alarm", "pthread_sigmask", "setitimer", "siginterrupt"),
    ),
}
PROGRAM = f"""
import builtins, importlib, os, signal, sys, types
from pathlib import Path

usual = builtins.__import__
missing, names = {POSIX_MODULES!r}, {POSIX_NAMES!r}
windows = {{}}
for name, absent in names.items():
    windows[name] = types.ModuleType(name)
    vars(windows[name]).update((key, value) for key, value in vars(sys.modules[name]).items() if key not in absent)
os.supports_follow_symlinks.discard(os.link)


def as_windows(name, globals=None, locals=None, fromlist=(), level=0):
    if (globals or {{}}).get("__name__", "").split(".")[0] == "coterie":
        if name in missing:
            raise ImportError(f"there is no {{name}} on Windows")
        if name in windows:
            return windows[name]
    return usual(name, globals, locals, fromlist, level)


builtins.__import__ = as_windows
import coterie

root = Path(coterie.__file__).parent
for file in sorted(root.rglob("*.py")):
    name = ".".join(("coterie", *file.relative_to(root).with_suffix("").parts)).removesuffix(".__init__")
    if not name.startswith((*sys.argv[2:], "coterie.__main__")):
        importlib.import_module(name)

from coterie import bounded, files
path = Path(sys.argv[1])
assert files.os is windows["os"] and not hasattr(files.os, "O_NOFOLLOW")
files.write_whole(path, b"one\\n", flush="system")
files.extend(path, b"two\\n", flush="folder")
files.write_first(path, b"three")
assert bounded.read_bytes(path, 100) == b"one\\ntwo\\n"
print("imported", len([name for name in sys.modules if name.startswith("coterie.")]))
"""


@pytest.mark.integration
def test_every_module_imports_without_what_only_posix_has(tmp_path: Path) -> None:
    skipped = [] if find_spec("flwr") else ["coterie.engine.flower"]
    skipped += [] if find_spec("flwr_datasets") else ["coterie.engine.flower.partitioner"]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, str(tmp_path / "file"), *skipped],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[1]) > 100
