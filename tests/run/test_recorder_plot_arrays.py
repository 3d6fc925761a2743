"""What is kept for pictures: the same after a kill, and written at the right moments."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import coterie
from coterie.data import load
from coterie.run import recorder
from coterie.run.runner import resume

SMALL = {"dataset": "digits-rotated", "clients": 8, "rounds": 3, "epochs": 1, "fraction": 0.5, "eval_every": 1}


def kept(folder: Path) -> dict[str, np.ndarray]:
    return load_file(folder / "views.safetensors")


def test_labels_are_counted() -> None:
    data = load("digits-rotated", {}, None, 8, 0)
    counts = recorder.label_counts(data)
    for client, part in enumerate(data.train_parts):
        assert [int((data.train.y[part] == label).sum()) for label in range(10)] == counts[client].tolist()


def test_what_clients_were_grouped_by(tmp_path: Path) -> None:
    result = coterie.run(algorithm="pacfl", out=str(tmp_path / "run"), **SMALL)
    found = kept(tmp_path / "run")
    assert found["grouped"].tolist() == list(range(8))
    assert found["labels"].tolist() == result.groups
    assert np.allclose(found["proximity"], found["proximity"].T)
    assert found["tree"].shape == (7, 4)
    assert "sample_pool" not in found


def test_founders_stay_when_newcomers_join(tmp_path: Path) -> None:
    result = coterie.run(algorithm="pacfl", out=str(tmp_path / "run"), newcomers=0.25, join_at=2, **SMALL)
    assert result.newcomers is not None
    founders = [client for client in range(8) if client not in result.newcomers["clients"]]
    assert kept(tmp_path / "run")["grouped"].tolist() == founders


def test_grouped_anew_with_newcomers(tmp_path: Path) -> None:
    options = {"assign": "recluster"}
    coterie.run(
        algorithm="pacfl", algorithm_options=options, out=str(tmp_path / "run"), newcomers=0.25, join_at=2, **SMALL
    )
    assert sorted(kept(tmp_path / "run")["grouped"].tolist()) == list(range(8))


def test_pools(tmp_path: Path) -> None:
    coterie.run(
        algorithm="fedavg", out=str(tmp_path / "run"), curriculum="a=0.5,b=0.2", client_curriculum="b=0.5", **SMALL
    )
    found = kept(tmp_path / "run")
    assert found["sample_pool"][0] == 0.2
    assert found["sample_pool"][25] == pytest.approx(0.6)
    assert (found["sample_pool"][50:] == 1).all()
    assert found["client_pool"].tolist() == [4, 5, 7]  # ⌊4 + 4·(r − 1)/(0.8·3)⌋
    assert "proximity" not in found


@pytest.mark.integration
def test_the_same_after_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    coterie.run(algorithm="pacfl", out=str(tmp_path / "whole"), **SMALL)

    class Killed(Exception):
        pass

    saved = recorder.save_checkpoint

    def dying(path: Path, state: dict, durable: bool) -> None:
        if state["round"] == 2:
            raise Killed
        saved(path, state, durable)

    monkeypatch.setattr(recorder, "save_checkpoint", dying)
    with pytest.raises(Killed):
        coterie.run(algorithm="pacfl", out=str(tmp_path / "killed"), **SMALL)
    monkeypatch.undo()
    resume(tmp_path / "killed")
    assert (tmp_path / "killed" / "views.safetensors").read_bytes() == (
        tmp_path / "whole" / "views.safetensors"
    ).read_bytes()


def test_an_old_run_without_it_gets_what_is_still_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from coterie.run import runner

    monkeypatch.setattr(runner.RunFolder, "write_result", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        coterie.run(algorithm="pacfl", out=str(tmp_path / "run"), **SMALL)
    monkeypatch.undo()
    (tmp_path / "run" / "views.safetensors").unlink()
    resume(tmp_path / "run")
    assert not (tmp_path / "run" / "views.safetensors").exists()  # all rounds were done: nothing more to see
    assert (tmp_path / "run" / "result.json").exists()


def test_overwriting_removes_it(tmp_path: Path) -> None:
    from coterie.results.run_folder import RunFolder

    coterie.run(algorithm="pacfl", out=str(tmp_path / "run"), **SMALL)
    RunFolder(tmp_path / "run").clear()
    assert not (tmp_path / "run" / "views.safetensors").exists()
