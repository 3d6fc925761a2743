"""What a site answers to a server that may ask for anything, and what it never tells."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="needs the extra: pip install 'coterie[flower]'")

from flower_requests import HONEST, REQUEST
from flower_sites import PlayedGrid, node_of, write_app
from flwr.app import ConfigRecord, Message, RecordDict

from coterie.deploy.deployment import make_site
from coterie.deploy.terms import read_site, read_terms
from coterie.engine.flower.app import BESIDE, WIRE, wire_record
from coterie.engine.flower.transport import read_answer
from coterie.errors import CoterieError
from coterie.messages import EVALUATION, ClassCounts, Evaluate, Failure, Request, wire

AGREED: dict[str, Any] = {
    "algorithm": "fedavg",
    "model": {"name": "mlp", "hidden": 16},
    "training": {"lr": 0.1, "momentum": 0.0, "epochs": 1},
}
"""Terms under which REQUEST is one of the federation's."""


@pytest.fixture
def site(tmp_path: Path) -> Any:
    write_app(tmp_path / "app", 2, **AGREED)
    site = make_site(read_terms(tmp_path / "app"), read_site(tmp_path / "site-0" / "site.toml"))
    site.introduce(FEDERATION, NONCE)
    return site


FEDERATION, NONCE = "0123456789abcdef", "0" * 32


def test_a_site_answers_what_it_knows_and_refuses_the_rest(site: Any) -> None:
    def answer(blob: bytes) -> Any:
        return wire.decode(site.answer(7, FEDERATION, blob))

    trained = answer(wire.encode(REQUEST))
    assert trained.client == 7
    assert trained.answers[0].samples == site.introduce(FEDERATION, NONCE)["samples"]
    unknown = wire.encode(replace(REQUEST, verbs=(ClassCounts(),))).replace(b"ClassCounts", b"ReadSamples")
    assert answer(unknown).kind == "refused"
    assert answer(wire.encode(HONEST)).kind == "refused"


def test_a_flipped_bit_in_the_state_of_a_site_is_refused(site: Any) -> None:
    """It is trained from in the next round."""
    kept = replace(REQUEST, round=2, verbs=(replace(REQUEST.verbs[0], keep=True),))
    site.answer(7, FEDERATION, wire.encode(kept))
    (file,) = (site.state / FEDERATION).rglob("*.safetensors")
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)
    with pytest.raises(CoterieError, match=r"client 7.*2\.safetensors.*put back a copy"):
        site.answer(7, FEDERATION, wire.encode(replace(kept, round=3)))


@pytest.mark.parametrize("name", ["", "../../tmp", "0123456789ABCDEF", "0123456789abcdef/"])
def test_a_server_can_t_choose_where_a_site_writes(site: Any, name: str) -> None:
    with pytest.raises(ValueError, match="proper name"):
        site.answer(0, name, wire.encode(REQUEST))


def greeting() -> Message:
    PlayedGrid()
    beside = ConfigRecord({"federation": FEDERATION, "nonce": NONCE})
    message = Message(RecordDict({BESIDE: beside}), 1, "query.hello")
    message.metadata.__dict__["_message_id"] = "m1"
    return message


def request_to(client: int, request: Request) -> Message:
    PlayedGrid()
    beside = ConfigRecord({"client": client, "federation": FEDERATION})
    message = Message(RecordDict({BESIDE: beside, WIRE: wire_record(wire.encode(request))}), 1, "train")
    message.metadata.__dict__["_message_id"] = "m1"
    return message


def test_a_site_tells_what_failed_by_its_kind_only(site: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "site-0" / "state" / FEDERATION / "0" / "2.safetensors").mkdir(parents=True)  # which can't be read
    node = node_of(tmp_path / "app", site=str(tmp_path / "site-0" / "site.toml"))
    own = replace(REQUEST, verbs=(Evaluate(("own",)),), kind=EVALUATION)
    reply = node(request_to(0, own))
    assert reply is not None
    assert read_answer(reply, 0, REQUEST) == Failure(0, 3, "failed", "CoterieError")
    assert "could not be answered" in caplog.text  # at the site, all of it


PRIVATE = """
from pathlib import Path

from coterie.data import Dataset, Samples
import numpy as np

def load(name):
    if {when}:
        raise {error}("row 17: Jane Doe, born 1950")
    x = np.zeros((20, 1, 8, 8), np.uint8)
    return Dataset(name, Samples(x, np.arange(20) % 10), test=None, classes=10)
"""


@pytest.mark.parametrize("error", ["ValueError", "MemoryError", "SystemExit"])
def test_what_is_wrong_with_the_data_of_a_site_stays_there(
    tmp_path: Path, error: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Both when it introduces itself and later: a hook may work once and not again."""
    write_app(tmp_path / "app", 1, **AGREED)
    hook = tmp_path / "hook.py"
    gone = tmp_path / "gone"
    hook.write_text(PRIVATE.format(when=f"Path({str(gone)!r}).exists()", error=error))
    node = node_of(tmp_path / "app", name="a", state=str(tmp_path / "state"), hook=f"{hook}:load")
    said = node(greeting())
    assert said is not None
    assert said.content.config_records[BESIDE]["samples"] == 16
    gone.touch()
    for message in (greeting(), request_to(0, REQUEST)):
        reply = node(message)
        assert reply is not None
        assert not reply.has_error()
        if message.metadata.message_type == "train":
            assert read_answer(reply, 0, REQUEST) == Failure(0, 3, "failed", "CoterieError")
        else:
            assert "data can't be used" in str(reply.content.config_records[BESIDE]["problem"])
        told = [*reply.content.config_records.values(), *reply.content.array_records.values()]
        assert b"Jane" not in b"".join(part if isinstance(part, bytes) else str(part).encode() for part in told)
    assert "Jane" in caplog.text


def test_a_site_file_that_is_gone_is_told_without_its_text(tmp_path: Path) -> None:
    write_app(tmp_path / "app", 1, **AGREED)
    node = node_of(tmp_path / "app", site=str(tmp_path / "private" / "site.toml"))
    for message in (greeting(), request_to(0, REQUEST)):
        reply = node(message)
        assert reply is not None
        assert "private" not in str(reply.content)


def test_the_secret_stays_the_same_and_never_leaves(site: Any) -> None:
    first = site.introduce(FEDERATION, NONCE)
    assert first == site.introduce(FEDERATION, NONCE)
    assert os.stat(site.state / "secret").st_mode & 0o077 == 0
    assert site.secret() not in first.values()
    assert site.introduce("f" * 16, NONCE)["key"] != first["key"]  # two federations can't tell that it is one site


def test_a_damaged_secret_is_told(site: Any) -> None:
    site.introduce(FEDERATION, NONCE)
    (site.state / "secret").write_text("")
    with pytest.raises(CoterieError, match="is damaged: put back a copy"):
        site.introduce(FEDERATION, NONCE)
