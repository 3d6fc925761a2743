"""The one table of protocols names every accuracy that a run writes."""

import coterie
from coterie.results.protocols import AT_END, BEST, BY_LABEL, COMPARED, CURVES, EACH_CLIENT, FOLLOWED, PROTOCOLS


def test_the_table_has_every_accuracy_of_a_run() -> None:
    result = coterie.run(algorithm="per-fedavg", dataset="digits", clients=4, rounds=1, epochs=1)
    assert {*result.accuracy} == {*PROTOCOLS} - {"W"}
    assert {*CURVES} <= {*result.history[0]}
    assert tuple(result.per_client) == (*EACH_CLIENT, *BY_LABEL)


def test_what_is_shown_is_a_part_of_the_table() -> None:
    assert [*AT_END] == ["L", "C", "C_own", "C_lacking", "G", "plus", "W_max"]
    assert FOLLOWED == ("L", "C", "G")
    assert {*COMPARED} <= {*AT_END}
    assert {*BEST.values()} <= {*CURVES}
