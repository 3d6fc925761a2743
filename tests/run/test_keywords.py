"""The keywords of the functions are the settings of the configuration, in name, type and default."""

from __future__ import annotations

import inspect
from typing import Any

import generate_keywords
import pytest

import coterie
from coterie.run.config import keys
from coterie.run.keywords import RunSettings


def test_the_module_is_what_the_configuration_says() -> None:
    """If not, run: python tests/run/generate_keywords.py."""
    assert generate_keywords.FILE.read_text(encoding="utf-8") == generate_keywords.source()


@pytest.mark.parametrize("function", [coterie.run, coterie.cluster, coterie.inspect])
def test_every_setting_is_a_keyword_that_help_shows(function: Any) -> None:
    parameters = inspect.signature(function).parameters
    for key in keys():
        assert parameters[key.keyword].kind is inspect.Parameter.KEYWORD_ONLY
        assert parameters[key.keyword].default == key.info.default
    assert not any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values())
    assert {key.keyword for key in keys()} <= RunSettings.__annotations__.keys()


@pytest.mark.parametrize("function", [coterie.compare, coterie.sweep])
def test_comparisons_take_seeds_and_not_a_seed(function: Any) -> None:
    parameters = inspect.signature(function).parameters
    assert "seeds" in parameters
    assert "seed" not in parameters
    assert ("algorithm" in parameters) == (function is coterie.sweep)
