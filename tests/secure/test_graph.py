"""The graph of neighbours is regular, symmetric, connected, and the same for everybody."""

import pytest

from coterie.secure.graph import degree, neighbours, threshold


@pytest.mark.parametrize("n", [1, 2, 3, 6, 60, 61, 100, 301])
def test_neighbours_are_mutual_and_as_many_as_there_should_be(n: int) -> None:
    clients = [7 * i + 3 for i in range(n)]
    graph = neighbours(clients, 5, 2)
    assert [*graph] == clients
    for client, near in graph.items():
        assert len({*near}) == len(near) == degree(n)
        assert client not in near
        assert all(client in graph[other] for other in near)
    reached, edge = {clients[0]}, {clients[0]}
    while edge := {other for client in edge for other in graph[client]} - reached:
        reached |= edge
    assert reached == {*clients}


def test_the_graph_follows_from_clients_seed_and_round() -> None:
    clients = range(200)
    assert neighbours([*reversed(clients)], 1, 1) == neighbours(clients, 1, 1)
    assert neighbours(clients, 1, 1) != neighbours(clients, 1, 2)
    assert neighbours(clients, 1, 1) != neighbours(clients, 2, 1)


def test_the_threshold_is_two_thirds_and_above_a_half() -> None:
    assert [threshold(n) for n in (1, 2, 3, 4, 5, 6, 7)] == [1, 2, 2, 3, 4, 4, 5]
    assert all(2 * threshold(n) > n for n in range(1, 200))
