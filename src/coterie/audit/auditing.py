"""Attacking what the clients of a run sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.audit.findings import Audit, Claim, Finding, RunAudit, Shown
from coterie.audit.seen import in_space, received_models, sent_models, unprotected_signatures
from coterie.data import FederatedData
from coterie.data.federated import Index
from coterie.errors import CoterieError, counted
from coterie.federation.served_model import CandidateModels
from coterie.messages import ClientId, Params, Signature, SignatureReply
from coterie.privacy.attacks import Floats, auc, nearest_cosines, projection_lengths, proven_epsilon
from coterie.results.privacy import DESCRIPTIONS
from coterie.run.building import load_data, make_trainer
from coterie.run.expert import needs_expert
from coterie.run.plugins import Permission
from coterie.run.progress import Progress
from coterie.run.trained_models import TrainedRun
from coterie.streams import stream
from coterie.training import Trainer, losses, one_thread

PAIRS = 50
"""Members of a client that are tried, and as many others."""
SMALLEST = 20
"""Signatures, or labels of them, that are looked at for pictures: those of the fewest samples."""
ATTACKED = ("train", "evaluate", "signature")
"""Verbs whose answers are attacked, or are counts of the models that are."""


def audit_runs(
    paths: Sequence[Path], *, clients: int, confidence: float, permission: Permission, progress: Progress
) -> Audit:
    """Attack what the clients of runs sent."""
    if not paths:
        raise CoterieError("name a run folder, for instance coterie audit runs/first")
    if clients < 1:
        raise CoterieError(f"--clients {clients} should be at least 1")
    if not 0.5 <= confidence < 1:
        raise CoterieError(f"--confidence {confidence:g} should be at least 0.5 and below 1, for instance 0.95")
    audits = []
    for path in paths:
        progress.phase(f"attacking {path}")
        run = TrainedRun.open(path, permission)
        with one_thread():
            audits.append(Attacks.on(run, clients, confidence, progress).all())
    return Audit(audits, confidence)


@dataclass(frozen=True)
class Trials:
    """Samples whose membership is guessed: as many members as others of each label, with scores."""

    members: Floats
    others: Floats

    @classmethod
    def joined(cls, parts: Sequence[tuple[Floats, Floats, npt.NDArray[Any]]]) -> Trials:
        """Put scores together, each relative to those of its label: some labels score higher, whoever is a member."""
        members, others, labels = (np.concatenate([part[k] for part in parts]) for k in range(3))
        for label in np.unique(labels):
            own = labels == label
            usual = np.median(np.concatenate([members[own], others[own]]))
            members[own], others[own] = members[own] - usual, others[own] - usual
        return cls(members, others)


@dataclass(frozen=True)
class Attacks:
    """The attacks on one run."""

    run: TrainedRun
    data: FederatedData
    trainer: Trainer
    clients: list[ClientId]
    confidence: float
    notes: list[str] = field(default_factory=list)

    @classmethod
    def on(cls, run: TrainedRun, most: int, confidence: float, progress: Progress) -> Attacks:
        """Divide the data anew, and draw the clients to attack."""
        path, config = run.folder.path, run.config
        if run.folder.deployed:
            raise CoterieError(f"'{path}' is the run of a deployed federation: its samples, to try, are at the sites")
        if config.partition.f_ord:
            raise CoterieError(f"the clients of '{path}' exchanged samples by f_ord: such runs can't be audited")
        progress.phase(f"reading {config.data.title}")
        data, told = load_data(config), run.algorithm.signatures()
        if data.drift:
            raise CoterieError(f"the clients of '{path}' get other samples in some round: such runs can't be audited")
        able = [c for c in range(data.clients) if len(data.train_parts[c]) and len(data.test_parts[c])]
        able = [c for c in able if c in told[1]] if told is not None and told[1] else able
        if not able:
            raise CoterieError(f"no client of '{path}' has training and test samples: there is nothing to try")
        drawn = stream(config.run.seed, "audit").permutation(able)[:most]
        trainer = make_trainer(config, run.spec, Progress())
        return cls(run, data, trainer, sorted(map(int, drawn)), confidence)

    def all(self) -> RunAudit:
        """Make all attacks that a server could make."""
        findings = [*self.on_signatures(), *self.on_received_models(), *self.on_sent_models()]
        self._note_claims(findings)
        config = self.run.config
        of = "" if len(self.clients) == self.data.clients else f" of {self.data.clients:,}"
        return RunAudit(
            name=str(self.run.folder.path),
            title=f"{config.algorithm.name} on {config.data.title}, {len(self.clients)}{of} clients attacked, "
            f"seed {config.run.seed}",
            clients=self.clients,
            population=self.data.clients,
            findings=findings,
            notes=self.notes,
        )

    def on_signatures(self) -> list[Finding]:
        """Attack signatures as clients sent them, and beside them those that they would send without protection."""
        told = self.run.algorithm.signatures()
        if told is None or not told[1]:
            self.notes.append(f"method '{self.run.config.algorithm.name}' asks for no signatures.")
            return []
        verb, sent = told
        findings = self._on_signatures(verb, {client: sent[client] for client in self.clients}, "as sent")
        privacy = self.run.config.privacy
        if privacy.dp_signature is not None or privacy.min_label_samples:
            plain = unprotected_signatures(self.run, self.data, verb, self.clients, self.trainer)
            findings += self._on_signatures(*plain, "without protection")
        return findings

    def _on_signatures(self, verb: Signature, told: Mapping[ClientId, SignatureReply], shown: Shown) -> list[Finding]:
        parts, small = [], list[tuple[int, Floats, Floats]]()
        for client, reply in told.items():
            train, test = self.data.train_parts[client], self.data.test_parts[client]
            for label in np.unique(reply.labels).tolist():
                vectors = reply.vectors[:, reply.labels == label]
                own, other = (self._of_label(*side, label) for side in ((train, False), (test, True)))
                behind = len(own)
                own, other = self._alike(own, other, behind, client)
                if not len(own):
                    continue
                members, others = self._rows(verb, own, other)
                small.append((behind, nearest_cosines(vectors, members), nearest_cosines(vectors, others)))
                members, others = (projection_lengths(vectors, rows[:PAIRS]) for rows in (members, others))
                parts.append((members, others, self._labels(own[:PAIRS], False)))
        if not parts:
            self.notes.append(f"signatures, {shown}: no label has training and test samples, so that none is attacked.")
            return []
        claim = self._claim(of_signatures=True) if shown == "as sent" else None
        return [self._membership("signatures", shown, Trials.joined(parts), claim), self._pictures(small, shown)]

    def _pictures(self, small: list[tuple[int, Floats, Floats]], shown: Shown) -> Finding:
        """Say how near vectors of the fewest samples are to one of these, and to others of the same labels."""
        fewest = sorted(small, key=lambda part: part[0])[:SMALLEST]
        own, control = (np.concatenate([part[k] for part in fewest]) for k in (1, 2))
        counts = sorted({part[0] for part in fewest})
        of = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else f"{counts[0]}"
        self.notes.append(f"pictures, {shown}: of {counted(len(fewest), 'signature')} of {of} samples, the fewest.")
        value, error = auc(own, control)
        cosines = float(own.mean()), float(control.mean())
        return Finding("pictures", shown, value, error, len(own) + len(control), cosines)

    def on_received_models(self) -> list[Finding]:
        """Tell by their loss which samples the models that clients receive were trained on."""
        trained = [client for client in self.clients if client in self.run.journal.states]
        if len(trained) < len(self.clients):
            self.notes.append(f"received models: of {counted(len(trained), 'client')}, as the others never trained.")
        return self._on_models("received models", received_models(self.run, trained), self._claim(of_signatures=False))

    def on_sent_models(self) -> list[Finding]:
        """Tell by their loss which samples a client's own training was on, where the server sees what it sends.

        No claim is held against it: it is one round more than those that the run accounts for.
        """
        if self.run.config.aggregation.secure:
            self.notes.append("sums are secure: the server sees no client's own model, and it is not attacked.")
            return []
        if needs_expert(self.run.config):
            self.notes.append(
                "clients go by an expert's losses, so that no further round is played to see what they send."
            )
            return []
        sent = sent_models(self.run, self.data, self.clients)
        return self._on_models("sent models", ((model, [client]) for client, model in sent.items()), None)

    def _on_models(
        self, target: str, models: Iterable[tuple[Params, list[ClientId]]], claim: Claim | None
    ) -> list[Finding]:
        """Attack models of clients together."""
        parts = [part for model, clients in models if len((part := self._by_loss(model, clients))[0])]
        if not parts:
            self.notes.append(f"{target}: there is no whole model that the server could try samples on.")
            return []
        return [self._membership(target, "as sent", Trials.joined(parts), claim)]

    def _by_loss(self, model: Params, clients: Sequence[ClientId]) -> tuple[Floats, Floats, npt.NDArray[Any]]:
        """Return scores of samples of clients that trained a model: the lower its loss, the higher."""
        train, test = (
            np.unique(np.concatenate([parts[client] for client in clients]))
            for parts in (self.data.train_parts, self.data.test_parts)
        )
        own, other = self._alike(train, test, PAIRS * len(clients), clients[0])
        scores = []
        for index, samples in ((own, self.data.train), (other, self.data.test)):
            outputs = self.trainer.logits(self.run.spec, model, self.data.normalise(samples.x[index]))
            scores.append(-losses(outputs, samples.y[index], self.run.spec.loss))
        return scores[0], scores[1], self._labels(own, False)

    def _membership(self, target: str, shown: Shown, trials: Trials, claim: Claim | None) -> Finding:
        value, error = auc(trials.members, trials.others)
        delta, steps = (claim.delta, claim.steps) if claim is not None else (0.0, 1)
        rng = stream(self.run.config.run.seed, "audit guesses")
        proven = proven_epsilon(trials.members, trials.others, delta, rng, self.confidence, steps)
        many = len(trials.members) + len(trials.others)
        return Finding(target, shown, value, error, many, proven=proven, claim=claim)

    @cached_property
    def _claims(self) -> list[Mapping[str, Any]]:
        result = self.run.folder.read_result()
        return [] if result is None else result.get("privacy") or []

    def _claim(self, of_signatures: bool) -> Claim | None:
        """Return what the run claims of what clients tell to describe themselves, or else of models.

        Of models it is the last claim: groups follow from descriptions, so that models tell of both together.
        """
        choosing = isinstance(self.run.served(self.clients[0]), CandidateModels)
        entries = [entry for entry in self._claims if (entry["what"] == DESCRIPTIONS) == of_signatures]
        return Claim.of(entries[-1], choosing) if entries else None

    def _note_claims(self, findings: Sequence[Finding]) -> None:
        """Say what claims are conditional on, where their unit is another than that of attacks, and what is left."""
        claims = [row.claim for row in findings if row.claim is not None]
        if any(claim.unit == "client" for claim in claims):
            self.notes.append(
                "ε of models is for one client, attacks are on samples. Another sample makes another client, one taken "
                "away and one added, so that what is shown is of 2 ε, and given as half of it. The server that adds "
                "the noise is trusted: ε does not cover what clients send to it."
            )
        if any(claim.given_groups for claim in claims):
            self.notes.append("ε of models is given who is in which group: groups are formed of clients as they are.")
        if self.run.folder.read_result() is None:
            self.notes.append("the run is not finished, so that it claims nothing yet.")
        asked = self.run.state["federation"].get("disclosures", {}).get("plain", {})
        if beside := sorted(verb for verb in asked if verb not in ATTACKED):
            self.notes.append(f"not attacked, though clients told it: {', '.join(beside)}.")

    def _rows(self, verb: Signature, own: Index, other: Index) -> tuple[Floats, Floats]:
        """Return training and test samples in the space of signatures."""
        seed = self.run.config.run.seed
        members = in_space(verb, self.data.train.x[own], self.data, seed)
        return members, in_space(verb, self.data.test.x[other], self.data, seed)

    def _labels(self, index: Index, test: bool) -> npt.NDArray[Any]:
        """Return the labels of samples; numbers that are predicted are one label."""
        y = (self.data.test if test else self.data.train).y[index]
        return y if self.data.target is None else np.zeros(len(y), np.int64)

    def _of_label(self, index: Index, test: bool, label: int) -> Index:
        """Return the samples of a label; -1 stands for all."""
        return index if label == -1 else index[self._labels(index, test) == label]

    def _alike(self, train: Index, test: Index, most: int, address: int) -> tuple[Index, Index]:
        """Draw as many training as test samples of each label, up to `most` in all."""
        rng, own, other = self._rng(address), list[Index](), list[Index]()
        of_train, of_test = self._labels(train, False), self._labels(test, True)
        for label in np.intersect1d(of_train, of_test):
            a, b = rng.permutation(train[of_train == label]), rng.permutation(test[of_test == label])
            each = min(len(a), len(b))
            own, other = [*own, a[:each]], [*other, b[:each]]
        none = train[:0]
        members, others = np.concatenate([none, *own]), np.concatenate([none, *other])
        kept = rng.permutation(len(members))[:most]
        return members[kept], others[kept]

    def _rng(self, address: int) -> np.random.Generator:
        return stream(self.run.config.run.seed, "audit samples", address)
