"""Agreeing on mean and deviation of inputs: clients measure theirs, and all use what the server makes of it."""

from collections.abc import Mapping

import numpy as np

from coterie.errors import CoterieError
from coterie.federation.aggregation import CLIPPED, FEW
from coterie.federation.federation import Federation
from coterie.messages import ClientId, InputMoments, InputMomentsReply, Standardisation
from coterie.messages.standardisation import Numbers, pooled, standardisation


def agree(fed: Federation, question: InputMoments) -> Standardisation:
    """Ask all clients for the moments of their inputs; return what would be measured on the samples of those who tell.

    By any rule of aggregation but the mean, nobody can move it far who is one of many.
    """
    replies = fed.ask(dict.fromkeys(fed.trainable, fed.request(question)))
    told = {client: reply.answer(InputMomentsReply) for client, reply in replies.items()}
    if not told:
        raise CoterieError(
            "no client told mean and deviation of its inputs, which needs as many samples as min_samples in [privacy]: "
            "start again when larger ones are here, or write mean and std into [samples] of federation.toml"
        )
    weights = fed.aggregator.weights({client: answer.samples for client, answer in told.items()})
    means, variances = _screened(fed, told)
    return standardisation(*pooled([*weights.values()], [*means], [*variances]))


def _screened(fed: Federation, told: Mapping[ClientId, InputMomentsReply]) -> tuple[Numbers, Numbers]:
    """Cut moments that are far from the others', channel by channel; of few clients nobody knows who is far."""
    means = np.array([answer.means for answer in told.values()])
    variances = np.array([answer.variances for answer in told.values()])
    if len(told) < FEW or fed.settings.aggregation.rule == "mean":
        return means, variances
    middle = np.median(means, axis=0)
    far = fed.settings.aggregation.clip * np.median(np.sqrt(variances + (means - middle) ** 2), axis=0)
    far = np.where(far > 0, far, np.inf)  # what most clients have constant tells nothing about the others
    near = np.clip(means, middle - far, middle + far), np.minimum(variances, far**2)
    for client, *cut in zip(told, near[0] != means, near[1] != variances, strict=True):
        if np.any(cut):
            fed.note(client, CLIPPED, "mean or deviation of its inputs is far from the others': it is cut")
    return near
