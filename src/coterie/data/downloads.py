"""Downloading the named data sets, with their checksums."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from coterie.data.catalogue import CATALOGUE, File, advice, located
from coterie.data.folder import places
from coterie.data.registries import DATASETS, traits
from coterie.errors import CoterieError, suggestion

_CHUNK = 2**16
_SECONDS = 30.0


class Bar(Protocol):
    """What shows how far a download is; the protocol is pooch's."""

    total: int

    def update(self, count: int) -> None:
        """So many bytes more."""

    def reset(self) -> None:
        """Back to none."""

    def close(self) -> None:
        """It is over."""


def get(
    name: str,
    folder: Path | None = None,
    base_url: str | None = None,
    bar: Callable[[str], Bar | None] = lambda address: None,
) -> dict[str, Path]:
    """Download a data set into a folder of its name below `folder`; return where it, or each of its parts, now is.

    What is there already with the right checksum is kept, and an .npz file of its name is enough. A file is in
    its place only once it is complete and its checksum right. `base_url` is used instead of the addresses in
    the catalogue; `bar` is asked for a progress bar before each file.
    """
    if name not in CATALOGUE:
        raise CoterieError(f"unknown data set '{name}': {suggestion(name, CATALOGUE)}")
    if name in DATASETS and traits(name).made_of:
        return {part: path for made in traits(name).made_of for part, path in get(made, folder, base_url, bar).items()}
    entry = CATALOGUE[name]
    if not entry.files:
        if not entry.how:
            raise CoterieError(f"data set '{name}' needs no file: it is always here")
        raise CoterieError(f"data set '{name}' cannot be downloaded by a program: {advice(name)}")
    here = located(name) if folder is None else None
    if here is not None and here.suffix == ".npz":
        return {name: here}
    place = (folder or places()[0]) / name
    addresses = (base_url,) if base_url else entry.addresses
    try:
        for file in entry.files:
            _fetch(file, addresses, place, bar)
    finally:
        with contextlib.suppress(OSError):  # it is not empty, or was never made
            place.rmdir()
    return {name: place}


def _fetch(file: File, addresses: tuple[str, ...], place: Path, bar: Callable[[str], Bar | None]) -> None:
    """Download one file from the first address that gives it."""
    import pooch  # type: ignore[import-untyped, unused-ignore]
    from requests.exceptions import RequestException  # type: ignore[import-untyped, unused-ignore]

    path, (algorithm, _, digest) = place / file.name, file.checksum.partition(":")
    if path.is_file() and pooch.file_hash(str(path), alg=algorithm) == digest:
        return
    pooch.get_logger().setLevel("ERROR")
    failures = []
    for address in addresses:
        url = f"{address.rstrip('/')}/{file.name}"
        shown = bar(url)
        downloader = pooch.HTTPDownloader(
            progressbar=shown or False,
            chunk_size=_CHUNK,
            timeout=_SECONDS,
            headers={"Accept-Encoding": "identity"},  # else a server may have .gz files arrive unpacked
        )
        try:
            pooch.retrieve(url, file.checksum, file.name, place, downloader=downloader)
            return
        except RequestException as error:
            failures.append(f"{url} ({_reason(error)})")
        except ValueError:  # pooch's word for another checksum than expected
            failures.append(f"{url} (it is not the right file: its checksum is another than {file.checksum})")
        finally:
            if shown is not None:
                shown.close()
    raise CoterieError(
        f"cannot download {', nor '.join(failures)}: try again later, "
        f"or fetch {file.name} in another way and put it into '{place}'"
    )


def _reason(error: Any) -> str:
    response = getattr(error, "response", None)
    if response is not None:
        return f"the server answers {response.status_code} {response.reason}"
    name = type(error).__name__
    return {"ConnectionError": "no connection", "ConnectTimeout": "no answer", "ReadTimeout": "no answer"}.get(
        name, name
    )
