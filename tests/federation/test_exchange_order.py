"""Whatever order replies come in, the same ones count, and they are passed on in order of clients."""

from collections.abc import Iterator

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from coterie.federation.exchange import Exchange, Ledger
from coterie.federation.spool import Spool
from coterie.messages import ClassCounts, ClassCountsReply, Failure, ModelSpec, Reply, Request
from coterie.streams import stream

SPEC = ModelSpec("mclr", (2,), 2)
CLIENTS = [2, 3, 5, 7, 11, 13]
REQUESTS = dict.fromkeys(CLIENTS, Request(1, 0, SPEC, (ClassCounts(),), kind="train"))


def reply(client: int) -> Reply | Failure:
    return Reply(client, 1, (ClassCountsReply(np.array([client, 0])),))


@given(
    st.permutations(CLIENTS),
    st.sets(st.sampled_from(CLIENTS)),
    st.sampled_from([None, 2, 4]),
    st.integers(1, 5),
    st.booleans(),
)
def test_who_counts_and_in_which_order(
    arrivals: list[int], failing: set[int], enough: int | None, least: int, closes_early: bool
) -> None:
    """Against the definition: all valid ones; of a surplus the first to come, or those that the seed names."""
    exchange = Exchange(REQUESTS, 1, 0, Ledger(), enough, least)
    answers = [Failure(c, 1, "dropped") if c in failing else reply(c) for c in arrivals]
    got = [r.client for r in exchange.replies(answers, closes_early, lambda done, total: None, Spool(limit=0))]
    valid = [client for client in arrivals if client not in failing]
    if enough is not None and closes_early:
        valid = valid[:enough]
    elif enough is not None and len(valid) > enough:
        order = stream(0, "first replies", 1).permutation(len(valid))
        valid = [sorted(valid)[i] for i in order[:enough]]
    assert got == (sorted(valid) if len(valid) >= least else [])
    assert (exchange.too_few() is not None) == (len(valid) < least > 1)
    assert [f.client for f in exchange.failures] == sorted(f.client for f in exchange.failures)


def test_a_reply_is_passed_on_as_soon_as_it_is_its_turn_and_certain_to_count() -> None:
    seen: list[int] = []

    def arriving() -> Iterator[Reply | Failure]:
        for client in (3, 2, 7, 5, 11, 13):
            seen.append(client)
            yield Failure(5, 1, "late") if client == 5 else reply(client)

    exchange = Exchange(REQUESTS, 1, 0, Ledger(), least=3)
    passed = [
        (r.client, len(seen)) for r in exchange.replies(arriving(), False, lambda done, total: None, Spool(limit=0))
    ]
    assert passed == [(2, 3), (3, 3), (7, 4), (11, 5), (13, 6)]
