"""MLflow: a database file, which ``mlflow ui --backend-store-uri sqlite:///FILE`` shows; no network is used."""

import logging
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

from coterie.files import make_folder
from coterie.results.run_folder import MLFLOW
from coterie.tracking.tracker import Row, TrackedRun, Tracker, scalars

EXPERIMENT, FOLDER = "coterie", "coterie.folder"
LONGEST = 6000
"""Letters of a parameter."""
PER_BATCH = 100
"""Parameters that MLflow takes at a time."""
F = TypeVar("F", bound=Callable[..., None])


def quietly(function: F) -> F:
    """Keep MLflow and the packages beneath it from warning of each other, and from telling of tables they make."""

    @wraps(function)
    def quiet(*args: Any) -> None:
        for name in ("mlflow", "alembic"):
            logging.getLogger(name).setLevel(logging.WARNING)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function(*args)

    return quiet  # type: ignore[return-value]


class MLflowTracker(Tracker):
    """Writes an MLflow run: settings as parameters, rows as metrics, final accuracies as metrics, ``result/L``."""

    @quietly
    def __init__(self, folder: Path | None) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # which is read when the package is imported
        import mlflow.entities
        import sqlalchemy  # noqa: F401  # without which there is no database: refused at once
        from mlflow.tracking import MlflowClient

        self.folder, self.entities, self.connect = folder, mlflow.entities, MlflowClient

    @quietly
    def begin(self, run: TrackedRun, rows: Sequence[Row]) -> None:
        """Begin an MLflow run in place of the one that this run had, if it goes on or is told again."""
        place = (self.folder or Path(str(run.folder))).absolute()
        make_folder(place)
        self.run, self.client = run, self.connect(f"sqlite:///{place / MLFLOW}")
        experiment = self.experiment(place)
        whose = run.identity.replace("'", "")
        same = f"tags.`{FOLDER}` = '{whose}'"
        for earlier in self.client.search_runs([experiment], filter_string=same):
            self.client.delete_run(earlier.info.run_id)
        made = self.client.create_run(experiment, start_time=round(1000 * run.began), run_name=run.name)
        self.id: str = made.info.run_id
        tag = self.entities.RunTag(FOLDER, whose)
        parameters = [self.entities.Param(key, str(value)[:LONGEST]) for key, value in run.settings.items()]
        for first in range(0, len(parameters), PER_BATCH):
            self.client.log_batch(self.id, params=parameters[first : first + PER_BATCH], tags=[tag])
        for row in rows:
            self._log(scalars(row), row)

    def experiment(self, place: Path) -> str:
        """Return the experiment of the store; make it if it is not there, unless another process just did."""
        from mlflow.exceptions import MlflowException

        found = self.client.get_experiment_by_name(EXPERIMENT)
        if found is None:
            try:
                return str(self.client.create_experiment(EXPERIMENT, artifact_location=(place / "artifacts").as_uri()))
            except MlflowException:
                found = self.client.get_experiment_by_name(EXPERIMENT)
        assert found is not None
        return str(found.experiment_id)

    @quietly
    def row(self, row: Row) -> None:
        """Log its numbers at its round."""
        self._log(scalars(row), row)

    @quietly
    def end(self, result: Mapping[str, Any] | None) -> None:
        """Log the final accuracies; say how the run ended."""
        if result is not None:
            last = {"round": result["rounds"], "seconds": result["seconds"]}
            self._log({f"result/{name}": value for name, value in scalars(result["accuracy"]).items()}, last)
        self.client.set_terminated(self.id, "KILLED" if result is None else "FINISHED")

    def _log(self, numbers: Mapping[str, float], row: Row) -> None:
        when, step = round(1000 * self.run.time_of(row)), int(row["round"])
        metrics = [
            self.entities.Metric(name, number, when, step) for name, number in numbers.items() if name != "round"
        ]
        self.client.log_batch(self.id, metrics)
