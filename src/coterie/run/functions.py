"""What a program does with runs: thin functions, which `import coterie` reads; all else is imported when it is used."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast

from coterie.arguments import in_keywords
from coterie.errors import CoterieError, listed, whole_number
from coterie.run.keywords import RunSettings
from coterie.run.signatures import shows

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from coterie.run.cluster import ClusterResult
    from coterie.run.keywords import DatasetLike, FilePath, ModelLike, TrackLike
    from coterie.run.progress import Progress
    from coterie.run.result import Result
    from coterie.run.trained_models import TrainedModel


@in_keywords
@shows(RunSettings)
def run(
    config: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    *,
    overwrite: bool = False,
    trust: bool = False,
    progress: Progress | bool | None = None,
    **settings: Unpack[RunSettings],
) -> Result:
    """Run an experiment and return its result.

    Settings are keywords; all have defaults, which the signature shows. They are described in `coterie.run.keywords`
    and by ``coterie run --help``. Options of a method, data set, partition or network follow its name,
    ``partition="label-skew:rho=0.2"``, or go into ``partition_options={"rho": 0.2}``.

    Args:
        config: A TOML file or nested dictionaries; keywords override them.
        overwrite: Whether to replace a run in the folder `out`.
        trust: Whether to import the plugins named by a run folder that is given as `expert`.
        progress: True shows progress, False does not; by default it is shown in notebooks and on terminals. An object
            of a subclass of `coterie.Progress` is notified as the run proceeds.
        **settings: The settings of the run; a run folder is written if `out` names one.

    Returns:
        Accuracies, groups, traffic and everything else that was measured; `Result.model` returns models.

    Examples:
        >>> result = run(algorithm="pacfl", dataset="digits-rotated", clients=8, rounds=2, epochs=1)
        >>> result.groups
        [0, 1, 2, 3, 0, 1, 2, 3]

        Data can be arrays, and a network can be a PyTorch class:

        >>> import numpy as np
        >>> from torch import nn
        >>> x, y = np.random.default_rng(0).normal(size=(300, 5)), np.arange(300) % 3
        >>> class Net(nn.Sequential):
        ...     def __init__(self, shape, classes):
        ...         super().__init__(nn.Linear(shape[0], 8), nn.ReLU(), nn.Linear(8, classes))
        >>> run(dataset=(x, y), model=Net, clients=4, rounds=1, epochs=1).network
        'Net'
    """
    from coterie.run.given import named
    from coterie.run.live_progress import listener
    from coterie.run.runner import start
    from coterie.run.settings import settings_to_config
    from coterie.run.tracked import divided

    names, own = divided(settings.pop("track", ()))
    with named({**settings, "track": names} if names else settings) as given:
        checked = settings_to_config(config, given, trust=trust)
        write = checked.run.out is not None
        return start(checked, write=write, overwrite=overwrite, progress=listener(progress), track=own)


@in_keywords
@shows(RunSettings)
def cluster(
    config: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    *,
    progress: Progress | bool | None = None,
    **settings: Unpack[RunSettings],
) -> ClusterResult:
    """Form groups of clients without training.

    Args:
        config: A TOML file or nested dictionaries; keywords override them.
        progress: As for `run`.
        **settings: As for `run`; the method is `pacfl` if none is named.

    Returns:
        Who belongs together, why, and how far clients are apart.

    Examples:
        >>> groups = cluster(dataset="digits-rotated", clients=8)
        >>> groups.grouping.labels
        array([0, 1, 2, 3, 0, 1, 2, 3])
    """
    from coterie.run.cluster import DEFAULT, form_groups
    from coterie.run.given import named
    from coterie.run.live_progress import listener
    from coterie.run.settings import settings_to_config

    with named(settings) as given:
        return form_groups(settings_to_config(config, given, method=DEFAULT), listener(progress))


@in_keywords
def resume(
    folder: FilePath,
    progress: Progress | bool | None = None,
    *,
    rounds: int | None = None,
    admit: FilePath | Sequence[FilePath] = (),
    plugins: Sequence[FilePath] = (),
    trust: bool = False,
    dataset: DatasetLike | None = None,
    model: ModelLike = None,
    track: TrackLike = (),
) -> Result:
    """Continue a run that was interrupted; of a finished one, return the result.

    Args:
        folder: The run folder.
        progress: As for `run`.
        rounds: Continue to this round, even if the run is finished, with the numbers of a run that was started with
            this many. An error where earlier rounds depend on the total number of rounds.
        admit: Files or folders with the data of clients that join after training.
        plugins: Which of the plugins that the folder names to import.
        trust: Whether to import all of them.
        dataset: What was passed to `run`, if that was an object such as arrays, which are not stored. Arrays other than
            those of the run raise an error.
        model: What was passed to `run`, if that was an object.
        track: As for `run`, in addition to the run's own trackers.
    """
    from coterie.results.run_folder import RunFolder
    from coterie.run import runner
    from coterie.run.given import check_given_again, named
    from coterie.run.live_progress import listener
    from coterie.run.plugins import Permission
    from coterie.run.tracked import divided

    place = Path(folder)
    objects = {key: value for key, value in {"dataset": dataset, "model": model}.items() if value is not None}
    with named(objects) as given:
        if given:
            made = {key: name for key, name in given.items() if not isinstance(objects[key], str | os.PathLike)}
            check_given_again(RunFolder.open(place), made)
        permission = Permission(listed(plugins), trust)
        names, own = divided(track)
        more = whole_number(rounds, "rounds")
        return runner.resume(place, listener(progress), permission, more, listed(admit), [*names, *own])


@in_keywords
def predict(
    run: FilePath | Result,
    inputs: FilePath | npt.ArrayLike,
    *,
    client: int | str | None = None,
    group: int | None = None,
    resize: bool = False,
    plugins: Sequence[FilePath] = (),
    trust: bool = False,
) -> npt.NDArray[np.int64]:
    """Predict labels with a model that a run has trained.

    Args:
        run: A run folder, or a result.
        inputs: Inputs as they were in training, not normalised: an array, a data frame with the columns of the training
            data, or the path of an .npz file with `x`, of a table, of an image, or of a folder of images.
        client: Use this client's own model, by its number or name, if it has trained, otherwise the model it would
            receive.
        group: Use this group's model. Without either, the model that all clients share.
        resize: Whether to crop images from files to their middle square and scale them to the size used in training.
        plugins: Which of the plugins that the folder names to import.
        trust: Whether to import all of them.

    Returns:
        The label of each input, (n,).

    Examples:
        >>> result = run(algorithm="fedavg", dataset="digits", clients=5, rounds=2, epochs=1)
        >>> import numpy as np
        >>> predict(result, np.zeros((3, 8, 8), np.uint8)).shape
        (3,)
    """
    from coterie.run.export import labels_for

    return labels_for(_trained_model(run, client, group, plugins, trust), inputs, resize)


@in_keywords
def export(
    run: FilePath | Result,
    out: FilePath | None = None,
    *,
    client: int | str | None = None,
    group: int | None = None,
    format: Literal["safetensors", "onnx"] | None = None,
    compact: bool = False,
    overwrite: bool = False,
    plugins: Sequence[FilePath] = (),
    trust: bool = False,
) -> Path:
    """Write a model that a run has trained to a file, to be used without Coterie.

    Args:
        run: A run folder, or a result.
        out: The file; by default in the run folder, named after the client or group.
        client: As for `predict`.
        group: As for `predict`.
        format: By default given by the ending of `out`, or safetensors. ONNX takes raw inputs, and includes the
            normalisation; safetensors holds the parameters, and in its metadata the network and the normalisation.
        compact: Whether to remove the dead channels and units of a pruned network.
        overwrite: Whether to replace an existing file.
        plugins: Which of the plugins that the folder names to import.
        trust: Whether to import all of them.

    Returns:
        The file.

    Examples:
        >>> import tempfile
        >>> result = run(algorithm="fedavg", dataset="digits", clients=5, rounds=2, epochs=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     export(result, f"{folder}/digits.safetensors").name
        'digits.safetensors'
    """
    from coterie.run.export import format_of, model_file, write_model
    from coterie.run.result import Result

    folder = run.folder if isinstance(run, Result) else Path(run)
    if out is None and folder is None:
        raise CoterieError("this run has no folder: say where the model is to go, coterie.export(result, 'model.onnx')")
    kind = format_of(None if out is None else Path(out), format)
    trained = _trained_model(run, client, group, plugins, trust)
    path = Path(out) if out is not None else model_file(trained, cast(Path, folder), kind, compact)
    write_model(trained, path, kind, compact, overwrite)
    return path


def _trained_model(
    run: FilePath | Result, client: int | str | None, group: int | None, plugins: Sequence[FilePath], trust: bool
) -> TrainedModel:
    """Return a model of a run folder or a result."""
    from coterie.run.plugins import Permission
    from coterie.run.result import Result
    from coterie.run.trained_models import find_model

    if isinstance(run, Result):
        return run.trained_model(client, group, listed(plugins), trust)
    return find_model(Path(run), client, group, Permission(listed(plugins), trust))
