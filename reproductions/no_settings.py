"""The tables of docs/no-settings.md from the runs that are kept here, and whether what the page claims holds in them.

    python reproductions/no_settings.py
    python reproductions/no_settings.py --folder runs/no-settings --methods fedavg,ditto     # all protocols of these

Runs that are missing are empty cells; nothing is run. `coterie reproduce no-settings --catalogue
examples/no_settings.toml --out FOLDER` makes them.
"""

import argparse
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from coterie.reproduce.catalogue import read_own
from coterie.reproduce.request import ReproductionRequest

HERE = Path(__file__).parent
PUBLISHED = ("fedavg", "pacfl", "flag", "flis-dc", "ifca", "lg-fedavg", "fedrep")
OWN_MODELS = ("solo", "ditto")
"""Of which L is shown: the first has no C, the second serves FedAvg's model."""
WITH_OFFSETS = ("fedavg-labels", "pacfl-labels", "flag-labels")
NOT_REQUIRED = "digits rotated, 20 a client"

Runs = Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]
"""Results by federation and method, over seeds."""


def read(entry: str, place: Path) -> Runs:
    """Return what is finished of a table."""
    item = read_own(HERE.parent / "examples" / "no_settings.toml").resolved(entry)
    request = ReproductionRequest()
    runs: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
    for cell in request.asked(item):
        folders = request.runs(item, cell, place)
        found = [file.read_text(encoding="utf-8") for folder in folders if (file := folder / "result.json").is_file()]
        runs.setdefault(cell.column, {})[str(cell.row)] = [json.loads(text) for text in found]
    return runs


def percent(results: Iterable[Mapping[str, Any]], protocol: str) -> list[float]:
    """Return accuracies in %, by seed, where there are any."""
    found = [result["accuracy"].get(protocol) for result in results]
    return [100 * value for value in found if value is not None]


def served(method: str, results: Iterable[Mapping[str, Any]]) -> list[float]:
    """Return C; of methods whose clients use models of their own, L."""
    return percent(results, "L" if method in OWN_MODELS else "C")


def spread(values: Sequence[float]) -> str:
    """Write a mean, with the deviation over seeds."""
    if len(values) < 2:
        return f"{values[0]:.2f}" if values else ""
    return f"{mean(values):.2f} ± {stdev(values):.2f}"


def table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a table in Markdown."""
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def of_all_methods(runs: Runs) -> str:
    """Write the accuracy of what each client uses, of all methods; the highest is bold."""
    methods = list(next(iter(runs.values())))
    rows = []
    for federation, results in runs.items():
        values = {method: served(method, results[method]) for method in methods}
        top = max((round(mean(found), 2) for found in values.values() if found), default=0.0)
        cells = [
            f"**{spread(found)}**" if found and round(mean(found), 2) == top else spread(found)
            for found in values.values()
        ]
        rows.append([federation, *cells])
    return table(["federation", *methods], rows)


def of_one_method(runs: Runs, method: str) -> str:
    """Write what a method found and reaches under all protocols, and what it costs beside FedAvg."""
    rows = []
    for federation, results in runs.items():
        for one in results[method][:1]:
            groups = str(len(set(one["groups"]) - {None})) if one["groups"] else "–"
            ari = f" ({one['ari']:.2f})" if one["ari"] is not None else ""
            numbers = [spread(percent([one], protocol)) for protocol in ("C", "C_own", "C_lacking", "L", "plus")]
            rows.append([federation, groups + ari, *numbers, _bytes_beside(one, results["fedavg"])])
    return table(["federation", "groups (ARI)", "C", "C own", "C lacking", "L", "+", "bytes ÷ FedAvg's"], rows)


def _bytes_beside(one: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> str:
    if not others:
        return ""
    return f"{_bytes(one) / _bytes(others[0]):.3f}"


def _bytes(result: Mapping[str, Any]) -> float:
    return float(result["traffic"]["up_bytes"] + result["traffic"]["down_bytes"])


def verdicts(one_seed: Runs, seeds: Runs) -> list[str]:
    """Say, of each claim, where it fails, and of how many rows all runs that it needs are there.

    Of federations with three seeds the means count.
    """
    claims: dict[str, Callable[[Mapping[str, Any], int], float | None]] = {
        "C within 1 point of the best as published": lambda row, n: _below(row, PUBLISHED, n),
        "C within 1 point of the best with labels = both": lambda row, n: _below(row, WITH_OFFSETS, n),
        "L within 1 point of FedAvg's": lambda row, n: _below(row, ("fedavg",), n, "L"),
        "+ within 1 point of FedAvg's": lambda row, n: _below(row, ("fedavg",), n, "plus"),
    }
    rows = {federation: (row, 3 if federation in seeds else 1) for federation, row in {**one_seed, **seeds}.items()}
    lines = []
    for claim, below in claims.items():
        found = {federation: below(*row) for federation, row in rows.items() if federation != NOT_REQUIRED}
        known = {federation: value for federation, value in found.items() if value is not None}
        fails = [f"{federation} ({value:.2f} below)" for federation, value in known.items() if value > 1]
        lines.append(f"{claim}: {len(known)} of {len(found)} rows, fails on {', '.join(fails) or 'none'}")
    return lines


def _below(row: Mapping[str, Any], methods: Sequence[str], seeds: int, protocol: str = "C") -> float | None:
    """Return how far kindred is below the best of some methods; None as long as a run is missing."""
    own, *others = (percent(row[method], protocol) for method in ("kindred", *methods))
    whole = all(len(values) == seeds for values in (own, *others))
    return max(map(mean, others)) - mean(own) if whole else None


def main() -> None:
    """Print everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=HERE / "no-settings")
    parser.add_argument("--methods", default="kindred", help="of which all protocols are shown")
    asked = parser.parse_args()
    one_seed, seeds, last = (read(f"no-settings{part}", asked.folder) for part in ("", "-seeds", "-last"))
    for title, part in (
        ("Seed 0; of SOLO and Ditto L, else C", of_all_methods(one_seed)),
        ("Seeds 0, 1 and 2; of SOLO and Ditto L, else C", of_all_methods(seeds)),
        ("Chosen last, seed 0; of SOLO and Ditto L, else C", of_all_methods(last)),
        *((f"{method}, seed 0", of_one_method({**one_seed, **last}, method)) for method in asked.methods.split(",")),
    ):
        print(f"{title}\n\n{part}\n")
    print("\n".join(verdicts(one_seed, seeds)))


if __name__ == "__main__":
    main()
