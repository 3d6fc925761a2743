"""From a configuration to a federation that is ready to run: data, network, plan, trainer, engine, method."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from coterie import data as sources
from coterie.algorithms import ALGORITHMS
from coterie.client import Store
from coterie.data import FederatedData
from coterie.data.difficulty import by_difficulty, spread, with_noise
from coterie.data.dividing import on_validation
from coterie.data.federated import Normalisation, channels_of
from coterie.data.joining import joined_by
from coterie.data.server_set import with_other_server_set
from coterie.errors import CoterieError
from coterie.federation import Algorithm, Engine, Federation, FederationSettings, ServerData
from coterie.federation.evaluation import Evaluator
from coterie.federation.evaluation_options import EvaluationOptions
from coterie.federation.noise_source import SecretNoise
from coterie.federation.sampling import PoissonSampler
from coterie.messages import ClientId, InputMoments, ModelSpec, Params, Plan, Schedule
from coterie.models import MODELS, default_model, initial
from coterie.run import tracked
from coterie.run.config import Config
from coterie.run.engines import make_engine, workers
from coterie.run.expert import difficulty, make_expert, needs_expert
from coterie.run.parameter_files import with_start
from coterie.run.privacy import (
    check_private_network,
    most_private_steps,
    private_training,
    with_hidden_updates,
    with_private_steps,
)
from coterie.run.progress import Progress
from coterie.streams import stream
from coterie.training import CommonTest, Trainer, choose_trainer, one_thread


def load_data(config: Config) -> FederatedData:
    """Read the data of a configuration and divide them among clients."""
    data = sources.load(
        config.data.name,
        config.data.options,
        (config.partition.name, config.partition.options) if config.partition.name else None,
        config.data.clients,
        config.run.seed,
        server_share=config.data.server_share,
        surplus=config.partition.surplus or 1,
        exchangeable=bool(config.partition.f_ord),
        numbers=config.evaluation.predicts_numbers,
    )
    share, noise = config.evaluation.validation, config.partition.noise
    data = on_validation(data, share, config.run.seed) if share else data
    if noise and config.partition.f_ord:
        raise CoterieError("f_ord and noise are two ways to make clients difficult: use one of them")
    data = with_noise(data, noise, config.run.seed) if noise else data
    for path in config.newcomers.admit:
        data = joined_by(data, Path(path), config.data.options, config.run.seed)
    return data


def completed(config: Config, data: FederatedData) -> Config:
    """Fill in what only the data can tell, and make paths absolute, so that the configuration can be run anywhere."""
    config = with_network(absolute(config), data.shape).changed(data={"clients": data.clients})
    return config.changed(model={"initial_digest": make_spec(config, data).start})


def absolute(config: Config) -> Config:
    """Make paths absolute, so that they hold in any folder."""
    expert, server_data = config.curriculum.expert, make_method(config).server_data_from
    options = {key: value for key, value in config.algorithm.options.items() if isinstance(value, str)}
    files = [key for key, option in ALGORITHMS.options(config.algorithm.name).items() if option.names_file]
    start = config.model.initial
    return config.changed(
        data={"name": _absolute_data(config.data.name)},
        algorithm={
            **{key: _absolute_data(value) for key, value in options.items() if value == server_data},
            **{key: os.path.abspath(os.path.expanduser(options[key])) for key in files if key in options},
        },
        newcomers={"admit": [os.path.abspath(os.path.expanduser(path)) for path in config.newcomers.admit]},
        model={"initial": None if start is None else os.path.abspath(os.path.expanduser(start))},
        curriculum={"expert": None if expert is None else os.path.abspath(os.path.expanduser(expert))},
        run={
            "plugins": [os.path.abspath(p) if p.endswith(".py") else p for p in config.run.plugins],
            "track": [tracked.absolute(name) for name in config.run.track],
        },
    )


def _absolute_data(name: str) -> str:
    """Return the absolute path of a data set, or its name where it is a registered one."""
    path = os.path.expanduser(name)
    return os.path.abspath(path) if name not in sources.DATASETS and os.path.exists(path) else name


def make_plan(config: Config) -> Plan:
    """Return how clients train unless the method says otherwise."""
    training = config.training
    optimiser = training.steps_by.make()
    plan = Plan(
        lr=Schedule(training.lr, training.lr_decay, training.lr_power),
        epochs=training.epochs,
        batch_size=training.batch_size,
        momentum=training.momentum if optimiser is None else 0.0,
        weight_decay=training.weight_decay,
        curriculum=config.curriculum.of_samples,
        optimiser=optimiser,
        clip=training.clip,
        smoothing=training.smoothing or None,
    )
    return with_hidden_updates(config, with_private_steps(config, plan))


def make_method(config: Config) -> Algorithm:
    """Return the method, with its options."""
    method: Algorithm = ALGORITHMS[config.algorithm.name](**config.algorithm.options)
    return method


def make_trainer(config: Config, spec: ModelSpec, progress: Progress) -> Trainer:
    """Return what executes plans: compiled code where it can, unless the configuration says otherwise."""
    from coterie.native import available
    from coterie.training.native_trainer import runs_natively

    if config.engine.trainer == "auto" and not available() and runs_natively(spec):
        progress.phase("training with PyTorch: Coterie was installed without a C++ compiler, which would be faster")
    trainer = choose_trainer(config.engine.trainer, spec, config.engine.device)
    if config.engine.batch_clients > 1 and trainer.name == "native":
        progress.phase(
            f"clients train one by one: '{spec.name}' runs compiled (--trainer torch would train several at once)"
        )
    return trainer


@dataclass
class Session:
    """A federation set up for a method."""

    config: Config
    fed: Federation
    algorithm: Algorithm
    evaluator: Evaluator


@contextmanager
def session(
    config: Config,
    data: FederatedData,
    store: Store,
    trainer: Trainer | None = None,
    progress: Progress | None = None,
    folder: Path | None = None,
    engine: AbstractContextManager[Engine] | None = None,
) -> Iterator[Session]:
    """Set up engine, federation and method; the engine ends with the block.

    An expert is trained first where one is needed; it is kept in `folder`. Trainer and engine are those that the
    configuration names, unless others are given.
    """
    seed, progress, spec = config.run.seed, progress or Progress(), make_spec(config, data)
    check_private_network(config, spec)
    plan, trainer = make_plan(config), trainer or make_trainer(config, spec, progress)
    expert = make_expert(config, data, spec, plan, trainer, progress, folder) if needs_expert(config) else None
    if expert is not None and config.partition.f_ord:
        data, deviations = _rearranged(config, data, spec, expert, trainer)
        text = f"f_ord = {config.partition.f_ord:g}: within a client losses deviate by"
        progress.phase(f"{text} {float(deviations.mean()):.2f} (mean)")
    algorithm = make_method(config)
    if algorithm.server_data_from is not None:
        data = with_other_server_set(data, algorithm.server_data_from, seed)
    test = CommonTest(data.test.x, data.test.y, data.normalise) if data.common_test else None
    private = private_training(config, spec)
    made = engine or make_engine(config, data, spec, store, trainer, test, arrivals(config, data), folder)
    with made as running:
        settings = FederationSettings(
            spec=spec,
            seed=seed,
            plan=replace(plan, label_offset=algorithm.trained_offset),
            rounds=config.training.rounds,
            fraction=config.training.fraction,
            server_data=ServerData(data.normalise(data.server.x), data.server.y),
            input_moments=_input_moments(data),
            test=test,
            metric=config.evaluation.other_metric,
            evaluation=evaluation_options(config),
            expert=expert,
            workers=workers(config),
            newcomer_epochs=config.newcomers.epochs,
            deadline=config.engine.deadline,
            min_replies=config.engine.min_replies,
            oversample=config.engine.oversample,
            max_strikes=config.engine.max_strikes,
            grouping=config.grouping.options(),
            aggregation=config.aggregation.options(),
            dp_signature=config.privacy.signature,
            private_training=private,
            secret_noise=SecretNoise(folder) if private and folder and running.clients_remain else None,
            private_steps=most_private_steps(config, plan),
            secure=config.aggregation.secure_options(algorithm.weighing, None if private is None else private.clip),
            server_step=algorithm.server_step,
            drifts=frozenset(phase.start for phase in data.drift),
            true_groups=known_groups(data),
            scratch=folder,
        )
        sampler = config.curriculum.sampler if config.privacy.dp_training is None else PoissonSampler()
        fed = Federation(running, trainer, settings, sampler, progress.clients)
        yield Session(config, fed, algorithm, Evaluator(fed, algorithm))


def evaluation_options(config: Config) -> EvaluationOptions:
    """Return on whom is measured; where trainings are private nobody trains once more, which would cost more."""
    options = config.evaluation.options()
    return options if config.privacy.dp_sgd is None else replace(options, plus=0.0)


def known_groups(data: FederatedData) -> dict[int, list[int]]:
    """Return the groups of clients that the data have, by the round from which they hold; none: not known."""
    phases = {0: data.true_groups, **{phase.start: phase.true_groups for phase in data.drift}}
    return {start: groups.tolist() for start, groups in phases.items() if groups is not None}


def _input_moments(data: FederatedData) -> InputMoments | None:
    """Return what clients measure, if they are to agree on mean and deviation of their inputs."""
    if not data.standardise:
        return None
    raw, scale = data.train.x, data.normalise.scale if isinstance(data.normalise, Normalisation) else 1.0
    highest = 255 / scale if raw.dtype == np.uint8 else None
    return InputMoments(channels_of(raw.shape[1:], raw.dtype), highest)


def _rearranged(
    config: Config, data: FederatedData, spec: ModelSpec, expert: Params, trainer: Trainer
) -> tuple[FederatedData, npt.NDArray[np.float64]]:
    """Let clients exchange samples of one label as f_ord says, so that the first ones get the easiest.

    Return the data, and how far the expert's losses deviate within each client.
    """
    losses = difficulty(data, spec, expert, trainer)
    if config.partition.f_ord:
        rng = stream(config.run.seed, "difficulty")
        parts = by_difficulty(data.train.y, losses, data.train_parts, config.partition.f_ord, rng)
        data = replace(data, train_parts=parts)
    return data, spread(losses, data.train_parts)


def consistency(config: Config, progress: Progress | None = None) -> npt.NDArray[np.float64]:
    """Return how far the expert's losses deviate within each client, (clients,): small where samples are alike.

    It looks at the samples of all clients, which only a simulation can do.
    """
    progress = progress or Progress()
    data = load_data(config)
    config = completed(config, data)
    spec = make_spec(config, data)
    trainer = make_trainer(config, spec, progress)
    with one_thread():
        expert = make_expert(config, data, spec, make_plan(config), trainer, progress)
        return _rearranged(config, data, spec, expert, trainer)[1]


def arrivals(config: Config, data: FederatedData) -> dict[ClientId, int]:
    """Return in which round each client comes that is not there at first.

    After training is one more than there are, and then one more for each data set of clients to admit.
    """
    newcomers, clients = config.newcomers, data.clients
    held = min(round(newcomers.share * clients), clients - 1)
    if newcomers.share and clients == 1:
        raise CoterieError("newcomers: the only client must be there from the beginning: leave out newcomers")
    if newcomers.share and not held:
        raise CoterieError(f"newcomers: {newcomers.share:g} of {clients} clients is less than one: raise it")
    order = stream(config.run.seed, "newcomers").permutation(clients) if newcomers.draw == "random" else range(clients)
    after, first = config.training.rounds + 1, clients
    come = {int(client): newcomers.join_at or after for client in [*order][clients - held :]}
    for t, admitted in enumerate(data.later, after + 1):
        come |= dict.fromkeys(range(first, first + admitted.clients), t)
        first += admitted.clients
    return come


def make_spec(config: Config, data: FederatedData) -> ModelSpec:
    """Return the network of a run."""
    chosen, loss = config.model, config.training.other_loss
    spec = ModelSpec(str(chosen.name), data.shape, data.classes, chosen.options, loss=loss, target=data.target)
    return spec if chosen.initial is None else with_start(spec, chosen.initial, chosen.initial_digest)


def model_bytes(config: Config, data: FederatedData) -> int:
    """Return the size of a model; refuse a network that does not fit the data."""
    return sum(array.nbytes for array in initial(make_spec(config, data), config.run.seed).values())


def with_network(config: Config, shape: tuple[int, ...]) -> Config:
    """Name the network where the user does not: for images the method's own, if it has one, else by the inputs."""
    if config.model.name is not None:
        return config
    preferred = ALGORITHMS[config.algorithm.name].traits.default_model
    name = preferred if preferred and len(shape) == 3 else default_model(shape)
    return config.changed(model={"name": name, **MODELS.validate(name, {})})
