"""The samples that sites and the server bring: read, and refused where they are not what all agreed on."""

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from coterie import data as sources
from coterie.client import LocalData
from coterie.data import Dataset, FederatedData, Normalisation, Samples
from coterie.deploy.terms import SamplesSection, SiteSection, Terms
from coterie.engine.flower.site import local_data, seed_of_test_part
from coterie.errors import CoterieError
from coterie.run.plugins import run_file


def site_data(site: SiteSection, terms: Terms, secret: str = "") -> LocalData:
    """Read the samples of a site; refuse those that do not fit the federation.

    Its secret chooses the test part, where there is none: who does not know it can't tell which samples that has.
    """
    wanted, whose = terms.samples, f"the data of '{site.name}'"
    if site.hook is not None:
        dataset = _call_hook(site.hook, site.name)
    else:
        dataset = _read(Path(str(site.data)), wanted, whose, site.options)
    if not isinstance(dataset, Dataset):
        raise CoterieError(f"the hook '{site.hook}' returned a {type(dataset).__name__}: return a coterie.data.Dataset")
    train = _fitting(dataset.train, wanted, whose)
    test = None if dataset.test is None else _fitting(dataset.test, wanted, whose)
    sized = Dataset(dataset.name, train, test, wanted.classes)
    return local_data(sized, wanted.normalisation, site.test_share, seed_of_test_part(secret))


def _read(path: Path, wanted: SamplesSection, whose: str, options: Mapping[str, Any] | None = None) -> Dataset:
    """Read somebody's share of the classes that all agree on."""
    dataset = sources.read_share(path, wanted.classes, wanted.class_names, options)
    if not isinstance(dataset.normalisation, Normalisation | None):
        raise CoterieError(f"{whose} are text, which only simulations can use: bring vectors or images")
    return dataset


def _fitting(part: Any, wanted: SamplesSection, whose: str) -> Samples:
    """Return samples as trainers take them; refuse those that are not what the federation has agreed on."""
    if error := _error_in_samples(part):
        raise CoterieError(f"{whose}: {error}")
    if list(part.x.shape[1:]) != wanted.shape or str(part.x.dtype) != wanted.dtype:
        given = f"{part.x.dtype} samples of shape {list(part.x.shape[1:])}"
        raise CoterieError(f"{whose} are {given}, the federation has {wanted.dtype} ones of {wanted.shape}")
    if len(part) and not 0 <= int(part.y.min()) <= int(part.y.max()) < wanted.classes:
        given = f"labels {int(part.y.min())} to {int(part.y.max())}"
        raise CoterieError(f"{whose} have {given}, the federation has 0 to {wanted.classes - 1}")
    if part.x.dtype.kind == "f" and not np.isfinite(part.x).all():
        raise CoterieError(f"{whose} hold a NaN or an infinity")
    return Samples(part.x, part.y.astype(np.int64))


def _error_in_samples(part: Any) -> str | None:
    """Say why something, which may come from anybody's function, can't be samples."""
    if not isinstance(part, Samples):
        return f"train and test must be coterie.data.Samples, not {type(part).__name__}"
    if not isinstance(part.x, np.ndarray) or not isinstance(part.y, np.ndarray):
        return "samples and labels must be NumPy arrays"
    if part.y.dtype.kind not in "iu" or part.y.ndim != 1:
        return f"labels must be integers in one row, not {part.y.dtype} of shape {list(part.y.shape)}"
    return None if len(part.x) == len(part.y) else f"{len(part.x)} samples, but {len(part.y)} labels"


def _call_hook(hook: str, name: str) -> Any:
    """Call a site's own function, ``file.py:function`` or ``module:function``, with the site's name."""
    place, colon, function = hook.rpartition(":")
    if not colon:
        raise CoterieError(f"hook '{hook}' should read file.py:function or module:function")
    try:
        is_file = place.endswith(".py")
        module = run_file("coterie_site_hook", Path(place)) if is_file else importlib.import_module(place)
        return getattr(module, function)(name)
    except CoterieError:
        raise
    except (Exception, SystemExit) as error:
        raise CoterieError(f"hook '{hook}' failed: {type(error).__name__}: {error}") from error


def server_data(terms: Terms) -> FederatedData:
    """Return the data as the server sees them: no client's, and the samples of its own where it has some."""
    wanted = terms.samples
    none = Samples(np.zeros((0, *wanted.shape), wanted.dtype), np.zeros(0, np.int64))
    own, whose = none, "the server's samples"
    if terms.server.data is not None:
        own = _fitting(_read(Path(terms.server.data).expanduser(), wanted, whose).train, wanted, whose)
    names, normalise = tuple(wanted.class_names or ()), wanted.normalisation
    name, measured = terms.server.name, wanted.measured
    return FederatedData(
        name, wanted.classes, none, none, [], [], False, own, normalise, standardise=measured, class_names=names
    )
