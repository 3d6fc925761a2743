"""Runs whose clients train by private steps: the noise, what is said of it, limits, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

import coterie
from coterie.algorithms import ALGORITHMS
from coterie.errors import CoterieError
from coterie.messages import Evaluate, Reply, Request, TrainReply
from coterie.native import available
from coterie.run import recorder
from coterie.run.building import completed, load_data, make_plan, session
from coterie.run.config import Config
from coterie.run.config_trust import PrivateStepOptions
from coterie.run.privacy import most_private_steps
from coterie.run.validation import make_config
from coterie.testing import RecordingEngine

SHUFFLED = "epsilon=8,delta=1e-5,shuffled=true"  # whose cost is a closed form
SMALL: dict[str, Any] = {
    "dataset": "digits-rotated", "clients": 8, "rounds": 2, "fraction": 1.0, "epochs": 1, "workers": 1, "lr": 0.1,
    "eval_every": 0, "dp_sgd": SHUFFLED,
}  # fmt: skip
ALLOWED = ("fedavg", "fedprox", "fednova", "mr-mtl", "solo", "given-groups", "lg-fedavg", "fedper", "pacfl")


def config_of(method: str = "fedavg", dp_sgd: str = SHUFFLED, **sections: dict[str, Any]) -> Config:
    name, _, option = method.partition(":")
    options = dict([option.split("=")]) if option else {}
    tables: dict[str, Any] = {
        "algorithm": {"name": name, **options}, "data": {"name": "digits-rotated", "clients": 8},
        "training": {"rounds": 3, "epochs": 2, "fraction": 0.5}, "privacy": {"dp_sgd": dp_sgd},
    }  # fmt: skip
    for section, keys in sections.items():
        tables[section] = {**tables.get(section, {}), **keys}
    return make_config(tables)


@pytest.mark.integration
@pytest.mark.parametrize("trainings", ["", ",trainings=2"])
def test_the_noise_is_the_least_that_dp_accounting_allows_for_all_steps(trainings: str) -> None:
    """20 steps a training, in each of 3 rounds, or in 2 of them."""
    accounting = pytest.importorskip("dp_accounting", reason="needs the extra: pip install 'coterie[private]'")
    pytest.importorskip("dp_accounting.pld")
    config = config_of(dp_sgd=f"epsilon=2,delta=1e-5,clip=0.7,rate=0.1{trainings}")
    plan, steps = make_plan(config), 40 if trainings else 60
    assert plan.private is not None
    assert (plan.steps, plan.private.clip, plan.private.rate) == (20, 0.7, 0.1)
    assert most_private_steps(config, plan) == steps

    def epsilon(noise: float) -> float:
        step = accounting.PoissonSampledDpEvent(0.1, accounting.GaussianDpEvent(noise))
        return float(accounting.pld.PLDAccountant().compose(step, steps).get_epsilon(1e-5))

    assert epsilon(plan.private.noise) <= 2.0 < epsilon(0.99 * plan.private.noise)


def test_nothing_of_a_training_depends_on_samples() -> None:
    """Steps and noise are those of the settings, before any data is read."""
    plan = make_plan(config_of(dp_sgd="epsilon=8,rate=0.3,shuffled=true"))
    assert plan.steps == 7  # two epochs of 1/0.3 steps
    assert make_plan(config_of(dp_sgd="epsilon=8,steps=5,shuffled=true")).steps == 5


@pytest.fixture(scope="module")
def private_run(tmp_path_factory: pytest.TempPathFactory) -> coterie.Result:
    wanted = {**SMALL, "algorithm": "pacfl", "dp_signature": "epsilon=8,delta=1e-5"}
    return coterie.run(**wanted, out=tmp_path_factory.mktemp("steps") / "run")


@pytest.mark.integration
def test_a_run_says_what_each_client_spent_alone_and_together(private_run: coterie.Result) -> None:
    from coterie.privacy import Release, epsilon_of, gaussian_sigma

    described, trained, both = private_run.privacy or []
    assert {entry["unit"] for entry in (described, trained, both)} == {"sample"}
    assert (trained["what"], trained["releases"], trained["simulated"]) == ("what clients train", 2, True)
    assert 7.9 < trained["epsilon"] <= 8
    assert trained["per_client"] == [trained["epsilon"]] * 8
    assert trained["not_covered"] == both["not_covered"] == ["evaluate"]
    noise = make_plan(config_of(training={"rounds": 2, "epochs": 1, "fraction": 1.0})).private
    assert noise is not None
    told = [Release("description", gaussian_sigma(8.0, 1e-5)), Release("training", noise.noise, 2)]
    assert both["epsilon"] == pytest.approx(epsilon_of(told, 1e-5))
    assert private_run.accuracy["plus"] is None  # for which clients would train once more
    assert all(row["loss"] is None for row in private_run.history)
    assert private_run.folder is not None
    stored = json.loads((private_run.folder / "result.json").read_text())
    assert stored["privacy"] == private_run.privacy
    text = " ".join(private_run.report().split())
    assert "Privacy of what clients train: ε = 7.99, δ = 1e-05 for one sample of a client" in text
    assert "here is simulated: drawn from the seed" in text
    coterie.report(private_run.folder)
    assert "Privacy of what clients train" in (private_run.folder / "report.html").read_text()


@pytest.mark.integration
@pytest.mark.skipif(not available(), reason="Coterie was installed without a C++ compiler")
def test_workers_and_trainers_do_not_matter() -> None:
    pytest.importorskip("dp_accounting", reason="needs the extra: pip install 'coterie[private]'")
    wanted = {**SMALL, "algorithm": "fedavg", "clients": 4, "dp_sgd": "epsilon=4"}
    one, two, torch = (
        coterie.run(**{**wanted, "workers": workers, "trainer": trainer})
        for workers, trainer in ((1, "native"), (2, "native"), (1, "torch"))
    )
    assert one.accuracy == two.accuracy
    assert one.accuracy["C"] == pytest.approx(torch.accuracy["C"], abs=0.02)
    assert one.per_client["L"] == pytest.approx(torch.per_client["L"], abs=0.03)


@pytest.mark.integration
def test_beyond_its_limit_a_client_trains_no_more_and_the_run_goes_on(tmp_path: Path) -> None:
    """One of two trainings of ε = 8 together fits a limit of 6; a run that is resumed goes on from its ledgers."""
    wanted = {**SMALL, "algorithm": "fedavg", "privacy_limit": "epsilon=6", "unprotected": ["evaluate"]}
    result = coterie.run(**wanted, out=tmp_path / "run")
    (event,) = result.events
    assert (event["kind"], event["count"], event["first_round"]) == ("withheld", 8, 2)
    assert "'training' would bring what this client has told to ε = 7.99, beyond its limit of 6" in event["example"]
    assert (result.accuracy["C"] or 0) > 0.1
    assert len([*(tmp_path / "run" / "ledgers").iterdir()]) == 8


@pytest.mark.integration
def test_a_killed_run_is_charged_once_for_a_round_that_is_played_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is killed after clients have answered in the last round that their limit allows, before that is written."""
    limits = {"privacy_limit": "epsilon=6", "unprotected": ["evaluate"], "rounds": 3}
    wanted = {**SMALL, "algorithm": "fedavg", **limits, "dp_sgd": f"{SHUFFLED},trainings=2", "clients": 4}
    whole = coterie.run(**wanted, out=tmp_path / "whole")
    saved = recorder.save_checkpoint

    def dying(path: Path, state: dict[str, Any], durable: bool) -> None:
        if state["round"] == 1:
            raise KeyboardInterrupt
        saved(path, state, durable)

    monkeypatch.setattr(recorder, "save_checkpoint", dying)
    with pytest.raises(KeyboardInterrupt):
        coterie.run(**wanted, out=tmp_path / "killed")
    monkeypatch.undo()
    again = coterie.resume(tmp_path / "killed")
    assert (again.accuracy, again.events, again.privacy) == (whole.accuracy, whole.events, whole.privacy)
    assert any("beyond its limit of 6" in detail for event in again.events for detail in event["details"])
    books = [sorted((tmp_path / run / "ledgers").glob("*/releases.jsonl")) for run in ("whole", "killed")]
    assert len(books[0]) == 4
    assert [book.read_text() for book in books[0]] == [book.read_text() for book in books[1]]


@pytest.mark.integration
def test_who_has_had_its_trainings_is_asked_no_more(tmp_path: Path) -> None:
    wanted = {**SMALL, "algorithm": "fedavg", "rounds": 3, "dp_sgd": f"{SHUFFLED},trainings=1", "fraction": 0.5}
    result = coterie.run(**wanted, out=tmp_path / "run")
    (entry,) = result.privacy or []
    assert entry["releases"] == 1
    assert 7.9 < entry["epsilon"] <= 8
    (event,) = result.events
    assert event["kind"] == "spent"
    assert coterie.resume(tmp_path / "run", rounds=4).privacy == result.privacy  # within what the noise is made for
    coterie.run(**{**wanted, "dp_sgd": SHUFFLED}, out=tmp_path / "other")
    with pytest.raises(CoterieError, match="more would cost more than it says"):
        coterie.resume(tmp_path / "other", rounds=4)


def asked_of(config: Config) -> list[tuple[Reply, Request]]:
    """Return what clients of a run of three rounds, one of whom comes late, are asked and answer."""
    from coterie.client import MemoryStore
    from coterie.federation.loop import rounds

    seen: list[tuple[Reply, Request]] = []

    def note(reply: Reply, request: Request) -> Reply:
        seen.append((reply, request))
        return reply

    data = load_data(config)
    with session(completed(config, data), data, MemoryStore()) as run:
        run.fed.wrap_engine(lambda engine: RecordingEngine(engine, note))
        for _ in rounds(run.fed, run.algorithm, run.evaluator, every=1):
            pass
        run.evaluator.fine_tune()
    return seen


@pytest.mark.integration
@pytest.mark.parametrize("method", ALLOWED)
def test_all_that_clients_tell_is_private_or_a_measurement(method: str) -> None:
    config = config_of(
        method, newcomers={"share": 0.2, "join_at": 1}, privacy={"dp_sgd": SHUFFLED}
        | ({"dp_signature": "epsilon=8"} if method == "pacfl" else {}),
    )  # fmt: skip
    seen = asked_of(config)
    told = [verb for _, request in seen for verb in request.verbs if not verb.is_noised()]
    assert {type(verb) for verb in told} == {Evaluate}
    answers = [answer for reply, _ in seen for answer in reply.answers if isinstance(answer, TrainReply)]
    assert answers
    assert {(answer.samples, answer.loss) for answer in answers} == {(1, 0.0)}
    steps = {verb.plan.steps for _, request in seen for verb in request.verbs if hasattr(verb, "plan")}
    assert {answer.steps for answer in answers} <= steps


def test_every_other_method_says_why_it_can_not() -> None:
    for name in ALGORITHMS:
        if name in ALLOWED or not ALGORITHMS[name].__module__.startswith("coterie."):
            continue
        with pytest.raises(CoterieError, match=r"can.t train by private steps: .{20}"):
            config_of(name)


@pytest.mark.parametrize(
    ("method", "sections", "message"),
    [
        ("ifca", {}, "by their losses, which are told without noise"),
        ("pacfl", {}, "add --dp-signature"),
        ("pacfl:diversity=1", {"privacy": {"dp_signature": "epsilon=1"}}, "diversity is of gradients"),
        ("fedavg:labels=both", {}, "labels = 'both'"),
        ("fedavg", {"training": {"clip": 1.0}}, "the clip of whole gradients"),
        ("fedavg", {"curriculum": {"data": "score=G"}}, "curricula"),
        ("fedavg", {"aggregation": {"secure": True}}, "secure"),
        ("fedavg", {"privacy": {"dp_training": "epsilon=1,delta=1e-5,clip=1"}}, "dp_training"),
        ("fedavg", {"privacy": {"limit": "epsilon=1,by=luck"}}, "by gaussian or by renyi, not by 'luck'"),
    ],
)
def test_what_is_not_accounted_for_is_refused(method: str, sections: dict[str, Any], message: str) -> None:
    with pytest.raises(CoterieError, match=message):
        config_of(
            method, **{"privacy": {}, **sections} | {"privacy": {"dp_sgd": SHUFFLED, **sections.get("privacy", {})}}
        )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("delta=1e-5", "epsilon=8,delta=1e-5"),
        ("8", "epsilon=8,delta=1e-5"),
        ("epsilon=8,noise=1", "epsilon=8,delta=1e-5"),
        ("epsilon=-1", "greater than 0"),
        ("epsilon=8,clip=0", "clip should be a number greater than 0"),
        ("epsilon=8,rate=1.5", "at most 1"),
        ("epsilon=8,steps=0", "whole numbers from 1 on"),
        ("epsilon=8,trainings=2.5", "whole numbers from 1 on"),
        ("epsilon=8,shuffled=3", "true or false"),
    ],
)
def test_a_setting_that_can_not_be_is_refused_with_what_to_write(text: str, message: str) -> None:
    with pytest.raises(CoterieError, match=message):
        config_of(dp_sgd=text)


def test_a_setting_reads_as_it_is_written() -> None:
    given = PrivateStepOptions(3.0, 1e-6, 0.5, 0.2, 7, 9, True)
    assert PrivateStepOptions.read(given.text()) == given
    assert config_of(dp_sgd="epsilon=8").privacy.dp_sgd == "epsilon=8.0,delta=1e-05,clip=1.0,rate=0.1"


def test_the_limit_of_who_draws_samples_by_coins_is_added_up_by_renyi_divergence() -> None:
    limits = {
        dp_sgd: config_of(dp_sgd=dp_sgd, privacy={"dp_sgd": dp_sgd, "limit": "epsilon=9"}).privacy.most
        for dp_sgd in ("epsilon=8", SHUFFLED, "epsilon=8,rate=1")
    }
    assert [limit and limit.by for limit in limits.values()] == ["renyi", "gaussian", "gaussian"]


def test_networks_that_count_samples_are_refused() -> None:
    with pytest.raises(CoterieError, match="is counted, not learnt: take one without BatchNorm"):
        coterie.run(**SMALL, algorithm="fedavg", model="lenet5-bn")
