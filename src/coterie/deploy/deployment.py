"""The two Flower apps of a federation of real machines: what a site answers with, and what the server runs."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from coterie.deploy.rehearsal import policy_of
from coterie.deploy.samples import server_data, site_data
from coterie.deploy.terms import SiteSection, Terms, check_terms, read_site, read_terms
from coterie.engine.flower import app, require
from coterie.engine.flower.deployment import FlowerDeployment
from coterie.engine.flower.identity import OF_AUTHORITY, fingerprint, is_authority, secret_of
from coterie.engine.flower.site import DeployedSite, error_type_only
from coterie.engine.flower.site_registry import SiteRegistry
from coterie.errors import one_line
from coterie.federation import Engine
from coterie.results.metrics import title
from coterie.results.protocols import COMPARED, FOLLOWED
from coterie.results.run_folder import RunFolder
from coterie.results.statistics import ALONE, all_alone
from coterie.run.plugins import import_plugins
from coterie.run.progress import Progress
from coterie.run.runner import run_with
from coterie.training import Trainer, choose_trainer


def make_site(terms: Terms, site: SiteSection) -> DeployedSite:
    """Return what answers at a site."""

    def trainer() -> Trainer:
        import_plugins(terms.config.run.plugins)
        return choose_trainer(site.trainer, terms.spec, site.device)

    return DeployedSite(
        site.name,
        Path(site.state),
        lambda: site_data(site, terms, secret_of(Path(site.state))),
        trainer,
        lambda: policy_of(terms),
        None if site.certificate is None else Path(site.certificate),
        site.policy,
        site.max_federations,
        site.most,
        frozenset(site.unprotected),
        terms.config.privacy.hides_samples,
        frozenset(site.peers),
    )


def client_app(file: str) -> Any:
    """Make the Flower app of the sites; `file` is the one beside ``federation.toml`` (``__file__``)."""
    require()
    folder = Path(file).absolute().parent

    def here(node: Mapping[str, Any]) -> DeployedSite:
        given = dict(node)
        path = given.pop("site", None)
        return make_site(read_terms(folder), read_site(None if path is None else Path(str(path)), given))

    return app.client_app(here, error_type_only)


def server_app(file: str) -> Any:
    """Make the Flower app of the server; `file` is the one beside ``federation.toml`` (``__file__``)."""
    require()
    folder = Path(file).absolute().parent
    return app.server_app(lambda grid: serve(grid, read_terms(folder)))


def serve(grid: Any, terms: Terms) -> None:
    """Run a federation over a grid of nodes: from the beginning, or from where its run folder says it was."""
    config, progress = terms.config, LoggedProgress()
    check_terms(terms)
    choose_trainer(config.engine.trainer, terms.spec, config.engine.device)
    agreed, own = terms.samples.model_dump(), terms.server.certificate
    certificate = fingerprint(None if own is None else Path(own).expanduser())
    if own is not None and is_authority(Path(own).expanduser()):
        progress.phase(f"certificate '{own}' {OF_AUTHORITY}")
    if config.run.out is not None and (begun := RunFolder(Path(config.run.out))).deployed:
        SiteRegistry.open(begun.sites_file, agreed)  # refuses other samples, also where the run is finished

    def engine(folder: RunFolder) -> AbstractContextManager[Engine]:
        registry = SiteRegistry.open(folder.sites_file, agreed, certificate)
        needed = 0 if folder.finished else terms.server.min_clients  # then only those matter who come late
        sites = FlowerDeployment(grid, registry, min_clients=needed)
        sites.wait(progress.phase)
        return nullcontext(sites)

    result = run_with(config, server_data(terms), engine, progress)
    for event in result.events:
        progress.phase(f"{event['kind']}: {event['count']}, for instance {event['example']}")
    scores = [
        f"{symbol} {score:.2%}" for key, symbol in COMPARED.items() if (score := result.accuracy[key]) is not None
    ]
    groups = "" if result.groups is None else f"; groups of sites 0, 1, …: {result.groups}"
    if all_alone(result.groups):
        progress.phase(ALONE)
    progress.phase(f"done: {title(result.metric)} {', '.join(scores)}{groups}; run folder {result.folder}")


class LoggedProgress(Progress):
    """Prints a line for what happens, which Flower keeps in the log of the run."""

    def begin(self, title: str, rounds: int, done: int) -> None:
        """Print what runs."""
        self.phase(f"{title}; {done} of {rounds} rounds are done")

    def phase(self, text: str) -> None:
        """Print it."""
        print(f"coterie: {one_line(text)}", flush=True)

    def round(self, round: int, row: Mapping[str, Any] | None) -> None:
        """Print that a round is over, with the accuracies where they were measured."""
        scores = "" if row is None else "".join(f"  {key} {row[key]:.4f}" for key in FOLLOWED if row[key] is not None)
        self.phase(f"round {round} is done{scores}")
