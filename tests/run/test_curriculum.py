"""Curricula in the configuration, and in the plan of a run (ALGORITHMS 6)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import coterie
from coterie.client import MemoryStore
from coterie.errors import CoterieError
from coterie.federation import Federation
from coterie.federation.curriculum import ClientCurriculum
from coterie.federation.evaluation import Evaluator
from coterie.federation.loop import rounds
from coterie.federation.sampling import UniformSampler
from coterie.messages import Curriculum
from coterie.run.building import completed, load_data, make_plan, make_spec, make_trainer, session
from coterie.run.config import Config, to_toml
from coterie.run.curriculum import DataCurriculum
from coterie.run.progress import Progress
from coterie.run.settings import settings_to_config
from coterie.run.validation import Origins, make_config
from coterie.studies.curricula import pacing_curves
from coterie.testing import SMALL, outcome, small_run
from coterie.training import one_thread

SCORES = ("G", "L", "LG", "G-pred", "L-pred", "LG-pred", "E")
PACINGS = ("exponential", "step", "root", "linear", "quadratic")
ORDERS = ("curriculum", "anti", "random")
POOLED = {**SMALL, "dataset": "digits", "clients": 8, "partition": "label-skew:rho=0.4", "expert_epochs": 3}
DATA = "score=G,pacing=linear,a=0.8,b=0.2,order=curriculum"
CLIENTS = "score=G,pacing=linear,a=0.8,b=0.2,order=curriculum,refresh_every=1,all_batches=false"


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
    assert config.curriculum.sampler == ClientCurriculum()


def test_all_settings_arrive() -> None:
    config = of(
        curriculum="score=LG-pred,pacing=root,a=0.5,b=0.0025,order=anti",
        client_curriculum={
            "pacing": "step", "a": 1, "b": 0, "order": "random", "refresh_every": 7, "all_batches": True
        },
    )  # fmt: skip
    assert make_plan(config).curriculum == Curriculum("LG-pred", "root", 0.5, 0.0025, "anti")
    assert config.curriculum.sampler == ClientCurriculum("step", 1.0, 0.0, "random", 7, True)
    assert of(client_curriculum="score=E").curriculum.sampler == ClientCurriculum(score="E")


def test_without_any_there_is_none() -> None:
    assert make_plan(of()).curriculum is None
    assert isinstance(of().curriculum.sampler, UniformSampler)


@pytest.mark.parametrize("text", ["order=vanilla", "order=vanilla,score=E", "a=0", "b=1", "a=0,b=1,order=anti"])
def test_what_hides_nothing_is_no_curriculum(text: str) -> None:
    assert make_plan(of(curriculum=text)).curriculum is None
    without_score = ",".join(piece for piece in text.split(",") if not piece.startswith("score"))
    assert isinstance(of(client_curriculum=without_score).curriculum.sampler, UniformSampler)


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
    "a in words": ({"data": "a=most"}, ["a = 'most'", "should be a number, not a text"]),
    "yes for a number": ({"data": {"a": True}}, ["a = True", "should be a number, not true or false"]),
    "not a number": ({"data": "b=nan"}, ["b = nan", "finite"]),
    "no equals sign": ({"data": "anti"}, ["'anti'", "key=value,key=value"]),
    "a number": ({"data": 3}, ["curriculum.data = 3", "table"]),
    "score of clients": ({"clients": "score=L"}, ["curriculum.clients", "score 'L' is unknown"]),
    "never refreshed": ({"clients": "refresh_every=0"}, ["refresh_every = 0", "greater than or equal to 1"]),
    "half a batch": ({"clients": "all_batches=0.5"}, ["all_batches = 0.5", "should be true or false"]),
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


@pytest.mark.integration
def test_the_stored_configuration_reruns_the_run(tmp_path: Path) -> None:
    settings = {**POOLED, "curriculum": "score=E,order=anti", "client_curriculum": "a=0.9", "f_ord": 0.5, "surplus": 2}
    first = coterie.run(algorithm="fedprox", out=str(tmp_path / "a"), **settings)
    again = coterie.run(tmp_path / "a" / "config.toml", out=str(tmp_path / "b"))
    assert outcome(again) == outcome(first)
    written = tomllib.loads((tmp_path / "a" / "config.toml").read_text())
    assert written["curriculum"]["data"] == "score=E,pacing=linear,a=0.8,b=0.2,order=anti"


@pytest.mark.integration
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
        settings = replace(run.fed.settings, plan=replace(run.fed.plan, curriculum=curriculum))
        fed = Federation(run.fed.engine, trainer, settings)
        history = [row for _, row in rounds(fed, run.algorithm, Evaluator(fed, run.algorithm), every=1)]
        models = {
            c: {name: value.tobytes() for name, value in store.load(c, before=99).get("model", {}).items()}
            for c in range(data.clients)
        }
    return history, models


@pytest.mark.integration
@pytest.mark.parametrize("method", ["fedavg", "scaffold", "pacfl"])
def test_nor_does_scoring_change_a_bit(method: str) -> None:
    plain = after(method, None)
    for score in ("G", "LG", "L-pred"):
        assert after(method, Curriculum(score, a=0.0)) == plain  # type: ignore[arg-type]
        assert after(method, Curriculum(score, b=1.0, order="anti")) == plain  # type: ignore[arg-type]
    assert after(method, Curriculum()) != plain


@pytest.mark.integration
@pytest.mark.parametrize("method", ["fedavg", "fedprox", "fednova", "scaffold", "pacfl", "ifca", "flag"])
def test_every_method_takes_the_curriculum_from_the_plan(method: str) -> None:
    settings = {**SMALL, "epochs": 3}
    runs = [small_run(method, **settings, curriculum=f"order={order},score=L") for order in (*ORDERS, "vanilla")]
    assert len({tuple(run.per_client["L"]) for run in runs}) == 4


@pytest.mark.integration
def test_scores_pacings_and_orders_all_make_a_difference() -> None:
    settings = {**POOLED, "epochs": 3, "rounds": 3}
    texts = [f"score={score}" for score in SCORES] + [f"pacing={pacing}" for pacing in PACINGS if pacing != "linear"]
    texts += [f"order={order}" for order in ORDERS if order != "curriculum"]
    results = {text: small_run("fedavg", **settings, curriculum=text).history[-1]["loss"] for text in texts}
    assert len(set(results.values())) == len(texts) == 13


@pytest.mark.integration
def test_all_of_them_together_run() -> None:
    settings = {**POOLED, "clients": 4, "rounds": 1, "expert_epochs": 1}
    for number, (score, pacing) in enumerate((score, pacing) for score in SCORES for pacing in PACINGS):
        text = f"score={score},pacing={pacing},order={ORDERS[number % 3]}"
        assert small_run("fedavg", **settings, curriculum=text).accuracy["G"] is not None


def test_curves_of_all_pacings() -> None:
    curves = pacing_curves()
    assert list(curves) == list(PACINGS)
    for curve in curves.values():
        assert curve[0] == pytest.approx(0.2)
        assert curve[160:] == [1.0] * 40
        assert curve[159] < 1


def test_scores_that_do_not_matter_are_kept_in_the_settings() -> None:
    assert DataCurriculum.read({"score": "E", "order": "random"}).short().startswith("score=E,")
