"""Clustering by principal angles between client data subspaces (PACFL, Vahidian et al., AAAI 2023)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge

from coterie.algorithms import algorithm
from coterie.algorithms.gradient_diversities import GradientDiversities
from coterie.algorithms.one_shot import Floats
from coterie.algorithms.redescribed import Redescribed
from coterie.clustering import GroupingOptions, Rule, RuleSupport, noise, noise_beside, wide_halves
from coterie.clustering.landmarks import Points
from coterie.federation import Federation, saved
from coterie.messages import ClientId, Signature, SignatureReply, Weighing
from coterie.privacy import mapped_shape
from coterie.registry import Check
from coterie.similarity import MEASURES, error_in_signature_measure, points, projection, signature_measures, sketch

SPLITS = 6  # times that a client cuts its samples in two to measure its noise
SKETCH = 32  # directions of a sketch


@algorithm("pacfl")
@dataclass(kw_only=True)
class PACFL(GradientDiversities, Redescribed[SignatureReply]):
    """One model per group of clients whose data span similar subspaces, found before training from a few vectors."""

    traits = replace(Redescribed.traits, rules=RuleSupport(("distances", "noise"), landmarks=True))

    p: Annotated[int, Ge(1), "singular vectors per signature, or per label of it"] = 3
    signature: Annotated[
        Literal["whole", "per-label"] | None, "of all samples, or of each label's; by default what goes with the rule"
    ] = None
    budget: Annotated[int | None, Ge(1), "vectors in all, by labels' shares, not p per label; implies per-label"] = None
    inputs: Annotated[Literal["raw", "normalised"], "samples as they are, or as networks see them (MIX-4)"] = "raw"
    measure: Annotated[
        str | None,
        Check(error_in_signature_measure, signature_measures),
        "see 'coterie measures'; by default theta1, per-label min_entry",
    ] = None
    sketch: Annotated[
        int | None,
        Ge(0),
        "send vectors in so many random directions instead of whole ones, 0: whole; by default 32 where landmarks are "
        "grouped by rule auto",
    ] = None
    verb: Signature = saved()
    """What clients are asked for: as the options say, else as goes with the rule."""

    def error_in_grouping(self, options: GroupingOptions) -> str | None:
        """A budget is of vectors per label, a sketch of all samples, and its angles are not those of thresholds."""
        if self.sketch:
            if self.sketch < self.p:
                return f"sketch = {self.sketch} directions can't hold p = {self.p} vectors: write at least {self.p}"
            if self.signature == "per-label" or self.budget is not None:
                return "a sketch is of all samples together: leave out sketch, or signature = 'per-label' and budget"
            if options.threshold is not None:
                return "a threshold in degrees needs whole vectors: leave out sketch, or the threshold"
        both = self.budget is not None and self.signature == "whole"
        return "budget divides vectors among labels, but signature is 'whole': leave one of them out" if both else None

    def error_in_privacy(self) -> str | None:
        """Private signatures are of raw samples, by a map that depends on nobody's: mean and deviation do."""
        if self.inputs == "normalised":
            return "inputs = 'normalised' looks at samples by their mean and deviation, which are not public"
        other = [key for key, value in (("budget", self.budget), ("sketch", self.sketch)) if value]
        return f"{other[0]} is of signatures without noise: leave it out" if other else None

    def error_in_private_steps(self, described_privately: bool) -> str | None:
        """Signatures have a private form; gradients by which diversity is measured have none."""
        if not described_privately:
            return "its clients describe themselves without noise: add --dp-signature, epsilon=4 for instance"
        return "diversity is of gradients without noise: leave it out" if self.diversity else None

    @property
    def weighing(self) -> Weighing | None:
        """In groups clients count by their samples; gradient diversity is of single gradients."""
        return None if self.diversity else "samples"

    def rule(self, fed: Federation) -> Rule:
        """The calibrated cut, unless another was asked for; how many samples clients have is no matter if private."""
        private = fed.settings.dp_signature is not None
        samples = [math.inf] if private else [count for count in fed.samples.values() if count > 0]
        unit = "degrees" if self.measure is None else MEASURES[self.measure].unit
        return fed.settings.grouping.make("auto", unit=unit, samples=float(np.median(samples)) if samples else 0.0)

    def begin(self, fed: Federation) -> None:
        """Choose the signature U_p, with each client's own noise where the rule needs that; then group by it."""
        rule = self.rule(fed)
        whole = self.signature == "whole" or not (self.signature or (rule.per_label and not self.sketch) or self.budget)
        measure, splits = self.measure or ("theta1" if whole else "min_entry"), SPLITS * ("noise" in rule.needs)
        private = fed.settings.dp_signature
        self.verb = Signature(self.p, not whole, None, self.budget, splits, measure, self.inputs == "normalised")
        if private is not None:
            self.verb = replace(self.verb, private=private, features=mapped_shape(fed.spec.shape))
        elif whole and (directions := self.directions(fed, splits > 0)):
            self.verb = replace(self.verb, sketch=directions)
        super().begin(fed)

    def directions(self, fed: Federation, calibrated: bool) -> int:
        """Return how many directions a sketch has, 0 where vectors are sent whole."""
        if self.sketch is not None:
            return self.sketch
        useful = calibrated and self.measure in (None, "theta1") and max(self.p, SKETCH) < math.prod(fed.spec.shape)
        return max(self.p, SKETCH) if useful and self.by_landmarks(fed, len(fed.trainable)) else 0

    def describe(self, fed: Federation, clients: Sequence[ClientId]) -> dict[ClientId, SignatureReply]:
        """Ask each client for its signature."""
        replies = fed.ask(dict.fromkeys(clients, fed.request(self.verb)))
        return {client: reply.answer(SignatureReply) for client, reply in replies.items()}

    def distances(self, a: Sequence[SignatureReply], b: Sequence[SignatureReply] | None = None) -> Floats:
        """Principal angles in degrees (Eqs. 2 and 3), or another measure."""
        others = None if b is None else [reply.vectors for reply in b]
        return MEASURES[self.verb.measure]([reply.vectors for reply in a], others)

    def noise(self, fed: Federation, described: Mapping[ClientId, SignatureReply], proximity: Floats) -> Floats | None:
        """Each client's split-half noise, for the rule that is calibrated by it."""
        if not self.verb.halves:
            return None
        return noise(*self._halves(fed, described), proximity)

    def noise_beside(
        self,
        fed: Federation,
        clients: Mapping[ClientId, SignatureReply],
        others: Mapping[ClientId, SignatureReply],
        proximity: Floats,
    ) -> Floats | None:
        """The same for clients who join landmarks."""
        if not self.verb.halves:
            return None
        return noise_beside(*self._halves(fed, clients), self._halves(fed, others), proximity)

    def _halves(self, fed: Federation, described: Mapping[ClientId, SignatureReply]) -> tuple[list[float], list[float]]:
        """Return how far apart clients' halves are, and by how many samples they count."""
        halves = [np.nan if reply.halves is None else reply.halves for reply in described.values()]
        if self.verb.is_noised() and self.verb.measure == "theta1":
            halves = wide_halves(halves).tolist()
        samples = {} if self.verb.is_noised() else fed.samples
        believed = fed.aggregator.weights({client: samples.get(client, 1) for client in described})
        return halves, [*believed.values()]

    def points(self, fed: Federation, described: Sequence[SignatureReply]) -> Points:
        """Sketches as points; the server makes them where clients sent whole vectors."""
        if self.verb.sketch and not self.verb.per_label:
            return points([reply.vectors for reply in described])
        across = projection(
            len(described[0].vectors), max(SKETCH, max(r.vectors.shape[1] for r in described)), fed.seed
        )
        return points([sketch(reply.vectors, across) for reply in described])

    def signatures(self) -> tuple[Signature, Mapping[ClientId, SignatureReply]]:
        """What clients sent; where there are landmarks, only they."""
        return self.verb, self.described

    def details(self) -> dict[str, Any]:
        """Say what the signatures were, and how they were compared."""
        signature = "per-label" if self.verb.per_label else "whole"
        sketched = {"sketch": self.verb.sketch} if self.verb.sketch else {}
        return {"signature": signature, "measure": self.verb.measure, **sketched, **super().details()}
