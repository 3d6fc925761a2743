"""What a site learns before it joins: whether its data fit, and what would leave it."""

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from coterie.cli.deploy import deploy
from coterie.client import MemoryStore
from coterie.data import FederatedData, Samples
from coterie.deploy.preview import check, outgoing_answers
from coterie.deploy.samples import site_data
from coterie.deploy.terms import Terms, read_site, read_terms
from coterie.errors import CoterieError
from coterie.federation.exchange import Ledger
from coterie.federation.loop import rounds
from coterie.messages import MEASUREMENTS
from coterie.run.building import session
from coterie.run.config import Config
from coterie.testing import RecordingEngine
from coterie.training import choose_trainer


def changed(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.mark.integration
def test_the_command_line(app: Path) -> None:
    told = CliRunner().invoke(deploy, ["check", str(app)], catch_exceptions=False)
    assert told.exit_code == 0
    assert "'site-1' fits 'app': 48 samples to train on, 12 to test on, uint8 of 1 x 8 x 8" in told.stdout
    assert "array vectors: float32 64 x 3" in told.stdout
    assert "note: signature vectors can look like the samples: of images, the first one shows" in told.stdout
    assert "inputmoments: asked to inputmoments; 320 bytes leave" in told.stdout
    again = CliRunner().invoke(deploy, ["init", str(app)])
    assert isinstance(again.exception, CoterieError)
    assert "is there already" in str(again.exception)


def really_run(terms: Terms) -> tuple[Ledger, Counter[tuple[str, tuple[str, ...]]]]:
    """Train four clients, of whom one comes in round 1; return what the ledger counted, and how many answers it was."""
    rng, each = np.random.default_rng(1), 48
    shape, classes = terms.samples.shape, terms.samples.classes
    train, test, server = (
        Samples(rng.integers(0, 256, (n, *shape)).astype(np.uint8), np.arange(n) % classes)
        for n in (4 * each, 4 * 12, 20)
    )
    data = FederatedData(
        "real", classes, train, test, np.split(np.arange(4 * each), 4), np.split(np.arange(4 * 12), 4), False, server,
        terms.samples.normalisation, standardise=terms.samples.measured,
    )  # fmt: skip
    chosen = terms.config.model_dump()
    chosen["engine"] |= {"name": "embedded", "workers": 1}
    chosen["training"] |= {"rounds": 3, "epochs": 2}
    chosen["newcomers"] |= {"share": 0.25, "join_at": 1}
    config = Config.model_validate(chosen)
    with session(config, data, MemoryStore(), choose_trainer("auto", terms.spec)) as run:
        engine = run.fed.wrap_engine(RecordingEngine)
        for _ in rounds(run.fed, run.algorithm, run.evaluator, every=1):
            pass
        run.evaluator.fine_tune()
    requests = [request for requests in engine.exchanges for request in requests.values()]
    asked = [(request.kind, tuple(type(verb).__name__.lower() for verb in request.verbs)) for request in requests]
    return run.fed.ledger, Counter(asked)


DEPLOYED = ["fedavg", "pacfl", "flis-dc", "flag", "ifca", "cfl", "fedgroup", "scaffold", "sub-fedavg-hy", "solo"]
DEPENDS = {"flis-dc": 0.02, "ifca": 0.02, "sub-fedavg-hy": 0.02}


"""Methods whose messages depend on what was learnt, by how much: on who wins how many samples, on what is pruned."""


@pytest.mark.integration
@pytest.mark.parametrize("algorithm", DEPLOYED)
def test_what_would_leave_is_what_the_ledger_counts(app: Path, algorithm: str) -> None:
    """The kinds are those of a real run, newcomers' too, and as many bytes leave as its ledger counts for each."""
    changed(app / "federation.toml", '"pacfl"', f'"{algorithm}"')
    changed(app / "federation.toml", "# data = ", "data = ")
    changed(app / "federation.toml", "min_clients = 2", "min_clients = 3")
    changed(app / "federation.toml", "min_samples = 10 ", "min_samples = 0 ")
    changed(app / "federation.toml", "min_label_samples = 10 ", "min_label_samples = 0 ")
    terms = read_terms(app)
    site = read_site(app / "site.toml")
    left, held_back = outgoing_answers(terms, site_data(site, terms), site)
    assert not held_back
    ledger, answers = really_run(terms)
    assert {(one.kind, one.asked) for one in left if one.kind not in MEASUREMENTS} == {
        a for a in answers if a[0] not in MEASUREMENTS
    }
    assert set(answers) <= {(one.kind, one.asked) for one in left}
    assert "newcomer" in ledger.by_kind
    for kind, counted in ledger.by_kind.items():
        told = sum(one.bytes * answers[one.kind, one.asked] for one in left if one.kind == kind)
        assert told == pytest.approx(counted["up"], rel=DEPENDS.get(algorithm, 0.0), abs=0.0), kind
    arrays = {name for answer in left for name in answer.arrays}
    assert any(name.startswith(("params ", "values ")) for name in arrays) == (algorithm != "solo")
    assert not any(name in ("x", "y") for name in arrays)


@pytest.mark.integration
def test_newcomers_that_do_not_train_send_nothing_more(app: Path) -> None:
    lines = check(app)
    assert any(line.startswith("  newcomer: asked to train; ") for line in lines)
    changed(app / "federation.toml", "[engine]", "[newcomers]\nepochs = 0\n[engine]")
    assert not any(line.startswith("  newcomer:") for line in check(app))


def test_checking_needs_no_flower(app: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "flwr"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "flwr", None)
    monkeypatch.delitem(sys.modules, "coterie.engine.flower.app", raising=False)
    assert check(app)


def test_a_site_sees_the_policy_and_what_is_held_back(app: Path) -> None:
    lines = check(app)
    [named] = [line for line in lines if line.startswith("policy ")]
    assert '    signature: halves 6; measure "theta1"; p 3' not in lines
    assert '  signature: halves 6; measure "theta1"; p 3' in lines
    assert "  an answer stands on at least 10 samples, a label on 10 per vector" in lines
    assert lines[-2].startswith("the proof of the site's name is bound to no server's certificate")
    site, digest = app / "site.toml", named.split()[1].rstrip(":")
    site.write_text(f'{site.read_text()}policy = "{digest}"\n')
    assert check(app) == lines
    changed(app / "federation.toml", "epochs = 5", "epochs = 6")
    with pytest.raises(CoterieError, match=f"and 'site-1' allows {digest} only"):
        check(app)


@pytest.mark.integration
@pytest.mark.parametrize("named", [True, False])
def test_labels_of_few_samples_are_pointed_out(app: Path, named: bool) -> None:
    with np.load(app / "data.npz") as arrays:
        x, y = arrays["x_train"], np.array([3] * 40 + [7] * 9 + [1] * 11)
    np.savez(app / "data.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    if named:
        changed(app / "federation.toml", "# class_names", f"class_names = {[*'abcdefghij']} #")
    [told] = [line for line in check(app) if line.startswith("labels with fewer")]
    assert told == f"labels with fewer than 10 samples, of which training may tell: {'h' if named else 7}"
    changed(app / "federation.toml", "min_label_samples = 10", "min_label_samples = 9 ")
    assert not [line for line in check(app) if line.startswith("labels with fewer")]


def test_a_small_site_is_told_what_it_holds_back(app: Path) -> None:
    changed(app / "site.toml", "test_share = 0.2", "test_share = 0.1")
    assert "  held back: the answer would stand on fewer than 10 samples" in check(app)


@pytest.mark.integration
def test_a_site_that_may_not_tell_its_mean_is_told_so(app: Path) -> None:
    with np.load(app / "data.npz") as arrays:
        x, y = arrays["x_train"], arrays["y_train"]
    np.savez(app / "data.npz", x_train=x[:9], y_train=y[:9], x_test=x[9:29], y_test=y[9:29])
    lines = check(app)
    assert "  held back: the answer would stand on fewer than 10 samples" in lines
    assert not any(line.startswith("  inputmoments: asked") for line in lines)


@pytest.mark.integration
def test_what_is_agreed_on_beforehand_does_not_leave(app: Path) -> None:
    """And where a method asks for no signature, nobody is warned of one."""
    changed(app / "federation.toml", "# mean = [0.5]", "std = [0.25]\nmean = [0.5]")
    changed(app / "federation.toml", '"pacfl"', '"fedavg"')
    lines = "\n".join(check(app))
    assert "inputmoments" not in lines
    assert "signature" not in lines
