"""Programs that are started for a site or a trial: what they said is known, and nothing of them is left."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="needs the extra: pip install 'coterie[flower]'")

from coterie.deploy.programs import Programs, free_port, listens, refusal, supernode
from coterie.errors import CoterieError

REFUSED = """Failed to initialize the connection to the SuperLink.
[code: 2004] Failed to activate SuperNode.
The SuperNode could not establish a connection to the SuperLink."""
"""What flower-supernode 1.41 says of a key that is not registered."""
WITHOUT_KEY = """Failed to initialize the connection to the SuperLink.
[code: 2001] SuperNode authentication is enabled. All SuperNodes must be registered via the CLI."""
FAMILY = ["sh", "-c", "sleep 300 & (setsid sleep 300 &) ; trap '' TERM; echo ready; wait; sleep 300"]
"""A program that does not want to end, with a child, and one that has left its session."""


def within(seconds: float, what: object) -> None:
    end = time.monotonic() + seconds
    while not what():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.05)


def lives(pid: int) -> bool:
    """Whether a process does more than wait for its end to be noticed."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.integration
def test_all_that_was_started_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coterie.deploy.programs.GRACE", 3.0)
    (tmp_path / "logs").mkdir()
    with Programs(tmp_path, {"EXTRA": "1"}) as programs:
        family = programs.start("family", FAMILY)
        said = programs.start("said", ["sh", "-c", "echo $EXTRA $FLWR_TELEMETRY_ENABLED; exit 3"])
        within(60, lambda: "ready" in family.lines and said.ended)
        assert len(programs.left()) >= 3
    assert programs.left() == []
    assert family.ended
    assert ([*said.lines], said.process.returncode) == (["1 0"], 3)
    assert (tmp_path / "logs" / "said.log").read_text() == "1 0\n"


ALONE = f"""
import time
from coterie.deploy import programs as module
from coterie.deploy.programs import Programs
module.GRACE = 3.0
with Programs() as programs:
    programs.start("family", {FAMILY!r}, lambda line: print(*programs.left(), flush=True))
    time.sleep(300)
"""


@pytest.mark.integration
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_also_where_this_process_is_told_to_end(how: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", ALONE], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        started = [int(pid) for pid in process.stdout.readline().split()]
        assert len(started) >= 3
        process.send_signal(how)
        process.wait(60)
    assert not [pid for pid in started if lives(pid)]


@pytest.mark.skipif(sys.platform != "linux", reason="nobody tells a process that its parent was killed")
@pytest.mark.integration
def test_the_programs_do_not_outlive_a_kill() -> None:
    with subprocess.Popen([sys.executable, "-c", ALONE], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        first = min(int(pid) for pid in process.stdout.readline().split())  # the program itself
        process.kill()
    within(30, lambda: not lives(first))


def test_an_unregistered_site_says_so() -> None:
    told = refusal(REFUSED.splitlines(), Path("site-1.key"))
    assert told is not None
    assert told.startswith("this site is not registered: send 'site-1.key.pub' to whoever runs the server")
    assert "flwr supernode register" in told
    told = refusal(WITHOUT_KEY.splitlines(), None)
    assert told is not None
    assert "add --key site.key" in told
    assert refusal(["SuperNode ID: 17"], None) is None


def test_the_command_of_a_site(tmp_path: Path) -> None:
    command = supernode(tmp_path / 'a "b"' / "site.toml", "h:1", certificates=Path("ca.crt"), key=Path("k"), state="s")
    assert command[:3] == ["flower-supernode", "--root-certificates", "ca.crt"]
    assert "--insecure" not in command
    assert command[-2:] == ["--node-config", f'site="{tmp_path}/a \\"b\\"/site.toml" state="s"']
    assert "--insecure" in supernode(tmp_path, "h:1", insecure=True)


def test_a_program_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with Programs() as programs, pytest.raises(CoterieError, match="'no-such-program' is not installed here"):
        programs.start("none", ["no-such-program"])


def test_a_free_port_is_free() -> None:
    assert not listens(free_port())
