"""Run folders that are taken, changed, damaged or busy; going on with them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from command_line import SMALL, cli, outcome, refusal, tree

from coterie.run import runner


class TestAFolderThatExists:
    """It is never touched, unless it holds a run and the user says --overwrite."""

    @pytest.mark.parametrize("state", ["finished", "unfinished"])
    def test_with_a_run(self, state: str, request: pytest.FixtureRequest) -> None:
        folder: Path = request.getfixturevalue(state)
        before = tree(folder)
        message = refusal(cli("run", *SMALL, "--out", "run"))
        offered = {"finished": "coterie report run", "unfinished": "coterie resume run"}[state]
        assert [n for n in (f"{state} run", offered, "--out", "--overwrite") if n not in message] == []
        assert tree(folder) == before

    def test_with_something_else(self, place: Path) -> None:
        (place / "thesis").mkdir()
        (place / "thesis" / "chapter.txt").write_text("precious")
        before = tree(place)
        for flags in ([], ["--overwrite"]):
            message = refusal(cli("run", *SMALL, "--out", "thesis", *flags))
            assert "'thesis' exists and is not a run" in message
            assert "--out" in message
        assert tree(place) == before

    @pytest.mark.parametrize("flags", [[], ["--overwrite"]])
    def test_that_is_a_file(self, flags: list[str], place: Path) -> None:
        (place / "notes").write_text("precious")
        before = tree(place)
        assert "'notes' is a file" in refusal(cli("run", *SMALL, "--out", "notes", *flags))
        assert "'notes/run'" in refusal(cli("run", *SMALL, "--out", "notes/run", *flags))
        assert tree(place) == before

    def test_and_is_empty_is_used(self, place: Path) -> None:
        (place / "run").mkdir()
        assert cli("run", *SMALL, "--out", "run", "--quiet").code == 0

    def test_and_may_be_overwritten_keeps_what_is_not_ours(self, finished: Path) -> None:
        (finished / "notes.txt").write_text("precious")
        (finished / "checkpoint.safetensors").write_bytes(b"old")
        assert cli("run", *SMALL, "--seed", "1", "--out", "run", "--overwrite", "--quiet").code == 0
        assert outcome(finished)["result"]["seed"] == 1
        assert (finished / "notes.txt").read_text() == "precious"

    def test_and_is_to_be_overwritten_survives_a_mistake(self, finished: Path) -> None:
        before = tree(finished)
        for wrong in (["--algorithm", "fedavgg"], ["--clients", "5000"], ["--lr", "-1"]):
            refusal(cli("run", *SMALL, *wrong, "--out", "run", "--overwrite"))
        assert tree(finished) == before

    def test_only_since_the_data_were_being_read(
        self, place: Path, finished_runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Reading takes minutes at times, in which another process may begin and end a run in the same folder."""
        read = runner.load_data

        def slow(config: Any) -> Any:
            shutil.copytree(finished_runs["solo"], place / "run")
            return read(config)

        monkeypatch.setattr(runner, "load_data", slow)
        refusal(cli("run", *SMALL, "--out", "run"))
        assert tree(place / "run") == tree(finished_runs["solo"])


class TestResume:
    """Goes on with what is there, and refuses what does not fit."""

    def test_of_a_finished_run_says_so_and_changes_nothing(self, finished: Path) -> None:
        before = tree(finished)
        answer = cli("resume", "run")
        assert (answer.code, answer.err) == (0, "")
        assert "run is finished" in answer.out
        assert cli("resume", "run", "--quiet") == answer.__class__(0, "", "")
        assert tree(finished) == before

    @pytest.mark.integration
    def test_of_an_unfinished_run_ends_in_the_same_result(
        self, unfinished: Path, finished_runs: dict[str, Path]
    ) -> None:
        answer = cli("resume", "run")
        assert answer.code == 0
        assert "going on after round 4" in answer.err
        assert outcome(unfinished) == outcome(finished_runs["fedavg"])

    def test_with_other_workers_and_place_of_states_is_allowed(
        self, unfinished: Path, finished_runs: dict[str, Path]
    ) -> None:
        self._edit(unfinished, "# workers =", "workers = 1  #")
        self._edit(unfinished, 'state = "auto"', 'state = "disk"')
        assert cli("resume", "run", "--quiet").code == 0
        assert outcome(unfinished) == outcome(finished_runs["fedavg"])

    def test_to_more_rounds(self, finished: Path) -> None:
        before = tree(finished)
        assert "it has done 4; ask for more than that" in refusal(cli("resume", "run", "--rounds", "3"))
        assert "run is finished" in cli("resume", "run", "--rounds", "4").out
        assert tree(finished) == before
        answer = cli("resume", "run", "--rounds", "5")
        assert (answer.code, "going on after round 4" in answer.err) == (0, True)
        assert outcome(finished)["result"]["rounds"] == 5
        assert "rounds = 5" in (finished / "config.toml").read_text()

    @pytest.mark.parametrize("what", ["nothing", "a file", "a folder"])
    def test_of_what_is_not_a_run(self, what: str, place: Path) -> None:
        if what == "a file":
            (place / "run").write_text("")
        elif what == "a folder":
            (place / "run").mkdir()
        before = tree(place)
        assert "'run' is not a run folder" in refusal(cli("resume", "run"))
        assert tree(place) == before

    @pytest.mark.parametrize(
        ("old", "new", "named"),
        [
            ("lr = 0.05", "lr = 0.06", ["training.lr", "0.05", "0.06"]),
            ('name = "fedavg"', 'name = "solo"', ["algorithm.name", "'fedavg'", "'solo'"]),
            ("hidden = 16", "hidden = 17", ["model.hidden", "16", "17"]),
            ("seed = 0", "seed = 1", ["run.seed", "0", "1"]),
            ("clients = 6", "clients = 7", ["data.clients", "6", "7"]),
        ],
    )
    def test_of_a_checkpoint_of_another_configuration(
        self, old: str, new: str, named: list[str], unfinished: Path
    ) -> None:
        self._edit(unfinished, old, new)
        before = tree(unfinished)
        message = refusal(cli("resume", "run"))
        assert [name for name in [*named, "config.toml"] if name not in message] == []
        assert tree(unfinished) == before

    @pytest.mark.parametrize(("old", "new"), [("[model]", "[model"), ("lr = 0.05", "lrr = 0.05")])
    def test_of_a_broken_configuration(self, old: str, new: str, unfinished: Path) -> None:
        self._edit(unfinished, old, new)
        assert "config.toml" in refusal(cli("resume", "run"))

    @pytest.mark.parametrize("damage", ["cut short", "empty", "zeros", "no checkpoint at all", "a block of zeros"])
    def test_of_a_damaged_checkpoint(self, damage: str, unfinished: Path) -> None:
        checkpoint = unfinished / "checkpoint.safetensors"
        content = checkpoint.read_bytes()
        match damage:
            case "cut short":
                checkpoint.write_bytes(content[: len(content) // 2])
            case "empty":
                checkpoint.write_bytes(b"")
            case "zeros":
                checkpoint.write_bytes(bytes(len(content)))
            case "no checkpoint at all":
                shutil.copy(next((unfinished / "clients").glob("*/*")), checkpoint)
            case "a block of zeros":  # what a power failure leaves of a page that was not written
                checkpoint.write_bytes(content[:-2048] + bytes(2048))
        before = tree(unfinished)
        message = refusal(cli("resume", "run"))
        assert [name for name in ("checkpoint", "damaged", "--overwrite") if name not in message] == []
        assert tree(unfinished) == before

    def test_of_a_damaged_result(self, finished: Path) -> None:
        (finished / "result.json").write_text('{"algorithm": ')
        assert "result.json" in refusal(cli("resume", "run"))

    def test_without_a_checkpoint_begins_anew(self, unfinished: Path, finished_runs: dict[str, Path]) -> None:
        (unfinished / "checkpoint.safetensors").unlink()
        assert cli("resume", "run", "--quiet").code == 0
        assert outcome(unfinished) == outcome(finished_runs["fedavg"])

    @staticmethod
    def _edit(folder: Path, old: str, new: str) -> None:
        file = folder / "config.toml"
        text = file.read_text(encoding="utf-8")
        assert old in text
        file.write_text(text.replace(old, new), encoding="utf-8")
