"""What is run for the golden results: every method in several situations, options that matter, and the commands.

A case names settings of ``coterie.run`` or arguments of the command line, nothing else: module paths may change.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

HERE = Path(__file__).resolve().parent
BOOK = HERE / "book.toml"

SMALL: dict[str, Any] = {
    "clients": 12, "fraction": 0.5, "rounds": 4, "epochs": 1, "eval_every": 2, "lr": 0.05, "workers": 1,
}  # fmt: skip
ROTATED: dict[str, Any] = {"dataset": "digits-rotated"}
SKEWED: dict[str, Any] = {"dataset": "digits", "partition": "label-skew:rho=0.2"}

PRUNING = {"distance": 0.0, "accuracy": 0.0}
METHODS: dict[str, dict[str, Any]] = {
    "apfl": {"algorithm_options": {"adaptive": True}},
    "cfl": {"algorithm_options": {"relative": True, "eps1": 0.95, "eps2": 0.5, "min_round": 1}},
    "ditto": {},
    "fedavg": {},
    "fedbabu": {"algorithm_options": {"tune_epochs": 1}},
    "fedbn": {"model": "lenet5-bn", "batch_size": 30},
    "fedclust": {"groups": 3},
    "feddrift": {"algorithm_options": {"isolated": 2}},
    "fedem": {"model": "mixture", "model_options": {"of": "mclr", "components": 2}},
    "fedgroup": {"groups": 3, "algorithm_options": {"alpha_pre": 3, "pretrain_steps": 8}},
    "fedgrouprox": {"groups": 3, "algorithm_options": {"alpha_pre": 3, "pretrain_steps": 8, "mu": 0.5}},
    "fednova": {},
    "fedper": {},
    "fedprox": {"algorithm_options": {"mu": 1.0}},
    "fedrep": {"algorithm_options": {"head_epochs": 1}},
    "fedsoft": {"groups": 3},
    "fesem": {"groups": 3, "algorithm_options": {"init": "k-means"}},
    "fielding": {"groups": 3},
    "flag": {"algorithm_options": {"trial_clients": 8, "trial_rounds": 2}},
    "flis-dc": {},
    "flis-hc": {"groups": 3},
    "given-groups": {"algorithm_options": {"groups_of": "+".join("012" * 4)}},
    "ifca": {"groups": 4},
    "kindred": {},
    "lg-fedavg": {},
    "mr-mtl": {},
    "mtl": {"algorithm_options": {"strength": 0.01}},
    "pacfl": {},
    "per-fedavg": {"algorithm_options": {"beta": 0.02}},
    "pfedme": {"algorithm_options": {"inner_steps": 2}},
    "scaffold": {},
    "solo": {},
    "stocfl": {},
    "sub-fedavg-hy": {
        "model": "lenet5-bn", "epochs": 2, "batch_size": 30, "algorithm_options": {**PRUNING, "channel_distance": 0.0},
    },
    "sub-fedavg-st": {
        "model": "lenet5-bn", "epochs": 2, "batch_size": 30, "algorithm_options": {**PRUNING, "channel_distance": 0.0},
    },
    "sub-fedavg-un": {"epochs": 2, "algorithm_options": PRUNING},
}  # fmt: skip
"""All methods, with settings under which a short run shows what a method does."""

ONE_SHOT = ("fedgroup", "fedgrouprox", "flag", "flis-hc", "kindred", "pacfl")

Kind = Literal["run", "killed", "cluster", "command"]


@dataclass(frozen=True)
class Case:
    """One thing to run; its name begins with the family, which is the file of its golden result."""

    name: str
    kind: Kind
    settings: dict[str, Any] = field(default_factory=dict)
    """Of `coterie.run`, for a run."""
    arguments: tuple[str, ...] = ()
    """Of the command line; OUT stands for a folder that is made for the case."""
    reads: str | None = None
    """The JSON file in that folder that holds the outcome; without, it is what the command prints."""
    needs: tuple[str, ...] = ()
    """Data sets without which the case is left out."""
    same: str | None = None
    """A case with which this one must agree."""

    @property
    def family(self) -> str:
        return self.name.partition("/")[0]


def cases(only: str | None = None) -> list[Case]:
    """Return all cases, or those whose name contains a text or fits a pattern.

    Commands come last: each call of the command line in a process makes the next ones there slower.
    """
    every = [*methods(), *options(), *situations(), *engines(), *killed(), *commands(), *reproductions()]
    names = [case.name for case in every]
    assert len({*names}) == len(names), [name for name in names if names.count(name) > 1]
    return [case for case in every if only is None or only in case.name or fnmatch.fnmatch(case.name, only)]


def methods() -> Iterator[Case]:
    """Every method on two data sets, with newcomers, curricula and faults, and with both trainers."""
    for method, own in METHODS.items():
        for where, data in (("rotated", ROTATED), ("skewed", SKEWED)):
            for seed in (0, 1):
                yield a_run(
                    f"plain/{method}/{where}-{seed}", data, algorithm=method, seed=seed, target=["L=0.4", "C=0.6"]
                )
        more = {
            "newcomers/{}/after": {**ROTATED, "newcomers": 0.2, "newcomer_epochs": 2},
            "newcomers/{}/second-round": {**SKEWED, "newcomers": 0.2, "join_at": 2, "newcomer_draw": "last"},
            "curriculum/{}/data": {**SKEWED, "curriculum": "score=LG,pacing=root,a=0.7,b=0.3"},
            "curriculum/{}/clients": {**ROTATED, "client_curriculum": "a=0.9,b=0.3"},
            "faults/{}/all": {**ROTATED, "drop": 0.25, "straggle": 0.15, "hostile": 0.15, "rounds": 5},
            "faults/{}/strict": {
                **SKEWED, "hostile": 0.3, "max_strikes": 1, "oversample": 0.3, "min_replies": 2, "straggle": 0.2,
                "newcomers": 0.2, "join_at": 3, "seed": 3,
            },
            "trainers/{}/torch": {**SKEWED, "trainer": "torch", "rounds": 3},
            "trainers/{}/native": {**SKEWED, "trainer": "native", "rounds": 3},
        }  # fmt: skip
        for name, settings in more.items():
            yield a_run(name.format(method), own, settings, algorithm=method)


OPTIONS: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {
    "cfl": [({}, {"relative": False, "eps1": 5.0, "eps2": 0.1})],
    "fedgroup": [
        ({}, {"measure": "madc"}),
        ({}, {"centres": "random", "assignment": "random-once"}),
        ({}, {"assignment": "random-each"}),
        ({}, {"eager": True, "direction": "latest"}),
        ({}, {"eta_g": 0.1}),
        ({}, {"eta_g": 0.01, "normalise": False}),
        ({}, {"pretrain_epochs": 2}),
    ],
    "fedgrouprox": [({}, {"measure": "madc", "eager": True})],
    "fedsoft": [({}, {"selection": False, "tau": 1}), ({}, {"lam": 1.0, "sigma": 0.01})],
    "fesem": [({}, {"init": "random"}), ({}, {"layer": "last", "weights": "equal"})],
    "flag": [
        ({"rule": "degrees", "threshold": 0.4}, {}),
        ({"groups": 3}, {}),
        ({"rule": "gap"}, {}),
        ({"rule": "silhouette", "linkage": "complete"}, {}),
        ({"rule": "trial"}, {"step": 0.25, "trial_model": "same", "trial_holdout": 0.2}),
        ({}, {"beta": 1.0, "warmup": 0}),
        ({}, {"eps_mode": "paper", "delta": 0.2, "onesided_weight": 0.5, "missing_angle": 90.0}),
        ({"newcomers": 0.2}, {"assign": "recluster"}),
        ({"groups": 3, "newcomers": 0.2, "join_at": 2}, {"found": "nearest"}),
    ],
    "flis-dc": [
        ({"rule": "gap"}, {}),
        ({"rule": "silhouette"}, {"select_on": "holdout"}),
        ({}, {"select_on": "test", "soft": True}),
        ({}, {"beta": 0.6, "server_data": "noise"}),
    ],
    "flis-hc": [
        ({"groups": None}, {"hc_mode": "row-threshold"}),
        ({"rule": "gap", "groups": None}, {}),
        ({"rule": "silhouette", "groups": None}, {"soft": True}),
        ({"groups": None}, {"beta": 0.5, "server_data": "noise"}),
        ({"groups": None, **SKEWED}, {"server_data": "test"}),
        ({"newcomers": 0.2, "join_at": 2}, {"assign": "recluster"}),
    ],
    "ifca": [({}, {"criterion": "test-accuracy", "weights": "equal"}), ({"fraction": 1.0}, {"init_retry": 3})],
    "kindred": [
        ({}, {"rows": "samples", "labels": "none"}),
        ({"rule": "concepts:chance=1000"}, {"serving": "prior"}),
        ({"newcomers": 0.3}, {"assign": "recluster"}),
        ({"dataset": "digits-rotated:drift_at=3", "fraction": 1.0}, {}),
        ({"min_samples": 10, "min_label_samples": 4}, {}),
    ],
    "lg-fedavg": [
        ({}, {"shared": 1, "weights": "equal"}),
        ({}, {"pretrain": 2, "broadcast_all": True}),
        ({"client_curriculum": "all_batches=true"}, {"broadcast_all": True}),
    ],
    "mtl": [({}, {"strength": None})],
    "pacfl": [
        ({"rule": "degrees", "threshold": 12.0}, {}),
        ({"groups": 3}, {}),
        ({"rule": "gap"}, {}),
        ({"rule": "demo"}, {}),
        ({"rule": "silhouette"}, {}),
        ({"granularity": 8.0}, {}),
        ({"linkage": "complete"}, {"p": 5}),
        ({"groups": 4}, {"signature": "per-label", "measure": "min_abs"}),
        ({"groups": 4}, {"measure": "trace", "budget": 12}),
        ({"rule": "gap"}, {"inputs": "normalised"}),
        ({"newcomers": 0.3}, {"assign": "recluster"}),
        ({"newcomers": 0.3, "rule": "degrees", "threshold": 3.0}, {"found": "nearest"}),
        ({"drop": 0.4, "rule": "degrees", "threshold": 8.0}, {"assign": "recluster"}),
    ],
    "per-fedavg": [({}, {"alpha": 0.05})],
    "scaffold": [({}, {"momentum": 0.5, "server_divisor": "sampled"})],
    "solo": [({}, {"epochs": 7})],
    "sub-fedavg-hy": [({"rounds": 2}, {"statistics": "local", "channel_rate": 0.3, "channel_floor": 0.25})],
    "sub-fedavg-un": [({}, {"target": 0.3, "rate": 0.2, "last_rate": 0.05}), ({}, {"validation": "test"})],
}  # fmt: skip
"""Settings, and options of the method, that are laid over those above."""


def options() -> Iterator[Case]:
    """What methods can be asked for, on digits-rotated."""
    for method, variations in OPTIONS.items():
        own = METHODS[method]
        for settings, chosen in variations:
            said = {**settings, **chosen}
            label = ",".join(f"{key}={value}" for key, value in said.items() if "curriculum" not in key)
            laid = {**own.get("algorithm_options", {}), **chosen}
            kept = {key: value for key, value in {**own, **settings}.items() if value is not None}
            yield a_run(f"options/{method}/{label}", ROTATED, kept, algorithm=method, algorithm_options=laid)


def situations() -> Iterator[Case]:
    """Partitions, networks, ways to train, curricula and evaluation, mostly with FedAvg."""
    partitions = (
        "iid", "iid:labels=2", "label-skew:rho=0.3", "c-niid:labels=2", "sc-niid:labels=2,threshold=20",
        "dirichlet:alpha=0.3", "c-dirichlet:alpha=0.5", "sc-dirichlet:alpha=0.5,groups=3", "planted", "shards",
        "dirichlet-categories:alpha=0.3", "label-skew-quantity:rho=0.3", "power-law", "femnist-200", "rotated",
        "given-labels:labels=0+1+2/3+4/5+6+7+8+9", "permuted", "by-user",
    )  # fmt: skip
    for text in partitions:
        yield a_run(f"data/digits/{text}", dataset="digits", partition=text, rounds=2, algorithm="pacfl")
    for name in ("digits-permuted", "digits-permuted:drift_at=2", "synthetic"):
        yield a_run(f"data/{name}", dataset=name, rounds=2, algorithm="ifca", groups=3)
    yield a_run("data/f_ord", SKEWED, f_ord=0.7, rounds=2)
    yield a_run("data/surplus", SKEWED, surplus=2, rounds=2)
    for name in ("mclr", "mlp:hidden=20", "lenet5", "lenet5-bn"):
        yield a_run(f"models/{name}", SKEWED, model=name, rounds=2, algorithm="fedprox")
    training: dict[str, dict[str, Any]] = {
        "decay": {"lr_decay": 0.1, "lr_power": 0.5, "weight_decay": 0.01, "momentum": 0.9},
        "batches": {"batch_size": 32, "epochs": 3},
        "end-only": {"eval_every": 0},
        "validation": {"validation": 0.2, "target": ["G=0.3", "L=0.99"]},
    }
    for name, settings in training.items():
        for method in ("fedavg", "pacfl"):
            yield a_run(f"training/{name}/{method}", SKEWED, settings, algorithm=method)
    for method in ("fedavg", "ifca", "lg-fedavg", "pacfl", "per-fedavg", "scaffold"):
        for labels, serving in (("both", "lacking"), ("served", "prior")):
            given = {**METHODS[method].get("algorithm_options", {}), "labels": labels, "serving": serving}
            yield a_run(
                f"labels/{method}/{labels}-{serving}",
                SKEWED,
                METHODS[method],
                algorithm=method,
                algorithm_options=given,
            )
    turned = {"dataset": "digits", "partition": "rotated:groups=2,parts=label-skew:rho=0.5", "algorithm": "kindred"}
    yield a_run("labels/kindred/rotated", turned)
    for score in ("G", "L", "LG-pred", "G-pred", "E"):
        yield a_run(f"curriculum/fedavg/score={score}", SKEWED, curriculum=f"score={score},order=anti", expert_epochs=2)
    for pacing in ("exponential", "step", "linear", "quadratic"):
        settings = {"curriculum": f"pacing={pacing}", "client_curriculum": f"pacing={pacing},refresh_every=2"}
        yield a_run(f"curriculum/fedavg/pacing={pacing}", SKEWED, settings, epochs=2)
    for order in ("anti", "random", "vanilla"):
        settings = {"curriculum": f"order={order}", "client_curriculum": f"order={order},all_batches=true"}
        for method in ("scaffold", "pacfl", "lg-fedavg"):
            yield a_run(
                f"curriculum/{method}/order={order}", SKEWED, settings, algorithm=method, newcomers=0.2, join_at=2
            )


def engines() -> Iterator[Case]:
    """Where and how clients run, which must change no number."""
    for method in ("pacfl", "scaffold", "sub-fedavg-un", "fedsoft"):
        first = f"engine/{method}/one-worker"
        faults = {"drop": 0.1, "newcomers": 0.2, "join_at": 3}
        yield a_run(first, ROTATED, METHODS[method], faults, algorithm=method)
        for name, settings in (
            ("two-workers", {"workers": 2}),
            ("disk", {"state": "disk"}),
            ("memory", {"state": "memory"}),
        ):
            yield a_run(
                f"engine/{method}/{name}", ROTATED, METHODS[method], faults, settings, same=first, algorithm=method
            )


def killed() -> Iterator[Case]:
    """Runs that are killed and resumed, and the same without that."""
    for method in ("kindred", "pacfl", "scaffold", "sub-fedavg-un"):
        settings = {**SMALL, **ROTATED, "rounds": 80, "eval_every": 5, "drop": 0.1, "newcomers": 0.2, "join_at": 40}
        yield Case(f"resume/{method}/whole", "run", {**settings, "algorithm": method})
        yield Case(
            f"resume/{method}/killed", "killed", {**settings, "algorithm": method}, same=f"resume/{method}/whole"
        )


def commands() -> Iterator[Case]:
    """Grouping without training, inspection, studies, comparisons and sweeps, on the command line."""
    few = ("--clients", "12", "--epochs", "1", "--lr", "0.05", "--rounds", "3", "--fraction", "0.5", "--quiet")
    rotated, skewed = ("--dataset", "digits-rotated"), ("--dataset", "digits", "--partition", "label-skew:rho=0.2")
    for method in METHODS:
        for where, data in (("rotated", rotated), ("skewed", skewed)):
            if method in ONE_SHOT or where == "rotated":
                name = f"cluster/{method}/{where}"
                yield Case(name, "cluster", arguments=("cluster", "--algorithm", method, *data, *few, "--json"))
    for rule in ("degrees:threshold=12", "count:groups=3", "gap", "demo", "silhouette", "auto:granularity=3"):
        chosen, _, number = rule.partition(":")
        flags = ("--rule", chosen, *(("--set", f"grouping.{number}") if number else ()))
        yield Case(f"cluster/pacfl/{rule}", "cluster", arguments=("cluster", *rotated, *few, *flags, "--json"))
    every = "angles,sum_angles,labels,min_abs,min_entry,trace,emd,emd_pixel,mmd,bhattacharyya,kl,kl_symmetric,cka"
    yield a_command("inspect/skewed", "inspect", *skewed, *few, "--against", "iid", "--per-class", "--json")
    yield a_command("inspect/rotated", "inspect", *rotated, *few, "--measures", every, "--json")
    yield a_command(
        "studies/pairs", "pairs", "--dataset", "digits", "--c1", "8,9", "--c2", "8,9;3,5", "--seeds", "2",
        "--rounds", "2", "--epochs", "1", "--samples", "60", "--quiet", "--json",
    )  # fmt: skip
    many = ("--seeds", "0,1", "--jobs", "1", "--out", "OUT")
    yield a_command(
        "comparisons/compare", "compare", "--algorithms", "fedavg,ifca:groups=4,lr=0.1", *rotated, *few, *many,
        "--target", "L=0.3", reads="comparison.json",
    )  # fmt: skip
    yield a_command(
        "comparisons/tuned", "compare", "--algorithms", "fedavg,pacfl", *skewed, *few, *many, "--tune", "lr=0.1,0.01",
        reads="comparison.json",
    )  # fmt: skip
    yield a_command(
        "comparisons/sweep", "sweep", "--algorithm", "pacfl", "--vary", "grouping.threshold=2,8,20", *rotated, *few,
        *many, reads="comparison.json",
    )  # fmt: skip


def reproductions() -> Iterator[Case]:
    """Entries of a book of our own on digits, of the catalogue without data, and a few on real data."""
    own = (
        "accuracy", "target", "sweep", "curves", "newcomers", "statistics", "pruning", "error", "agreement", "updates",
        "layers", "distances", "classes", "sets",
    )  # fmt: skip
    for entry in own:
        name = f"golden-{entry}"
        yield reproduction(name, "--catalogue", str(BOOK))
    for name in ("pacfl-costs", "pacfl-table6", "fedgroup-table2", "sub-fedavg-costs", "dissertation-table2.1"):
        yield reproduction(name)
    yield reproduction("fedgroup-figure4", "--datasets", "synthetic", "--rounds-scale", "0.02", "--seeds", "0")
    yield reproduction("dissertation-figure6.2-middle")
    yield reproduction("fedgroup-figure5", "--datasets", "mnist", needs=("mnist",))
    yield reproduction("dissertation-figure3.11", needs=("fashion_mnist",))
    flags = ("--datasets", "fashion_mnist", "--algorithms", "fedavg,pacfl", "--rounds-scale", "0.005", "--seeds", "0")
    yield reproduction("pacfl-table2", *flags, needs=("fashion_mnist",))


def reproduction(name: str, *flags: str, needs: tuple[str, ...] = ()) -> Case:
    arguments = ("reproduce", name, *flags, "--jobs", "1", "--quiet", "--out", "OUT")
    return Case(f"reproduce/{name}", "command", arguments=arguments, reads=f"{name}*/reproduction.json", needs=needs)


def a_run(name: str, *tables: dict[str, Any], same: str | None = None, **settings: Any) -> Case:
    """A small run; later settings win."""
    laid = dict(SMALL)
    for table in (*tables, settings):
        laid.update(table)
    return Case(name, "run", laid, same=same)


def a_command(name: str, *arguments: str, reads: str | None = None) -> Case:
    return Case(name, "command", arguments=arguments, reads=reads)
