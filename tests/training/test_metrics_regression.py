"""Errors of numbers to predict, against scikit-learn and PyTorch."""

import numpy as np
import pytest
import torch
from sklearn.metrics import mean_absolute_error, root_mean_squared_error

import coterie
from coterie.errors import CoterieError
from coterie.messages import Evaluate, EvaluateReply, Limits, ModelSpec, Request
from coterie.messages.numbers import LARGEST_ERROR
from coterie.training import CommonTest, guessing, losses, score
from coterie.training.metrics import METRICS, measured
from coterie.training.objectives import sample_losses

SPEC = ModelSpec("mclr", (3,), 1, loss="mse", target=(50.0, 20.0))


class Fixed:
    """A trainer whose network answers with what it is given."""

    name = "fixed"

    def logits(self, spec, params, x):
        return x[:, :1]


def numbers(n=40):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 3)).astype(np.float32), rng.normal(size=n).astype(np.float32)


@pytest.mark.parametrize(("name", "oracle"), [("mae", mean_absolute_error), ("rmse", root_mean_squared_error)])
def test_errors_are_those_of_scikit_learn_in_the_unit_of_the_numbers(name, oracle):
    x, y = numbers()
    wanted = oracle(50 + 20.0 * y.astype(float), 50 + 20.0 * x[:, 0].astype(float))
    got = score(Fixed(), SPEC, {}, x, y, metric=name).summary()
    assert got.score == pytest.approx(wanted, rel=1e-12)
    assert got.correct == 0
    assert got.samples == 40
    part = np.array([3, 5, 39])
    shared = CommonTest(x, y, lambda raw: raw).evaluate(Fixed(), SPEC, {}, part, name)
    assert shared.score == pytest.approx(oracle(20.0 * y[part].astype(float), 20.0 * x[part, 0].astype(float)))


def test_the_squared_error_is_that_of_torch_and_that_of_guessing_the_mean_is_1():
    x, y = numbers()
    wanted = torch.nn.functional.mse_loss(torch.from_numpy(x[:, 0]), torch.from_numpy(y), reduction="none")
    assert torch.equal(sample_losses("mse", torch.from_numpy(x[:, :1]), torch.from_numpy(y)), wanted)
    np.testing.assert_allclose(losses(x[:, :1], y, "mse"), wanted.numpy(), rtol=1e-6)
    assert guessing(SPEC) == 1.0


def test_a_model_that_is_no_number_has_the_largest_error_there_is():
    x, y = numbers()
    x[3] = np.nan
    assert score(Fixed(), SPEC, {}, x, y, metric="mae").score == LARGEST_ERROR
    assert measured("mae", np.full(4, 1e300), np.zeros(4)) == LARGEST_ERROR
    assert measured("mae", np.zeros(0), np.zeros(0)) is None


def test_an_own_metric_of_numbers_ends_in_error():
    @coterie.metric("median-error")
    def median_error(outputs, targets):
        """Median of absolute errors."""
        return float(np.median(np.abs(outputs - targets)))

    @coterie.metric("signed-error")
    def signed_error(outputs, targets):
        """Mean of the errors, which may be below 0."""
        return float(np.mean(outputs - targets))

    x, y = numbers()
    wanted = np.median(np.abs(20.0 * x[:, 0].astype(float) - 20.0 * y.astype(float)))
    try:
        assert score(Fixed(), SPEC, {}, x, y, metric="median-error").score == pytest.approx(wanted)
        with pytest.raises(CoterieError, match=r"returned -1\.0: return an error of at least 0"):
            measured("signed-error", np.zeros(2), np.ones(2))
    finally:
        del METRICS._items["median-error"], METRICS._items["signed-error"]


def test_an_error_of_a_reply_may_be_above_1_but_no_share():
    request, limits = Request(1, 0, SPEC, ()), Limits({})
    reply = EvaluateReply(5, 0, 1.0, score=1234.5)
    assert Evaluate(metric="mae").error_in(reply, request, limits) is None
    assert "expected 0 to 1" in Evaluate(metric="f1").error_in(reply, request, limits)
    far = EvaluateReply(5, 0, 1.0, score=1e13)
    assert "expected 0 to 1e+12" in Evaluate(metric="mae").error_in(far, request, limits)
