"""What differential privacy does not account for is refused, before any data is read."""

from coterie.errors import CoterieError
from coterie.federation import Algorithm
from coterie.run.config import Config
from coterie.run.config_trust import AggregationSection, PrivateTrainingOptions

PRIVATELY_TRAINED = ("fedavg", "fedprox", "pacfl", "ifca", "given-groups")
"""Methods of which nothing but a sum of updates in each group enters models."""


def check_privacy(config: Config, method: Algorithm) -> None:
    """Refuse methods whose clients can't describe themselves privately."""
    if config.privacy.dp_signature is not None and (error := method.error_in_privacy()):
        raise CoterieError(
            f"clients of method '{config.algorithm.name}' can't describe themselves under differential privacy: {error}"
        )


def check_private_training(config: Config) -> None:
    """Refuse what private training does not account for."""
    if (wanted := config.privacy.private_training) is None:
        return
    name, options = config.algorithm.name, config.algorithm.options
    if name not in PRIVATELY_TRAINED:
        raise CoterieError(
            "private training adds noise to one sum of updates in each group, and nothing else may enter models: "
            f"method '{name}' looks at single updates, or sums otherwise; use {' or '.join(PRIVATELY_TRAINED)}"
        )
    if single := [key for key in ("diversity", "init_retry", "redescribe") if options.get(key)]:
        raise CoterieError(f"option {single[0]} looks at single clients while models are trained: leave it out")
    secure = config.aggregation.model_dump(include={"secure", "secure_min"})
    if config.aggregation != AggregationSection(**secure):
        raise CoterieError(
            "private training takes the place of [aggregation], and its clip that of secure_clip: leave all keys out "
            "but secure and secure_min"
        )
    if wanted.rounds is not None and wanted.rounds < config.training.rounds:
        raise CoterieError(
            f"private training has noise for rounds={wanted.rounds}, and the run has {config.training.rounds}: leave "
            "rounds out of dp_training, or raise it"
        )
    _check_kind_of_noise(config, wanted)
    if config.training.fraction is None:
        raise CoterieError("private training depends on how often clients take part: set fraction, for instance 0.1")
    order = config.curriculum.of_samples
    if order is not None and order.score == "E" and config.curriculum.expert is None:
        raise CoterieError(
            "private training has one client change one update, and an expert that is trained on the samples of all "
            "changes them all: name one that is there already (expert), or another score"
        )
    if config.engine.oversample or config.curriculum.clients is not None:
        raise CoterieError("private training draws clients by coins: leave out oversample and client curricula")
    if config.engine.min_replies > 1 or config.engine.max_strikes is not None:
        raise CoterieError(
            "private training has one client change one sum by its clip, and with min_replies or max_strikes one more "
            "or less could decide on the updates of others: leave them out"
        )


def _check_kind_of_noise(config: Config, wanted: PrivateTrainingOptions) -> None:
    """Refuse what does not go with secure sums, an adaptive clip or local noise."""
    name, secure = config.algorithm.name, config.aggregation.secure
    if secure and name == "ifca":
        raise CoterieError(
            "in 'ifca' clients choose groups, of which any may be too small for a secure sum, and one client more or "
            "less would change a model by the whole sum: leave out secure, or dp_training"
        )
    faults, few = config.faults, config.privacy.min_samples
    if secure and (faults.drop or faults.straggle or faults.hostile or faults.liars or few):
        raise CoterieError(
            "private secure sums count on clients that answer: leave out drop, straggle, hostile, liars and min_samples"
        )
    if secure and wanted.quantile is not None:
        raise CoterieError(
            "with secure sums clients cut their updates to a length that is fixed beforehand: write a number for clip "
            "in place of adaptive"
        )
    if wanted.local and (secure or wanted.quantile is not None):
        raise CoterieError(
            "local noise hides each update for itself, for a clip that is fixed: leave out secure, and write a number "
            "for clip"
        )
    if wanted.local and name == "ifca":
        raise CoterieError(
            "in 'ifca' clients tell which group they choose, which local noise does not hide: leave out noise=local, "
            "or use fedavg, fedprox, pacfl or given-groups"
        )


def check_private_steps(config: Config, method: Algorithm) -> None:
    """Refuse what private steps do not account for."""
    if config.privacy.dp_sgd is None:
        return
    if error := method.error_in_private_steps(config.privacy.dp_signature is not None):
        raise CoterieError(f"clients of method '{config.algorithm.name}' can't train by private steps: {error}")
    others = {
        "dp_training, which is for one client in place of one sample": config.privacy.dp_training,
        "secure, whose sums count who takes part": config.aggregation.secure,
        "the clip of whole gradients": config.training.clip,
        "curricula, which look at losses": config.curriculum.of_samples or config.curriculum.clients,
        f"labels = '{method.labels}', which trains with label frequencies": method.trained_offset,
    }
    if given := [name for name, value in others.items() if value]:
        raise CoterieError(f"private steps do not go with {given[0]}: leave out one of them")
