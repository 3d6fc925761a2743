"""Flags, TOML files, --set and short forms say the same things; what is printed or stored reruns the run."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from command_line import SMALL, cli, outcome, refusal

from coterie.run.config import keys

OWN = {"--trust", "--set", "--print-config", "--dry-run", "--overwrite", "--plot", "--quiet", "--help", "--debug"}
"""Flags that are about the command, not the run."""

# For every key of the configuration: what to write behind its flag, and what the file then says.
VALUES: dict[str, tuple[str, Any]] = {
    "data.name": ("digits-permuted", "digits-permuted"),
    "data.clients": ("7", 7),
    "data.server_share": ("0.125", 0.125),
    "partition.f_ord": ("0.5", 0.5),
    "partition.noise": ("0.25", 0.25),
    "partition.surplus": ("3", 3),
    "partition.name": ("label-skew", "label-skew"),
    "model.name": ("mclr", "mclr"),
    "model.initial": ("start.safetensors", "start.safetensors"),
    "model.initial_digest": ("0123456789abcdef", "0123456789abcdef"),
    "training.rounds": ("8", 8),
    "training.fraction": ("0.25", 0.25),
    "training.epochs": ("3", 3),
    "training.batch_size": ("5", 5),
    "training.lr": ("0.02", 0.02),
    "training.lr_decay": ("0.125", 0.125),
    "training.lr_power": ("1", 1.0),
    "training.loss": ("binary", "binary"),
    "training.optimiser": ("adam:beta2=0.99", "adam:beta1=0.9,beta2=0.99,eps=1e-08"),
    "training.momentum": ("0", 0.0),
    "training.weight_decay": ("1e-5", 1e-5),
    "training.clip": ("0.5", 0.5),
    "training.smoothing": ("0.125", 0.125),
    "algorithm.name": ("solo", "solo"),
    "grouping.rule": ("gap", "gap"),
    "grouping.threshold": ("4.9", 4.9),
    "grouping.groups": ("4", 4),
    "grouping.granularity": ("1.5", 1.5),
    "grouping.linkage": ("complete", "complete"),
    "grouping.scale": ("exact", "exact"),
    "privacy.min_samples": ("5", 5),
    "privacy.min_label_samples": ("6", 6),
    "privacy.max_requests": ("7", 7),
    "aggregation.rule": ("median", "median"),
    "aggregation.clip": ("2.5", 2.5),
    "aggregation.trim": ("0.125", 0.125),
    "aggregation.mixing": ("none", "none"),
    "aggregation.assumed_liars": ("2", 2),
    "aggregation.max_samples": ("1000", 1000),
    "aggregation.max_weight": ("5", 5.0),
    "aggregation.secure": ("true", True),
    "aggregation.secure_min": ("4", 4),
    "aggregation.secure_clip": ("7.5", 7.5),
    "aggregation.secure_hidden": ("true", True),
    "privacy.limit": ("epsilon=3,delta=1e-6", "epsilon=3.0,delta=1e-06"),
    "privacy.unprotected": ("train", ["train"]),
    "privacy.dp_signature": ("epsilon=1,delta=1e-6", "epsilon=1.0,delta=1e-06"),
    "privacy.dp_sgd": ("epsilon=8,delta=1e-4,clip=2", "epsilon=8.0,delta=0.0001,clip=2.0,rate=0.1"),
    "privacy.dp_training": ("epsilon=8,delta=1e-4,clip=1", "epsilon=8.0,delta=0.0001,clip=1.0,min_group=10"),
    "newcomers.share": ("0.25", 0.25),
    "newcomers.draw": ("last", "last"),
    "newcomers.join_at": ("7", 7),
    "newcomers.epochs": ("0", 0),
    "curriculum.data": (
        "score=L,pacing=root,a=0.5,b=0.1,order=anti",
        "score=L,pacing=root,a=0.5,b=0.1,order=anti",
    ),
    "curriculum.clients": (
        "pacing=step,a=0.5,b=0.1,order=random,refresh_every=2,all_batches=true",
        "score=G,pacing=step,a=0.5,b=0.1,order=random,refresh_every=2,all_batches=true",
    ),
    "curriculum.expert": ("expert.safetensors", "expert.safetensors"),
    "curriculum.expert_epochs": ("3", 3),
    "newcomers.admit": ("more.npz", ["more.npz"]),
    "evaluation.metric": ("f1", "f1"),
    "evaluation.every": ("0", 0),
    "evaluation.clients": ("12", 12),
    "evaluation.test_samples": ("30", 30),
    "evaluation.plus": ("0.5", 0.5),
    "evaluation.validation": ("0.125", 0.125),
    "evaluation.targets": ("L=0.8", ["L=0.8"]),
    "engine.name": ("embedded", "embedded"),
    "engine.trainer": ("torch", "torch"),
    "engine.workers": ("3", 3),
    "engine.device": ("cuda:1", "cuda:1"),
    "engine.batch_clients": ("4", 4),
    "engine.gpu_share": ("0.25", 0.25),
    "engine.state": ("disk", "disk"),
    "engine.address": ("127.0.0.1:6379", "127.0.0.1:6379"),
    "engine.deadline": ("30", 30.0),
    "engine.min_replies": ("2", 2),
    "engine.oversample": ("0.5", 0.5),
    "engine.max_strikes": ("3", 3),
    "faults.drop": ("0.25", 0.25),
    "faults.straggle": ("0.5", 0.5),
    "faults.hostile": ("0.75", 0.75),
    "faults.hostile_kind": ("flip", "flip"),
    "faults.liars": ("2", 2),
    "run.seed": ("7", 7),
    "run.out": ("some where", "some where"),
    "run.durable": ("true", True),
    "run.track": ("tensorboard", ["tensorboard"]),
    "run.plugins": ("json", ["json"]),
}


def printed(*arguments: object) -> dict[str, Any]:
    answer = cli("run", *arguments, "--print-config")
    assert (answer.code, answer.err) == (0, "")
    return tomllib.loads(answer.out)


def test_every_key_has_a_flag_and_every_flag_is_a_key() -> None:
    shown = set(re.findall(r"--[a-z][a-z-]*", re.sub(r"(?m)^ {10,}.*$", "", cli("run", "--help").out)))
    assert shown - OWN == {key.flag for key in keys()}


def test_every_key_is_tried_below() -> None:
    assert set(VALUES) == {key.path for key in keys()}


@pytest.mark.parametrize("key", list(keys()), ids=lambda key: key.path)
def test_a_flag_a_setting_and_a_file_reach_the_same_key(key: Any, place: Path) -> None:
    written, value = VALUES[key.path]
    method = ["--algorithm", "pacfl"] if key.section == "grouping" or key.name == "dp_signature" else []
    method += ["--fraction", "0.5"] if key.name == "dp_training" else []
    method += ["--privacy-limit", "epsilon=3,delta=1e-06"] if key.name == "unprotected" else []
    method += ["--algorithm", "ifca:weights=equal", "--secure"] if key.name == "secure_hidden" else []
    method += ["--newcomers", "0.5"] if key.name == "join_at" else []
    method += ["--engine", "flower"] if key.name in ("address", "gpu_share") else []
    method += ["--initial", "start.safetensors"] if key.name == "initial_digest" else []
    (place / "expert.safetensors").touch()
    (place / "more.npz").touch()
    by_flag = printed(key.flag, *([] if value is True else [written]), *method)
    assert by_flag[key.section][key.name] == value
    assert printed("--set", f"{key.path}={[written] if key.is_list else written}", *method) == by_flag
    text = written if value is True else repr(value)
    (place / "one.toml").write_text(f"[{key.section}]\n{key.name} = {text}\n")
    assert printed("one.toml", *method) == by_flag


def test_a_flag_overrides_the_file_and_a_setting_the_flag(place: Path) -> None:
    (place / "run.toml").write_text("[training]\nrounds = 3\nlr = 0.5\nepochs = 2\n")
    training = printed("run.toml", "--rounds", "4", "--epochs", "5", "--set", "training.epochs=6")["training"]
    assert (training["rounds"], training["lr"], training["epochs"]) == (4, 0.5, 6)


def test_options_of_choices_are_reached_in_every_way(place: Path) -> None:
    papers = {"name": "solo", "labels": "none", "serving": "lacking", "server_optimiser": "sgd", "epochs": 50}
    assert printed("--algorithm", "solo", "--set", "algorithm.epochs=50")["algorithm"] == papers
    assert printed("--set", "algorithm.epochs=50", "--algorithm", "solo")["algorithm"] == papers
    assert printed("--algorithm", "solo:epochs=50")["algorithm"] == papers
    skewed = {"name": "label-skew", "rho": 0.3}
    assert printed("--partition", "label-skew:rho=0.3")["partition"] == skewed
    assert printed("--set", "partition.name=label-skew:rho=0.3")["partition"] == skewed
    assert printed("--dataset", "digits-rotated:groups=2")["data"] == {"name": "digits-rotated", "groups": 2}
    assert printed("--model", "mlp:hidden=7")["model"] == {"name": "mlp", "hidden": 7}
    (place / "run.toml").write_text("[partition]\nname = 'label-skew'\nrho = 0.3\n")
    assert printed("run.toml")["partition"] == skewed


def test_the_short_form_is_understood_in_a_file_too(place: Path) -> None:
    (place / "run.toml").write_text("[partition]\nname = 'label-skew:rho=0.3'\n")
    assert printed("run.toml")["partition"] == {"name": "label-skew", "rho": 0.3}


def test_another_choice_on_the_command_line_does_not_inherit_options(place: Path) -> None:
    (place / "run.toml").write_text("[algorithm]\nname = 'solo'\nepochs = 50\n[data]\nclients = 7\n")
    assert printed("run.toml", "--algorithm", "fedavg")["algorithm"].keys() == {
        *("name", "labels", "serving", "server_optimiser")
    }
    assert printed("run.toml", "--dataset", "digits-rotated")["data"]["clients"] == 7
    assert "no key 'mu'" in refusal(cli("run", "run.toml", "--set", "algorithm.name=fedavg:mu=3"))


def test_what_is_printed_is_full_and_commented(place: Path) -> None:
    answer = cli("run", "--print-config")
    for key in keys():
        assert re.search(rf"(?m)^(# )?{key.name} =.*# {re.escape(key.info.description or '')}", answer.out), key.path
    assert list(place.iterdir()) == []


@pytest.mark.parametrize(
    ("flags", "section", "option"),
    [
        (["--algorithm", "solo"], "algorithm", "epochs"),
        (["--model", "mlp"], "model", "hidden"),
        (["--partition", "label-skew"], "partition", "rho"),
        (["--dataset", "digits-rotated"], "data", "groups"),
    ],
)
def test_what_is_printed_holds_the_options_of_choices(flags: list[str], section: str, option: str) -> None:
    """Else a run folder would not rerun its run once a default is changed."""
    text = cli("run", *flags, "--print-config").out
    table = text.partition(f"\n[{section}]" if section != "data" else "[data]")[2].partition("\n[")[0]
    assert re.search(rf"(?m)^(# )?{option} =", table)


@pytest.mark.integration
@pytest.mark.parametrize(
    "flags",
    [
        [*SMALL],
        [*SMALL, "--algorithm", "solo:epochs=3", "--drop", "0.2", "--seed", "3"],
        [*SMALL, "--dataset", "digits", "--partition", "label-skew:rho=0.3", "--target", "L=0.2", "--target", "G=0.1",
         "--weight-decay", "1e-5", "--lr-decay", "0.1"],
    ],
    ids=["fedavg", "solo", "label-skew"],
)  # fmt: skip
def test_what_is_printed_and_what_is_stored_rerun_the_run(flags: list[str], place: Path) -> None:
    assert cli("run", *flags, "--out", "by-flags", "--quiet").code == 0
    (place / "printed.toml").write_text(cli("run", *flags, "--print-config").out, encoding="utf-8")
    assert cli("run", "printed.toml", "--out", "by-file", "--quiet").code == 0
    assert cli("run", "by-flags/config.toml", "--out", "again", "--quiet").code == 0
    assert outcome(place / "by-file") == outcome(place / "again") == outcome(place / "by-flags")


@pytest.mark.parametrize("flags", [[], ["--partition", "label-skew"], ["--partition", "label-skew:rho=0.3"]])
def test_the_partition_that_a_result_names_can_be_given_again(flags: list[str], place: Path) -> None:
    assert cli("run", *SMALL, "--dataset", "digits", *flags, "--out", "run", "--quiet").code == 0
    named = outcome(place / "run")["result"]["partition"]
    if named is not None:
        assert (
            printed("--partition", named)["partition"]
            == tomllib.loads((place / "run" / "config.toml").read_text())["partition"]
        )


def test_calling_main_twice_in_one_process_is_harmless() -> None:
    assert cli("run", "--print-config", "--rounds", "3") == cli("run", "--print-config", "--rounds", "3")


def test_the_default_folder_is_a_new_one(place: Path) -> None:
    for _ in range(2):
        assert cli("run", *SMALL, "--quiet").code == 0
    assert sorted(path.name for path in (place / "runs").iterdir()) == [
        "fedavg-digits-rotated-seed0",
        "fedavg-digits-rotated-seed0-2",
    ]


def test_help_says_what_the_arguments_are() -> None:
    for arguments, said in (("run", "A TOML file"), ("resume", "Run folder"), ("predict", "inputs as 'x'")):
        text = cli(arguments, "--help").out
        assert said in text
        assert "\\[" not in text


def test_what_stands_behind_a_method_is_its_option_or_any_setting(place: Path) -> None:
    """As in `compare` and `sweep`: an option of the method first, else a key of the configuration."""
    by_flags = printed("--algorithm", "ifca", "--groups", "4", "--lr", "0.25", "--batch-size", "7")
    assert printed("--algorithm", "ifca:groups=4,lr=0.25,batch-size=7") == by_flags
    assert printed("--algorithm", "ifca:groups=4 lr=0.25 batch_size=7") == by_flags
    assert printed("--set", "algorithm.name=ifca:count=4,training.lr=0.25,batch_size=7") == by_flags
    (place / "run.toml").write_text("[algorithm]\nname = 'ifca:groups=4,lr=0.25'\n[training]\nbatch_size = 7\n")
    assert printed("run.toml") == by_flags
    assert printed("run.toml", "--groups", "2")["grouping"] == {"groups": 2}
    own = printed("--algorithm", "solo:epochs=9")  # of solo, in all; [training] keeps its own
    assert (own["algorithm"]["epochs"], own["training"]["epochs"]) == (9, 10)


def test_options_of_a_plugins_method_come_first(place: Path, registries_put_back: None) -> None:
    """The plugin is imported before it is decided what a key means."""
    (place / "mine.py").write_text(
        "import dataclasses\nfrom coterie import algorithm\nfrom coterie.algorithms.fedavg import FedAvg\n"
        "@algorithm('Mine')\n@dataclasses.dataclass(kw_only=True)\nclass Mine(FedAvg):\n"
        "    'A method.'\n    epochs: int = 1\n"
    )
    chosen = printed("--plugin", "mine.py", "--algorithm", "mine:epochs=3,lr=0.5")
    assert (chosen["algorithm"]["name"], chosen["algorithm"]["epochs"]) == ("Mine", 3)
    assert (chosen["training"]["epochs"], chosen["training"]["lr"]) == (10, 0.5)


@pytest.mark.parametrize(
    ("method", "more", "said"),
    [
        ("ifca:groups=4", ["--groups", "5"], "given twice, by --algorithm and by --groups"),
        ("pacfl:gropus=4", [], "there is no key 'gropus' for method 'pacfl': did you mean 'groups'?"),
        ("fedavg:groups=4", [], "leave out groups (set by --algorithm)"),
        ("fedavgg:xyz=4", [], "unknown method 'fedavgg': did you mean 'fedavg'?"),
        ("fedavg:zzz=4", [], "its options are labels, server_beta2, server_lr, server_momentum, server_optimiser"),
    ],
)
def test_what_can_not_stand_behind_a_method(method: str, more: list[str], said: str) -> None:
    assert said in refusal(cli("run", "--algorithm", method, *more, "--print-config"))


def test_capital_letters_are_accepted(place: Path) -> None:
    small = [
        "--algorithm", "pacfl:measure=theta1,signature=whole", "--dataset", "digits", "--model", "mlp",
        "--partition", "label-skew:rho=0.3", "--rule", "silhouette:least=0.3", "--linkage", "average",
        "--target", "L=0.8,G=0.5", "--trainer", "torch",
    ]  # fmt: skip
    large = [
        "--algorithm", "PACFL:measure=Theta1,signature=WHOLE", "--dataset", "Digits", "--model", "MLP",
        "--partition", "Label-Skew:rho=0.3", "--rule", "Silhouette:least=0.3", "--linkage", "AVERAGE",
        "--target", "l=0.8", "g=0.5", "--trainer", "Torch",
    ]  # fmt: skip
    assert printed(*large) == printed(*small)
    (place / "DIGITS").mkdir()  # what is there by that very name is meant
    assert "DIGITS" in refusal(cli("run", "--dataset", "DIGITS"))
