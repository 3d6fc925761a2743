"""The expert that judges samples: trained, kept, read, and what is divided by its losses (ALGORITHMS 6)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import coterie
from coterie.client import MemoryStore
from coterie.data.difficulty import spread
from coterie.errors import CoterieError
from coterie.models import initial
from coterie.run.building import completed, consistency, load_data, make_plan, make_spec, make_trainer, session
from coterie.run.config import Config
from coterie.run.dry_run import estimate
from coterie.run.expert import difficulty, read_expert
from coterie.run.progress import Progress
from coterie.run.result import Result
from coterie.run.settings import settings_to_config
from coterie.streams import stream
from coterie.testing import SMALL, outcome, small_run
from coterie.training import Job

POOLED = {**SMALL, "dataset": "digits", "clients": 8, "partition": "label-skew:rho=0.4", "expert_epochs": 3}


class Listening(Progress):
    """Notes what is said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def phase(self, text: str) -> None:
        self.said.append(text)

    def trained(self) -> bool:
        return any("training an expert" in text for text in self.said)


def of(**settings: Any) -> Config:
    return settings_to_config(None, settings)


def test_a_random_order_needs_no_expert() -> None:
    listening = Listening()
    one, other = (
        small_run("fedavg", **POOLED, curriculum=f"order=random,score={score}", progress=listening) for score in "EG"
    )
    assert outcome(one) == outcome(other)
    assert not listening.trained()


def expert_of(config: Config, folder: Path | None = None) -> Any:
    data = load_data(config)
    config = completed(config, data)
    trainer = make_trainer(config, make_spec(config, data), Progress())
    with session(config, data, MemoryStore(), trainer, folder=folder) as run:
        return data, config, trainer, run.fed.settings.expert


def test_the_expert_is_trained_by_the_plan_on_all_samples_together() -> None:
    """Epoch by epoch, each with fresh momentum; by hand."""
    data, config, trainer, expert = expert_of(of(**POOLED, curriculum="score=E", weight_decay=1e-3))
    spec, plan = make_spec(config, data), replace(make_plan(config), epochs=1, curriculum=None)
    x = data.normalise(np.concatenate([data.train.x[part] for part in data.train_parts]))
    y = np.concatenate([data.train.y[part] for part in data.train_parts])
    model = initial(spec, 0)
    for epoch in (1, 2, 3):
        model = trainer.train(Job(spec, plan, model, x, y, stream(0, "expert", epoch))).params
    assert all(np.array_equal(expert[name], value) for name, value in model.items())
    first = difficulty(data, spec, initial(spec, 0), trainer)
    assert np.nanmean(difficulty(data, spec, expert, trainer)) < 0.3 * np.nanmean(first)


def test_no_expert_where_none_is_needed() -> None:
    for settings in ({}, {"curriculum": ""}, {"f_ord": 0.0}, {"curriculum": "score=E,order=vanilla"}):
        assert expert_of(of(**POOLED, **settings))[3] is None
    assert expert_of(of(**POOLED, f_ord=0.5))[3] is not None


def test_the_expert_travels_and_is_counted() -> None:
    model = 4 * (64 * 16 + 16 + 16 * 10 + 10)
    plain, expert = (small_run("fedavg", **POOLED, curriculum=c) for c in ("score=G", "score=E"))
    assert expert.traffic["down_bytes"] - plain.traffic["down_bytes"] == pytest.approx(4 * 4 * model, rel=0.2)
    assert expert.traffic["up_bytes"] == pytest.approx(plain.traffic["up_bytes"], rel=1e-3)  # losses differ in digits


@pytest.mark.integration
def test_where_a_method_trains_another_network_that_judges_for_itself() -> None:
    """FLAG describes clients by a small network of its own, of which the run's expert knows nothing."""
    result = small_run("flag", **POOLED, curriculum="score=E")
    assert result.groups is not None
    assert result.events == []


class _Stop(Exception):
    pass


class Stopping(Listening):
    """Ends a run after a round."""

    def round(self, round: int, row: Mapping[str, Any] | None) -> None:
        if round == 2:
            raise _Stop


@pytest.mark.integration
def test_the_expert_is_trained_once_and_kept(tmp_path: Path) -> None:
    settings = {**POOLED, "curriculum": "score=E", "f_ord": 1.0}
    whole = small_run("fedavg", **settings, out=str(tmp_path / "whole"))
    stopping, resuming = Stopping(), Listening()
    with pytest.raises(_Stop):
        small_run("fedavg", **settings, out=str(tmp_path / "broken"), progress=stopping)
    assert stopping.trained()
    assert any("epoch 3 of 3: loss" in text for text in stopping.said)
    kept = (tmp_path / "broken" / "expert.safetensors").read_bytes()
    resumed = coterie.resume(tmp_path / "broken", resuming)
    assert not resuming.trained()
    assert (tmp_path / "broken" / "expert.safetensors").read_bytes() == kept
    assert outcome(resumed) == outcome(whole) == outcome(small_run("fedavg", **settings))
    assert outcome(Result.load(tmp_path / "broken")) == outcome(whole)


def test_an_expert_of_other_settings_is_not_taken_over(tmp_path: Path) -> None:
    config = of(**POOLED, curriculum="score=E")
    first = expert_of(config, tmp_path)[3]
    assert (tmp_path / "expert.safetensors").exists()
    again = expert_of(config, tmp_path)[3]
    other = expert_of(of(**{**POOLED, "lr": 0.02}, curriculum="score=E"), tmp_path)[3]
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not all(np.array_equal(first[name], other[name]) for name in first)
    (tmp_path / "expert.safetensors").write_bytes(b"cut short")
    mended = expert_of(config, tmp_path)[3]
    assert all(np.array_equal(first[name], mended[name]) for name in first)


def test_overwriting_a_run_removes_its_expert(tmp_path: Path) -> None:
    small_run("fedavg", **POOLED, curriculum="score=E", out=str(tmp_path / "run"))
    small_run("fedavg", **POOLED, out=str(tmp_path / "run"), overwrite=True)
    assert not (tmp_path / "run" / "expert.safetensors").exists()


@pytest.mark.integration
def test_an_expert_from_a_file_or_a_run(tmp_path: Path) -> None:
    settings = {**POOLED, "curriculum": "score=E"}
    by_itself = small_run("fedavg", **settings, out=str(tmp_path / "run"))
    listening = Listening()
    by_file = small_run("fedavg", **settings, expert=str(tmp_path / "run" / "expert.safetensors"), progress=listening)
    assert outcome(by_file) == outcome(by_itself)
    by_run = small_run("fedavg", **settings, expert=str(tmp_path / "run"), progress=listening)
    assert outcome(by_run) != outcome(by_itself)
    assert not listening.trained()


def test_the_model_of_a_run_is_what_all_clients_would_receive(tmp_path: Path) -> None:
    central = coterie.run(**{**POOLED, "clients": 1, "partition": "iid"}, out=str(tmp_path / "central"))
    config = of(**POOLED)
    spec = make_spec(completed(config, load_data(config)), load_data(config))
    expert = read_expert(str(tmp_path / "central"), spec)
    save_file({name: np.asarray(value, np.float64) for name, value in expert.items()}, tmp_path / "copy.safetensors")
    copy = read_expert(str(tmp_path / "copy.safetensors"), spec)
    assert all(np.array_equal(copy[name], value) and copy[name].dtype == value.dtype for name, value in expert.items())
    assert central.accuracy["G"] is not None
    assert central.accuracy["G"] > 0.7


def test_a_path_of_an_expert_is_stored_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    small_run("fedavg", **POOLED, f_ord=1.0, out="first")
    small_run("fedavg", **POOLED, f_ord=1.0, expert="first/expert.safetensors", out="second")
    monkeypatch.chdir("/")
    written = tomllib.loads((tmp_path / "second" / "config.toml").read_text())["curriculum"]["expert"]
    assert written == str(tmp_path / "first" / "expert.safetensors")


def test_an_expert_of_another_architecture_is_refused(tmp_path: Path) -> None:
    settings: dict[str, Any] = {**POOLED, "curriculum": "score=E"}
    small_run("fedavg", **settings, out=str(tmp_path / "run"))
    parameters = load_file(tmp_path / "run" / "expert.safetensors")
    first, *_, last = parameters

    def refused(**changes: Any) -> str:
        file = tmp_path / "other.safetensors"
        save_file({name: value for name, value in {**parameters, **changes}.items() if value is not None}, file)
        with pytest.raises(CoterieError) as error:
            small_run("fedavg", **settings, expert=str(file), out=str(tmp_path / "x"))
        assert not (tmp_path / "x").exists()
        return str(error.value)

    assert f"another network than 'mlp' of this run: it lacks '{first}'" in refused(**{first: None})
    assert "it has 'more', unknown here" in refused(more=np.zeros(3, np.float32))
    shape = parameters[last].shape
    assert f"its '{last}' is (3,), here it is {shape}" in refused(**{last: np.zeros(3, np.float32)})
    wider = {**settings, "model_options": {"hidden": 5}}
    with pytest.raises(CoterieError, match=r"here it is \(5,"):
        small_run("fedavg", **wider, expert=str(tmp_path / "run"))


@pytest.mark.integration
def test_what_is_no_expert_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.safetensors").write_text("not parameters")
    (tmp_path / "empty").mkdir()
    small_run("pacfl", out=str(tmp_path / "groups"))
    settings: dict[str, Any] = {**POOLED, "curriculum": "score=E"}
    for path, why in {
        "notes.safetensors": "not a .safetensors file of parameters",
        "empty": "a folder without a checkpoint",
        "groups": "has no single model for all clients",
        "nowhere": "there is no expert",
    }.items():
        with pytest.raises(CoterieError, match=why):
            small_run("fedavg", **settings, expert=str(tmp_path / path))


def test_an_expert_that_diverges_says_what_to_do() -> None:
    with pytest.raises(CoterieError, match=r"the expert's .* is not finite .*lower lr=, or name one"):
        small_run("fedavg", **{**POOLED, "lr": 1e9}, f_ord=1.0)


def rearranged(**settings: Any) -> tuple[Any, list[np.ndarray], np.ndarray]:
    """The data as divided, the parts that clients then have, and the expert's losses."""
    config = of(**POOLED, **settings)
    data = load_data(config)
    config = completed(config, data)
    trainer = make_trainer(config, make_spec(config, data), Progress())
    with session(config, data, MemoryStore(), trainer) as run:
        clients: Any = run.fed.engine._clients  # type: ignore[attr-defined]
        assert run.fed.settings.expert is not None
        losses = difficulty(data, make_spec(config, data), run.fed.settings.expert, trainer)
        return data, [client._data[0].train for client in clients], losses


@pytest.mark.parametrize("f_ord", [0.5, 1.0])
def test_clients_get_bands_of_difficulty_with_their_class_counts(f_ord: float) -> None:
    data, parts, losses = rearranged(f_ord=f_ord)
    y = data.train.y
    for before, now in zip(data.train_parts, parts, strict=True):
        assert np.bincount(y[before], minlength=10).tolist() == np.bincount(y[now], minlength=10).tolist()
    assert sorted(np.concatenate(parts)) == sorted(np.concatenate(data.train_parts))
    if f_ord == 1.0:
        assert spread(losses, parts).mean() < spread(losses, data.train_parts).mean()
        for label in range(10):
            means = [losses[part[y[part] == label]].mean() for part in parts if (y[part] == label).any()]
            assert means == sorted(means)


def test_difficulty_is_judged_by_the_expert_that_is_named(tmp_path: Path) -> None:
    small_run("fedavg", **POOLED, out=str(tmp_path / "run"))
    _, own, _ = rearranged(f_ord=1.0)
    _, named, losses = rearranged(f_ord=1.0, expert=str(tmp_path / "run"))
    assert not all(np.array_equal(a, b) for a, b in zip(own, named, strict=True))
    assert np.isfinite(losses).all()


@pytest.mark.integration
def test_a_run_goes_on_with_the_expert_that_it_began_with(tmp_path: Path) -> None:
    settings = {**POOLED, "curriculum": "score=E"}
    small_run("fedavg", **settings, out=str(tmp_path / "first"))
    file = tmp_path / "expert.safetensors"
    file.write_bytes((tmp_path / "first" / "expert.safetensors").read_bytes())
    whole = small_run("fedavg", **settings, expert=str(file))
    with pytest.raises(_Stop):
        small_run("fedavg", **settings, expert=str(file), out=str(tmp_path / "broken"), progress=Stopping())
    save_file({name: value * 0 for name, value in load_file(file).items()}, file)
    assert outcome(coterie.resume(tmp_path / "broken")) == outcome(whole)


def test_consistency_is_the_deviation_of_the_experts_losses_within_clients() -> None:
    for f_ord in (0.0, 1.0):
        found = consistency(of(**POOLED, f_ord=f_ord, seed=2))
        data, parts, losses = rearranged(f_ord=f_ord or 1.0, seed=2)
        held = parts if f_ord else data.train_parts
        assert found.tolist() == pytest.approx([float(np.std(losses[part])) for part in held])


def test_samples_seen_in_different_ways_are_not_exchanged() -> None:
    with pytest.raises(CoterieError, match=r"partition 'permuted' shows samples .*leave out f_ord"):
        small_run("fedavg", **{**POOLED, "partition": "permuted"}, f_ord=1.0)


def test_a_surplus_halves_what_clients_have() -> None:
    listening = Listening()
    small_run("fedavg", **POOLED, surplus=2, progress=listening)
    assert any("8 of 16 parts were given to the clients" in text for text in listening.said)
    whole, half = (load_data(of(**POOLED, surplus=k)) for k in (1, 2))
    assert len(half.train) == pytest.approx(len(whole.train) / 2, rel=0.15)


def test_a_dry_run_counts_the_expert() -> None:
    plain, judged = (estimate(of(**POOLED, curriculum=f"score={score}")) for score in "GE")
    samples = len(load_data(of(**POOLED)).train)
    assert judged.steps - plain.steps == 3 * -(-samples // 10)
    paced = estimate(of(**POOLED, client_curriculum=""))
    assert paced.down_bytes > plain.down_bytes
