"""The border of the compiled trainer: no input ends the process, and what is refused is refused by an error."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_networks import Forbidden, lanes_here
from torch import nn

from coterie.messages import ModelSpec, Plan, Schedule
from coterie.models import initial
from coterie.native import Network, Stage, available, stages
from coterie.native.stage import error_in
from coterie.training import Job
from coterie.training.native_trainer import NativeTrainer

pytestmark = pytest.mark.skipif(not available(), reason="Coterie was installed without a C++ compiler")

PLAN = [
    Stage(True, 1, 6, 6, 3, 3, relu=True, pool=2),
    Stage(False, 12, 1, 1, 4, flat_channels=3, flat_positions=4),
]
SIZE = 10 * 3 + 13 * 4


def job(**changes: Any) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    whole: dict[str, Any] = {
        "x": rng.standard_normal((5, 1, 6, 6)).astype(np.float32), "y": np.arange(5) % 4,
        "model": rng.standard_normal(SIZE).astype(np.float32), "batches": [np.arange(3), np.arange(2, 5)],
        "rates": np.full(2, 0.1, np.float32), "momentum": 0.5, "weight_decay": 0.0, "meta_step": None, "anchors": [],
        "correction": None, "mask": None, "snapshot_steps": [2],
    }  # fmt: skip
    return whole | changes


def in_a_process(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


@pytest.mark.integration
def test_hostile_calls_end_in_errors() -> None:
    script = Path(__file__).parent / "hostile_calls.py"
    done = subprocess.run([sys.executable, str(script), "--calls", "1500"], capture_output=True, text=True)
    print(done.stdout, done.stderr)
    assert done.returncode == 0


@pytest.mark.parametrize("kind", ["i1", "i4", "u2", "u8", ">i8"])
def test_whole_numbers_of_any_type_are_the_same(kind: str) -> None:
    network = Network(PLAN)
    wanted = network.train(**job())
    batches = [batch.astype(kind) for batch in job()["batches"]]
    found = network.train(**job(batches=batches, y=job()["y"].astype(kind)))
    assert np.array_equal(found.model, wanted.model)
    assert found.loss == wanted.loss


@pytest.mark.parametrize("change", [
    {"batches": [np.array([0.0, 1.0]), np.array([1.0])]},
    {"batches": [np.array([[0, 1]]), np.array([[2, 3]])]},
    {"batches": [np.array([True, False]), np.array([True])]},
    {"batches": [["a"], ["b"]]},
    {"y": np.zeros(5)},
    {"y": np.zeros((5, 1), np.int64)},
    {"momentum": "0.5"},
    {"snapshot_steps": [0.5]},
])  # fmt: skip
def test_what_is_of_another_type_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        Network(PLAN).train(**job(**change))


@pytest.mark.parametrize("change", [
    {"batches": [np.array([-1]), np.array([0])]},
    {"batches": [np.array([5]), np.array([0])]},
    {"batches": [np.array([2**64 - 1], np.uint64), np.array([0], np.uint64)]},
    {"batches": [np.zeros(6, np.int64), np.array([0])]},
    {"batches": [np.array([0])]},
    {"y": np.array([0, 1, 2, 3, 4])},
    {"y": np.arange(4)},
    {"x": np.zeros((5, 35), np.float32)},
    {"x": np.zeros((5, 1, 6, 7), np.float32)},
    {"model": np.zeros(SIZE + 1, np.float32)},
    {"mask": np.zeros((1, SIZE), np.float32)},
    {"anchors": [(np.zeros(SIZE), np.zeros(3))]},
    {"rates": np.zeros((2, 1), np.float32)},
    {"momentum": 10**400},
    {"rates": [10**400, 1]},
    {"snapshot_steps": [0]},
    {"snapshot_steps": [3]},
    {"meta_step": (0.1,)},
])  # fmt: skip
def test_what_does_not_fit_is_refused(change: dict[str, Any]) -> None:
    network = Network(PLAN)
    with pytest.raises(ValueError):  # noqa: PT011
        network.train(**job(**change))
    assert network.train(**job()).steps == 2


@pytest.mark.parametrize("plan", [
    [],
    [Stage(True, 1, 6, 6, 3, 3)],
    [Stage(False, 6, 1, 1, 3, relu=True)],
    [Stage(False, 0, 1, 1, 3)],
    [Stage(False, 6, 1, 1, 0)],
    [Stage(False, -6, 1, 1, 3)],
    [Stage(False, 2**31 + 6, 1, 1, 3)],
    [Stage(False, 2**16, 1, 1, 2**16)],
    [Stage(False, 6, 1, 1, 3, flat_channels=4, flat_positions=2)],
    [Stage(False, 6, 2, 3, 3)],
    [Stage(False, 6, 1, 1, 5), Stage(False, 4, 1, 1, 3)],
    [Stage(False, 6, 1, 1, 5), Stage(True, 5, 1, 1, 3, 1), Stage(False, 3, 1, 1, 2)],
    [Stage(True, 1, 4, 4, 3, 5), Stage(False, 3, 1, 1, 2)],
    [Stage(True, 1, 4, 4, 3, 3, pool=3), Stage(False, 3, 1, 1, 2)],
    [Stage(True, 1, 40, 40, 3, 1, pool=16), Stage(False, 12, 1, 1, 2, flat_channels=3, flat_positions=4)],
    [Stage(True, 1, 8, 8, 3, 9), Stage(False, 3, 1, 1, 2)],
    [Stage(True, 1, 8, 8, 3, 3, 3), Stage(False, 3, 1, 1, 2)],
    [Stage(False, 6.0, 1, 1, 3)],  # type: ignore[arg-type]
    [Stage(False, 6, 1, 1, 3, norm=True)],
    [Stage(False, 6, 1, 1, 5, norm=2), Stage(False, 5, 1, 1, 3)],  # type: ignore[arg-type]
    [Stage(False, 6, 1, 1, 5, norm=True, momentum=float("nan")), Stage(False, 5, 1, 1, 3)],
    [Stage(False, 6, 1, 1, 5, norm=True, momentum="0.1"), Stage(False, 5, 1, 1, 3)],  # type: ignore[arg-type]
    [Stage(False, 6, 1, 1, 5, norm=True, eps=-1e-5), Stage(False, 5, 1, 1, 3)],
    [Stage(False, 6, 1, 1, 5, norm=True, eps=float("inf")), Stage(False, 5, 1, 1, 3)],
    [Stage(False, np.int8(100), 1, 1, np.int8(100)), Stage(False, 16, 1, 1, 3)],  # type: ignore[arg-type]
])  # fmt: skip
def test_what_is_no_network_is_refused(plan: list[Stage]) -> None:
    assert error_in(plan)
    with pytest.raises(ValueError, match="no network for the compiled trainer"):
        Network(plan)


def test_too_large_or_empty_layers_are_left_to_pytorch() -> None:
    with pytest.warns(UserWarning, match="zero-element"):
        empty = nn.Linear(0, 3)
    assert stages(nn.Sequential(empty), (0,)) is None
    assert stages(nn.Sequential(nn.Linear(2**15, 2**14, device="meta")), (2**15,)) is None


def test_lanes_are_those_that_there_are() -> None:
    for lanes in (1, -1, 2**32, "4", None, 4.0):
        with pytest.raises(ValueError, match="lanes"):
            Network(PLAN, lanes)  # type: ignore[arg-type]


def test_packed_models_are_checked() -> None:
    network = Network(PLAN)
    packed = network.pack(np.arange(SIZE))
    assert np.array_equal(network.unpack(packed.astype(np.float64), SIZE), np.arange(SIZE))
    for wrong, size in ((packed, SIZE - 1), (packed, 10**9), (packed[:-1], SIZE), (packed[:0], SIZE)):
        with pytest.raises(ValueError, match="vector of"):
            network.unpack(wrong, size)


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda network: pickle.loads(pickle.dumps(network))])
@pytest.mark.parametrize("lanes", lanes_here())
def test_a_copy_lives_by_itself(again: Any, lanes: int) -> None:
    network = Network(PLAN, lanes)
    wanted = network.train(**job()).model
    other = again(network)
    del network
    assert np.array_equal(other.train(**job()).model, wanted)


def test_stages_that_change_later_change_nothing() -> None:
    plan = copy.deepcopy(PLAN)
    network = Network(plan)
    wanted = network.train(**job()).model
    plan[0].height, plan[1].outputs = 10**6, 10**6
    assert np.array_equal(copy.copy(network).train(**job()).model, wanted)
    with pytest.raises(AttributeError):
        network.classes = 10**6  # type: ignore[misc]


def test_a_linear_layer_made_by_hand_sees_all_its_inputs() -> None:
    network = Network([Stage(False, 3, 1, 1, 2)])
    model = np.array([1, 2, 3, 4, 5, 6, 0, 0], np.float32)
    assert network.logits(np.ones((1, 3), np.float32), model).tolist() == [[6, 15]]


def test_memory_that_is_not_there_is_an_error() -> None:
    done = in_a_process(
        "import resource, numpy as np\n"
        "from coterie.native import Network, Stage\n"
        "network = Network([Stage(True, 1, 64, 64, 64, 3, 1), Stage(False, 262144, 1, 1, 2, flat_channels=64, "
        "flat_positions=4096)])\n"
        "x, model = np.zeros((600, 64 * 64), np.float32), np.zeros(network._parameters, np.float32)\n"
        "rest = dict(momentum=0.0, weight_decay=0.0, meta_step=None, anchors=[], correction=None, mask=None, "
        "snapshot_steps=[])\n"
        "limit = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize() + 6 * 10**8\n"
        "resource.setrlimit(resource.RLIMIT_AS, (limit, limit))\n"
        "def train(size):\n"
        "    y, batches = np.zeros(600, np.int64), [np.arange(size)]\n"
        "    return network.train(x, y, model, batches=batches, rates=np.ones(1), **rest).steps\n"
        "for wanted in range(3):\n"
        "    try: print(train(600))\n"
        "    except MemoryError as error: print(error)\n"
        "print(train(1), train(0), network.logits(x[:1], model).shape)\n"
        "try: Network([Stage(False, 2**14, 1, 1, 2**13)])\n"
        "except MemoryError as error: print(error)\n"
    )
    assert done.returncode == 0, done.stderr
    refused = "there is not enough memory for this network and these samples"
    assert done.stdout.splitlines() == [*[refused] * 3, "1 0 (1, 2)", refused]


def test_threads_may_share_a_network_and_their_inputs_may_change() -> None:
    network, shared, wrong = Network(PLAN), job(batches=[np.arange(5)] * 200, rates=np.full(200, 0.01)), list[Any]()
    shared["snapshot_steps"] = []
    wanted = network.train(**shared).model

    def work() -> None:
        for size in (1, 300, 5):
            network.logits(np.zeros((size, 36), np.float32), shared["model"])
            found = network.train(**{**shared, "y": job()["y"]})
            wrong.extend([] if np.array_equal(found.model, wanted) else [found])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_inputs_that_are_being_checked_can_not_be_resized(monkeypatch: pytest.MonkeyPatch) -> None:
    network, mine, checked = Network(PLAN), job(), list[int]()

    def check(network: Network, x: np.ndarray, count: int) -> None:
        with pytest.raises(ValueError, match="resize"):
            mine["x"].resize((1, 1, 6, 6), refcheck=False)
        checked.append(count)

    monkeypatch.setattr(Network, "_check", check)
    network.train(**mine)
    network.logits(mine["x"], mine["model"])
    assert checked == [5, 5]


def test_a_plan_without_end_is_not_held_in_memory() -> None:
    spec = ModelSpec("mlp", (6,), 3, {"hidden": 4})
    plan, x, y = Plan(Schedule(0.1), steps=10**12), np.zeros((4, 6), np.float32), np.zeros(4, np.int64)
    with pytest.raises(AssertionError, match="not compiled"):
        NativeTrainer(Forbidden()).train(Job(spec, plan, initial(spec, 0), x, y, np.random.default_rng(0)))
