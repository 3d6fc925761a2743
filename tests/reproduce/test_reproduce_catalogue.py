"""The catalogue: every entry is whole, its configurations are valid, and its settings are those of the papers."""

import copy

import pytest

from coterie.errors import CoterieError
from coterie.reproduce.catalogue import catalogue
from coterie.reproduce.computed import KINDS as COMPUTED
from coterie.reproduce.estimate import minutes
from coterie.reproduce.findings import KEYS, is_target
from coterie.reproduce.trained import KINDS as TRAINED
from coterie.run.validation import make_config

NOT_MADE = ("cannot", "same")
VALID: set[str] = set()
"""Tables that were checked already: many papers have the same, and checking one takes 10 ms."""


def made() -> list[str]:
    return [name for name, item in catalogue().items() if item.entry.kind not in NOT_MADE]


def test_names_are_unique_and_copies_exist() -> None:
    known = [alias for name, item in catalogue().items() for alias in (name, *item.entry.also)]
    assert len(known) == len(set(known))
    for item in catalogue().values():
        if item.entry.same_as:
            assert catalogue()[item.entry.same_as].entry.kind not in NOT_MADE
    with pytest.raises(CoterieError, match="did you mean 'pacfl-table2'"):
        catalogue()["pacfl-tabel2"]


def test_kinds() -> None:
    for name, item in catalogue().items():
        assert item.entry.kind in (*TRAINED, *COMPUTED, *NOT_MADE), name
        assert bool(item.entry.reason) == (item.entry.kind == "cannot"), name
        assert item.book.version >= 1


@pytest.mark.integration
@pytest.mark.parametrize("name", made())
def test_every_configuration_is_valid(name: str) -> None:
    """With digits in the place of data that may not be here: names, options and keys are checked."""
    trains = False
    for cell in catalogue()[name].cells():
        if cell.data is None or cell.method is None:
            continue
        tables = copy.deepcopy(cell.settings)
        own = str(tables["data"]["name"])
        if own != "synthetic":
            stand_in = "digits-rotated" if own == "mix-4" else "digits"
            kept = {key: tables["data"][key] for key in ("clients", "server_share") if key in tables["data"]}
            tables["data"] = {"clients": 100, **kept, "name": stand_in}
        if repr(tables) not in VALID:
            config = make_config(tables)
            assert config.training.rounds >= 20
            assert config.algorithm.name == cell.settings["algorithm"]["name"]
            VALID.add(repr(tables))
        trains = True
        assert cell.quantity in KEYS or is_target(cell.quantity) or cell.quantity.split()[0] in (
            "newcomers", "client", "discrepancy", "W", "pruned", "unadapted", "group",
        )  # fmt: skip
    assert trains or catalogue()[name].entry.kind not in TRAINED


@pytest.mark.integration
@pytest.mark.parametrize("name", made())
def test_data_sets_exist_and_time_is_known(name: str) -> None:
    from coterie.data import DATASETS

    item = catalogue()[name]
    assert all(data in DATASETS for column in item.columns() for data in item.needs(column))
    two, four = (minutes(item, cores=cores, speed=lambda spec, batch_size: (1e-3, 1e-5)) for cores in (2, 4))
    assert (two or 0) >= (four or 0) >= 0


def test_settings_of_the_papers() -> None:
    """A sample of ALGORITHMS 0.2, read from the laid-over configurations."""

    def settings(name: str, column: str, row: str) -> dict[str, dict[str, object]]:
        return next(c.settings for c in catalogue()[name].cells() if c.column == column and c.row == row)

    fedavg = settings("pacfl-table2", "FMNIST", "fedavg")
    assert fedavg["training"] == {
        "rounds": 200, "fraction": 0.1, "epochs": 10, "batch_size": 10, "lr": 0.01, "momentum": 0.9,
    }  # fmt: skip
    assert fedavg["partition"] == {"name": "label-skew", "rho": 0.2}
    assert settings("pacfl-table2", "FMNIST", "pacfl")["training"]["momentum"] == 0.5
    assert settings("pacfl-table2", "FMNIST", "pacfl")["grouping"] == {"groups": 4}
    assert settings("pacfl-table2", "SVHN", "pacfl")["grouping"] == {"groups": 2}
    assert settings("pacfl-table8", "CIFAR-10", "pacfl")["algorithm"]["p"] == 5
    assert settings("pacfl-table3", "MIX-4", "ifca4")["grouping"] == {"groups": 4}
    assert settings("pacfl-table3", "MIX-4", "lg")["training"]["rounds"] == 50
    assert settings("flag-table2", "30 % SVHN", "flag")["training"]["fraction"] == 0.2
    assert settings("flag-table3", "30 % SVHN", "flag")["partition"] == {
        "name": "label-skew-quantity", "rho": 0.3, "alpha": 0.25,
    }  # fmt: skip
    assert settings("fedgroup-table3", "MNIST-MLP", "fg-edc")["grouping"] == {"groups": 3}
    assert settings("fedgroup-table3", "Sent140-LSTM", "fedprox")["algorithm"]["mu"] == 0.01
    assert settings("dissertation-table4.1", "MNIST", "hy50")["model"] == {"name": "cnn-bn"}
    assert settings("dissertation-table4.1", "CIFAR-100", "un70")["partition"] == {"name": "shards", "size": 125}
    curriculum = settings("dissertation-table2.3", "Dir(0.9)", "anti")
    assert curriculum["curriculum"] == {"data": "order=anti"}
    assert curriculum["training"]["lr_decay"] == 0.001


def published_as(name: str, row: str) -> set[str]:
    """What is measured in the cells of a row."""
    return {cell.quantity for cell in catalogue()[name].cells() if cell.row == row}


def algorithm(name: str, row: str) -> dict[str, object]:
    """The method's options in the cells of a row, which are the same in all of them."""
    tables = [cell.settings["algorithm"] for cell in catalogue()[name].cells() if cell.row == row]
    assert all(table == tables[0] for table in tables)
    return tables[0]


def test_cfl_is_published_under_c() -> None:
    """The authors' client resets its model after training."""
    for name in ("pacfl-table2", "pacfl-table7", "pacfl-table8", "flis-table1", "flis-table2", "flag-table2"):
        assert published_as(name, "cfl") == {"C"}
    assert published_as("pacfl-table3", "cfl") == {"group mean C"}
    assert published_as("pacfl-table5", "cfl") == {f"rounds to C={value}" for value in (0.75, 0.8, 0.5)}


@pytest.mark.parametrize(
    ("name", "quantity"),
    [
        ("pacfl-table2", "unadapted L"),
        ("pacfl-table3", "group mean unadapted L"),
        ("pacfl-table4", "newcomers unadapted L"),
        ("flis-table1", "unadapted L"),
        ("flis-table4", "newcomers unadapted L"),
        ("flag-table2", "unadapted L"),
        ("dissertation-table5.4", "unadapted L"),
    ],
)
def test_per_fedavg_is_the_authors(name: str, quantity: str) -> None:
    assert published_as(name, "per-fedavg") == {quantity}
    assert algorithm(name, "per-fedavg") == {"name": "per-fedavg", "alpha": 0.01, "beta": 0.001, "momentum": 0.5}


def test_epochs_of_solo() -> None:
    """5 x 5 epochs on MIX-4 and for newcomers, as in the authors' scripts."""
    for name, epochs in {"pacfl-table2": 50, "pacfl-table3": 25, "pacfl-table4": 25, "flis-table4": 25}.items():
        assert algorithm(name, "solo")["epochs"] == epochs
    for name in ("pacfl-table4", "flis-table4"):
        cells = [cell for cell in catalogue()[name].cells() if cell.row == "solo"]
        assert {cell.settings["newcomers"]["epochs"] for cell in cells} == {25}


def test_scaffold_has_the_momentum_of_the_other_methods() -> None:
    for name, row in {"dissertation-table2.5": "curriculum", "dissertation-table5.4": "scaffold"}.items():
        assert algorithm(name, row)["momentum"] == 0.9
        assert {c.settings["training"]["momentum"] for c in catalogue()[name].cells() if c.row == row} == {0.9}
    mix = next(cell.settings for cell in catalogue()["pacfl-table3"].cells() if cell.row == "scaffold")
    assert (mix["training"]["lr"], mix["algorithm"]["momentum"]) == (0.001, 0.9)


def test_fesem_starts_by_k_means() -> None:
    from coterie.algorithms import ALGORITHMS

    options = {key: value for key, value in algorithm("fedgroup-table3", "fesem").items() if key != "name"}
    assert ALGORITHMS["fesem"](**options).init == "k-means"  # type: ignore[attr-defined]


def test_only_flis_reserves_samples_for_the_server() -> None:
    """2,500 of the data sets' own sizes; without samples at the server all of the training set is the clients'."""
    from coterie.data.dividing import server_samples

    for name in made():
        item = catalogue()[name]
        for cell in item.cells():
            if cell.data is None or cell.method is None:
                continue
            share = cell.settings["data"].get("server_share")
            reserved = server_samples(item.book.data[cell.data].samples, share)
            assert reserved == (2500 if item.book.source.startswith("FLIS") else 0), (name, cell.column, cell.row)
    shards = next(catalogue()["dissertation-table4.1"].cells())
    assert 2 * 100 * shards.settings["partition"]["size"] == 50_000  # so that two shards a client need every sample


def test_figures_have_all_columns_and_orders() -> None:
    orders = {"curriculum", "anti", "random"}
    rows = [cell.row for cell in catalogue()["dissertation-figure2.5"].cells() if cell.column == "IID"]
    assert set(rows) == {"vanilla", *(f"{b} {o}" for b in ("0.0025", "0.1", "0.2", "0.5", "0.8") for o in orders)}
    rows = [cell.row for cell in catalogue()["dissertation-figure2.7"].cells() if cell.column == "all"]
    assert set(rows) == {f"{m}-{o}" for m in ("fedavg", "fedprox") for o in (*orders, "vanilla")}
    ten = catalogue()["dissertation-figure2.10"]
    assert [column.label for column in ten.columns()] == ["IID", "Dir(0.2)", "Dir(0.05)"]
    assert {cell.row.split()[0] for cell in ten.cells()} == {"samples", "clients", "vanilla"}
    assert [column.data for column in catalogue()["dissertation-figure3.10"].columns()] == [
        "cifar10", "svhn", "fashion_mnist",
    ]  # fmt: skip


def test_eq_52_is_of_vectors_of_the_same_rank() -> None:
    """Not the sum of the principal angles."""
    cells = [cell for cell in catalogue()["dissertation-table5.3"].cells() if cell.row == "Eq. 5.2"]
    assert {cell.options["measure"] for cell in cells} == {"trace"}


def test_warm_up_and_trial_of_flag() -> None:
    """Its tables 5, 6 and 8 say so: 3 rounds of 10 epochs, 25 clients."""
    assert algorithm("flag-table5", "flag")["step"] == 0.01
    for name, row, warmup in (("flag-table5", "flag", 30), ("flag-table6", "0.3", 30), ("flag-table8", "15", 15)):
        options = algorithm(name, row)
        assert (options["warmup"], options["trial_clients"]) == (warmup, 25)
    assert "trial_clients" not in algorithm("flag-table2", "flag")


def test_grades_and_notes() -> None:
    cells = {(c.column, c.row): c for c in catalogue()["pacfl-table2"].cells()}
    assert cells["FMNIST", "fedavg"].external
    assert not cells["CIFAR-100", "fedavg"].external
    assert not cells["FMNIST", "lg"].external
    assert {cells["SVHN", row].grade for row in ("fedavg", "fedprox", "cfl")} == {"C"}
    assert cells["SVHN", "solo"].grade == "B"
    assert cells["SVHN", "pacfl"].grade == "A"
    assert "leak" in cells["SVHN", "ifca"].notes[0]
    assert {cell.grade for cell in catalogue()["flag-table2"].cells()} == {"B"}
    for cell in catalogue()["dissertation-table5.4"].cells():
        assert cell.grade == ("A" if ", SC-" in cell.column else "B"), cell.column


def test_costs_of_lg_are_those_of_its_last_two_layers() -> None:
    from coterie.messages import ModelSpec
    from coterie.models import initial

    columns = {column.label: column.options["lg"] for column in catalogue()["sub-fedavg-costs"].columns()}
    for label, spec in {
        "CIFAR-10, GB": ModelSpec("lenet5", (3, 32, 32), 10),
        "MNIST, MB": ModelSpec("cnn", (1, 28, 28), 10),
        "CIFAR-100, GB": ModelSpec("lenet5", (3, 32, 32), 100),
    }.items():
        assert columns[label] == sum(array.size for array in list(initial(spec, 0).values())[-4:]), label


def test_what_is_trained_says_how_many_clients_there_are_and_take_part() -> None:
    """So that no change of a default changes what is reproduced."""
    for name, item in catalogue().items():
        for cell in item.cells() if item.entry.kind in TRAINED else ():
            assert "fraction" in cell.settings["training"], name
            assert "clients" in cell.settings["data"], name
