"""The configuration: one model for files, flags and keywords."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.errors import CoterieError
from coterie.results.formats import toml_value
from coterie.run.config import Config, keys, to_toml
from coterie.run.settings import settings_to_config
from coterie.run.validation import differences, make_config
from coterie.run.values import parse_choice


def test_the_written_file_is_complete_and_reads_back_the_same(tmp_path: Path) -> None:
    config = settings_to_config(
        None, {"algorithm": "solo:epochs=7", "partition": "label-skew:rho=0.3", "target": "L=0.5", "lr": 1e-05}
    )
    text = to_toml(config)
    assert make_config(tomllib.loads(text)) == config
    written = tomllib.loads(text)
    for key in keys():
        assert key.name in written[key.section] or f"# {key.name} =" in text
    assert written["algorithm"] == {
        "name": "solo",
        "epochs": 7,
        "labels": "none",
        "serving": "lacking",
        "server_optimiser": "sgd",
    }
    assert written["partition"] == {"name": "label-skew", "rho": 0.3}


values = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.integration
@given(values)
def test_any_value_survives_toml(value: object) -> None:
    assert tomllib.loads(f"value = {toml_value(value)}")["value"] == value


def test_flags_and_keywords_are_unique() -> None:
    flags = [key.flag for key in keys()]
    assert len(flags) == len(set(flags)) == len({key.keyword for key in keys()})


def test_keywords_lie_over_the_file_and_another_choice_drops_old_options(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text('[partition]\nname = "label-skew"\nrho = 0.5\n[training]\nlr = 0.2\nrounds = 3\n')
    config = settings_to_config(file, {"lr": 0.3})
    assert (config.training.lr, config.training.rounds, config.partition.options) == (0.3, 3, {"rho": 0.5})
    assert "rho" not in settings_to_config(file, {"partition": "iid"}).partition.options
    assert settings_to_config(file, {"partition": "label-skew"}).partition.options == {"rho": 0.5}
    assert settings_to_config(file, {"partition_options": {"rho": 0.1}}).partition.options == {"rho": 0.1}


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"trainning": {}}, "no section [trainning] of run.toml: did you mean 'training'?"),
        (
            {"training": {"round": 3}},
            "[training] has no key 'round': did you mean 'rounds'? (in [training] of run.toml)",
        ),
        ({"training": 3}, "should be a table"),
        ({"training": {"rounds": 0}}, "greater than or equal to 1 (in [training] of run.toml)"),
        ({"training": {"momentum": 1.0}}, "training.momentum = 1.0"),
        ({"training": {"fraction": 1.5}}, "less than or equal to 1"),
        ({"training": {"lr": "fast"}}, "training.lr = 'fast'"),
        ({"faults": {"drop": -0.1}}, "faults.drop"),
        ({"run": {"seed": -1}}, "run.seed = -1"),
        ({"evaluation": {"targets": ["Q=0.5"]}}, "like L=0.8"),
        ({"evaluation": {"targets": ["L=80"]}}, "like L=0.8"),
        ({"algorithm": {"name": "fedavgg"}}, "did you mean 'fedavg'?"),
        ({"algorithm": {"name": "solo", "epoch": 3}}, "did you mean 'epochs'?"),
        ({"algorithm": {"name": "solo", "epochs": 0}}, "epochs = 0"),
        ({"model": {"name": "lenet"}}, "did you mean 'lenet5'?"),
        ({"model": {"hidden": 3}}, "no name"),
        ({"data": {"name": "digit"}}, "did you mean 'digits'?"),
        ({"data": {"name": "digits-rotated"}, "partition": {"name": "iid"}}, "leave out the partition"),
        ({"partition": {"name": "label-skew", "rho": 0}}, "rho"),
    ],
)
def test_wrong_settings_say_what_is_right(tables: dict, message: str) -> None:
    with pytest.raises(CoterieError) as error:
        make_config(tables, "run.toml")
    assert message in str(error.value)


def test_choices_in_short_form() -> None:
    assert parse_choice("label-skew:rho=0.2") == {"name": "label-skew", "rho": 0.2}
    assert parse_choice("x:a=1,b-c=text,d=true") == {"name": "x", "a": 1, "b_c": "text", "d": True}
    assert parse_choice("folder:with:colons.npz") == {"name": "folder:with:colons.npz"}
    with pytest.raises(CoterieError, match="should read"):
        parse_choice("label-skew:0.2")


def test_differences_name_what_changes_numbers_and_nothing_else() -> None:
    a, b = Config(), Config()
    b.run.out, b.engine.workers = "elsewhere", 7
    assert differences(a, b) == []
    b.training.lr = 0.5
    assert differences(a, b) == ["training.lr was 0.01, is 0.5"]
