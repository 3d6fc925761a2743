"""What a client tells under differential privacy: noised, charged, refused beyond its limit, and the same again."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from client_world import ID, PLAN, SEED, SPEC, local_data
from scipy.stats import kstest

from coterie.client import Client, LocalData, MemoryStore, PrivacyTerms, Protection
from coterie.messages import (
    ClassCounts,
    ClassCountsReply,
    Evaluate,
    Failure,
    Guarantee,
    InputMoments,
    Losses,
    Moments,
    Reply,
    Request,
    Signature,
    SignatureReply,
    Train,
    Verb,
    wire,
)
from coterie.messages.limits import Limits
from coterie.models import initial
from coterie.privacy import PrivacyLimit, gaussian_sigma
from coterie.training.torch_trainer import TorchTrainer

ONE = Guarantee(1.0, 1e-5)
FEATURES = (6,)
PRIVATE = Signature(2, private=ONE, features=FEATURES)
COUNTS = ClassCounts(ONE)


def secret(folder: Path, limit: float | None = None, unprotected: frozenset[str] = frozenset()) -> PrivacyTerms:
    """As at a site."""
    return PrivacyTerms(None if limit is None else PrivacyLimit(limit, 1e-5), unprotected, folder, simulated=False)


def ask(
    *verbs: Verb, terms: PrivacyTerms, data: LocalData | None = None, round: int = 1, id: int = ID, **given: Any
) -> Reply | Failure:
    """Ask a client as after a restart."""
    client = Client(id, {0: data or local_data()}, MemoryStore(), TorchTrainer(), terms=terms, **given)
    return client.answer(Request(round, SEED, SPEC, verbs, {"model": initial(SPEC, 0)}))


def signature(answer: Reply | Failure) -> SignatureReply:
    assert isinstance(answer, Reply)
    return answer.answer(SignatureReply)


def test_of_many_samples_the_signature_is_that_without_noise() -> None:
    """Of rows of length 1, as the mechanism has them; the noise is small beside 40,000 samples."""
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(40_000, 6)) * [9, 5, 3, 1, 1, 1]).astype(np.float32)
    data = replace(local_data(), x=x, y=np.zeros(len(x), np.int64), train=np.arange(len(x)))
    told = signature(ask(replace(PRIVATE, halves=1), terms=PrivacyTerms(), data=data))
    rows = x / np.linalg.norm(x, axis=1, keepdims=True)
    expected = np.linalg.svd(rows.T, full_matrices=False)[0][:, :2]
    assert np.abs(expected.T @ told.vectors).diagonal() == pytest.approx([1, 1], abs=1e-4)
    assert told.labels.tolist() == [-1, -1]
    assert told.halves is not None
    assert 0 < told.halves < 2
    assert signature(ask(PRIVATE, terms=PrivacyTerms(), data=data)).halves is None


def test_every_label_is_described_and_counted_also_without_samples() -> None:
    """The last class does not occur; which one that is can't be told from what is there."""
    data, terms = local_data(), PrivacyTerms()
    protection = Protection(min_samples=1000, min_label_samples=1000)  # leaving out would be a release
    told = signature(ask(replace(PRIVATE, p=1, per_label=True), terms=terms, data=data, protection=protection))
    assert told.labels.tolist() == [0, 1, 2, 3]
    assert np.linalg.norm(told.vectors, axis=0) == pytest.approx(1.0)
    counted = ask(COUNTS, terms=terms, data=data, protection=protection)
    assert isinstance(counted, Reply)
    assert counted.answer(ClassCountsReply).left_out is None


def test_counts_have_the_noise_that_the_guarantee_asks_for() -> None:
    data = local_data()
    many = replace(data, y=np.full_like(data.y, 2), classes=2000, train=np.zeros(0, np.int64))
    counts = np.concatenate(
        [
            reply.answer(ClassCountsReply).counts
            for id in range(5)
            if isinstance(reply := ask(COUNTS, terms=PrivacyTerms(), data=many, id=id), Reply)
        ]
    )
    sigma = gaussian_sigma(ONE.epsilon, ONE.delta)
    assert (counts >= 0).all()
    above = counts[counts > 0]
    assert 0.4 < len(above) / len(counts) < 0.5
    jitter = np.random.default_rng(0).uniform(-0.5, 0.5, len(above))
    tail = (above + jitter)[above > 1] / sigma
    low = 1.5 / sigma
    assert kstest(tail, lambda z: (_phi(z) - _phi(low)) / (1 - _phi(low))).pvalue > 0.001


def _phi(z: Any) -> Any:
    from scipy.special import ndtr

    return ndtr(z)


def test_where_test_samples_are_drawn_from_the_same_there_is_more_noise() -> None:
    """One sample more may then put another in its place, which moves sums by √2."""
    from coterie.client.releases import noise_of

    data = local_data()
    release, sigma = noise_of("signature", ONE, data)
    drawn, more = noise_of("signature", ONE, replace(data, drawn_tests=True))
    assert release == drawn
    assert more == pytest.approx(math.sqrt(2) * sigma) == math.sqrt(2) * release.noise


def test_simulations_repeat_and_clients_rounds_and_questions_differ() -> None:
    terms, vectors = PrivacyTerms(), []
    for id, round, verb in [(0, 1, PRIVATE), (0, 1, PRIVATE), (1, 1, PRIVATE), (0, 2, PRIVATE)]:
        vectors.append(signature(ask(verb, terms=terms, id=id, round=round)).vectors)
    assert np.array_equal(vectors[0], vectors[1])
    assert not any(np.allclose(vectors[0], other) for other in vectors[2:])


def test_the_same_request_gets_the_same_bytes_across_restarts_and_changed_data(tmp_path: Path) -> None:
    terms = secret(tmp_path)
    first = ask(PRIVATE, terms=terms)
    other = replace(local_data(), x=local_data().x[::-1])
    assert wire.pack(ask(PRIVATE, terms=terms, data=other)) == wire.pack(first)
    in_company = ask(PRIVATE, COUNTS, terms=terms, data=other)  # the question is the verb, whatever is beside it
    assert np.array_equal(signature(in_company).vectors, signature(first).vectors)
    assert wire.pack(ask(PRIVATE, terms=terms, round=2)) != wire.pack(first)


def test_noise_comes_from_a_secret(tmp_path: Path) -> None:
    """Who knows the seed, the samples and the request can't make the answer again."""
    told = [signature(ask(PRIVATE, terms=terms)) for terms in (secret(tmp_path / "a"), secret(tmp_path / "b"))]
    told.append(signature(ask(PRIVATE, terms=PrivacyTerms())))
    assert not any(np.allclose(told[i].vectors, told[j].vectors) for i, j in ((0, 1), (0, 2), (1, 2)))


@pytest.mark.parametrize("simulated", [True, False])
def test_beyond_its_limit_a_client_withholds_across_restarts(tmp_path: Path, simulated: bool) -> None:
    """Two answers of ε = 1 cost 1.44; a limit of 1.5 allows two, and the third is refused for good."""
    terms = replace(secret(tmp_path, 1.5), simulated=simulated)
    first = ask(PRIVATE, terms=terms)
    assert isinstance(first, Reply)
    assert isinstance(ask(COUNTS, terms=terms), Reply)
    for _ in range(2):
        refused = ask(PRIVATE, terms=terms, round=2)
        assert isinstance(refused, Failure)
        assert refused.kind == "withheld"
        assert "beyond its limit of 1.5" in refused.detail
    assert wire.pack(ask(PRIVATE, terms=terms)) == wire.pack(first)
    if simulated:  # others have ledgers of their own
        assert isinstance(ask(PRIVATE, terms=terms, round=2, id=ID + 1), Reply)


def test_a_limit_allows_exactly_what_it_says(tmp_path: Path) -> None:
    assert isinstance(ask(PRIVATE, terms=secret(tmp_path, 1.0)), Reply)


@pytest.mark.parametrize(
    "verb",
    [Train(PLAN), Evaluate("model"), Losses(("model",)), Moments(), InputMoments(1), ClassCounts(), Signature(2)],
    ids=lambda verb: type(verb).__name__,
)
def test_with_a_limit_nothing_is_told_without_noise(tmp_path: Path, verb: Verb) -> None:
    name = type(verb).__name__.lower()
    refused = ask(verb, terms=secret(tmp_path, 9.0))
    assert isinstance(refused, Failure)
    assert refused.kind == "withheld"
    assert refused.detail.startswith(f"{name} is answered without noise")
    assert isinstance(ask(verb, terms=secret(tmp_path, 9.0, frozenset({name}))), Reply)
    assert isinstance(ask(verb, terms=secret(tmp_path)), Reply)


def test_nothing_is_charged_for_a_request_that_is_refused_for_what_is_beside(tmp_path: Path) -> None:
    terms = secret(tmp_path, 1.0)
    assert isinstance(ask(PRIVATE, Moments(), terms=terms), Failure)
    assert isinstance(ask(PRIVATE, terms=terms, round=2), Reply)


def test_numbers_of_samples_are_declared_only_where_they_are_told_anyway() -> None:
    counts = {0: 30, 1: 0}
    assert PrivacyTerms().told("train", counts) == counts
    limited = PrivacyTerms(PrivacyLimit(1.0, 1e-5), frozenset({"evaluate"}))
    assert limited.told("train", counts) == {0: 1, 1: 1}
    assert limited.told("evaluate", counts) == counts


def test_what_a_private_answer_must_be() -> None:
    """It says nothing of how many samples there are, so that number is no limit to it."""
    limits = Limits({}, samples=1)
    reply = signature(ask(replace(PRIVATE, per_label=True), terms=PrivacyTerms()))
    request = Request(1, SEED, SPEC, (PRIVATE,))
    assert replace(PRIVATE, per_label=True).error_in(reply, request, limits) is None
    assert PRIVATE.error_in(reply, request, limits) == "vectors of shape (6, 8), expected (6, up to 2)"
    counts = ClassCountsReply(np.array([50, 0, 3, 7]))
    assert COUNTS.error_in(counts, request, limits) is None
    assert "counts" in str(COUNTS.error_in(ClassCountsReply(np.array([-1, 0, 3, 7])), request, limits))
    assert ClassCounts().error_in(counts, request, limits) is not None
