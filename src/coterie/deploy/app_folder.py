"""Writing the folder of a new federation: a Flower app with its files to fill in."""

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from coterie.deploy.terms import FEDERATION, PROTECTING, SITE
from coterie.engine.flower.site import MAX_FEDERATIONS
from coterie.errors import CoterieError, one_line
from coterie.files import make_folder, write_whole

FILES = {
    "pyproject.toml": """\
# A Flower app: typed beside this folder, 'flwr run {folder} {connection} --stream' sends it to the SuperLink, and from
# there it goes to all sites. Where the SuperLink is, is in ~/.flwr/config.toml:
#   [superlink.{connection}]
#   address = "fl.example.org:8000"
#   root-certificates = "/srv/ca.crt"
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
""",
    "server_app.py": '''\
"""The server: federation.toml says what it does."""

from coterie.deploy.deployment import server_app

app = server_app(__file__)
''',
    "client_app.py": '''\
"""A site: federation.toml says what it may be asked for, its own site.toml where its data are."""

from coterie.deploy.deployment import client_app

app = client_app(__file__)
''',
    FEDERATION: """\
# What all sites of the federation agree on. It travels with the app: change it here, not at the sites.

[samples]                    # one sample, at all sites alike
shape = [1, 8, 8]            # here the digits of scikit-learn; [channels, height, width] of an image, or [features]
dtype = "uint8"              # or "float32"
classes = 10                 # labels are 0 to classes - 1; a site may have any of them
# class_names = ["cat", ...] # their names, in this order: by them folders of images are numbered, at all sites alike
scale = 16.0                 # networks see (sample / scale - mean) / std; most images need 255.0
# mean = [0.5]               # one number for all channels or features, or one for each. Without mean and std, sites
# std = [0.25]               # measure theirs when the federation begins, and all use what these come to together

[server]
name = "{name}"
min_clients = 2              # the federation begins, or goes on, when this many sites are here
# data = "/srv/server.npz"   # absolute path of samples of the server's own, which flis-dc and flis-hc need
# certificate = "/srv/server.pem"  # that of the SuperLink's --ssl-certfile: sites prove their names to it only

[algorithm]
name = "pacfl"               # any method: 'coterie algorithms'

[training]                   # and [model], [grouping], [evaluation], [newcomers]: as in 'coterie run --print-config'
rounds = 20
fraction = 1.0               # share of the sites in a round
epochs = 5

[privacy]                    # what a site refuses, whatever it is asked
{privacy.min_samples}# an answer stands on at least this many of its samples
{privacy.min_label_samples}# and what is said of a label on this many per vector

[aggregation]                # what one lying site can do to the others' models
{aggregation.rule}# updates are cut to 3 times their median length; or median, trimmed, krum, mean
{aggregation.max_samples}# a site that declares more is not asked
{aggregation.max_weight}# no site counts for more than this many times the median number of samples

[engine]
deadline = 300.0             # seconds after which replies are no longer waited for
min_replies = 1              # a training round with fewer replies changes nothing
oversample = 0.0             # share of extra sites to ask, 0.3 for 30 % more; the first to answer are taken
max_strikes = 3              # invalid replies after which a site is no longer asked

[run]
seed = 0
out = {out}   # the run folder, at the server; a run that is there goes on
{run.durable}# wait for the disk after each round, so that a power cut costs at most the round
# plugins = ["mine.py"]      # methods and networks of your own, in files of this folder
""",
    SITE: """\
# What one site brings. It stays at the site: copy it there, fill it in, and join with
#   coterie deploy join site.toml --superlink fl.example.org:8000 --root-certificates ca.crt --key {site}.key
# Paths are relative to this file.

name = "{site}"              # by which the federation knows this site for good
data = "data.npz"            # a file or folder in any format that 'coterie data check' knows
# options = {size = 32}      # for reading them, such as the height and width that images become
# hook = "my_data.py:load"   # instead: a Python function that gets the name and returns a coterie.data.Dataset
test_share = 0.2             # of the samples, to test on, where the data have no test part
state = "state"              # folder of this site's own models and of the secret that proves its name: keep it
# certificate = "server.pem" # a copy of the server's, of its --ssl-certfile: the proof of the name is for it only
# policy = "0123456789abcdef"  # take part under this policy only: 'coterie deploy check' prints it
# peers = ["3b6a27bc..."]    # with secure = true: other sites' identities, as 'coterie deploy identity' prints them
{max_federations}# runs that it joins in all: another is refused, with an event, until you raise this
trainer = "auto"             # native (compiled), torch, or the first where it knows the network
# device = "cuda"            # where PyTorch computes; by default on the processor
""",
}
"""What is written, by name; what stands in {} is filled in."""

FIRST_SITE = "site-1"

WIDTH = 29
"""Of what stands before the comments of a file."""


def connection(folder: Path) -> str:
    """Return the name by which 'flwr' knows the SuperLink of an app.

    It is not that of the app's folder: where 'flwr' is called beside that, it would take the name for the folder.

    >>> connection(Path("apps/hospitals")), connection(Path("hospitals 1.0"))
    ('hospitals-server', 'hospitals-1-0-server')
    """
    return re.sub(r"[^A-Za-z0-9_-]", "-", folder.absolute().name) + "-server"


def init(folder: Path, name: str | None = None) -> list[Path]:
    """Write a ready app into a new or empty folder, or one in which writing it was broken off."""
    name = name or folder.absolute().name
    if not name.isascii() or not name.replace("-", "").isalnum():
        raise CoterieError(f"'{name}' can't be the name of an app: use letters, digits and -, or give --name")
    out = json.dumps(str(folder.absolute().parent / f"{name}-run"), ensure_ascii=False)
    typed = shlex.quote(one_line(folder.absolute().name))
    names = {"{name}": name, "{folder}": typed, "{connection}": connection(folder)}
    filled = {**names, "{site}": FIRST_SITE, "{out}": out, **_protecting_lines()}
    contents = {file: _filled_in(text, filled).encode() for file, text in FILES.items()}
    if folder.exists() and not (folder.is_dir() and _is_begun(folder, contents)):
        raise CoterieError(f"'{folder}' is there already: choose a new folder")
    make_folder(folder)
    try:
        for file, content in contents.items():
            write_whole(folder / file, content)
    except OSError as error:
        raise CoterieError(f"'{folder}' can't be written: {error.strerror}") from None
    return [folder / file for file in FILES]


def _protecting_lines() -> dict[str, str]:
    """Return the lines of all keys by which deployments and sites protect, by the words in their place."""
    keys = {f"{section}.{key}": value for section, table in PROTECTING.items() for key, value in table.items()}
    keys["max_federations"] = MAX_FEDERATIONS
    return {f"{{{key}}}": f"{key.rpartition('.')[2]} = {json.dumps(value)}".ljust(WIDTH) for key, value in keys.items()}


def _filled_in(text: str, filled: Mapping[str, str]) -> str:
    for place, content in filled.items():
        text = text.replace(place, content)
    return text


def _is_begun(folder: Path, contents: Mapping[str, bytes]) -> bool:
    """Say whether a folder holds a beginning of an app and nothing else, or nothing."""
    there = {item.name for item in folder.iterdir()} - {f"{file}.part" for file in contents}
    whole = there < contents.keys()  # one that is complete is somebody's
    return whole and all((folder / file).read_bytes() == contents[file] for file in there)
