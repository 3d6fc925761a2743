"""Settings that are wrong: one line that names the value, the place and what would be right; nothing is written."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import SMALL, cli, refusal, spawn, tree

# What is written, and what the message must name.
WRONG_FLAGS = {
    "unknown flag": (["--roundz", "3"], ["--roundz", "--rounds"]),
    "unknown method": (["--algorithm", "fedavgg"], ["method", "'fedavgg'", "'fedavg'"]),
    "method far from all": (["--algorithm", "zzz"], ["method", "'zzz'", "fedavg, ", ", solo"]),
    "no method": (["--algorithm", ""], ["method", "''", "fedavg, ", ", solo"]),
    "unknown data set": (["--dataset", "digits-rotatd"], ["data set", "'digits-rotatd'", "'digits-rotated'"]),
    "data set far from all": (["--dataset", "zzz"], ["data set", "'zzz'", "digits-rotated"]),
    "dash for underscore": (["--dataset", "fashion-mnist"], ["'fashion-mnist'", "'fashion_mnist'"]),
    "unknown partition": (["--partition", "labelskew"], ["partition", "'labelskew'", "'label-skew'"]),
    "unknown model": (["--model", "lenet"], ["model", "'lenet'", "'lenet5'"]),
    "unknown option of a method": (["--algorithm", "solo:epoch=5"], ["'solo'", "'epoch'", "'epochs'"]),
    "unknown option of a data set": (["--dataset", "digits-rotated:group=2"], ["'group'", "'groups'"]),
    "unknown option of a partition": (["--partition", "label-skew:rh=0.2"], ["'label-skew'", "'rh'", "'rho'"]),
    "unknown option of a model": (["--model", "mlp:hiden=3"], ["'mlp'", "'hiden'", "'hidden'"]),
    "option of what has none": (["--model", "mclr:p=3"], ["'mclr'", "'p'", "no options"]),
    "option without a name": (["--set", "model.hidden=3"], ["[model]", "hidden", "name"]),
    "text for a whole number": (["--rounds", "many"], ["--rounds", "'many'", "integer"]),
    "fraction for a whole number": (["--rounds", "3.5"], ["--rounds", "'3.5'", "integer"]),
    "text for a number": (["--lr", "small"], ["--lr", "'small'"]),
    "text for a number, by --set": (["--set", "training.lr=small"], ["training.lr", "'small'", "number", "--set"]),
    "nothing for a number": (["--set", "training.lr="], ["training.lr", "''", "number", "--set"]),
    "table for a number": (["--set", "training.lr={a=1}"], ["training.lr", "number", "--set"]),
    "text for an option": (["--partition", "label-skew:rho=half"], ["'label-skew'", "rho", "'half'", "number"]),
    "no rounds": (["--rounds", "0"], ["training.rounds", "0", "greater than or equal to 1", "--rounds"]),
    "more than everyone": (["--fraction", "1.5"], ["training.fraction", "1.5", "less than or equal to 1"]),
    "momentum of one": (["--momentum", "1"], ["training.momentum", "1", "less than 1"]),
    "learning rate of zero": (["--lr", "0"], ["training.lr", "0", "greater than 0"]),
    "learning rate not a number": (["--lr", "nan"], ["training.lr", "nan"]),
    "learning rate without end": (["--lr", "inf"], ["training.lr", "inf"]),
    "weight decay without end": (["--weight-decay", "inf"], ["training.weight_decay", "inf"]),
    "unknown optimiser": (["--optimiser", "adan"], ["training.optimiser", "'adan'", "'adam'", "--optimiser"]),
    "unknown option of an optimiser": (["--optimiser", "adam:beta3=1"], ["adam has no 'beta3'", "did you mean 'beta"]),
    "beta of one": (["--optimiser", "adam:beta2=1"], ["beta2 = 1", "less than 1"]),
    "momentum behind sgd": (["--optimiser", "sgd:momentum=0.9"], ["sgd has no 'momentum'", "keys of their own"]),
    "momentum beside adam": (["--optimiser", "adam", "--momentum", "0.9"], ["momentum = 0.9", "beta1"]),
    "scaffold with adam": (["--algorithm", "scaffold", "--optimiser", "adam"], ["'scaffold'", "mean gradients", "sgd"]),
    "fednova with adamw": (["--algorithm", "fednova", "--optimiser", "adamw"], ["'fednova'", "no formula", "sgd"]),
    "shared momentum with adam": (
        ["--algorithm", "per-fedavg:momentum=0.5", "--optimiser", "adam"], ["'per-fedavg'", "SGD", "--optimiser"],
    ),
    "decoupled penalty": (["--algorithm", "mtl", "--optimiser", "adamw"], ["'mtl'", "penalty", "adamw"]),
    "clip of nothing": (["--gradient-clip", "0"], ["training.clip", "0", "greater than 0", "--gradient-clip"]),
    "clip of two models": (["--algorithm", "apfl", "--gradient-clip", "1"], ["'apfl'", "several", "--gradient-clip"]),
    "clip of an inner loop": (["--algorithm", "pfedme", "--gradient-clip", "1"], ["'pfedme'", "one gradient a step"]),
    "labels all smooth": (["--label-smoothing", "1"], ["training.smoothing", "1", "less than 1"]),
    "unknown loss": (["--loss", "binry"], ["loss", "'binry'", "'binary'", "--loss"]),
    "unknown metric": (["--metric", "f2"], ["metric", "'f2'", "f1", "--metric"]),
    "smoothing of no softmax": (["--loss", "mse", "--label-smoothing", "0.1"], ["'mse'", "leave it out"]),
    "mixture without a softmax": (["--algorithm", "fedem", "--loss", "mse"], ["'mixture'", "'mse'", "leave the loss"]),
    "offsets without a softmax": (["--algorithm", "fedavg:labels=both", "--loss", "mse"], ["'mse'", "labels=none"]),
    "no clients": (["--clients", "0"], ["data.clients", "0", "greater than or equal to 1"]),
    "more drops than requests": (["--drop", "2"], ["faults.drop", "2", "less than or equal to 1"]),
    "no workers": (["--workers", "0"], ["engine.workers", "0", "greater than or equal to 1"]),
    "seed below zero": (["--seed", "-1"], ["run.seed", "-1", "greater than or equal to 0"]),
    "unknown engine": (["--engine", "flowr"], ["engine.name", "'flowr'", "'embedded'"]),
    "unknown place of states": (["--state", "ram"], ["engine.state", "'ram'", "'memory'", "'disk'"]),
    "option out of range": (["--partition", "label-skew:rho=2"], ["label-skew", "rho = 2", "less than or equal to 1"]),
    "target in percent": (["--target", "L=80"], ["evaluation.targets", "'L=80'", "L=0.8"]),
    "target of no protocol": (["--target", "Q=0.8"], ["evaluation.targets", "'Q=0.8'", "(L, C, G)"]),
    "target without value": (["--target", "L"], ["evaluation.targets", "'L'", "L=0.8"]),
    "partition of divided data": (["--dataset", "digits-rotated", "--partition", "iid"], ["divided", "leave out"]),
    "no samples for a method that needs some": (
        ["--algorithm", "flis-dc", "--server-share", "0"],
        ["server_share = 0", "'flis-dc'", "raise it", "--server-share"],
    ),
    "most samples for the server": (["--server-share", "0.6"], ["data.server_share", "0.6", "equal to 0.5"]),
    "short form without value": (["--partition", "label-skew:rho"], ["'label-skew:rho'", "name:option=value"]),
    "--set without =": (["--set", "training.lr"], ["--set training.lr", "section.key=value"]),
    "--set without section": (["--set", "lr=1"], ["'lr'", "section.key"]),
    "--set of an unknown section": (["--set", "trainig.lr=1"], ["[trainig]", "'training'"]),
    "--set of an unknown key": (["--set", "training.lrr=1"], ["[training]", "'lrr'", "'lr'"]),
    "no configuration file": (["nofile.toml"], ["'nofile.toml'", "no configuration file"]),
    "a folder for a configuration": (["."], ["'.'", "--dataset ."]),
    "too many arguments": (["a.toml", "b.toml"], ["b.toml"]),
    "no file of data": (["--dataset", "nofile.npz"], ["'nofile.npz'", "no file"]),
    "data of another format": (["--dataset", "data.csv"], ["data.csv"]),
    "data set without its folder": (["--dataset", "mnist"], ["mnist.npz", "COTERIE_DATA"]),
    "a plugin that is not there": (["--plugin", "nofile.py"], ["nofile.py"]),
    "a module that is not there": (["--plugin", "no_such_module"], ["no_such_module"]),
}  # fmt: skip

# The file's text, and what the message must name beside the file itself.
WRONG_FILES = {
    "unknown key": ("[training]\nrouds = 3\n", ["[training]", "'rouds'", "'rounds'"]),
    "unknown section": ("[trainig]\nrounds = 3\n", ["[trainig]", "'training'"]),
    "broken TOML": ("[training\nrounds = 3\n", ["TOML", "line 1"]),
    "a value for a section": ("training = 3\n", ["'training'", "[training]"]),
    "a list of sections": ("[[training]]\nrounds = 3\n", ["'training'", "[training]"]),
    "wrong type": (
        "[training]\nrounds = 'many'\n",
        ["rounds = 'many'", "a whole number, not a text"],
    ),
    "text for a list": ("[evaluation]\ntargets = 'L=0.8'\n", ["evaluation.targets", "'L=0.8'", "list"]),
    "number for a name": ("[algorithm]\nname = 3\n", ["algorithm.name = 3", "a text, not a whole number", "method"]),
    "yes for a whole number": ("[training]\nrounds = true\n", ["training.rounds", "True"]),
    "yes for a number": ("[training]\nlr = true\n", ["training.lr", "True"]),
    "quoted number": ("[training]\nrounds = '5'\n", ["training.rounds", "'5'"]),
    "out of range": ("[training]\nlr = -1\n", ["training.lr", "-1", "greater than 0"]),
    "without end": ("[training]\nlr = inf\n", ["training.lr", "inf"]),
    "unknown method": ("[algorithm]\nname = 'fedavgg'\n", ["'fedavgg'", "'fedavg'", "[algorithm]"]),
    "unknown data set": ("[data]\nname = 'digit'\n", ["'digit'", "'digits'", "[data]"]),
    "unknown partition": ("[partition]\nname = 'labelskew'\n", ["'labelskew'", "'label-skew'", "[partition]"]),
    "unknown model": ("[model]\nname = 'lenet'\n", ["'lenet'", "'lenet5'", "[model]"]),
    "unknown option": ("[algorithm]\nname = 'solo'\nepoch = 3\n", ["'epoch'", "'epochs'", "[algorithm]"]),
    "option out of range": ("[partition]\nname = 'label-skew'\nrho = 2\n", ["rho", "2", "[partition]"]),
}


@pytest.mark.parametrize("case", WRONG_FLAGS)
def test_a_wrong_flag_is_refused(case: str, place: Path) -> None:
    flags, named = WRONG_FLAGS[case]
    (place / "data.csv").write_text("1,2,3\n")
    before = tree(place)
    message = refusal(cli("run", "--out", "x", *flags))
    assert [name for name in named if name not in message] == []
    assert tree(place) == before


@pytest.mark.parametrize("case", WRONG_FILES)
def test_a_wrong_file_is_refused(case: str, place: Path) -> None:
    text, named = WRONG_FILES[case]
    (place / "wrong.toml").write_text(text)
    before = tree(place)
    message = refusal(cli("run", "wrong.toml", "--out", "x"))
    assert [name for name in [*named, "wrong.toml"] if name not in message] == []
    assert tree(place) == before


def test_a_file_is_not_blamed_for_what_the_command_line_says(place: Path) -> None:
    (place / "right.toml").write_text("[training]\nrounds = 3\n")
    message = refusal(cli("run", "right.toml", "--set", "training.roundz=4"))
    assert "'rounds'" in message
    assert "right.toml" not in message


def test_a_file_that_is_no_text_is_refused(place: Path) -> None:
    (place / "picture.toml").write_bytes(b"\x89PNG\r\n\x1a\n\xff\xfe")
    assert "'picture.toml' is not a TOML file" in refusal(cli("run", "picture.toml"))


def test_a_wrong_name_in_a_list_is_refused() -> None:
    for kind, wrong, right in (
        ("algorithms", "fedavgg", "fedavg"),
        ("datasets", "digit", "digits"),
        ("partitions", "idd", "iid"),
        ("models", "mpl", "mlp"),
    ):
        message = refusal(cli(kind, wrong))
        assert f"'{wrong}'" in message
        assert f"'{right}'" in message


def test_a_wrong_command_is_refused() -> None:
    answer = cli("runn")
    assert answer.code == 2
    assert "'runn'" in answer.err
    assert "'run'" in answer.err


@pytest.mark.integration
def test_as_a_process_a_mistake_ends_in_one_line_and_exit_code_2(place: Path) -> None:
    answer = spawn("run", *SMALL, "--algorithm", "fedavgg", "--out", "x")
    assert answer == (
        answer.__class__(2, "", "coterie: unknown method 'fedavgg': did you mean 'fedavg'? (set by --algorithm)\n")
    )
    assert not (place / "x").exists()


@pytest.mark.parametrize("where", ["first", "last"])
def test_debug_shows_a_traceback(where: str) -> None:
    from coterie.errors import CoterieError

    arguments = ["run", "--algorithm", "fedavgg"]
    with pytest.raises(CoterieError, match="fedavgg"):  # Python prints it with its traceback
        cli(*(["--debug", *arguments] if where == "first" else [*arguments, "--debug"]))
