"""What a run may say of differential privacy: from what clients were asked."""

from dataclasses import replace
from functools import cache
from typing import Any

from coterie.errors import CoterieError
from coterie.federation import Algorithm, Federation
from coterie.federation.private_mean import PrivateTraining, error_in_network
from coterie.messages import VERBS, Guarantee, ModelSpec
from coterie.privacy import Release, epsilon_of, gaussian_sigma, noise_for
from coterie.results.privacy import COUNTS
from coterie.run.config import Config
from coterie.run.config_trust import private_training_of

COARSE = 1e-3
"""The grid of privacy losses on which noise is looked for."""


def private_training(config: Config, spec: ModelSpec) -> PrivateTraining | None:
    """Return how models are made private, with the least noise that is enough for all rounds; None: they are not."""
    if config.privacy.dp_training is None:
        return None
    if error := error_in_network(spec, config.run.seed):
        raise CoterieError(f"models can't be trained privately: {error}")
    options, rate, rounds = (
        private_training_of(config.privacy.dp_training),
        config.training.fraction,
        config.training.rounds,
    )
    assert rate is not None  # which `coterie.run.validation` has seen to
    least = config.aggregation.secure_min if config.aggregation.secure else 0
    private = PrivateTraining(**options, noise=0.0, rate=rate, least=least, rounds=rounds)
    return replace(private, noise=_least_noise(private.epsilon, private.noise_delta, rounds, rate))


@cache
def _least_noise(epsilon: float, delta: float, rounds: int, rate: float) -> float:
    return noise_for(epsilon, delta, lambda z: epsilon_of([Release("models", z, rounds, rate)], delta, COARSE))


def privacy_of(config: Config, fed: Federation, method: Algorithm, simulated: bool) -> list[dict[str, Any]] | None:
    """Return ``privacy`` of ``result.json``; None where nothing is private."""
    described, trained = fed.settings.dp_signature, fed.settings.private_training
    entries = [] if described is None else [_of_descriptions(config, fed, described, simulated)]
    entries += [] if trained is None else [_of_models(fed, method, trained, simulated)]
    return entries or None


def _of_descriptions(config: Config, fed: Federation, wanted: Guarantee, simulated: bool) -> dict[str, Any]:
    """Say how private what clients tell of themselves is; ε is that of the client that was asked most.

    What is not covered is what was asked without noise, but for what simulated clients with a limit refuse; real sites
    may refuse more, each by its own file.
    """
    told, limited, named = fed.disclosures, config.privacy.limit is not None, {*config.privacy.unprotected}
    permissions = {verb.__name__.lower(): verb.permissions() for verb in VERBS}
    answered = [verb for verb in sorted(told.plain) if not limited or named & {*permissions[verb]}]
    counted = [] if limited and "train" not in named else [COUNTS]
    noise = gaussian_sigma(wanted.epsilon, wanted.delta)
    return {
        "what": "what clients tell to describe themselves",
        "unit": "sample",
        "epsilon": epsilon_of([Release("description", noise)] * told.most, wanted.delta),
        "delta": wanted.delta,
        "releases": told.most,
        "mechanism": f"Gaussian noise of {noise:.3g} times the sensitivity",
        "simulated": simulated,
        "not_covered": [*answered, *counted],
    }


def _of_models(fed: Federation, method: Algorithm, private: PrivateTraining, simulated: bool) -> dict[str, Any]:
    """Say how private models are, given the groups: these are formed of clients as they are."""
    rounds, groups = fed.settings.rounds, [] if method.groups() is None else ["who is in which group"]
    sent = "what clients send to the server" if fed.settings.secure is None else "sums of groups, which the server sees"
    return {
        "what": "models",
        "unit": "client",
        "epsilon": epsilon_of([Release("models", private.noise, rounds, private.rate)], private.noise_delta, COARSE),
        "delta": private.delta,
        "releases": rounds,
        "mechanism": f"Gaussian noise of {private.noise:.3g} times the clip {private.clip:g} on the sum of each "
        f"group's updates, of clients drawn by coins of {private.rate:g}",
        "simulated": simulated,
        "not_covered": [sent, "losses and accuracies", "who took part", *groups],
    }
