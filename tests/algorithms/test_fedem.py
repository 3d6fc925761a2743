"""FedEM: FedAvg with one component; gradients are those of EM, by hand; clients come to mix by their groups."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from coterie.errors import CoterieError
from coterie.federation.loop import rounds
from coterie.messages import ModelSpec
from coterie.models import build
from coterie.testing import small_federation, small_run

pytestmark = pytest.mark.integration


def test_one_component_is_fedavg() -> None:
    models = []
    one = {"model": "mixture", "model_options": {"of": "mlp", "components": 1}}
    for method, network in (("fedem", one), ("fedavg", {"model": "mlp", "model_options": {}})):
        with small_federation(method, trainer="torch", rounds=3, batch_size=20, **network) as (run, _):
            list(rounds(run.fed, run.algorithm, run.evaluator, every=0))
            served = run.algorithm.model_for(0)
            models.append(served.params if method == "fedem" else served)  # type: ignore[union-attr]
    assert [f"component.0.{name}" for name in models[1]] == [*models[0]]
    assert all(np.array_equal(models[0][f"component.0.{name}"], models[1][name]) for name in models[1])


def test_gradients_are_those_of_expectation_maximisation() -> None:
    """∇θ_m = mean of q_i(m) ∇l_im; ∇shares = rate · (π_m − mean q_i(m)); responsibilities by Bayes' rule."""
    torch.manual_seed(0)
    x, y = torch.randn(20, 6), torch.randint(0, 4, (20,))
    mixture = build(ModelSpec("mixture", (6,), 4, {"of": "mlp", "components": 3, "rate": 7.0}), seed=1)
    with torch.no_grad():
        mixture.shares.copy_(torch.tensor([0.1, -0.05, 0.02]))  # type: ignore[operator, union-attr]
    torch.nn.functional.cross_entropy(mixture(x), y).backward()  # type: ignore[no-untyped-call]
    networks = list(mixture.component)  # type: ignore[arg-type]
    pi = torch.softmax(7.0 * mixture.shares.detach(), 0)  # type: ignore[operator, union-attr]
    losses = torch.stack([torch.nn.functional.cross_entropy(n(x), y, reduction="none") for n in networks])
    joint = pi[:, None] * torch.exp(-losses.detach())
    q = joint / joint.sum(0)
    for m, network in enumerate(networks):
        wanted = torch.autograd.grad((q[m] * losses[m]).mean(), list(network.parameters()), retain_graph=True)
        for parameter, gradient in zip(network.parameters(), wanted, strict=True):
            torch.testing.assert_close(parameter.grad, gradient)
    torch.testing.assert_close(mixture.shares.grad, 7.0 * (pi - q.mean(1)))  # type: ignore[union-attr]


def test_clients_that_name_digits_alike_come_to_mix_alike() -> None:
    settings = {
        "dataset": "digits-permuted", "dataset_options": {"groups": 2}, "clients": 6, "fraction": 1.0, "rounds": 12,
        "epochs": 3, "model": "mixture", "model_options": {"of": "mclr", "components": 2}, "eval_every": 0,
    }  # fmt: skip
    mixed = small_run("fedem", **settings)
    alone = small_run("fedavg", **{**settings, "model": "mclr", "model_options": {}})
    assert (mixed.accuracy["C"] or 0) > (alone.accuracy["C"] or 0) + 0.2


def test_another_network_is_refused() -> None:
    with pytest.raises(CoterieError, match="in place of model='mlp' write model='mixture:of=mlp,components=3'"):
        small_run("fedem", model="mlp", model_options={})
    with pytest.raises(CoterieError, match="it should be a network with its usual options"):
        small_run("fedem", model="mixture", model_options={"of": "mixture"})
