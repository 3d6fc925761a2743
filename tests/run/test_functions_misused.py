"""What a program gives wrongly is answered by a sentence that says what to write, in words of Python."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import coterie
from coterie.arguments import in_keywords
from coterie.errors import CoterieError
from coterie.testing import small_run

X, Y = np.zeros((60, 4)), np.arange(60) % 3
TWO: dict[str, Any] = {"algorithms": "fedavg,solo", "jobs": 1}


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: coterie.run(partition_options="rho=0.2"), r"write partition_options=\{'option': value\}, or part"),
        (lambda: coterie.run({"algorithm": "pacfl"}), r"write algorithm='pacfl' as a keyword, or \{'algorithm': "),
        (lambda: coterie.run({"lr": 0.1}), r"write lr=0.1 as a keyword, or \{'training': \{'lr': 0.1\}\}"),
        (lambda: coterie.run({"data": "mnist"}), r"write \{'data': \{'key': value\}\}"),
        (lambda: coterie.run(5), "config = 5 is not valid: should be a text or a path or a table, not a whole number"),
        (lambda: coterie.run(lr=-1), r"should be greater than 0 \(set by lr= or in \[training\]\)"),
        (lambda: coterie.compare(**TWO, seeds=3), r"should be a list.*write \[3\], or range\(3\) for 3 of them"),
        (lambda: coterie.compare(**TWO, seeds=["0"]), "seed = '0' is not valid: should be a whole number"),
        (lambda: coterie.compare(**TWO, seeds=[None]), "seeds can't hold nothing"),
        (lambda: coterie.compare(**TWO, seeds=[]), "for instance seeds='0,1,2'"),
        (lambda: coterie.compare(**TWO, tune={"lr": 0.1}), r"tune\['lr'\] = 0.1 .* write \[0.1, 0.01\]"),
        (lambda: coterie.compare(**TWO, methods={"solo": 3}), r"methods\['solo'\] = 3 .* should be a table"),
        (lambda: coterie.compare(**TWO, baseline=3), "baseline = 3 is not valid: should be a text, not a whole number"),  # type: ignore[arg-type]
        (lambda: coterie.compare(**TWO, tune_share="0.2"), "tune_share = .* should be a number"),  # type: ignore[arg-type]
        (lambda: coterie.compare(algorithms=3), "should be a text or a list of texts, not a whole"),  # type: ignore[arg-type]
        (lambda: coterie.compare(algorithms="fedavg"), "for instance algorithms='fedavg,pacfl'"),
        (lambda: coterie.sweep(vary={"lr": 0.1}), r"vary\['lr'\] = 0.1 .* write \[0.1, 0.01\]"),  # type: ignore[dict-item]
        (lambda: coterie.sweep(vary=3), r"vary = 3 .* should be a table"),  # type: ignore[arg-type]
        (lambda: coterie.sweep(vary={"seed": [0, 1]}), "seeds are named by seeds=, for instance seeds='0-4'"),
        (lambda: coterie.load(None), "folder = None is not valid: should be a text or a path"),  # type: ignore[arg-type]
        (lambda: coterie.resume(None), "folder = None is not valid"),  # type: ignore[arg-type]
        (lambda: coterie.export(None), "run = None is not valid: should be a text or a path or a Result"),  # type: ignore[arg-type]
        (lambda: coterie.predict(None, X), "run = None is not valid"),  # type: ignore[arg-type]
        (lambda: coterie.report(["a", "b"]), r"can't be made of a list: .* report\(a, b, out="),  # type: ignore[arg-type]
        (lambda: coterie.run(dataset=([[1, 2], [3]], [0, 1])), "dataset: x_train is ragged"),
        (lambda: coterie.run(dataset=(X, [[1], [2, 3]])), "dataset: y_train is ragged"),
        (lambda: coterie.run(dataset={"x": [[1, 2], [3]], "y": [0, 1]}), "dataset: x is ragged"),
        (lambda: coterie.reproduce("pacfl-costs", seeds=3), r"write \[3\], or range\(3\)"),  # type: ignore[arg-type]
        (lambda: coterie.run(progress="yes"), "progress = 'yes' .* a Progress or True or False, not a text"),
        (lambda: coterie.resume("runs/a", plugins=3), "plugins = 3 .* a list of texts or paths, not a whole"),
        (lambda: coterie.resume("runs/a", admit=[3]), r"admit = \[3\] is not valid"),
        (lambda: coterie.compare(**TWO, protocol=[1]), r"protocol = \[1\] is not valid: should be a text"),
        (lambda: coterie.compare(**TWO, out=3), "out = 3 is not valid: should be a text or a path"),
        (lambda: coterie.report("a", "b", out=3), "out = 3 is not valid"),
        (lambda: coterie.report("a", formats=3), "formats = 3 is not valid"),
        (lambda: coterie.inspect(measures=3), "measures = 3 is not valid: should be a text"),
        (lambda: coterie.inspect(super_clusters=2.5), "super_clusters = 2.5 is not valid: should be a whole number"),
        (lambda: coterie.reproduce(3), "name = 3 is not valid: should be a text"),
        (lambda: coterie.reproduce("pacfl-costs", rounds_scale="1"), "rounds_scale = .* should be a number"),
        (lambda: coterie.reproduce("pacfl-costs", datasets=3), "datasets = 3 is not valid"),
        (lambda: coterie.Result.load(3), "folder = 3 is not valid"),
        (lambda: coterie.Comparison.load(3), "folder = 3 is not valid"),
        (lambda: coterie.reproduce("pacfl-costs", jobs=0), "jobs = 0 is not valid"),
    ],
)  # fmt: skip
def test_it_says_what_to_write(call: Callable[[], object], said: str) -> None:
    with pytest.raises(coterie.CoterieError, match=said):
        call()


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> coterie.Result:
    return small_run("pacfl", groups=2, rounds=1, out=tmp_path_factory.mktemp("runs") / "run")


@pytest.mark.integration
def test_models_are_asked_for_by_whole_numbers_of_any_kind(result: coterie.Result, tmp_path: Path) -> None:
    """And an export makes the folder that it goes to."""
    file = coterie.export(result, tmp_path / "new" / "model.safetensors", client=np.int64(0))  # type: ignore[arg-type]
    assert file.is_file()
    assert result.trained_model("0", None).client == 0  # as on the command line
    for number in (0.0, True):
        with pytest.raises(coterie.CoterieError, match="should be a whole number"):
            result.model(client=number)  # type: ignore[arg-type]
    with pytest.raises(coterie.CoterieError, match=r"for instance client=0, or a group, group=0$"):
        result.model()
    with pytest.raises(coterie.CoterieError, match="inputs is ragged"):
        coterie.predict(result, [[1, 2], [3]], client=0)
    with pytest.raises(coterie.CoterieError, match="rounds = '3' is not valid"):
        coterie.resume(str(result.folder), rounds="3")  # type: ignore[arg-type]
    assert coterie.resume(str(result.folder), rounds=np.int64(2)).rounds == 2  # type: ignore[arg-type]


@pytest.mark.integration
def test_formats_and_columns_of_tables() -> None:
    settings: dict[str, Any] = {"dataset": "digits", "clients": 4, "rounds": 1, "epochs": 1, "partition_options": None}
    made = coterie.compare(**TWO, seeds=[0], **settings)
    with pytest.raises(coterie.CoterieError, match="can't be written as 'latx': did you mean 'latex'"):
        made.report("latx")  # type: ignore[arg-type]
    for wrong in ({"columns": 3}, {"caption": 3}, {"label": 3}, {"p_values": "yes"}):
        with pytest.raises(coterie.CoterieError, match=f"{next(iter(wrong))} = .* is not valid"):
            made.report("latex", **wrong)  # type: ignore[arg-type]
    with pytest.raises(coterie.CoterieError, match="ax = 3 is not valid: should be an Axes"):
        made.plot(ax=3)  # type: ignore[arg-type]
    assert made.report("LaTeX", columns="L,C") == made.report("latex", columns=["L", "C"])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("flags", "keywords"),
    [
        (
            "in place of --model mlp write --model mixture:of=mlp,components=3",
            "in place of model='mlp' write model='mixture:of=mlp,components=3'",
        ),
        ("--model names no network: use --model or --out", "model= names no network: use model= or out="),
        ("for instance --model 'a b'", "for instance --model 'a b'"),
        ("(--out runs/a.b) --model mlp: --out 3.", "(out='runs/a.b') model='mlp': out=3."),
    ],
)
def test_flags_become_keywords_with_their_whole_values(flags: str, keywords: str) -> None:
    @in_keywords
    def function(model: str | None = None, out: str | None = None) -> None:
        raise CoterieError(flags)

    with pytest.raises(CoterieError) as raised:
        function()
    assert str(raised.value) == keywords
