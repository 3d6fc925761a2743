"""A federation tried out on one machine: a SuperLink, sites with keys of their own, a run, and its result."""

import io
import re
import shlex
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from coterie import data as sources
from coterie.deploy.app_folder import connection, init
from coterie.deploy.keys import write_certificates, write_node_key
from coterie.deploy.programs import Program, Programs, free_port, last_words, listens, refusal, supernode
from coterie.deploy.terms import FEDERATION, Terms, check_terms, read_site, read_terms
from coterie.engine.flower import require
from coterie.errors import CoterieError
from coterie.files import make_folder, write_whole
from coterie.results.formats import toml_value
from coterie.results.run_folder import RunFolder
from coterie.run.result import Result

MOST_SITES = 8
"""Each is two processes, and one more while it works."""
GROUPS = 2
"""Into which the digits are divided: sites of one see them upright, those of the other turned by a right angle."""
TRAVELS = (".py", ".toml", ".md", ".json", ".yaml", ".yml")
"""What of an app's folder Flower sends to sites."""
SAID = "coterie: "
"""With which what our server says begins."""
TOKEN_EXPIRED = "[ApiError:1008]"
"""What a SuperLink says where a program that it started was not up within half a minute; it then starts another."""
LAST_WORDS = 10.0
"""Seconds that the server has for what it says when the result is there."""
PAUSE = 0.2
OWN_FOLDERS = ("run", "keys", "home", "logs")
"""Of a trial, beside that of the app and one for each site."""


@dataclass(frozen=True)
class LocalTrial:
    """Where a trial is, and how long it may take."""

    app: Path
    """The folder of the app that is tried; it is not changed."""
    folder: Path
    """A new one, for all that the trial writes."""
    minutes: float
    say: Callable[[str], None]

    @property
    def copy(self) -> Path:
        """The app as the trial runs it, under the same name, so that commands are those of the real thing."""
        return self.folder / self.app.absolute().name

    @property
    def connection(self) -> str:
        """By which flwr knows the SuperLink."""
        return connection(self.app)

    @property
    def run(self) -> RunFolder:
        """What comes of it."""
        return RunFolder(self.folder / "run")

    @property
    def keys(self) -> Path:
        """Of the server and of sites."""
        return self.folder / "keys"

    @property
    def server_certificate(self) -> Path:
        """To which sites prove their names."""
        return self.keys.absolute() / "server.pem"


def try_out(
    app: Path,
    out: Path | None,
    sites: Sequence[Path],
    *,
    count: int,
    rounds: int,
    minutes: float,
    say: Callable[[str], None],
) -> Result:
    """Run a federation on this machine, of these sites, or of some that share the digits; return its result.

    An app that is not there is written first. Nothing outside the trial's folder is changed, and all that was started
    is stopped, however this ends.
    """
    require()
    folder = out or app.absolute().with_name(f"{app.absolute().name}-trial")
    if folder.exists():
        raise CoterieError(f"'{folder}' is there already: remove it, or name another with --out")
    if not app.exists():
        say(f"writing the app '{app}'")
        init(app)
    trial = LocalTrial(app, folder, minutes, say)
    terms = read_terms(app)
    files = _sites_of(trial, terms, sites, count)
    _write_app(trial, len(files), rounds)
    with Programs(folder.absolute(), {"FLWR_HOME": str(folder.absolute() / "home")}) as programs:
        return _run(trial, files, programs)


def _sites_of(trial: LocalTrial, terms: Terms, given: Sequence[Path], count: int) -> dict[str, Path]:
    """Return the files of the sites by name: those given, or new ones with the digits."""
    if not given:
        if not 1 <= count <= MOST_SITES:
            raise CoterieError(f"a trial on one machine has 1 to {MOST_SITES} sites, not {count}")
        _check_names(trial, _digit_sites(count))
        return _write_digits(trial, terms, count)
    if len(given) > MOST_SITES:
        raise CoterieError(f"a trial on one machine has up to {MOST_SITES} sites, not {len(given)}")
    files = {read_site(path).name: path.absolute() for path in given}
    if len(files) < len(given):
        raise CoterieError("two of these sites have one name: give each a name of its own in its site.toml")
    _check_names(trial, files)
    return files


def _check_names(trial: LocalTrial, sites: Iterable[str]) -> None:
    """Refuse names by which two things would have one folder in the trial."""
    names = [*OWN_FOLDERS, trial.copy.name, *sites]
    for name in names:
        if names.count(name) > 1:
            raise CoterieError(f"a trial would have two folders '{name}': give the app, or the site, another name")


def _write_digits(trial: LocalTrial, terms: Terms, count: int) -> dict[str, Path]:
    """Divide the digits of scikit-learn among sites."""
    data = sources.load("digits-rotated", {"groups": min(GROUPS, count)}, clients=count)
    wanted = terms.samples
    if (tuple(wanted.shape), wanted.dtype, wanted.classes) != (data.shape, str(data.train.x.dtype), data.classes):
        raise CoterieError(
            f"'{trial.app}' is for {wanted.dtype} samples of shape {wanted.shape}, and the digits are uint8 of "
            f"{list(data.shape)}: name sites with data of yours, --site site-1/site.toml --site site-2/site.toml"
        )
    files = {}
    for client, name in enumerate(_digit_sites(count)):
        train, test = data.train[data.train_parts[client]], data.test[data.test_parts[client]]
        content = io.BytesIO()
        np.savez(content, x_train=train.x, y_train=train.y, x_test=test.x, y_test=test.y)
        make_folder(trial.folder / name)
        write_whole(trial.folder / name / "data.npz", content.getvalue())
        files[name] = trial.folder / name / "site.toml"
        write_whole(files[name], f'name = "{name}"\ndata = "data.npz"\nstate = "state"\n'.encode())
    return files


def _digit_sites(count: int) -> list[str]:
    return [f"site-{number}" for number in range(1, count + 1)]


def _write_app(trial: LocalTrial, sites: int, rounds: int) -> None:
    """Copy what travels, with another run folder and number of rounds, for these sites and this server."""
    for file in sorted(trial.app.rglob("*")):
        if file.is_file() and file.suffix in TRAVELS:
            place = trial.copy / file.relative_to(trial.app)
            make_folder(place.parent)
            write_whole(place, file.read_bytes())
    place = trial.copy / FEDERATION
    settings: dict[str, dict[str, Any]] = {
        "run": {"out": str(trial.run.path.absolute())},
        "training": {"rounds": rounds},
        "server": {"min_clients": sites, "certificate": str(trial.server_certificate)},
    }
    write_whole(place, with_settings(place.read_text(encoding="utf-8"), settings).encode())
    check_terms(read_terms(trial.copy))


def with_settings(text: str, settings: Mapping[str, Mapping[str, Any]]) -> str:
    r"""Return a TOML file with other values of some keys, each of a section and on a line of its own.

    >>> print(with_settings("[a]\nx = 1  # one\n[b]\nx = 2", {"b": {"x": 3}, "c": {"y": "z"}}))
    [a]
    x = 1  # one
    [b]
    x = 3
    <BLANKLINE>
    [c]
    y = "z"
    """
    lines, section, missing = list[str](), "", {name: dict(keys) for name, keys in settings.items()}
    for line in text.splitlines():
        header, key = re.match(r"\s*\[([^\[\]]+)\]", line), re.match(r"\s*([\w-]+)\s*=", line)
        section = header[1].strip() if header else section
        if not header and key and key[1] in settings.get(section, {}):
            continue
        lines.append(line)
        if header:
            lines += [f"{name} = {toml_value(value)}" for name, value in missing.pop(section, {}).items()]
    for name, keys in missing.items():
        lines += ["", f"[{name}]", *(f"{key} = {toml_value(value)}" for key, value in keys.items())]
    return "\n".join(lines) + "\n" * text.endswith("\n")


def _run(trial: LocalTrial, files: Mapping[str, Path], programs: Programs) -> Result:
    """Start the SuperLink and the sites, run the app, and return the result."""
    end, port = time.monotonic() + 60 * trial.minutes, free_port()
    write_certificates(trial.keys)
    make_folder(trial.folder / "home")
    make_folder(trial.folder / "logs")
    certificates = trial.keys.absolute() / "ca.crt"
    write_whole(trial.folder / "home" / "config.toml", _connections(trial, port, certificates).encode())

    def start(name: str, *command: str, hear: Callable[[str], None] = lambda line: None) -> Program:
        trial.say(f"$ {shlex.join(command)}")
        return programs.start(name, command, hear)

    superlink = start(
        "superlink", "flower-superlink", "--ssl-ca-certfile", "keys/ca.crt", "--ssl-certfile", "keys/server.pem",
        "--ssl-keyfile", "keys/server.key", "--enable-supernode-auth", "--host", "127.0.0.1", "--port", str(port),
        "--disable-runtime-dependency-installation",
    )  # fmt: skip
    _until(lambda: listens(port), end, [superlink], trial)
    nodes = []
    for name, file in files.items():
        write_node_key(trial.keys / name)
        entry = start(f"register-{name}", "flwr", "supernode", "register", f"keys/{name}.pub", trial.connection)
        _finish(entry, end, [superlink], trial)
        command = supernode(
            file,
            f"127.0.0.1:{port}",
            certificates=Path("keys/ca.crt"),
            key=Path("keys", name),
            state=str(trial.folder.absolute() / name / "state"),
            certificate=str(trial.server_certificate),
        )
        nodes.append(start(name, *command))
    app = start(
        "run", "flwr", "run", trial.copy.name, trial.connection, "--stream", hear=lambda line: _relay(line, trial)
    )
    _until(lambda: trial.run.finished or app.ended, end, [superlink, *nodes], trial)
    if not trial.run.finished:
        raise CoterieError(
            f"the federation came to no result: {last_words(app)} (logs are in '{trial.folder / 'logs'}')"
        )
    soon = time.monotonic() + LAST_WORDS
    _until(lambda: app.ended or time.monotonic() > soon, max(end, soon), [], trial)
    return Result.load(trial.run.path)


def _connections(trial: LocalTrial, port: int, certificates: Path) -> str:
    name = trial.connection
    lines = [
        f"[superlink.{name}]",
        f'address = "127.0.0.1:{port}"',
        f"root-certificates = {toml_value(str(certificates))}",
    ]
    return "\n".join(["[superlink]", f'default = "{name}"', "", *lines, ""])


def _finish(program: Program, end: float, needed: Sequence[Program], trial: LocalTrial) -> None:
    """Wait until a program ends well."""
    _until(lambda: program.ended, end, needed, trial)
    if program.process.returncode:
        raise CoterieError(f"'{program.name}' failed: {last_words(program)} (logs are in '{trial.folder / 'logs'}')")


def _until(done: Callable[[], bool], end: float, needed: Sequence[Program], trial: LocalTrial) -> None:
    """Wait for something; give up when the time is over, or when a program ends that is needed for it."""
    while not done():
        for program in needed:
            if program.ended:
                why = refusal(program.lines, Path("keys", program.name)) or last_words(program)
                raise CoterieError(f"'{program.name}' has ended: {why} (logs are in '{trial.folder / 'logs'}')")
        if time.monotonic() > end:
            late = any(TOKEN_EXPIRED in line for program in needed for line in program.lines)
            why = "this machine is so busy that Flower's own time limits end its programs" if late else "see its logs"
            raise CoterieError(
                f"the trial is not over after {trial.minutes:g} minutes: {why} ('{trial.folder / 'logs'}'), or allow "
                "more with --minutes"
            )
        time.sleep(PAUSE)


def _relay(line: str, trial: LocalTrial) -> None:
    """Pass on what our server says."""
    _, found, said = line.partition(SAID)
    if found:
        trial.say(said)
