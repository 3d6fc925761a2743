"""Clustering by principal angles between client data subspaces (PACFL, Vahidian et al., AAAI 2023)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge

from coterie.algorithms import algorithm
from coterie.algorithms.one_shot import Floats, OneShotClustering
from coterie.clustering import GroupingOptions, Rule, RuleSupport, noise
from coterie.messages import ClientId, Signature, SignatureReply
from coterie.registry import Check
from coterie.similarity import MEASURES, error_in_signature_measure

if TYPE_CHECKING:
    from coterie.federation import Federation

SPLITS = 6
"""How often a client cuts its samples in two to measure its noise."""


@algorithm("pacfl")
@dataclass(kw_only=True)
class PACFL(OneShotClustering[SignatureReply]):
    """One model per group of clients whose data span similar subspaces, found before training from a few vectors."""

    rules: ClassVar[RuleSupport | None] = RuleSupport(("distances", "noise"))

    p: Annotated[int, Ge(1), "singular vectors per signature, or per label of it"] = 3
    signature: Annotated[
        Literal["whole", "per-label"] | None,
        "of all samples, or of each label's; by default per-label for rules degrees, count and demo, else whole",
    ] = None
    budget: Annotated[
        int | None,
        Ge(1),
        "vectors in all, divided by the labels' shares, instead of p per label; implies signature per-label",
    ] = None
    inputs: Annotated[
        Literal["raw", "normalised"],
        "signatures of samples as they are, or as networks see them (MIX-4's script)",
    ] = "raw"
    measure: Annotated[
        str | None,
        Check(error_in_signature_measure),
        "between two signatures, see 'coterie measures'; by default theta1 where they are whole, else min_entry",
    ] = None

    def problem(self, options: GroupingOptions) -> str | None:
        """A budget is of vectors per label."""
        if self.budget is not None and self.signature == "whole":
            return "budget divides vectors among labels, but signature is 'whole': leave one of them out"
        return None

    def rule(self, fed: Federation) -> Rule:
        """The calibrated cut, unless another was asked for."""
        samples = [count for count in fed.samples.values() if count > 0]
        unit = "degrees" if self.measure is None else MEASURES[self.measure].unit
        return fed.grouping.make("auto", unit=unit, samples=float(np.median(samples)) if samples else 0.0)

    def describe(self, fed: Federation, clients: Sequence[ClientId]) -> dict[ClientId, SignatureReply]:
        """Ask each client for its signature U_p, and for its own noise where the rule needs that."""
        rule = self.rule(fed)
        usual: Literal["whole", "per-label"] = "per-label" if rule.per_label or self.budget else "whole"
        self.signature = self.signature or usual
        self.measure = self.measure or ("theta1" if self.signature == "whole" else "min_entry")
        halves = SPLITS if "noise" in rule.needs else 0
        per_label = self.signature == "per-label"
        verb = Signature(
            self.p,
            per_label,
            budget=self.budget,
            halves=halves,
            measure=self.measure,
            normalised=self.inputs == "normalised",
        )
        replies = fed.ask(dict.fromkeys(clients, fed.request(verb)))
        return {client: reply.answer(SignatureReply) for client, reply in replies.items()}

    def distances(self, a: Sequence[SignatureReply], b: Sequence[SignatureReply] | None = None) -> Floats:
        """Principal angles in degrees (Eqs. 2 and 3), or another measure."""
        others = None if b is None else [signed.vectors for signed in b]
        return MEASURES[self.measure or "theta1"]([signed.vectors for signed in a], others)

    def noise(self, fed: Federation, described: Mapping[ClientId, SignatureReply], proximity: Floats) -> Floats | None:
        """Each client's split-half noise, for the rule that is calibrated by it."""
        if "noise" not in self.rule(fed).needs:
            return None
        halves = [np.nan if signed.halves is None else signed.halves for signed in described.values()]
        return noise(halves, [fed.samples.get(client, 1) for client in described], proximity)
