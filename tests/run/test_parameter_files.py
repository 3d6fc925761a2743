"""Parameters that a run starts with."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

import coterie
from coterie.errors import CoterieError
from coterie.messages import ModelSpec, Plan, Request, Schedule, Train, wire
from coterie.models import STARTS, initial
from coterie.run.parameter_files import with_start
from coterie.testing import SMALL, outcome, small_federation

SPEC = ModelSpec("mlp", (1, 8, 8), 10, {"hidden": 16})


def parameters(seed: int = 7, **changes: Any) -> dict[str, np.ndarray]:
    made = {name: np.array(value) for name, value in initial(SPEC, seed).items()} | changes
    return {name: value for name, value in made.items() if value is not None}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    save_file(parameters(), tmp_path / "start.safetensors")
    return tmp_path / "start.safetensors"


@pytest.mark.integration
@pytest.mark.parametrize("method", ["fedavg", "solo"])
def test_a_run_is_that_of_the_seed_whose_start_the_file_holds(method: str, file: Path) -> None:
    """Also where clients begin with it themselves, instead of receiving it."""
    begun: list[Any] = []
    for settings in ({"initial": str(file)}, {}):
        with small_federation(method, **settings) as (run, _):
            run.algorithm.begin(run.fed)
            cohort = [0, 1]
            run.fed.start_round(1)
            request = run.fed.request(Train(Plan(Schedule(0.1), steps=0), start=("own",)))
            replies = run.fed.ask(dict.fromkeys(cohort, request))
            begun.append([run.fed.initial(), *(reply.answers[0].params for reply in replies.values())])
    expected = [parameters(), parameters(run.fed.seed)]
    for models, params in zip(begun, expected, strict=True):
        assert len(models) == 3
        for model in models:
            assert all(np.array_equal(model[name], value) for name, value in params.items())


@pytest.mark.integration
def test_it_goes_on_after_an_interruption_only_with_the_same_file(file: Path, tmp_path: Path) -> None:
    settings = {**SMALL, "initial": str(file), "rounds": 2}
    whole = coterie.run(algorithm="fedavg", **settings, out=str(tmp_path / "whole"))
    coterie.run(algorithm="fedavg", **{**settings, "rounds": 1}, out=str(tmp_path / "short"))
    save_file(parameters(8), file)
    with pytest.raises(CoterieError, match="is not the one that the run began with: put that back"):
        coterie.resume(tmp_path / "short", rounds=2)
    save_file(parameters(), file)
    assert outcome(coterie.resume(tmp_path / "short", rounds=2)) == outcome(whole)
    assert outcome(whole) != outcome(coterie.run(algorithm="fedavg", **{**settings, "initial": None}))


def test_what_does_not_fit_is_named(tmp_path: Path) -> None:
    path, names = tmp_path / "other.safetensors", list(initial(SPEC, 0))
    save_file(parameters(**{names[0]: None, names[1]: np.zeros(3, np.float32), "more": np.zeros(1)}), path)
    with pytest.raises(CoterieError) as raised:
        with_start(SPEC, str(path))
    said = str(raised.value)
    assert f"'{path}' does not fit the network 'mlp': it lacks '{names[0]}' and it has 'more', unknown here" in said
    assert f"its '{names[1]}' is (3,), here it is (16,)" in said
    save_file(parameters(**{names[1]: np.zeros(16, np.int32)}), path)
    with pytest.raises(CoterieError, match=r"is of type int32, here it is float32"):
        with_start(SPEC, str(path))
    save_file(parameters(**{names[1]: np.full(16, np.nan, np.float32)}), path)
    with pytest.raises(CoterieError, match="not finite"):
        with_start(SPEC, str(path))
    path.write_bytes(b"no tensors")
    with pytest.raises(CoterieError, match=r"is not a \.safetensors file of parameters"):
        with_start(SPEC, str(path))


def test_numbers_of_other_precision_are_taken(file: Path, tmp_path: Path) -> None:
    save_file({name: value.astype(np.float64) for name, value in parameters().items()}, tmp_path / "double")
    assert with_start(SPEC, str(tmp_path / "double")) == with_start(SPEC, str(file))


def test_one_file_is_one_start(file: Path) -> None:
    spec = with_start(SPEC, str(file))
    with pytest.raises(CoterieError, match=r"starts several models.*one start: leave out --initial"):
        initial(spec, 0, 1)
    with pytest.raises(CoterieError, match="there is no file 'nowhere' of initial parameters"):
        coterie.run(**SMALL, initial="nowhere")


def test_a_message_names_the_start_by_its_digest_and_without_one_is_as_it_was(file: Path) -> None:
    spec = with_start(SPEC, str(file))
    request = Request(1, 0, spec, (Train(Plan(Schedule(0.1))),))
    blob = wire.encode(request)
    assert wire.decode(blob) == request
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert str(file).encode() not in blob
    assert b"start" not in wire.encode(Request(1, 0, SPEC, ()))
    digest = spec.start
    assert digest is not None
    del STARTS[digest]
    with pytest.raises(CoterieError, match="the parameters that the network 'mlp' starts with are not here"):
        initial(spec, 0)
