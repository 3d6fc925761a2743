"""What a site should know before it joins: whether its data fit, and what would leave it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from coterie.client import LocalData
from coterie.data import Samples
from coterie.deploy.rehearsal import FEW, policy_of, rehearse
from coterie.deploy.samples import site_data
from coterie.deploy.terms import SITE, SiteSection, Terms, check_terms, read_site, read_terms
from coterie.engine.flower.identity import OF_AUTHORITY, fingerprint, is_authority, secret_of
from coterie.engine.flower.site_record import SiteMemory
from coterie.errors import CoterieError
from coterie.messages import Reply, Request, wire
from coterie.training import choose_trainer

MOST_FOUNDERS = 20
"""Sites that a rehearsal begins with."""
NO_LIMIT = (
    "what is noised is charged to a ledger, and never refused for its cost: for that, write the most that may be told "
    'of a sample into site.toml, limit = "epsilon=3,delta=1e-5" for instance'
)


@dataclass(frozen=True)
class OutgoingAnswer:
    """One kind of answer that leaves a site."""

    kind: str
    """The heading under which its bytes are counted."""
    asked: tuple[str, ...]
    """What the request asks for."""
    arrays: dict[str, str]
    """Arrays, with their shapes and types."""
    numbers: tuple[str, ...]
    bytes: int
    cautions: tuple[str, ...] = ()
    """What to know of the answers beside their shapes."""

    def lines(self) -> Iterator[str]:
        """Describe it."""
        yield f"{self.kind}: asked to {', '.join(self.asked)}; {self.bytes:,} bytes leave"
        for name, what in self.arrays.items():
            yield f"  array {name}: {what}"
        if self.numbers:
            yield f"  numbers: {', '.join(self.numbers)}"
        for caution in self.cautions:
            yield f"  note: {caution}"


def check(folder: Path, site_file: Path | None = None) -> list[str]:
    """Say in lines whether a site's data fit a federation, and what would leave it."""
    terms = read_terms(folder)
    check_terms(terms)
    site = read_site(site_file or folder / SITE)
    known = (Path(site.state) / "secret").exists()  # nothing is written here
    local = site_data(site, terms, secret_of(Path(site.state)) if known else "")
    choose_trainer(site.trainer, terms.spec, site.device)
    numbers = np.bincount(local.y[local.train], minlength=terms.samples.classes).tolist()
    names, counts, least = terms.samples.class_names, map(str, numbers), terms.config.privacy.min_label_samples
    labels = counts if names is None else map(" ".join, zip(names, counts, strict=True))
    rare = [str(label) if names is None else names[label] for label, n in enumerate(numbers) if 0 < n < least]
    lines = [
        f"'{site.name}' fits '{terms.server.name}': {len(local.train):,} samples to train on, "
        f"{len(local.test):,} to test on, {terms.samples.dtype} of {' x '.join(map(str, terms.samples.shape))}",
        f"samples per class: {', '.join(labels)}",
        *([f"labels with fewer than {least} samples, of which training may tell: {', '.join(rare)}"] * bool(rare)),
        f"state is kept in {site.state}",
        "what would leave this site, by kind of request:",
    ]
    if not len(local.train):
        raise CoterieError(f"'{site.name}' has no samples to train on")
    hidden = [name for name in ("train", "evaluate") if site.limit is not None and name not in site.unprotected]
    hidden += ["train"] * terms.config.privacy.hides_samples
    counted = ["training"] * ("train" not in hidden) + ["test"] * ("evaluate" not in hidden)
    numbers_told = f"the numbers of {' and '.join(counted)} samples" if counted else "no number of samples"
    leaving = [f"introduction: the site's name, a proof that the name is its own, {numbers_told}"]
    answers, held_back = outgoing_answers(terms, local, site)
    leaving += [line for answer in answers for line in answer.lines()]
    leaving += [f"held back: {reason}" for reason in held_back]
    policy = policy_of(terms)
    if site.policy not in (None, policy.digest):
        raise CoterieError(
            f"the policy of '{terms.server.name}' is {policy.digest}, and '{site.name}' allows {site.policy} only: see "
            "what has changed, and if you agree, write the new one into site.toml"
        )
    joined = len(SiteMemory(Path(site.state)).federations())
    proof = "no server's certificate: another server could pass it on; name the certificate in site.toml"
    if site.certificate is not None:
        own = "" if not is_authority(Path(site.certificate)) else f", which {OF_AUTHORITY}"
        proof = f"the certificate {fingerprint(Path(site.certificate))}{own}"
    privacy = terms.config.privacy
    unlimited = site.limit is None and (privacy.dp_signature is not None or privacy.hides_samples)
    return [
        *lines,
        *(f"  {line}" for line in leaving),
        *([NO_LIMIT] if unlimited else []),
        f"policy {policy.digest}: what the server may ask; all else is refused, whatever it says later:",
        *(f"  {line}" for line in policy.lines()),
        f"the proof of the site's name is bound to {proof}",
        f"it has joined {joined} federations, and joins {site.max_federations} in all",
    ]


def outgoing_answers(terms: Terms, local: LocalData, site: SiteSection) -> tuple[list[OutgoingAnswer], list[str]]:
    """Rehearse a few rounds; return what a site's answers hold, and what it holds back.

    The first site is this one, and so is the last, which comes late, to show what newcomers send. Those in between only
    make the federation as large as it will be: how many models a site compares may depend on it.
    """
    founders, aggregation = min(terms.server.min_clients, MOST_FOUNDERS), terms.config.aggregation
    if aggregation.secure:
        founders = max(founders, aggregation.secure_min)  # or no sum would be unmasked
    few = np.resize(local.train, FEW), local.test[:FEW]
    parts = [(local.train, local.test), *[few] * (founders - 1), (local.train, local.test)]
    answers: dict[tuple[Any, ...], OutgoingAnswer] = {}

    def note(reply: Reply, request: Request) -> Reply:
        if reply.client in (0, founders):
            answer = _outgoing(reply, request)
            earlier = answers.get((answer.kind, answer.asked), answer)
            answers[answer.kind, answer.asked] = replace(answer, bytes=max(answer.bytes, earlier.bytes))
        return reply

    train, test = Samples(local.x, local.y), Samples(local.test_x, local.test_y)
    privacy = {"limit": site.full_limit, "unprotected": site.unprotected}
    events = rehearse(terms, train, test, parts, note, privacy, drawn_tests=local.drawn_tests)
    withheld = events.kinds.get("withheld", {"details": {}, "clients": {}})
    return list(answers.values()), [*withheld["details"]] if 0 in withheld["clients"] else []


def _outgoing(reply: Reply, request: Request) -> OutgoingAnswer:
    arrays: dict[str, str] = {}
    numbers: list[str] = []
    for content in reply.answers:
        for field in fields(content):
            _note_value(field.name, getattr(content, field.name), arrays, numbers)
    asked = tuple(type(verb).__name__.lower() for verb in request.verbs)
    cautions = tuple(dict.fromkeys(verb.caution for verb in request.verbs if verb.caution))
    return OutgoingAnswer(request.kind, asked, arrays, tuple(dict.fromkeys(numbers)), wire.size(reply), cautions)


def _note_value(name: str, value: Any, arrays: dict[str, str], numbers: list[str]) -> None:
    if isinstance(value, np.ndarray):
        arrays[name] = f"{value.dtype} {' x '.join(map(str, value.shape))}"
    elif isinstance(value, Mapping):
        for key, item in value.items():
            _note_value(f"{name} {key}", item, arrays, numbers)
    elif value is not None:
        numbers.append(name)
