"""Admitting clients that come late: the same for every method, in simulation and in deployment."""

from dataclasses import replace

from coterie.federation.algorithm import Algorithm
from coterie.federation.federation import Federation
from coterie.federation.served_model import as_request, single
from coterie.messages import ClientId, Failure, Train

NEWCOMER = "newcomer"
"""The heading under which the ledger counts what newcomers' first training costs."""


def admit(fed: Federation, algorithm: Algorithm) -> list[ClientId]:
    """Admit who has come since the last round: the method places them, and they fine-tune what they then receive.

    They are in cohorts from the next round on.
    """
    newcomers = fed.newcomers
    able = [client for client in newcomers if fed.samples[client] > 0]
    for client in sorted(set(newcomers) - set(able)):
        fed.events.note(Failure(client, fed.round, "empty", "no training samples: it is never sampled"))
    if able:
        algorithm.admit(fed, able)
    fed.admit(newcomers)
    if able and fed.settings.newcomer_epochs:
        _fine_tune(fed, algorithm, able)
    return newcomers


def founders(fed: Federation, algorithm: Algorithm) -> list[ClientId]:
    """Return the newcomers that are in groups of newcomers only, where the method lets them form such."""
    if not algorithm.traits.allows_new_groups:
        return []
    groups = algorithm.groups() or {}
    old = {group for client, group in groups.items() if client not in fed.joined}
    return sorted(client for client in fed.joined if client in groups and groups[client] not in old)


def _fine_tune(fed: Federation, algorithm: Algorithm, clients: list[ClientId]) -> None:
    """Let each train what it receives on its own samples, and keep the result as its own model."""
    plan = replace(fed.plan, epochs=fed.settings.newcomer_epochs)
    requests = {}
    for client in clients:
        offer = algorithm.model_for(client)
        offer = single(offer) or offer  # of several models, the one that the client took when it was placed
        verbs, start, models = as_request(offer)
        train = Train(plan, start=start, send=False, purpose="newcomer")
        requests[client] = fed.request(*verbs, train, kind=NEWCOMER, models=models)
    fed.ask(requests)
