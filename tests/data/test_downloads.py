"""Downloading, from a server on this machine; and what is said and left behind when it fails."""

import hashlib
import http.server
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dataset_writers import pixels, write_idx_set

from coterie.data import load
from coterie.data.catalogue import CATALOGUE, File, located
from coterie.data.downloads import get
from coterie.data.folder import cache
from coterie.errors import CoterieError

NAMES = [file.name for file in CATALOGUE["mnist"].files]


class Server:
    """Serves a folder, and remembers what it was asked for; answers to `broken` end too early."""

    def __init__(self, folder: Path) -> None:
        asked: list[str] = []
        broken: set[str] = set()

        class Handler(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *arguments: object) -> None:
                super().__init__(*arguments, directory=str(folder))  # type: ignore[arg-type]

            def do_GET(self) -> None:
                asked.append(self.path)
                if self.path.rpartition("/")[2] not in broken:
                    return super().do_GET()
                self.send_response(200)
                self.send_header("Content-Length", "100000")
                self.end_headers()
                self.wfile.write(b"x" * 1000)

            def log_message(self, *arguments: object) -> None:
                pass

        self.folder, self.asked, self.broken = folder, asked, broken
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server of small files of MNIST, which the catalogue names with their checksums."""
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.delenv("COTERIE_DATA", raising=False)
    arrays = {"x_train": pixels(40, 28, 28), "y_train": np.arange(40, dtype=np.uint8) % 4}
    arrays |= {"x_test": pixels(8, 28, 28), "y_test": np.arange(8, dtype=np.uint8) % 4}
    folder = write_idx_set(tmp_path / "server", arrays, gz=True)
    serving = Server(folder)
    files = tuple(File(name, "md5:" + hashlib.md5((folder / name).read_bytes()).hexdigest()) for name in NAMES)
    entry = replace(CATALOGUE["mnist"], addresses=(serving.address,), files=files)
    monkeypatch.setitem(CATALOGUE, "mnist", entry)
    yield serving
    serving.close()


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.rglob("*")) if folder.exists() else []


def test_a_data_set_is_downloaded_into_the_cache_and_loaded(server: Server) -> None:
    assert get("mnist") == {"mnist": cache() / "mnist"}
    assert names(cache() / "mnist") == sorted(NAMES)
    assert sorted(server.asked) == sorted(f"/{name}" for name in NAMES)
    assert load("mnist", clients=4).classes == 4


def test_or_into_the_users_folder_or_another(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COTERIE_DATA", str(tmp_path / "own"))
    assert get("mnist") == {"mnist": tmp_path / "own" / "mnist"}
    assert get("mnist", tmp_path / "other") == {"mnist": tmp_path / "other" / "mnist"}
    assert names(cache()) == []
    assert located("mnist") == tmp_path / "own" / "mnist"


def test_what_is_there_is_not_fetched_again_and_what_is_wrong_is(server: Server) -> None:
    get("mnist")
    server.asked.clear()
    get("mnist")
    assert server.asked == []
    (cache() / "mnist" / NAMES[1]).unlink()
    (cache() / "mnist" / NAMES[2]).write_bytes(b"damaged")
    get("mnist")
    assert sorted(server.asked) == sorted([f"/{NAMES[1]}", f"/{NAMES[2]}"])
    assert load("mnist", clients=4).classes == 4


def test_a_wrong_checksum_is_refused_and_leaves_nothing(server: Server) -> None:
    (server.folder / NAMES[0]).write_bytes(b"something else")
    with pytest.raises(CoterieError, match=rf"cannot download {server.address}{NAMES[0]} \(it is not the right file"):
        get("mnist")
    assert names(cache()) in ([], ["coterie"])
    assert located("mnist") is None


def test_an_answer_that_is_cut_short_leaves_only_what_is_whole(server: Server) -> None:
    server.broken.add(NAMES[2])
    with pytest.raises(CoterieError, match=rf"cannot download .*{NAMES[2]}"):
        get("mnist")
    assert names(cache() / "mnist") == sorted(NAMES[:2])
    assert located("mnist") is None
    server.broken.clear()
    server.asked.clear()
    get("mnist")
    assert sorted(server.asked) == sorted(f"/{name}" for name in NAMES[2:])
    assert located("mnist") == cache() / "mnist"


def test_the_next_address_is_tried(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = replace(CATALOGUE["mnist"], addresses=(f"{server.address}gone/", server.address))
    monkeypatch.setitem(CATALOGUE, "mnist", entry)
    get("mnist")
    assert server.asked[:2] == [f"/gone/{NAMES[0]}", f"/{NAMES[0]}"]
    assert located("mnist") is not None


def unused_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def test_without_a_network_the_message_has_the_address_and_the_folder(server: Server) -> None:
    address = f"http://127.0.0.1:{unused_port()}"
    with pytest.raises(CoterieError) as raised:
        get("mnist", base_url=address)
    message = str(raised.value)
    assert f"cannot download {address}/{NAMES[0]} (no connection)" in message
    assert f"put it into '{cache() / 'mnist'}'" in message
    assert "\n" not in message
    assert names(cache()) in ([], ["coterie"])


def test_a_file_put_there_by_hand_counts(server: Server) -> None:
    (cache() / "mnist").mkdir(parents=True)
    for name in NAMES:
        (cache() / "mnist" / name).write_bytes((server.folder / name).read_bytes())
    get("mnist", base_url=f"http://127.0.0.1:{unused_port()}")
    assert server.asked == []


def test_an_npz_file_is_enough(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COTERIE_DATA", str(tmp_path))
    np.savez(tmp_path / "mnist.npz", x_train=pixels(4, 3, 3), y_train=np.arange(4) % 2)
    assert get("mnist") == {"mnist": tmp_path / "mnist.npz"}
    assert server.asked == []


def test_what_is_made_of_others_gets_them_all(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("usps", "cifar10", "svhn", "fashion_mnist"):
        monkeypatch.setitem(CATALOGUE, name, CATALOGUE["mnist"])
    assert list(get("mix-4")) == ["usps", "cifar10", "svhn", "fashion_mnist"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("digits", "data set 'digits' needs no file"),
        ("synthetic", "data set 'synthetic' needs no file"),
        (
            "celeba",
            r"cannot be downloaded by a program: get it from https://mmlab\..*put it into the folder '.*celeba'",
        ),
        ("sent140", r"cannot be downloaded by a program: .*preprocess\.sh.*glove\.6B\.zip"),
        ("femnist", r"cannot be downloaded by a program: .*preprocess\.sh"),
        ("mnits", r"unknown data set 'mnits': did you mean 'mnist'\?"),
    ],
)
def test_what_cannot_be_downloaded_says_why(name: str, message: str) -> None:
    with pytest.raises(CoterieError, match=message):
        get(name)


# The commands, as a user calls them.

HOOKED = """
import sys
from dataclasses import replace
from coterie.cli.main import main
from coterie.data.catalogue import CATALOGUE, File
"""


def call(*arguments: object, before: str = "") -> subprocess.CompletedProcess[str]:
    program = f"{HOOKED}{before}\nsys.argv[0] = 'coterie'\nmain()"
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.integration
def test_get_says_where_it_put_what(server: Server, tmp_path: Path) -> None:
    entry = f"replace(CATALOGUE['mnist'], files={CATALOGUE['mnist'].files!r})"
    before = f"CATALOGUE['mnist'] = {entry}"
    folder = tmp_path / "mine"
    done = call("data", "get", "mnist", "--folder", folder, "--base-url", server.address, before=before)
    assert done.returncode == 0, done.stderr
    assert f"mnist is in {folder / 'mnist'} (licence: CC BY-SA 3.0)" in done.stdout
    assert f"set COTERIE_DATA={folder}" in done.stdout
    assert [line for line in done.stderr.splitlines() if line.startswith("fetching")] == [
        f"fetching {server.address}{name}" for name in NAMES
    ]
    before += "\nsys.stderr.isatty = lambda: True"
    done = call("data", "get", "mnist", "--folder", tmp_path / "b", "--base-url", server.address, before=before)
    assert done.returncode == 0, done.stderr
    assert NAMES[0] in done.stderr  # in the progress bar
    done = call("data", "check", folder / "mnist")
    assert (done.returncode, done.stderr) == (0, "")
    assert "IDX files" in done.stdout
    assert "40 samples to train on, 8 to test on" in done.stdout
    assert "inputs of 1 x 28 x 28 (uint8), 4 classes" in done.stdout
    assert "It fits" in done.stdout


@pytest.mark.integration
def test_commands_that_fail_end_with_2_and_one_line(server: Server, tmp_path: Path) -> None:
    done = call("data", "get", "usps", "--folder", tmp_path / "x", "--base-url", server.address)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(
        f"coterie: cannot download {server.address}usps.bz2 (the server answers 404"
    )
    assert not (tmp_path / "x" / "usps").exists()
    (server.folder / NAMES[0]).write_bytes(b"\x1f\x8b broken")
    done = call("data", "check", server.folder)
    assert done.returncode == 2
    assert "IDX files" in done.stdout
    assert done.stderr.startswith("coterie: ")
    assert len(done.stderr.splitlines()) == 1
    assert f"{NAMES[0]} cannot be read" in done.stderr
