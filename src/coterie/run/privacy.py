"""What a run may say of differential privacy: from what clients were asked."""

import math
from dataclasses import replace
from functools import cache
from typing import Any

from coterie.errors import CoterieError, counted
from coterie.federation import Algorithm, Federation
from coterie.federation.private_mean import PrivateTraining, error_in_counted, error_in_network
from coterie.messages import VERBS, Guarantee, InputMoments, ModelSpec, Plan, PrivateSteps, UpdateNoise
from coterie.privacy import Release, epsilon_of, gaussian_sigma, noise_for
from coterie.results.privacy import COUNTS, DESCRIPTIONS
from coterie.run.config import Config
from coterie.run.config_trust import PrivateStepOptions
from coterie.training.private_steps import steps_of_epoch, training_release

COARSE = 1e-3
"""The grid of privacy losses on which noise is looked for."""


def private_training(config: Config, spec: ModelSpec) -> PrivateTraining | None:
    """Return how models are made private, with the least noise that is enough for all rounds; None: they are not."""
    if config.privacy.dp_training is None:
        return None
    if error := error_in_network(spec, config.run.seed):
        raise CoterieError(f"models can't be trained privately: {error}")
    return _private_training(config)


def _private_training(config: Config) -> PrivateTraining:
    options, rate = config.privacy.private_training, config.training.fraction
    assert options is not None  # where this is asked
    assert rate is not None  # which `coterie.run.privacy_checks` has seen to
    rounds, least = options.rounds or config.training.rounds, config.aggregation.secure_min
    wanted = {**vars(options), "rounds": rounds, "least": least if config.aggregation.secure else 0}
    private = PrivateTraining(**wanted, noise=0.0, rate=rate)
    counted_on = 1.0 if private.local else rate  # who takes part is seen by a server that is not trusted
    return replace(private, noise=_least_noise(private.epsilon, private.noise_delta, rounds, counted_on))


def with_hidden_updates(config: Config, plan: Plan) -> Plan:
    """Return how clients train: with noise on what they send, if it is theirs to add."""
    wanted = config.privacy.private_training
    if wanted is None or not wanted.local:
        return plan
    return replace(plan, hidden=UpdateNoise(wanted.clip, _agreed(_private_training(config).noise)))


def _agreed(noise: float) -> float:
    """Return noise that all sites find, whose last digits may differ: a little more."""
    return math.ceil(noise * 1000) / 1000


@cache
def _least_noise(epsilon: float, delta: float, rounds: int, rate: float) -> float:
    return noise_for(epsilon, delta, lambda z: _epsilon(delta, Release("models", z, rounds, rate)))


@cache
def _epsilon(delta: float, *releases: Release) -> float:
    return epsilon_of(releases, delta, COARSE)


def with_private_steps(config: Config, plan: Plan) -> Plan:
    """Return how clients train: by private steps, if asked for, with the least noise that is enough for all of them."""
    wanted = config.privacy.private_steps
    if wanted is None:
        return plan
    steps = wanted.steps or math.ceil(plan.epochs / wanted.rate - 1e-9)
    private = PrivateSteps(wanted.clip, 1.0, wanted.rate, wanted.shuffled)
    planned = _planned(wanted, replace(plan, steps=steps, private=private), config.training.rounds)
    noise = _least_noise(wanted.epsilon, wanted.delta, planned.steps, planned.rate)
    return replace(plan, steps=steps, private=replace(private, noise=_agreed(noise)))


def _planned(wanted: PrivateStepOptions, plan: Plan, rounds: int) -> Release:
    """Return what a client's trainings cost that are to be private together."""
    release = training_release(plan)
    assert release is not None  # since a training has steps
    return replace(release, steps=release.steps * (wanted.trainings or rounds))


def most_private_steps(config: Config, plan: Plan) -> int | None:
    """Return for how many steps, or shuffled epochs, of a client the noise is made; None: there is none."""
    wanted = config.privacy.private_steps
    return None if wanted is None else _planned(wanted, plan, config.training.rounds).steps


def check_private_network(config: Config, spec: ModelSpec) -> None:
    """Refuse a network whose layers count samples, where steps are private."""
    if config.privacy.dp_sgd is not None and (error := error_in_counted(spec, config.run.seed)):
        raise CoterieError(f"clients can't train by private steps: {error}")


def privacy_of(config: Config, fed: Federation, method: Algorithm, simulated: bool) -> list[dict[str, Any]] | None:
    """Return ``privacy`` of ``result.json``; None where nothing is private."""
    described, trained = fed.settings.dp_signature, fed.settings.private_training
    entries = [] if described is None else [_of_descriptions(config, fed, described, simulated)]
    entries += [] if config.privacy.private_steps is None else _of_trainings(config, fed, simulated)
    entries += [] if trained is None else [_of_models(config, fed, method, trained, simulated)]
    return entries or None


def _not_covered(config: Config, fed: Federation) -> list[str]:
    """Name what was asked without noise, but for what simulated clients with a limit refuse.

    Real sites may refuse more, each by its own file. Numbers of samples are told unless trainings are private, or not
    answered.
    """
    limited, named = config.privacy.limit is not None, {*config.privacy.unprotected}
    permissions = {verb.__name__.lower(): verb.permissions() for verb in VERBS}
    plain = sorted(fed.disclosures.plain)
    answered = [verb for verb in plain if not limited or named & {*permissions[verb]}]
    hidden = config.privacy.hides_samples or (limited and "train" not in named)
    return [*answered, *([] if hidden else [COUNTS])]


def _of_descriptions(config: Config, fed: Federation, wanted: Guarantee, simulated: bool) -> dict[str, Any]:
    """Say how private what clients tell of themselves is; ε is that of the client that was asked most."""
    told, noise = fed.disclosures, gaussian_sigma(wanted.epsilon, wanted.delta)
    return {
        "what": DESCRIPTIONS,
        "unit": "sample",
        "epsilon": epsilon_of([Release("description", noise)] * told.most, wanted.delta),
        "delta": wanted.delta,
        "releases": told.most,
        "mechanism": f"Gaussian noise of {noise:.3g} times the sensitivity",
        "simulated": simulated,
        "not_covered": _not_covered(config, fed),
    }


def _of_trainings(config: Config, fed: Federation, simulated: bool) -> list[dict[str, Any]]:
    """Say how private what clients train is, and all that they tell together; ε is that of who was asked most.

    What was asked counts, whether it was answered or not.
    """
    wanted, plan, told = config.privacy.private_steps, fed.plan, fed.disclosures
    assert wanted is not None  # where this is asked
    trained = _costs(fed, plan, wanted.delta)
    entry = {
        "what": "what clients train",
        "unit": "sample",
        "epsilon": max(trained, default=0.0),
        "delta": wanted.delta,
        "releases": max(told.trainings.values(), default=0),
        "mechanism": _mechanism(wanted, plan, config.training.rounds),
        "simulated": simulated,
        "not_covered": _not_covered(config, fed),
        "per_client": trained,
    }
    if (described := fed.settings.dp_signature) is None:
        return [entry]
    both = _costs(fed, plan, wanted.delta, Release("description", gaussian_sigma(described.epsilon, described.delta)))
    together = {
        "what": "what clients tell to describe themselves and train, together",
        "epsilon": max(both, default=0.0),
        "releases": max((told.trainings.get(c, 0) + told.noised.get(c, 0) for c in range(len(both))), default=0),
        "mechanism": "these two",
        "per_client": both,
    }
    return [entry, {**entry, **together}]


def _costs(fed: Federation, plan: Plan, delta: float, description: Release | None = None) -> list[float]:
    """Return the ε of what each client was asked to train, and how often to describe itself, if that is given."""
    told, training = fed.disclosures, training_release(plan)
    assert training is not None  # since a training has steps
    costs = []
    for client in range(max(fed.admitted, default=-1) + 1):
        steps = told.steps.get(client, 0)
        releases = [replace(training, steps=steps)] if steps else []
        releases += [] if description is None else [description] * told.noised.get(client, 0)
        costs.append(_epsilon(delta, *releases))
    return costs


def _mechanism(wanted: PrivateStepOptions, plan: Plan, rounds: int) -> str:
    """Say how steps are made private."""
    private = plan.private
    assert private is not None  # where steps are private
    drawn = f"batches drawn by coins of {private.rate:g}"
    if private.shuffled:
        drawn = f"each sample in one of the {steps_of_epoch(private)} steps of an epoch"
    return (
        f"DP-SGD: gradients of samples cut to {private.clip:g}, noise of {private.noise:.3g} times that, {drawn}; the "
        f"noise is enough for {counted(wanted.trainings or rounds, 'training')} of a client at ε = {wanted.epsilon:g}"
    )


def _of_models(
    config: Config, fed: Federation, method: Algorithm, private: PrivateTraining, simulated: bool
) -> dict[str, Any]:
    """Say how private models are, given the groups: these are formed of clients as they are."""
    rounds, groups = fed.settings.rounds, [] if method.groups() is None else ["who is in which group"]
    sent = "what clients send to the server" if fed.settings.secure is None else "sums of groups, which the server sees"
    left = _not_covered(config, fed) if private.local else [sent, "losses and accuracies"]
    if not private.local and InputMoments.__name__.lower() in fed.disclosures.plain:
        left.append("mean and deviation of the inputs, by which all standardise")
    rate = 1.0 if private.local else private.rate
    return {
        "what": "updates that clients send, and models" if private.local else "models",
        "unit": "client",
        "epsilon": epsilon_of([Release("models", private.noise, rounds, rate)], private.noise_delta, COARSE),
        "delta": private.delta,
        "releases": rounds,
        "mechanism": _noise_of_models(private, fed.aggregator.clip),
        "simulated": simulated,
        "not_covered": [*left, "how many took part" if private.counts_on_secrecy else "who took part", *groups],
    }


def _noise_of_models(private: PrivateTraining, clip: float | None) -> str:
    """Say how models are made private; `clip` is what an adaptive one has come to."""
    noise = f"Gaussian noise of {private.noise:.3g} times"
    if private.local:
        return f"{noise} twice the clip {private.clip:g}, which each client adds to its own update before it is sent"
    drawn = f"on the sum of each group's updates, of clients drawn by coins of {private.rate:g}"
    if private.quantile is None:
        return f"{noise} the clip {private.clip:g} {drawn}"
    reached = private.clip if clip is None else clip
    return (
        f"{noise} the clip {drawn}; the clip follows the {private.quantile:g} quantile of updates' lengths, whose "
        f"noised count is part of this, from {private.clip:g} to {reached:.3g}"
    )
