"""Train: local training by a plan, and the order in which a curriculum shows the samples (ALGORITHMS 6)."""

from collections.abc import Callable, Generator, Mapping
from dataclasses import replace

import numpy as np

from coterie.client.protection import Withheld
from coterie.client.request_handler import PRIVATELY, RequestHandler
from coterie.messages import Array, Curriculum, Params, Plan, Train, TrainReply, frozen, usable, wire
from coterie.messages.plan import total_steps
from coterie.messages.verbs.train import ADAPTING
from coterie.privacy import Release, hidden
from coterie.streams import stream
from coterie.training import TOO_LARGE, Diverged, Job, Outcome, losses, steps
from coterie.training.job import Floats, Index
from coterie.training.label_offsets import label_offset
from coterie.training.private_steps import TRAINING, hiding_replacement, training_release


def answer(handler: RequestHandler, verb: Train) -> Generator[Job, Outcome | Diverged, TrainReply]:
    """Train; the result and the snapshots on the way are there for the verbs that follow.

    The training itself is left to whoever asked, who may have others to do at the same time.
    """
    plan, samples, control = verb.plan, 1, None
    if verb.hides():
        outcome, told = yield from _hidden_outcome(handler, verb)
        if verb.keep:
            handler.keep({"model": outcome.params})
        handler.made = {**handler.made, "trained": outcome.params}
        return told
    if verb.is_noised():
        outcome = yield from _private_outcome(handler, verb)
    else:
        job = _plain_job(handler, verb)
        outcome, samples = _sound((yield job)), len(job.y)
        control = _control_change(handler, job, outcome)
    snapshots = zip(sorted(plan.snapshots), outcome.snapshots, strict=False)
    others = {name: model for name, model in handler.made.items() if name.partition(" ")[0] not in verb.makes}
    handler.made = {**others, "trained": outcome.params, **{f"epoch {epoch}": model for epoch, model in snapshots}}
    if verb.keep:
        changed: dict[str, Params] = {"model": outcome.params, **outcome.kept}
        if verb.is_noised():
            changed[PRIVATELY] = {"steps": np.array([outcome.steps])}
        if control is not None:
            own = handler.state.get("control", {})
            changed["control"] = {name: own.get(name, 0) + change for name, change in control.items()}
        handler.keep(changed)
    sent = {name: value for name, value in verb.sent(outcome.params).items() if name not in handler.frozen}
    return TrainReply(samples, outcome.steps, outcome.loss, sent, control or {})


def _sound(outcome: Outcome | Diverged) -> Outcome:
    if isinstance(outcome, Diverged):
        raise outcome
    return outcome


def _private_outcome(handler: RequestHandler, verb: Train) -> Generator[Job, Outcome | Diverged, Outcome]:
    """Train by private steps, charged before; the result is kept before it is told, and told again if asked again.

    Minimum numbers of samples do not apply: not to answer would tell of them. That a training diverged follows from
    noised numbers, and is kept like a result, as one without parameters.
    """
    _check_start(handler, verb)
    plan = hiding_replacement(verb.plan) if handler.data.drawn_tests else verb.plan
    x, y = handler.data.load(handler.data.train)
    job = _job(handler, replace(verb, plan=plan), x, y)
    if (release := training_release(verb.plan)) is None:
        return _sound((yield job))
    if "best" in verb.models_needed():
        raise Withheld("private steps begin with a model that was chosen by the samples, which tells of them")
    with handler.opened(verb, release) as opened:
        if opened.told is None:
            outcome = yield replace(job, secret=opened.randomness)
            if isinstance(outcome, Diverged):
                opened.keep(wire.pack(TrainReply(1, outcome.step, 0.0)))
                raise outcome
            opened.keep(wire.pack(TrainReply(1, outcome.steps, 0.0, outcome.params)))
            return outcome
        known: TrainReply = wire.unpack(opened.told)
    if not known.params:
        raise Diverged(known.steps, "a parameter", TOO_LARGE)
    return Outcome(dict(known.params), 0.0, known.steps)


def _check_start(handler: RequestHandler, verb: Train) -> None:
    """Refuse to begin with what was trained otherwise, where that is not to be told.

    Of no steps it would be told as it is, and of few with a little noise.
    """
    if handler.terms.tells("train"):
        return
    needed, own = verb.models_needed(), "model" in handler.state and not handler.state.get(PRIVATELY)
    if other := [name for name in needed if name in handler.made or (name == "own" and own)]:
        raise Withheld(f"private steps begin with '{other[0]}', which was not trained by private steps")


def _hidden_outcome(
    handler: RequestHandler, verb: Train
) -> Generator[Job, Outcome | Diverged, tuple[Outcome, TrainReply]]:
    """Train as usual, and hide what has changed; return what the client keeps, and what it tells.

    That is charged before it is made, and told again if it is asked for again. Minimum numbers of samples do not apply.
    A training that diverged has changed nothing, as that it did would tell of samples; how many steps it had as well.
    """
    assert verb.plan.hidden is not None  # where something is hidden
    if verb.send and (own := [name for name in verb.start if name in {"own", "best", *handler.made}]):
        raise Withheld(f"an update is hidden, and not '{own[0]}', the client's own model that it would begin with")
    clip, noise = verb.plan.hidden.clip, verb.plan.hidden.noise
    x, y = handler.data.load(handler.training_part(verb.plan.holdout)[0])
    start = handler.overlaid(verb.start)
    outcome = yield _job(handler, verb, x, y)
    if isinstance(outcome, Diverged):
        outcome = Outcome(dict(start), 0.0, 0)
    told = TrainReply(1, total_steps(1, verb.plan), 0.0)
    if not verb.send:
        return outcome, told
    with handler.opened(verb, Release(TRAINING, noise)) as opened:
        if opened.told is None:
            learns = {name: value for name, value in verb.sent(start).items() if name not in handler.frozen}
            learnt = {name: outcome.params[name] for name in learns}
            made = hidden(learnt, learns, clip, noise, opened.randomness)
            told = replace(told, params=frozen(made))
            opened.keep(wire.pack(told))
        else:
            told = wire.unpack(opened.told)
    return outcome, told


def _plain_job(handler: RequestHandler, verb: Train) -> Job:
    """Return the training, if enough samples take part in it."""
    plan, protection = verb.plan, handler.protection
    used, held_out = handler.training_part(plan.holdout)
    protection.check_parts(used, held_out)
    x, y = handler.data.load(used)
    job = _job(handler, verb, x, y)
    if protection.min_samples:
        outer_only = plan.meta_step is not None and not plan.meta_step.shared_momentum
        batches = steps(len(y), plan, _shuffles(handler, verb), job.order, protection.even_batches)
        protection.check_training(batches, outer_only)
    return job


def _job(handler: RequestHandler, verb: Train, x: Floats, y: Index) -> Job:
    plan, request = verb.plan, handler.request
    start, order, mask = handler.overlaid(verb.start), None, None
    if plan.curriculum is not None:
        order = _order(handler, verb, plan.curriculum, start, x, y)
    if plan.mask is not None:
        mask = handler.state.get("mask") if plan.mask == "own" else request.models[plan.mask]
    return Job(
        request.spec,
        plan,
        start,
        x,
        y,
        _shuffles(handler, verb),
        anchors=tuple((handler.model(anchor.model), anchor.strength) for anchor in plan.anchors),
        correction=_correction(handler, plan.correction),
        mask=mask,
        order=order,
        label_offset=_label_offset(handler, plan, y),
        own_part=_own_part(handler, plan),
        even_batches=handler.protection.even_batches,
    )


def _shuffles(handler: RequestHandler, verb: Train) -> np.random.Generator:
    round = 0 if verb.purpose == ADAPTING else handler.request.round
    return stream(handler.seed, verb.purpose, handler.id, round)


def _order(handler: RequestHandler, verb: Train, curriculum: Curriculum, start: Params, x: Floats, y: Index) -> Index:
    """Return the samples from first to last of the curriculum."""
    request = handler.request
    return curriculum_order(
        curriculum,
        lambda params: handler.trainer.logits(request.spec, params, x),
        y,
        judges={
            "G": start,
            "L": handler.state.get("model", start),
            "E": handler.model("expert") if "expert" in request.models else start,
        },
        rng=stream(handler.seed, f"{verb.purpose} order", handler.id, request.round),
        loss=request.spec.loss,
    )


def _label_offset(handler: RequestHandler, plan: Plan, y: Index) -> Floats | None:
    """Return what is added to logits, by the labels of the samples that are trained on."""
    if plan.label_offset is None:
        return None
    return label_offset(np.bincount(y, minlength=handler.data.classes), plan.label_offset)


def _own_part(handler: RequestHandler, plan: Plan) -> tuple[Params, float] | None:
    """Return v_i and α_i (APFL) as the last training left them; at first, and where α is fixed, as the plan has it."""
    if plan.mixture is None:
        return None
    known = handler.state.get("mixture", {}) if plan.mixture.adaptive else {}
    alpha = float(known["alpha"]) if "alpha" in known else plan.mixture.alpha
    return handler.state.get("part", handler.model("initial")), alpha


def _correction(handler: RequestHandler, name: str | None) -> Params | None:
    """Return c − cᵢ (SCAFFOLD): the server's control less the client's."""
    if name is None:
        return None
    own = handler.state.get("control", {})
    return {key: value - own[key] if key in own else value for key, value in handler.request.models[name].items()}


def _control_change(handler: RequestHandler, job: Job, outcome: Outcome) -> dict[str, Array] | None:
    """Return cᵢ⁺ − cᵢ = (θ_t − θ_i)/Σηₛ − c (SCAFFOLD, option II); None where there is nothing to correct."""
    if job.correction is None or not outcome.steps:
        return None
    path = sum(job.plan.lr.at(step) for step in range(outcome.steps))
    change = {
        name: (job.start[name] - outcome.params[name]) / np.float32(path) - server_control
        for name, server_control in handler.request.models[str(job.plan.correction)].items()
    }
    if not usable(change):
        raise Diverged(outcome.steps, "the control", TOO_LARGE)
    return change


def curriculum_order(
    curriculum: Curriculum,
    logits: Callable[[Params], Floats],
    y: Index,
    judges: Mapping[str, Params],
    rng: np.random.Generator,
    loss: str | None = None,
) -> Index:
    """Return the samples from first to last: easiest first, hardest first, or at random.

    `judges` are the models that a score names by letters.
    """
    shuffled = rng.permutation(len(y))  # so that equal scores stand in random order
    if curriculum.order == "random":
        return shuffled
    letters, _, by_prediction = curriculum.score.partition("-")
    outputs = [logits(judges[letter]) for letter in letters]
    if by_prediction:
        predictions = [output.argmax(axis=1) for output in outputs]
        truth = predictions[1] if len(predictions) > 1 else y
        sound = np.all([np.isfinite(output).all(axis=1) for output in outputs], axis=0)  # else nothing is predicted
        easiness = np.asarray((predictions[0] == truth) & sound, np.float64)
    else:
        easiness = 1.0 / np.maximum(np.mean([losses(o, y, loss) for o in outputs], axis=0), 1e-12)  # never 0
    key = -easiness if curriculum.order == "curriculum" else easiness
    return shuffled[np.argsort(key[shuffled], kind="stable")]
