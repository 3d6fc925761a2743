"""What a run goes on from, if somebody else has written its journal, with a checkpoint that fits to it."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import coterie
from coterie.errors import CoterieError
from coterie.federation.checkpoint import load_checkpoint, save_checkpoint
from coterie.run.runner import resume

Entries = list[dict[str, Any]]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was killed just before its end."""
    out = tmp_path_factory.mktemp("journal") / "run"
    coterie.run(
        algorithm="fedavg", dataset="digits", clients=3, rounds=2, epochs=1, model="mlp:hidden=4", eval_every=1,
        out=str(out),
    )  # fmt: skip
    (out / "result.json").unlink()
    return out


def rewrite(folder: Path, change: Callable[[Entries], Any], **mark: Any) -> None:
    """Change the journal, and let the checkpoint name what it is now."""
    entries = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
    change(entries)
    content = "".join(json.dumps(entry) + "\n" for entry in entries).encode()
    (folder / "journal.jsonl").write_bytes(content)
    state = load_checkpoint(folder / "checkpoint.safetensors")
    digest = hashlib.blake2b(content, digest_size=16).hexdigest()
    save_checkpoint(
        folder / "checkpoint.safetensors", {**state, "journal": {"bytes": len(content), "digest": digest, **mark}}
    )


def set_in_row(key: str, value: Any) -> Callable[[Entries], None]:
    return lambda entries: entries[-1]["row"].__setitem__(key, value)


DAMAGES: list[tuple[Callable[[Entries], Any], str]] = [
    (set_in_row("L", "x"), r"journal\.jsonl' is damaged \(round 2, L"),
    (set_in_row("loss", [1]), r"journal\.jsonl' is damaged \(round 2, loss"),
    (set_in_row("up_bytes", 1e300), r"journal\.jsonl' is damaged \(round 2, up_bytes: .*1e\+300 is beyond"),
    (set_in_row("by_true_group", {"L": 3}), r"journal\.jsonl' is damaged \(round 2, by_true_group"),
    (set_in_row("round", 1), r"journal\.jsonl' is damaged \(line \d: row: it is not that of round 2"),
    (lambda entries: entries[-1].update(row=None), r"1 rows of metrics for 2 evaluated rounds"),
    (lambda entries: entries.append({"round": 9, "states": {}, "row": {"round": 9}}), r"3 rows of metrics for 2"),
    (lambda entries: entries[-1]["states"].update({"0": 5}), r"line \d: states\.0: 5 is no digest"),
    (lambda entries: entries[-1]["states"].update({"77": "0" * 32}), "is missing"),
]


@pytest.mark.integration
@pytest.mark.parametrize(("change", "said"), DAMAGES, ids=[str(number) for number in range(len(DAMAGES))])
def test_a_journal_that_can_t_be_the_run_s_is_refused(
    change: Callable[[Entries], Any], said: str, stopped: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(stopped, tmp_path / "run"))
    rewrite(folder, change)
    with pytest.raises(CoterieError, match=said):
        resume(folder)


def test_a_mark_that_is_none_is_the_checkpoint_s_fault(stopped: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(stopped, tmp_path / "run"))
    rewrite(folder, lambda entries: None, bytes=-1)
    with pytest.raises(CoterieError, match=r"checkpoint\.safetensors holds a state .*the journal's length is -1"):
        resume(folder)


def test_the_same_journal_leads_to_the_same_rows(stopped: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(stopped, tmp_path / "run"))
    rewrite(folder, lambda entries: None)
    before = (folder / "metrics.jsonl").read_bytes()
    resume(folder)
    assert (folder / "metrics.jsonl").read_bytes() == before
