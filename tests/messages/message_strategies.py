"""Messages of every kind, made up by Hypothesis, and what it means that two are the same."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from coterie.messages import (
    Agree,
    AgreeReply,
    Anchor,
    Channels,
    ClassCounts,
    ClassCountsReply,
    Curriculum,
    Evaluate,
    EvaluateReply,
    Failure,
    Guarantee,
    InputMoments,
    InputMomentsReply,
    Keys,
    KeysReply,
    L1Penalty,
    Losses,
    LossesReply,
    MaskedReply,
    MaskedTrain,
    Masking,
    MetaStep,
    Mixture,
    ModelSpec,
    Moments,
    MomentsReply,
    Optimiser,
    Plan,
    PrivateSteps,
    ProximalSteps,
    Prune,
    PruneReply,
    Reply,
    Request,
    Schedule,
    Shares,
    SharesReply,
    Signature,
    SignatureReply,
    Standardisation,
    Train,
    TrainReply,
    Unmask,
    UnmaskReply,
    UpdateNoise,
)

DTYPES = ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u1", "u2", "u4", "u8", "?"]

texts = st.text(max_size=8)  # any Unicode, quotes and control characters included
integers = st.integers(-(2**63), 2**63 - 1)
floats = st.floats()  # NaN and infinities included
arrays = npst.arrays(
    st.sampled_from(DTYPES), npst.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=3), fill=st.nothing()
)
params = st.dictionaries(texts, arrays, max_size=3)
several = {"max_size": 3}

schedules = st.builds(Schedule, floats, floats, floats)
anchors = st.builds(Anchor, texts, floats)
curricula = st.builds(
    Curriculum,
    st.sampled_from(["G", "L", "LG", "G-pred", "L-pred", "LG-pred"]),
    st.sampled_from(["exponential", "step", "root", "linear", "quadratic"]),
    floats,
    floats,
    st.sampled_from(["curriculum", "anti", "random"]),
)
meta_steps = st.builds(MetaStep, floats, st.booleans())
penalties = st.builds(L1Penalty, floats, st.lists(texts, **several).map(tuple))
mixtures = st.builds(Mixture, floats, st.booleans())
private_steps = st.builds(PrivateSteps, floats, floats, floats)
update_noises = st.builds(UpdateNoise, floats, floats)
proximal_steps = st.builds(ProximalSteps, floats, integers, floats)
offsets = st.sampled_from([None, "lacking", "prior"])
optimisers = st.builds(Optimiser, st.sampled_from(["adam", "adamw"]), floats, floats, floats)
plans = st.builds(
    Plan,
    lr=schedules,
    epochs=integers,
    steps=st.none() | integers,
    batch_size=integers,
    momentum=floats,
    weight_decay=floats,
    anchors=st.lists(anchors, **several).map(tuple),
    correction=st.none() | texts,
    mask=st.none() | texts,
    curriculum=st.none() | curricula,
    meta_step=st.none() | meta_steps,
    snapshots=st.lists(integers, **several).map(tuple),
    holdout=floats,
    l1=st.none() | penalties,
    label_offset=offsets,
    train=st.none() | st.lists(texts, **several).map(tuple),
    mixture=st.none() | mixtures,
    proximal=st.none() | proximal_steps,
    optimiser=st.none() | optimisers,
    clip=st.none() | floats,
    smoothing=st.none() | floats,
    private=st.none() | private_steps,
    hidden=st.none() | update_noises,
)
names = st.lists(texts, **several).map(tuple)
plain = st.recursive(
    st.none() | st.booleans() | integers | floats | texts,
    lambda inner: st.lists(inner, **several).map(tuple) | st.dictionaries(texts, inner, **several),
    max_leaves=5,
)
specs = st.builds(
    ModelSpec,
    texts,
    st.lists(st.integers(1, 99), **several).map(tuple),
    integers,
    st.dictionaries(texts, plain, **several),
    loss=st.none() | texts,
    target=st.none() | st.tuples(floats, floats),
)
parts = st.sampled_from(["train", "holdout", "test"])
channels = st.builds(Channels, texts, texts, texts, integers)
guarantees = st.builds(Guarantee, floats, floats)
standardisations = st.builds(Standardisation, *[st.lists(floats, **several).map(tuple)] * 2)
verdicts = st.sampled_from(["pruned", "unchanged", "target", "reverted"])
numbers = st.lists(integers, **several).map(tuple)
maskings = st.builds(
    Masking,
    numbers,
    integers,
    st.sampled_from(["samples", "equal", "normalised"]),
    *[floats] * 4,
    slots=st.none() | names,
)
training = {
    "plan": plans,
    "start": names,
    "keep": st.booleans(),
    "send": st.booleans() | names,
    "purpose": texts,
}
KINDS: dict[str, st.SearchStrategy[Any]] = {
    "Train": st.builds(Train, **training),
    "MaskedTrain": st.builds(MaskedTrain, **training, masking=maskings),
    "Masking": maskings,
    "Keys": st.builds(Keys),
    "Shares": st.builds(Shares, numbers, names, names),
    "Agree": st.builds(Agree, numbers),
    "Unmask": st.builds(Unmask, numbers, names, st.none() | names),
    "Keys advertised": st.builds(KeysReply, texts, texts),
    "Shares made": st.builds(SharesReply, names),
    "Masked": st.builds(MaskedReply, arrays, arrays),
    "Agreed": st.builds(AgreeReply, texts),
    "Shares given": st.builds(UnmaskReply, names),
    "Evaluate": st.builds(
        Evaluate, texts | names, parts, floats, offsets, st.sampled_from([None, True]), st.none() | texts
    ),
    "Losses": st.builds(
        Losses, names, parts, floats, st.sampled_from(["loss", "accuracy"]), st.sampled_from([None, True])
    ),
    "Signature": st.builds(
        Signature,
        integers,
        st.booleans(),
        st.none() | floats,
        st.none() | integers,
        integers,
        st.text(),
        st.booleans(),
        st.none() | integers,
        st.none() | guarantees,
        st.none() | st.lists(integers, **several).map(tuple),
    ),
    "ClassCounts": st.builds(ClassCounts, st.none() | guarantees),
    "Guarantee": guarantees,
    "Moments": st.builds(Moments, integers),
    "InputMoments": st.builds(InputMoments, integers, st.none() | floats),
    "Standardisation": standardisations,
    "Prune": st.builds(
        Prune,
        names,
        floats,
        floats,
        floats,
        floats,
        st.none() | floats,
        st.lists(channels, **several).map(tuple),
        floats,
        floats,
        parts,
        floats,
        st.booleans(),
        st.sampled_from([None, "network"]),
    ),
    "MetaStep": meta_steps,
    "Mixture": mixtures,
    "PrivateSteps": private_steps,
    "UpdateNoise": update_noises,
    "ProximalSteps": proximal_steps,
    "L1Penalty": penalties,
    "Optimiser": optimisers,
    "Channels": channels,
    "Trained": st.builds(TrainReply, integers, integers, floats, params, params),
    "Evaluated": st.builds(EvaluateReply, integers, integers, floats, *[st.none() | floats] * 3),
    "Compared": st.builds(
        LossesReply,
        integers,
        st.lists(floats, **several).map(tuple),
        st.lists(integers, **several).map(tuple),
        st.lists(integers, **several).map(tuple),
    ),
    "Signed": st.builds(SignatureReply, arrays, arrays, st.none() | floats),
    "Counted": st.builds(ClassCountsReply, arrays),
    "Described": st.builds(MomentsReply, arrays, arrays, arrays, st.sampled_from([None, True])),
    "Measured": st.builds(InputMomentsReply, integers, arrays, arrays),
    "Pruned": st.builds(PruneReply, params, params, verdicts, st.none() | verdicts),
    "Schedule": schedules,
    "Anchor": anchors,
    "Curriculum": curricula,
    "Plan": plans,
    "ModelSpec": specs,
}
SECURE = ("Keys", "Shares", "MaskedTrain", "Agree", "Unmask")
VERBS = ("Train", "Evaluate", "Losses", "Signature", "ClassCounts", "Prune", "Moments", "InputMoments", *SECURE)
SECURED = ("Keys advertised", "Shares made", "Masked", "Agreed", "Shares given")
ANSWERS = ("Trained", "Evaluated", "Compared", "Signed", "Counted", "Pruned", "Described", "Measured", *SECURED)
verbs, answers = (st.one_of([KINDS[name] for name in names]) for names in (VERBS, ANSWERS))
KINDS["Request"] = requests = st.builds(
    Request, integers, integers, specs, st.lists(verbs, **several).map(tuple),
    st.dictionaries(texts, params, max_size=2), texts, st.none() | standardisations,
)  # fmt: skip
KINDS["Reply"] = replies = st.builds(Reply, integers, integers, st.lists(answers, **several).map(tuple))
KINDS["Failure"] = failures = st.builds(Failure, integers, integers, texts, texts)


def same(a: Any, b: Any) -> bool:
    """Say whether two values are of the same types with the same content, to the bit."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if dataclasses.is_dataclass(a):
        return all(same(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(a))
    if isinstance(a, Mapping):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float):
        return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    return bool(a == b)
