"""The server's samples on which both kinds of FLIS compare models: where they come from and what is predicted."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flis_world import BOTH, opened, play, same

from coterie.algorithms import inference
from coterie.errors import CoterieError
from coterie.similarity import inference_similarity
from coterie.testing import small_run


@pytest.mark.integration
@BOTH
def test_the_test_samples_change_nothing_unless_asked(method: str) -> None:
    """The authors' server compares models on test samples, and DC's clients choose by them."""

    def models(options: dict[str, Any], other_tests: bool) -> list:
        def change(data):
            labels = (data.test.y + 3) % 10 if other_tests else data.test.y
            shown = data.test.x[:, :, ::-1] if other_tests else data.test.x
            return replace(data, common_test=True, test=replace(data.test, x=shown.copy(), y=labels))

        with opened(method, change, epochs=5, fraction=1.0, algorithm_options=options) as run:
            return play(run, 3).models

    def differ(**options: Any) -> bool:
        a, b = models(options, False), models(options, True)
        return len(a) != len(b) or not all(same(x, y) for x, y in zip(a, b, strict=True))

    assert not differ()
    assert not differ(server_data="noise")
    assert differ(server_data="test", beta=0.45)
    if method == "flis-dc":
        assert not differ(select_on="holdout", beta=0.5)
        assert differ(select_on="test", beta=0.5)


@BOTH
def test_the_servers_samples_may_be_of_the_users_own_file_or_another_data_set(method: str, tmp_path: Path) -> None:
    """Colour images of 10 x 6 become the digits' grey 8 x 8 in shades up to 16; models are compared on them only."""
    rng = np.random.default_rng(0)
    x, file = rng.integers(0, 256, (30, 10, 6, 3), np.uint8), tmp_path / "mine.npz"
    np.savez(file, x_train=x, y_train=np.arange(30) % 3)
    with opened(method, fraction=1.0, algorithm_options={"server_data": str(file)}) as run:
        algorithm = play(run, 1)
        grey = x.astype(np.float64).mean(axis=3).astype(np.uint8)[:, 1:9]
        shades = np.round(np.pad(grey, ((0, 0), (0, 0), (1, 1)))[:, None] * np.float32(16 / 255))
        expected = run.data.normalise(shades.astype(np.uint8))
        assert algorithm.samples(run.fed) == pytest.approx(expected, abs=1e-5)
        assert algorithm.grouping.proximity is not None
        models = [*run.fed.training.returned.values()]
        labels = [z.argmax(axis=1) for z in run.fed.logits(models, algorithm.samples(run.fed))]
        if method == "flis-dc":
            A = [[float((a == b).mean()) for b in labels] for a in labels]
            assert 1 - algorithm.grouping.proximity == pytest.approx(np.array(A))
    with opened(method, algorithm_options={"server_data": "digits"}, server_share=0.0) as run:
        assert run.algorithm.samples(run.fed).shape[1:] == (1, 8, 8)
        assert len(run.data.server) == 0
    for name, error in (("nois", "unknown data set 'nois'"), ("mix-4", "comes divided|is looked for|no 'usps")):
        with pytest.raises(CoterieError, match=error):
            small_run(method, algorithm_options={"server_data": name})
    np.savez(file, x_train=np.zeros((30, 5), np.float32), y_train=np.arange(30) % 3)
    with pytest.raises(CoterieError, match=r"has inputs of shape \(5,\), but clients have \(1, 8, 8\)"):
        small_run(method, algorithm_options={"server_data": str(file)})


@BOTH
def test_where_the_servers_samples_come_from(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def common(data):
        return replace(data, common_test=True)

    with opened(method) as run:
        assert run.algorithm.samples(run.fed) is run.fed.settings.server_data.x
    with opened(method, algorithm_options={"server_data": "noise"}) as run:
        noise = run.algorithm.samples(run.fed)
        assert noise.shape == run.fed.settings.server_data.x.shape
        assert abs(noise.mean()) < 0.05
        assert noise.std() == pytest.approx(1, abs=0.05)
    with opened(method, algorithm_options={"server_data": "noise"}) as run:
        assert np.array_equal(run.algorithm.samples(run.fed), noise)
    monkeypatch.setattr(inference, "SAMPLES", 52)
    with opened(method, common, algorithm_options={"server_data": "test"}) as run:
        test = run.data.test
        order = np.argsort(test.y, kind="stable")
        chosen = np.concatenate([order[test.y[order] == label][-5:] for label in range(10)])
        assert np.array_equal(run.algorithm.samples(run.fed), run.data.normalise(test.x[chosen]))


@BOTH
def test_mistakes_say_what_to_write_before_any_client_works(method: str) -> None:
    def empty(data):
        return replace(data, server=data.server[:0])

    def refused(text: str, change=lambda data: data, **settings: Any) -> None:
        with opened(method, change, **settings) as run:
            with pytest.raises(CoterieError, match=text):
                run.algorithm.begin(run.fed)
            assert run.fed.ledger.by_kind == {}

    refused("each has its own: use 'reserved'", algorithm_options={"server_data": "test"})
    refused("use server_data = 'noise'", empty)
    with pytest.raises(CoterieError, match=r"beta = 0.4 in .* rule 'gap' in .*: leave one of them out"):
        small_run(method, algorithm_options={"beta": 0.4}, rule="gap", dataset="there-is-none.npz")
    if method == "flis-hc":
        with pytest.raises(CoterieError, match="leave out the keys of"):
            small_run(method, algorithm_options={"hc_mode": "row-threshold"}, groups=4)
        with pytest.raises(CoterieError, match="use components or count or gap or silhouette or spectral, or its"):
            small_run(method, threshold=0.5)
    else:
        with pytest.raises(CoterieError, match="can't form groups by rule 'count': use gap or silhouette"):
            small_run(method, groups=4)
    with pytest.raises(CoterieError, match=r"beta = -0\.1 is not valid"):
        small_run(method, algorithm_options={"beta": -0.1})
    with opened(method, empty, algorithm_options={"server_data": "noise"}) as run:
        assert run.algorithm.samples(run.fed).shape == (2500, 1, 8, 8)


@BOTH
@pytest.mark.parametrize("soft", [False, True])
def test_models_that_predict_one_class_only_or_overflow_are_comparable(method: str, soft: bool) -> None:
    with opened(method, algorithm_options={"soft": soft}) as run:
        method, zero = run.algorithm, {name: np.zeros_like(value) for name, value in run.fed.initial().items()}
        bias = list(zero)[-1]
        models = [{**zero, bias: np.float32(50 * np.eye(10)[label])} for label in (3, 3, 7)]
        models.append({name: np.full_like(value, 3e38) for name, value in zero.items()})
        with np.errstate(over="ignore", invalid="ignore"):
            B = method.predictions(run.fed, models)
        A = inference_similarity(B)
    assert A[:3, :3] == pytest.approx(np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1]]))
    assert np.isfinite(A).all()


def test_soft_predictions_are_probabilities() -> None:
    with opened("flis-dc", algorithm_options={"soft": True}) as run:
        model = run.fed.initial()
        z = run.fed.logits([model], run.fed.settings.server_data.x)[0].astype(np.float64)
        expected = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
        assert run.algorithm.predictions(run.fed, [model])[0] == pytest.approx(expected, abs=1e-6)


@BOTH
@pytest.mark.parametrize("soft", [False, True])
def test_the_servers_samples_need_not_cover_all_classes(method: str, soft: bool) -> None:
    def few(data):
        return replace(data, server=data.server[data.server.y < 2])

    with opened(method, few, epochs=5, fraction=1.0, algorithm_options={"soft": soft}) as run:
        assert len(play(run, 3).models) >= 1
        assert run.evaluator.evaluate().L > 0.3
