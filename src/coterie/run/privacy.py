"""What a run may say of differential privacy: from what clients were asked."""

from functools import cache
from typing import Any

from coterie.errors import CoterieError
from coterie.federation import Algorithm, Federation
from coterie.federation.private_mean import PrivateTraining, error_in_network
from coterie.messages import Guarantee, ModelSpec
from coterie.privacy import Release, epsilon_of, gaussian_sigma, noise_for
from coterie.results.privacy import COUNTS, DESCRIPTIONS
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
    noise = _least_noise(options["epsilon"], options["delta"], rounds, rate)
    return PrivateTraining(**options, noise=noise, rate=rate)


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
    told, limited = fed.disclosures, config.privacy.limit is not None
    answered = [verb for verb in sorted(told.plain) if not limited or verb in config.privacy.unprotected]
    counted = [] if limited and "train" not in answered else [COUNTS]
    noise = gaussian_sigma(wanted.epsilon, wanted.delta)
    return {
        "what": DESCRIPTIONS,
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
    return {
        "what": "models",
        "unit": "client",
        "epsilon": epsilon_of([Release("models", private.noise, rounds, private.rate)], private.delta, COARSE),
        "delta": private.delta,
        "releases": rounds,
        "mechanism": f"Gaussian noise of {private.noise:.3g} times the clip {private.clip:g} on the sum of each "
        f"group's updates, of clients drawn by coins of {private.rate:g}",
        "simulated": simulated,
        "not_covered": ["what clients send to the server", "losses and accuracies", "who took part", *groups],
    }
