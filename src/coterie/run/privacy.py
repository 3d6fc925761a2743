"""What a run may say of differential privacy: from what clients were asked."""

from typing import Any

from coterie.federation import Federation
from coterie.privacy import Release, epsilon_of, gaussian_sigma
from coterie.results.privacy import COUNTS
from coterie.run.config import Config


def privacy_of(config: Config, fed: Federation, simulated: bool) -> list[dict[str, Any]] | None:
    """Return ``privacy`` of ``result.json``; None where nothing is private.

    ε is that of the client that was asked most. What is not covered is what was asked without noise, but for what
    simulated clients with a limit refuse; real sites may refuse more, each by its own file.
    """
    wanted, told, limited = fed.settings.dp_signature, fed.disclosures, config.privacy.limit is not None
    if wanted is None:
        return None
    answered = [verb for verb in sorted(told.plain) if not limited or verb in config.privacy.unprotected]
    counted = [] if limited and "train" not in answered else [COUNTS]
    noise = gaussian_sigma(wanted.epsilon, wanted.delta)
    return [
        {
            "what": "what clients tell to describe themselves",
            "unit": "sample",
            "epsilon": epsilon_of([Release("description", noise)] * told.most, wanted.delta),
            "delta": wanted.delta,
            "releases": told.most,
            "mechanism": f"Gaussian noise of {noise:.3g} times the sensitivity",
            "simulated": simulated,
            "not_covered": [*answered, *counted],
        }
    ]
