"""Curricula in the configuration, in the plan of a run, and the expert that judges samples (ALGORITHMS 6)."""

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
from coterie.federation.curriculum import ClientCurriculum
from coterie.federation.loop import rounds
from coterie.federation.sampling import UniformSampler
from coterie.messages import Curriculum
from coterie.models import initial
from coterie.run.building import completed, consistency, load_data, make_plan, make_spec, make_trainer, session
from coterie.run.config import Config
from coterie.run.curriculum import DataCurriculum
from coterie.run.dry_run import estimate
from coterie.run.expert import difficulty, read_expert
from coterie.run.progress import Progress
from coterie.run.result import Result
from coterie.run.settings import settings_to_config
from coterie.run.toml import to_toml
from coterie.run.validation import Origins, make_config
from coterie.streams import stream
from coterie.studies.curricula import pacing_curves
from coterie.testing import SMALL, outcome, small_run
from coterie.training import Job
from coterie.training.torch_trainer import one_thread

SCORES = ("G", "L", "LG", "G-pred", "L-pred", "LG-pred", "E")
PACINGS = ("exponential", "step", "root", "linear", "quadratic")
ORDERS = ("curriculum", "anti", "random")
POOLED = {**SMALL, "dataset": "digits", "clients": 8, "partition": "label-skew:rho=0.4", "expert_epochs": 3}
DATA = "score=G,pacing=linear,a=0.8,b=0.2,order=curriculum"
CLIENTS = "pacing=linear,a=0.8,b=0.2,order=curriculum,refresh_every=1,all_batches=false"


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


@pytest.mark.parametrize("given", ["", {}, DATA, "score=", " b = 0.2 , a=", {"a": 0.8}, {"order": ""}])
def test_what_is_left_out_takes_the_defaults(given: Any) -> None:
    assert of(curriculum=given).curriculum.data == DATA
    assert make_plan(of(curriculum=given)).curriculum == Curriculum()


@pytest.mark.parametrize("given", ["", {}, CLIENTS, "refresh-every=1", {"all_batches": False}])
def test_so_does_the_curriculum_of_clients(given: Any) -> None:
    config = of(client_curriculum=given)
    assert config.curriculum.clients == CLIENTS
    assert config.curriculum.of_clients is not None
    assert config.curriculum.of_clients.make() == ClientCurriculum()


def test_all_settings_arrive() -> None:
    config = of(
        curriculum="score=LG-pred,pacing=root,a=0.5,b=0.0025,order=anti",
        client_curriculum={
            "pacing": "step", "a": 1, "b": 0, "order": "random", "refresh_every": 7, "all_batches": True
        },
    )  # fmt: skip
    assert make_plan(config).curriculum == Curriculum("LG-pred", "root", 0.5, 0.0025, "anti")
    assert config.curriculum.of_clients is not None
    assert config.curriculum.of_clients.make() == ClientCurriculum("step", 1.0, 0.0, "random", 7, True)


def test_without_any_there_is_none() -> None:
    assert make_plan(of()).curriculum is None
    assert of().curriculum.of_clients is None


@pytest.mark.parametrize("text", ["order=vanilla", "order=vanilla,score=E", "a=0", "b=1", "a=0,b=1,order=anti"])
def test_what_hides_nothing_is_no_curriculum(text: str) -> None:
    assert make_plan(of(curriculum=text)).curriculum is None
    without_score = ",".join(piece for piece in text.split(",") if not piece.startswith("score"))
    clients = of(client_curriculum=without_score).curriculum.of_clients
    assert clients is not None
    assert isinstance(clients.make(), UniformSampler)


def test_flags_files_and_keywords_say_the_same(tmp_path: Path) -> None:
    by_keyword = of(curriculum={"score": "E", "b": 0.5}, client_curriculum="a=0.3", f_ord=0.5, surplus=2)
    file = tmp_path / "run.toml"
    file.write_text(
        '[curriculum]\ndata = {score = "E", b = 0.5}\nclients = "a=0.3"\n[partition]\nf_ord = 0.5\nsurplus = 2\n'
    )
    assert settings_to_config(file, {}) == by_keyword
    assert make_config(tomllib.loads(to_toml(by_keyword))) == by_keyword
    assert of(curriculum="score=E,b=0.5", client_curriculum="a=0.3", partition="iid:f_ord=0.5,surplus=2") == by_keyword


WRONG: dict[str, tuple[dict[str, Any], list[str]]] = {
    "unknown key": ({"data": "scor=G"}, ["curriculum.data = 'scor=G'", "no 'scor'", "did you mean 'score'?"]),
    "unknown score": ({"data": "score=LG-prd"}, ["score 'LG-prd' is unknown", "did you mean 'LG-pred'?"]),
    "score far from all": ({"data": {"score": "Q"}}, ["score 'Q'", "there are: E, G, G-pred, L,"]),
    "unknown pacing": ({"data": "pacing=liner"}, ["pacing 'liner'", "did you mean 'linear'?"]),
    "unknown order": ({"data": "order=antti"}, ["order 'antti'", "did you mean 'anti'?"]),
    "a above one": ({"data": "a=1.5"}, ["a = 1.5", "less than or equal to 1"]),
    "b below zero": ({"data": "b=-0.1"}, ["b = -0.1", "greater than or equal to 0"]),
    "a in words": ({"data": "a=most"}, ["a = 'most'", "valid number"]),
    "yes for a number": ({"data": {"a": True}}, ["a = True", "valid number"]),
    "not a number": ({"data": "b=nan"}, ["b = nan", "finite"]),
    "no equals sign": ({"data": "anti"}, ["'anti'", "key=value,key=value"]),
    "a number": ({"data": 3}, ["curriculum.data = 3", "table"]),
    "score of clients": ({"clients": "score=G"}, ["curriculum.clients", "no 'score'"]),
    "never refreshed": ({"clients": "refresh_every=0"}, ["refresh_every = 0", "greater than or equal to 1"]),
    "half a batch": ({"clients": "all_batches=0.5"}, ["all_batches = 0.5", "valid boolean"]),
    "unknown key of clients": ({"clients": "refresh=2"}, ["no 'refresh'", "'refresh_every'"]),
    "clients beyond one": ({"clients": "b=2"}, ["b = 2", "less than or equal to 1"]),
    "no epochs": ({"expert_epochs": 0}, ["curriculum.expert_epochs = 0", "greater than or equal to 1"]),
    "no such expert": ({"expert": "nowhere.safetensors"}, ["no expert 'nowhere.safetensors'", "a run folder, or"]),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_settings_say_what_is_right_and_where_they_stand(case: str) -> None:
    table, named = WRONG[case]
    with pytest.raises(CoterieError) as error:
        make_config({"curriculum": table}, "run.toml")
    assert [part for part in [*named, "(in [curriculum] of run.toml)"] if part not in str(error.value)] == []


def test_a_wrong_flag_is_named() -> None:
    with pytest.raises(CoterieError, match=r"a = 2 .*\(set by --curriculum\)"):
        make_config({"curriculum": {"data": "a=2"}}, Origins("", {"curriculum.data": "--curriculum"}))
    with pytest.raises(CoterieError, match=r"partition\.f_ord = 1\.5 .*less than or equal to 1"):
        of(f_ord=1.5)
    with pytest.raises(CoterieError, match=r"partition\.surplus = 0 "):
        of(surplus=0)


def test_divided_data_are_not_divided_again() -> None:
    with pytest.raises(CoterieError, match=r"'digits-rotated' comes divided .*leave out f_ord and surplus"):
        of(dataset="digits-rotated", f_ord=1.0, surplus=2)
    assert of(dataset="digits-rotated", f_ord=0.0, surplus=1).partition.described == {}


def test_the_stored_configuration_reruns_the_run(tmp_path: Path) -> None:
    settings = {**POOLED, "curriculum": "score=E,order=anti", "client_curriculum": "a=0.9", "f_ord": 0.5, "surplus": 2}
    first = coterie.run(algorithm="fedprox", out=str(tmp_path / "a"), **settings)
    again = coterie.run(tmp_path / "a" / "config.toml", out=str(tmp_path / "b"))
    assert outcome(again) == outcome(first)
    written = tomllib.loads((tmp_path / "a" / "config.toml").read_text())
    assert written["curriculum"]["data"] == "score=E,pacing=linear,a=0.8,b=0.2,order=anti"


@pytest.mark.parametrize("method", ["fedavg", "scaffold", "pacfl"])
@pytest.mark.parametrize("text", ["a=0", "b=1", "order=vanilla"])
def test_a_curriculum_that_hides_nothing_is_vanilla_to_the_bit(method: str, text: str) -> None:
    """Bytes included: nothing is scored, and no curriculum travels."""
    assert outcome(small_run(method, curriculum=text)) == outcome(small_run(method))


def after(method: str, curriculum: Curriculum | None) -> tuple[list[Any], Mapping[int, Any]]:
    """Accuracies and the clients' models of a run whose plan has this curriculum, whatever the settings would say."""
    config = of(algorithm=method, **SMALL)
    data = load_data(config)
    config, store = completed(config, data), MemoryStore()
    trainer = make_trainer(config, make_spec(config, data), Progress())
    with one_thread(), session(config, data, store, trainer) as run:
        run.fed.settings = replace(run.fed.settings, plan=replace(run.fed.plan, curriculum=curriculum))
        history = [row for _, row in rounds(run.fed, run.algorithm, run.evaluator, every=1)]
        models = {
            c: {name: value.tobytes() for name, value in store.load(c, before=99).get("model", {}).items()}
            for c in range(data.clients)
        }
    return history, models


@pytest.mark.parametrize("method", ["fedavg", "scaffold", "pacfl"])
def test_nor_does_scoring_change_a_bit(method: str) -> None:
    plain = after(method, None)
    for score in ("G", "LG", "L-pred"):
        assert after(method, Curriculum(score, a=0.0)) == plain  # type: ignore[arg-type]
        assert after(method, Curriculum(score, b=1.0, order="anti")) == plain  # type: ignore[arg-type]
    assert after(method, Curriculum()) != plain


@pytest.mark.parametrize("method", ["fedavg", "fedprox", "fednova", "scaffold", "pacfl", "ifca", "flag"])
def test_every_method_takes_the_curriculum_from_the_plan(method: str) -> None:
    settings = {**SMALL, "epochs": 3}
    runs = [small_run(method, **settings, curriculum=f"order={order},score=L") for order in (*ORDERS, "vanilla")]
    assert len({tuple(run.per_client["L"]) for run in runs}) == 4


def test_scores_pacings_and_orders_all_make_a_difference() -> None:
    settings = {**POOLED, "epochs": 3, "rounds": 3}
    texts = [f"score={score}" for score in SCORES] + [f"pacing={pacing}" for pacing in PACINGS if pacing != "linear"]
    texts += [f"order={order}" for order in ORDERS if order != "curriculum"]
    results = {text: small_run("fedavg", **settings, curriculum=text).history[-1]["loss"] for text in texts}
    assert len(set(results.values())) == len(texts) == 13


def test_all_of_them_together_run() -> None:
    settings = {**POOLED, "clients": 4, "rounds": 1, "expert_epochs": 1}
    for number, (score, pacing) in enumerate((score, pacing) for score in SCORES for pacing in PACINGS):
        text = f"score={score},pacing={pacing},order={ORDERS[number % 3]}"
        assert small_run("fedavg", **settings, curriculum=text).accuracy["G"] is not None


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
    with pytest.raises(CoterieError, match=r"the expert's .* is not finite .*lower --lr, or name one"):
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


def test_curves_of_all_pacings() -> None:
    curves = pacing_curves()
    assert list(curves) == list(PACINGS)
    for curve in curves.values():
        assert curve[0] == pytest.approx(0.2)
        assert curve[160:] == [1.0] * 40
        assert curve[159] < 1


def test_scores_that_do_not_matter_are_kept_in_the_settings() -> None:
    assert DataCurriculum.read({"score": "E", "order": "random"}).short().startswith("score=E,")
