"""JSON, TOML and safetensors of absurd depth, size or numbers: refused in a sentence, wherever they are read."""

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from coterie.bounded import MOST_VALUES, parse_json, parse_toml, read_bytes, read_start, read_tensors
from coterie.client import DiskStore
from coterie.errors import CoterieError
from coterie.messages import wire
from coterie.results.comparison_folder import ComparisonPlan
from coterie.results.formats import read_toml
from coterie.results.reproductions import read_reproduction
from coterie.results.run_folder import RunFolder
from coterie.run.values import parse_choice, parse_value

JSON = {
    "deep": "[" * 10**6 + "]" * 10**6,
    "deeper than anything": '{"a":' * 40 + "1" + "}" * 40,
    "long": "[" + ",".join(["[]"] * MOST_VALUES) + "]",
    "a number of many digits": "9" * 10**6,
    "cut short": '{"a": [1, 2',
    "no text": b"\xff\xfe\x00",
}
TOML = {
    "deep": "a = " + "[" * 10**5 + "]" * 10**5,
    "deep tables": "a = " + "{a = " * 200 + "1" + "}" * 200,
    "a key of many parts": ".".join(["a"] * 10**5) + " = 1",
    "a table of many parts": "[" + ".".join(["a"] * 10**5) + "]\n" + "b = 1\n" * 100,
    "a quoted key of many parts": ".".join(['"a"'] * 10**4) + " = 1",
    "a key of many parts inside": "x = {" + ".".join(["a"] * 10**5) + " = 1}",
    "long": "a = [" + "1," * 10**6 + "]",
    "a number of many digits": "a = " + "9" * 5000,
    "cut short": "[a",
}


@pytest.mark.parametrize("case", JSON)
def test_json(case: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_json(JSON[case])


@pytest.mark.parametrize("case", TOML)
def test_toml(case: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_toml(TOML[case])
    (tmp_path / "a.toml").write_text(TOML[case])
    with pytest.raises(CoterieError, match=r"a\.toml' is not a TOML file: "):
        read_toml(tmp_path / "a.toml")


@pytest.mark.parametrize("case", JSON)
def test_files_of_folders(case: str, tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    content = JSON[case] if isinstance(JSON[case], bytes) else JSON[case].encode()  # type: ignore[union-attr]
    for file in (run.result_file, run.metrics_file, run.sites_file, tmp_path / "reproduction.json"):
        file.write_bytes(content)
    with pytest.raises(CoterieError, match=r"result\.json' is damaged \("):
        run.read_result()
    assert "metrics.jsonl" in str(run.read_metrics()[1])
    assert "sites.json is damaged" in str(run.read_sites()[1])
    with pytest.raises(CoterieError, match=r"reproduction\.json' is damaged \("):
        read_reproduction(tmp_path / "reproduction.json")


@pytest.mark.parametrize("case", TOML)
def test_configurations_of_folders(case: str, tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.config_file.write_text(TOML[case])
    with pytest.raises(CoterieError, match=r"config\.toml' is damaged: "):
        run.read_config()
    (tmp_path / "comparison.toml").write_text(TOML[case])
    with pytest.raises(CoterieError, match=r"comparison\.toml' is not a TOML file: "):
        ComparisonPlan.read(tmp_path / "comparison.toml")


def test_a_comparison_of_more_runs_than_anybody_makes(tmp_path: Path) -> None:
    grid = ", ".join(f'"training.k{i}" = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]' for i in range(12))
    head = '[comparison]\nkind = "compare"\nseeds = [0]\nprotocol = "L"\ntune_share = 0.2\n'
    (tmp_path / "c.toml").write_text(f"{head}tune = {{{grid}}}\n[cells.a]\n[cells.b]\n")
    with pytest.raises(CoterieError, match=r"c\.toml' is damaged \(comparison: it asks for more than 10,000 runs"):
        ComparisonPlan.read(tmp_path / "c.toml")


def test_values_in_texts() -> None:
    nested = "[" * 10**5
    assert parse_value(nested) == nested
    assert parse_choice(f"a:b={nested}") == {"name": "a", "b": nested}


def headed(header: bytes, announced: int | None = None) -> bytes:
    return struct.pack("<Q", len(header) if announced is None else announced) + header


HEADERS: dict[str, Callable[[], bytes]] = {
    "announces more than there is": lambda: headed(b"{}", 2**60),
    "many tensors": lambda: headed(
        json.dumps({str(i): {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]} for i in range(100_000)}).encode()
    ),
    "deep": lambda: headed(b'{"__metadata__":{"tree":"' + b"[" * 10**6 + b'"}}'),
    "nothing": lambda: b"",
}


@pytest.mark.parametrize("case", HEADERS)
def test_safetensors(case: str, tmp_path: Path) -> None:
    content = HEADERS[case]()
    with pytest.raises(wire.WireError):
        wire.unpack(content)
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "1.safetensors").write_bytes(content)
    with pytest.raises(CoterieError, match=r"the state of client 0 in .*1\.safetensors' can't be used"):
        DiskStore(tmp_path).load(0, 2)


def test_a_header_is_looked_at_before_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").write_bytes(headed(b"", 2**40))
    with pytest.raises(ValueError, match="its header announces 1,099,511,627,776 bytes"):
        read_tensors(tmp_path / "a.safetensors")


def test_a_pipe_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="it is no file"):
        read_bytes(tmp_path / "pipe", 10)
    (tmp_path / "large").write_bytes(bytes(11))
    with pytest.raises(ValueError, match="larger than the 10 bytes"):
        read_bytes(tmp_path / "large", 10)


def test_pipes_are_not_waited_for_and_holes_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for read in (read_tensors, lambda path: read_start(path, 10), lambda path: read_bytes(path, 10)):
        with pytest.raises(ValueError, match="it is no file"):
            read(tmp_path / "pipe")
    (tmp_path / "sparse").write_bytes(save({"w": np.zeros(3)}))
    os.truncate(tmp_path / "sparse", 3 * 2**30)
    with pytest.raises(ValueError, match="where its header announces"):
        read_tensors(tmp_path / "sparse")
    assert len(read_start(tmp_path / "sparse", 10)) == 10
