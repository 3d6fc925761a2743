"""The folder of a deployed federation: writing a new one, and what a site should know before it joins."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from coterie.client import LocalData, MemoryStore
from coterie.data import FederatedData, Samples
from coterie.deploy.deployment import FEDERATION, SITE, Terms, check_terms, read_site, read_terms, site_data
from coterie.errors import CoterieError
from coterie.federation import Engine, EngineWrapper
from coterie.federation.loop import rounds
from coterie.messages import ClientId, Failure, Reply, Request, wire
from coterie.run.building import session
from coterie.run.config import Config
from coterie.training import choose_trainer
from coterie.training.rehearsal import RehearsalTrainer

PYPROJECT = """\
# A Flower app: 'flwr run' sends this folder to the SuperLink, and from there it goes to all sites.
[project]
name = "{name}"
version = "1.0.0"
description = "A federation of Coterie"
license = "Apache-2.0"
dependencies = ["coterie[flower]", "flwr>=1.41"]

[tool.flwr.app]
publisher = "{name}"

[tool.flwr.app.components]
serverapp = "server_app:app"
clientapp = "client_app:app"
"""

SERVER_APP = '''\
"""The server: federation.toml says what it does."""

from coterie.deploy.deployment import server_app

app = server_app(__file__)
'''

CLIENT_APP = '''\
"""A site: federation.toml says what it may be asked for, its own site.toml where its data are."""

from coterie.deploy.deployment import client_app

app = client_app(__file__)
'''

TERMS = """\
# What all sites of the federation agree on. It travels with the app: change it here, not at the sites.

[samples]                    # one sample, at all sites alike
shape = [1, 8, 8]            # here the digits of scikit-learn; [channels, height, width] of an image, or [features]
dtype = "uint8"              # or "float32"
classes = 10                 # labels are 0 to classes - 1; a site may have any of them
# class_names = ["cat", ...] # their names, in this order: by them folders of images are numbered, at all sites alike
scale = 16.0                 # networks see (sample / scale - mean) / std; most images need 255.0
mean = [0.3]                 # one number for all channels or features, or one for each
std = [0.37]

[server]
name = "{name}"
min_clients = 2              # the federation begins, or goes on, when so many sites are here
# data = "/srv/server.npz"   # absolute path of samples of the server's own, which flis-dc and flis-hc need

[algorithm]
name = "pacfl"               # any method: 'coterie algorithms'

[training]                   # and [model], [grouping], [evaluation], [newcomers]: as in 'coterie run --print-config'
rounds = 20
fraction = 1.0               # share of the sites in a round
epochs = 5

[engine]
deadline = 300.0             # seconds: who has not answered by then is missed
min_replies = 1              # a round to which fewer answer changes nothing
oversample = 0.0             # 0.3: ask 30 % more sites than needed, and take the first that answer
max_strikes = 3              # after so many invalid replies a site is asked no more

[run]
seed = 0
out = {out}   # the run folder, at the server; a run that is there goes on
# plugins = ["mine.py"]      # methods and networks of your own, in files of this folder
"""

SITE_FILE = """\
# What one site brings. It stays at the site: copy it there, fill it in, and name it to the SuperNode with
#   --node-config 'site="/path/of/site.toml"'
# Paths are relative to this file.

name = "site-1"              # by which the federation knows this site for good
data = "data.npz"            # a file or folder in any format that 'coterie data check' knows
# options = {size = 32}      # for reading them, such as the height and width that images become
# hook = "my_data.py:load"   # instead: a Python function that gets the name and returns a coterie.data.Dataset
test_share = 0.2             # of the samples, to test on, where the data have no test part
state = "state"              # folder of this site's own models and of the secret that proves its name: keep it
trainer = "auto"             # native (compiled), torch, or the first where it knows the network
"""


MOST_FOUNDERS = 20
"""Sites that a rehearsal begins with."""
FEW = 50
"""Samples of sites that only make up the number, and of the server."""


def init(folder: Path, name: str | None = None) -> list[Path]:
    """Write a ready app into a new or empty folder."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise CoterieError(f"'{folder}' is there already: choose a new folder")
    name = name or folder.absolute().name
    if not name.isascii() or not name.replace("-", "").isalnum():
        raise CoterieError(f"'{name}' can't be the name of an app: use letters, digits and -, or give --name")
    out = json.dumps(str(folder.absolute().parent / f"{name}-run"), ensure_ascii=False)
    files = {
        "pyproject.toml": PYPROJECT,
        "server_app.py": SERVER_APP,
        "client_app.py": CLIENT_APP,
        FEDERATION: TERMS,
        SITE: SITE_FILE,
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            (folder / file).write_text(text.replace("{name}", name).replace("{out}", out), encoding="utf-8")
    except OSError as error:
        raise CoterieError(f"'{folder}' can't be written: {error.strerror}") from None
    return [folder / file for file in files]


@dataclass(frozen=True)
class Leaving:
    """One kind of answer that leaves a site."""

    kind: str
    """The heading under which its bytes are counted."""
    asked: tuple[str, ...]
    """What the request asks for."""
    arrays: dict[str, str]
    """Arrays, with their shapes and types."""
    numbers: tuple[str, ...]
    bytes: int

    def lines(self) -> Iterator[str]:
        """Describe it."""
        yield f"{self.kind}: asked to {', '.join(self.asked)}; {self.bytes:,} bytes leave"
        for name, what in self.arrays.items():
            yield f"  array {name}: {what}"
        if self.numbers:
            yield f"  numbers: {', '.join(self.numbers)}"


def check(folder: Path, site_file: Path | None = None) -> list[str]:
    """Say whether a site's data fit a federation, and what would leave it: a line each."""
    terms = read_terms(folder)
    check_terms(terms)
    site = read_site(site_file or folder / SITE)
    local = site_data(site, terms)
    choose_trainer(site.trainer, terms.spec)
    counts = map(str, np.bincount(local.y[local.train], minlength=terms.samples.classes).tolist())
    names = terms.samples.class_names
    labels = counts if names is None else map(" ".join, zip(names, counts, strict=True))
    lines = [
        f"'{site.name}' fits '{terms.server.name}': {len(local.train):,} samples to train on, "
        f"{len(local.test):,} to test on, {terms.samples.dtype} of {' x '.join(map(str, terms.samples.shape))}",
        f"samples per class: {', '.join(labels)}",
        f"state is kept in {site.state}",
        "what would leave this site, by kind of request:",
    ]
    if not len(local.train):
        raise CoterieError(f"'{site.name}' has no samples to train on")
    introduction = "hello: the name, a proof that it is one's own, the number of training samples"
    return [*lines, f"  {introduction}", *(f"  {line}" for left in leaving(terms, local) for line in left.lines())]


def leaving(terms: Terms, local: LocalData) -> list[Leaving]:
    """Rehearse two rounds with a trainer that does no work; return what a site's answers hold.

    The first site is this one, and so is the last, which comes late, to show what newcomers send. Those in between only
    make the federation as large as it will be: how many models a site compares may depend on it.
    """
    founders = min(terms.server.min_clients, MOST_FOUNDERS)
    chosen = terms.config.model_dump()
    chosen["newcomers"] |= {"share": 1 / (founders + 1), "draw": "last", "join_at": 1}
    chosen["training"] |= {"rounds": 2, "fraction": 1.0}
    chosen["engine"] |= {"name": "embedded", "deadline": None, "min_replies": 1}
    chosen["evaluation"]["every"] = 1
    config = Config.model_validate(chosen)
    train = Samples(local.x, local.y)
    few = local.train[:FEW]
    data = FederatedData(
        terms.server.name,
        terms.samples.classes,
        train,
        Samples(local.test_x, local.test_y),
        [local.train, *[few] * (founders - 1), local.train],
        [local.test, *[local.test[:FEW]] * (founders - 1), local.test],
        False,
        train[few],  # in place of the server's samples, which are not here
        terms.samples.normalisation,
    )
    with session(config, data, MemoryStore(), RehearsalTrainer()) as run:
        seen = run.fed.wrap_engine(lambda engine: _Watching(engine, {0, founders}))
        for _ in rounds(run.fed, run.algorithm, run.evaluator, every=1):
            pass
        run.evaluator.fine_tuned()
    return list(seen.left.values())


class _Watching(EngineWrapper):
    """An engine around another that notes what kinds of answers of some clients pass."""

    def __init__(self, inner: Engine, clients: set[ClientId]) -> None:
        super().__init__(inner)
        self.clients = clients
        self.left: dict[tuple[Any, ...], Leaving] = {}

    def exchange(self, requests: Mapping[ClientId, Request], deadline: float | None) -> Iterator[Reply | Failure]:
        """Pass answers on."""
        for answer in self.inner.exchange(requests, deadline):
            if isinstance(answer, Reply) and answer.client in self.clients:
                self._note(requests[answer.client], answer)
            yield answer

    def _note(self, request: Request, reply: Reply) -> None:
        arrays: dict[str, str] = {}
        numbers: list[str] = []
        for answer in reply.answers:
            for field in fields(answer):
                _take(field.name, getattr(answer, field.name), arrays, numbers)
        asked = tuple(type(verb).__name__.lower() for verb in request.verbs)
        found = Leaving(request.kind, asked, arrays, tuple(dict.fromkeys(numbers)), wire.size(reply))
        known = self.left.get((request.kind, asked), found)
        self.left[request.kind, asked] = replace(found, bytes=max(found.bytes, known.bytes))


def _take(name: str, value: Any, arrays: dict[str, str], numbers: list[str]) -> None:
    if isinstance(value, np.ndarray):
        arrays[name] = f"{value.dtype} {' x '.join(map(str, value.shape))}"
    elif isinstance(value, Mapping):
        for key, item in value.items():
            _take(f"{name} {key}", item, arrays, numbers)
    elif value is not None:
        numbers.append(name)
