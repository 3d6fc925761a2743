"""The client's ledger: charges, limits, answers again, kills at every step, damage; across processes' lives."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest

from coterie.errors import CoterieError
from coterie.privacy import Randomness, Release, gaussian_sigma
from coterie.privacy.ledger import BudgetSpent, PrivacyLimit, ReleaseLedger

LIMIT = PrivacyLimit(2.0, 1e-5)
HALF = Release("signature", gaussian_sigma(2.0, 1e-5) * 2**0.5)
"""Two of these are the limit."""


class Samples:
    """What is told of some numbers: their sum and noise, as bytes; how often is counted."""

    def __init__(self, value: float = 1.0) -> None:
        self.value, self.made = value, 0

    def __call__(self, randomness: Randomness) -> bytes:
        self.made += 1
        return np.array(self.value + HALF.noise * randomness.standard_normal(3)).tobytes()


def reopened(folder: Path, limit: PrivacyLimit = LIMIT) -> ReleaseLedger:
    """As after a restart."""
    return ReleaseLedger(folder, limit)


def test_the_same_question_gets_the_same_bytes_also_when_data_changed(tmp_path: Path) -> None:
    samples = Samples()
    first = reopened(tmp_path).answer(b"round 1", HALF, samples)
    samples.value = 100.0
    assert reopened(tmp_path).answer(b"round 1", HALF, samples) == first
    assert samples.made == 1
    assert reopened(tmp_path).spent().releases == 1


def test_beyond_the_limit_a_client_refuses_across_restarts(tmp_path: Path) -> None:
    samples = Samples()
    first, second = (reopened(tmp_path).answer(question, HALF, samples) for question in (b"1", b"2"))
    for _ in range(2):
        with pytest.raises(BudgetSpent, match=r"beyond its limit of 2 at δ = 1e-05; 2 is spent"):
            reopened(tmp_path).answer(b"3", HALF, samples)
    assert samples.made == 2
    assert reopened(tmp_path).spent().epsilon == pytest.approx(2.0)
    assert reopened(tmp_path).answer(b"1", HALF, samples) == first != second  # what was told can be told again
    assert reopened(tmp_path, PrivacyLimit(3.0, 1e-5)).answer(b"3", HALF, samples)  # the owner may allow more


def test_two_questions_and_two_clients_never_share_noise(tmp_path: Path) -> None:
    """Else what one answer tells could be taken from another; also after a folder was set back."""
    answers = [reopened(tmp_path / "a").answer(question, HALF, Samples()) for question in (b"1", b"2")]
    answers.append(reopened(tmp_path / "b").answer(b"1", HALF, Samples()))
    for client in ("a", "b"):
        (tmp_path / client / "releases.jsonl").unlink()
        for answer in (tmp_path / client / "answers").iterdir():
            answer.unlink()
        answers.append(reopened(tmp_path / client).answer(b"1", HALF, Samples()))
    numbers = np.concatenate([np.frombuffer(answer) for answer in answers])
    assert len(np.unique(numbers)) == len(numbers) == 15


class Killed(BaseException):
    pass


def test_a_kill_while_an_answer_is_made_costs_one_charge(tmp_path: Path) -> None:
    def killed(randomness: Randomness) -> bytes:
        raise Killed

    with pytest.raises(Killed):
        reopened(tmp_path).answer(b"1", HALF, killed)
    assert reopened(tmp_path).spent().releases == 1
    answer = reopened(tmp_path).answer(b"1", HALF, Samples())
    assert reopened(tmp_path).answer(b"1", HALF, Samples()) == answer
    assert reopened(tmp_path).spent().releases == 1


def test_a_kill_in_the_last_line_of_the_ledger(tmp_path: Path) -> None:
    """Cut off anywhere in its last line: the kept answer is sent again, and marked as kept again."""
    answer = reopened(tmp_path).answer(b"1", HALF, Samples())
    path = tmp_path / "releases.jsonl"
    whole = path.read_bytes()
    charge = whole.index(b"\n") + 1
    for cut in (charge, charge + 1, len(whole) - 1, len(whole)):
        path.write_bytes(whole[:cut])
        samples = Samples()
        assert reopened(tmp_path).answer(b"1", HALF, samples) == answer
        assert samples.made == 0
        assert path.read_bytes() == whole
        assert reopened(tmp_path).spent().releases == 1


def test_who_asks_at_the_same_moment_gets_the_same_answer_at_the_cost_of_one(tmp_path: Path) -> None:
    """Flower starts a process for each message; each here has a ledger of its own on the same folder."""
    samples, together = Samples(), Barrier(6)

    def ask(number: int) -> bytes:
        together.wait()
        return reopened(tmp_path).answer(b"%d" % (number % 2), HALF, samples)

    with ThreadPoolExecutor(6) as pool:
        answers = [*pool.map(ask, range(6))]
    assert (len({*answers}), samples.made) == (2, 2)
    assert reopened(tmp_path).spent().releases == 2


def test_an_answer_that_is_no_longer_kept_is_refused(tmp_path: Path) -> None:
    answers = {question: reopened(tmp_path).answer(question, HALF, Samples()) for question in (b"1", b"2")}
    reopened(tmp_path).forget(keep=1)
    with pytest.raises(BudgetSpent, match="no longer kept"):
        reopened(tmp_path).answer(b"1", HALF, Samples())
    assert reopened(tmp_path).answer(b"2", HALF, Samples()) == answers[b"2"]
    kept = next((tmp_path / "answers").iterdir())
    kept.write_bytes(kept.read_bytes()[:-1] + b"x")  # another than was sent
    with pytest.raises(BudgetSpent, match="no longer kept"):
        reopened(tmp_path).answer(b"2", HALF, Samples())


@pytest.mark.parametrize("damage", ["a flipped bit", "a line taken out", "all of it", "the secret"])
def test_a_damaged_ledger_answers_nothing(tmp_path: Path, damage: str) -> None:
    for question in (b"1", b"2"):
        reopened(tmp_path, PrivacyLimit(50.0, 1e-5)).answer(question, HALF, Samples())
    path = tmp_path / "releases.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    if damage == "a flipped bit":
        path.write_bytes(b"".join([lines[0].replace(b'"steps": 1', b'"steps": 0'), *lines[1:]]))
    elif damage == "a line taken out":
        path.write_bytes(b"".join(lines[:1] + lines[2:]))
    elif damage == "all of it":
        path.unlink()
    else:
        (tmp_path / "secret").write_bytes(b"short")
    with pytest.raises(CoterieError, match="is damaged"):
        reopened(tmp_path, PrivacyLimit(50.0, 1e-5)).answer(b"3", HALF, Samples())


def test_the_secret_is_the_owners(tmp_path: Path) -> None:
    reopened(tmp_path).answer(b"1", HALF, Samples())
    assert (tmp_path / "secret").stat().st_mode & 0o077 == 0
    assert next((tmp_path / "answers").iterdir()).stat().st_mode & 0o077 == 0


def test_training_by_coins_is_counted_by_renyi_only(tmp_path: Path) -> None:
    training = Release("training", 1.1, steps=100, rate=0.01)
    with pytest.raises(CoterieError, match="'renyi'"):
        reopened(tmp_path).answer(b"1", training, Samples())
    assert reopened(tmp_path).spent().releases == 0  # nothing was charged
    assert reopened(tmp_path, PrivacyLimit(2.0, 1e-5, "renyi")).answer(b"1", training, Samples())
    with pytest.raises(BudgetSpent, match="by=renyi"):  # who changes the way of counting is asked to change it back
        reopened(tmp_path).answer(b"2", HALF, Samples())
    with pytest.raises(ValueError, match="'gaussian' or 'renyi'"):
        PrivacyLimit(1.0, 1e-5, "pld")  # type: ignore[arg-type]
