"""The settings of a run as keywords, with their types: for editors, `help` and the reference.

Written by tests/run/generate_keywords.py from the configuration (`coterie.run.config`), and held to it by a test:
change that, not this.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    import numpy as np
    from torch import nn

    from coterie.data.in_memory import Arrays
    from coterie.tracking import Row, Tracker

    Int = int | np.integer[Any]
    Real = float | np.floating[Any] | np.integer[Any]
    FilePath = str | os.PathLike[str]
    DatasetLike = FilePath | Arrays | Callable[..., Any]
    OwnTracker = Tracker | Callable[[Row], Any]
    TrackLike = str | OwnTracker | Sequence[str | OwnTracker]
    ModelLike = str | type[nn.Module] | nn.Module | Callable[..., nn.Module] | None


class SharedSettings(TypedDict, total=False):
    """What runs side by side have in common."""

    # Which data, and among how many clients.
    dataset: DatasetLike
    """Data set: a name, the path of a file or folder, arrays, or a function; by default 'digits'."""
    dataset_options: Mapping[str, Any]
    """Options of the data set, by name."""
    clients: Int | None
    """Number of clients; by default 20 for the digits, else 100, fewer where each would have under 30 samples."""
    server_share: Real | None
    """Share of the training samples that the server keeps for itself; by default 5 %, at most 2,500 samples."""

    # How a pooled data set is divided among clients.
    partition: str | None
    """How to divide the data among clients, for instance label-skew:rho=0.2; by default iid."""
    partition_options: Mapping[str, Any]
    """Options of the partition, by name."""
    f_ord: Real | None
    """Share of each client's samples to swap with other clients by difficulty, as the expert model scores it: the
    first clients get the easiest samples; class counts stay the same.
    """
    noise: Real | None
    """Add noise to clients' training samples: its standard deviation, for images as a fraction of white, grows from
    0 for the first client to this value for the last.
    """
    surplus: Int | None
    """Cut the data into this many times as many parts as there are clients; each client gets one."""

    # Which network.
    model: ModelLike
    """Network: a name, a class, a function, or a network itself; by default chosen to suit the data."""
    model_options: Mapping[str, Any]
    """Options of the network, by name."""
    initial: str | None
    """.safetensors file with the initial parameters; by default those that the network is built with."""
    initial_digest: str | None
    """Digest of the initial parameters: files with another are refused; a run writes it into its config.toml."""

    # How long, with whom, and how clients train.
    rounds: Int
    """Communication rounds; by default 50."""
    fraction: Real | None
    """Share of the clients that train in a round; by default 0.1, but at least 5 clients, or all if there are fewer."""
    epochs: Int
    """Local epochs per round; by default 10."""
    batch_size: Int
    """Samples per local step; by default 10."""
    lr: Real
    """Learning rate; by default 0.01."""
    lr_decay: Real
    """d in lr·(1 + d·step)^-power; steps are counted from 0 in every round; by default 0.0."""
    lr_power: Real
    """Power in lr·(1 + d·step)^-power; by default 0.75."""
    loss: str
    """Loss that local training minimises; by default 'cross-entropy'."""
    optimiser: str
    """Local optimiser: sgd, adam or adamw, for instance adam:beta2=0.99; Adam's moments are reset in every round; by
    default 'sgd'.
    """
    momentum: Real
    """Momentum of local SGD; starts from zero in every round; by default 0.5."""
    weight_decay: Real
    """Weight decay of local training; by default 0.0."""
    gradient_clip: Real | None
    """Clip the gradient of each local step to this norm."""
    label_smoothing: Real
    """Share of each label that is spread evenly over all classes; by default 0.0."""

    # How methods that form groups find them; by default each its own way.
    rule: str | None
    """Rule that forms the groups, for instance gap or silhouette:least=0.3; see 'coterie rules'."""
    threshold: Real | None
    """Rule degrees: merge groups up to this distance."""
    groups: Int | None
    """Rule count: how many groups."""
    granularity: Real | None
    """Rule auto: split groups that are this many times the noise apart; by default 1.45, less for few samples."""
    linkage: Literal["single", "complete", "average", "weighted", "centroid", "median", "ward"] | None
    """Distance between groups; by default what goes with the rule."""
    grouping: Literal["exact", "landmarks"] | None
    """Compare every two clients, up to 20,000; or group 2,000 to 4,000 of them, whom the others join; by default
    exact up to 5,000 clients, and landmarks above where the method can.
    """

    # How clients' models are aggregated, within each group.
    aggregation: Literal["mean", "clipped", "median", "trimmed", "krum"]
    """Mean weighted by samples; the same with long updates clipped; or a robust rule that counts each client once;
    by default 'mean'.
    """
    clip: Real
    """Rule clipped: clip updates to this multiple of their median norm; by default 3.0."""
    trim: Real
    """Rule trimmed: share of the clients left out at either end of each coordinate, rounded up; by default 0.25."""
    mixing: Literal["neighbours", "none"]
    """Rules median and trimmed: first replace each model by the mean of the half nearest to it, or not; by default
    'neighbours'.
    """
    assumed_liars: Int | None
    """Rule krum: how many clients of a group may lie; by default as many as the rule tolerates, (n - 3) / 2."""
    max_samples: Int | None
    """Clients that declare more training samples are left out."""
    max_weight: Real | None
    """No client counts for more than this multiple of the median number of samples."""
    secure: bool
    """Sum what clients train under masks inside each group, so that the server sees no single update (SecAgg+; pip
    install 'coterie[secure]'); by default false.
    """
    secure_min: Int
    """Secure: with fewer clients in a sum it stays masked; by default 5."""
    secure_clip: Real
    """Secure: clients clip updates to this norm; by default 100.0."""
    secure_hidden: bool
    """Secure: where clients choose among models (ifca), nobody learns who chose which; K times the bytes up; by
    default false.
    """

    # Clients that come late.
    newcomers: Real
    """Share of the clients to hold back at first; by default 0.0."""
    newcomer_draw: Literal["random", "last"]
    """Which clients: drawn by the seed, or those with the highest numbers; by default 'random'."""
    join_at: Int | None
    """Round in which they join; by default when training is over."""
    admit: str | Sequence[str]
    """Data of clients that join after training, a file or folder: one client, one for each user in it, or one for
    each .npz file of a folder.
    """
    newcomer_epochs: Int
    """Epochs of fine-tuning the model that each receives; by default 5."""

    # In which order samples, and clients, take part in training.
    curriculum: str | None
    """Train on each client's easiest samples first, for instance score=L,order=anti; default: score=G,
    pacing=linear, a=0.8, b=0.2, order=curriculum.
    """
    client_curriculum: str | None
    """Train the easiest clients first, for instance b=0.5,order=anti; default: score=G, pacing=linear, a=0.8, b=0.2,
    order=curriculum, refresh_every=1, all_batches=false.
    """
    expert: FilePath | None
    """Model that scores samples and clients for score=E, and samples for f_ord: a run folder or a .safetensors file;
    by default one is trained on the samples of all clients.
    """
    expert_epochs: Int
    """Epochs of training the expert; by default 10."""

    # What is measured, and when.
    metric: str
    """What models are measured by, under all protocols; by default 'accuracy'."""
    eval_every: Int
    """Evaluate every this many rounds, and at the end; 0: at the end only; by default 5."""
    eval_clients: Int | Literal["all"] | None
    """Evaluate so many clients, drawn once by the seed, or all; by default all up to 2,000, else 1,000 of them."""
    test_samples: Int | None
    """Test samples of each client to evaluate on at most, drawn once; by default all."""
    plus: bool | Real
    """Whether protocol + is measured at the end, or on which share of the evaluated clients, like 0.2; by default
    true.
    """
    validation: Real
    """Share of each client's training samples to test on instead of its test part, for choosing settings without
    looking at test samples; by default 0.0.
    """
    target: str | Sequence[str]
    """Accuracy, or other metric, to note the first round and the bytes of, for instance L=0.8."""

    # Where clients run.
    engine: Literal["embedded", "flower"]
    """Where clients run: in this process, or in Ray's processes through Flower; by default 'embedded'."""
    trainer: Literal["auto", "native", "torch"]
    """What trains the clients; auto: compiled code where it supports the network, otherwise PyTorch; by default
    'auto'.
    """
    device: str
    """Device for PyTorch: cpu, cuda, cuda:1, mps; auto: compiled code where possible, else a GPU if there is one; by
    default 'cpu'.
    """
    workers: Int | None
    """Clients to train at a time; by default one per core."""
    batch_clients: Int
    """Clients to train at once as one stacked network, with PyTorch; those whose network or plan does not allow it
    are trained one by one; by default 1.
    """
    gpu_share: Real | None
    """Engine flower: share of a GPU that each process gets, 0.25 for four to a GPU; by default a whole one with
    device cuda, else none.
    """
    state: Literal["auto", "memory", "disk"]
    """Where clients' own models are kept during the run; auto: on disk above 1 GiB; by default 'auto'."""
    address: str | None
    """Engine flower: a running Ray cluster, for instance auto or 10.0.0.5:6379; by default one is started."""
    deadline: Real | None
    """Deployed federations: how many seconds to wait for replies."""
    min_replies: Int
    """a training round with fewer replies changes nothing; by default 1."""
    oversample: Real
    """Share of extra clients to ask, 0.3 for 30 % more; the first to answer are taken; by default 0.0."""
    max_strikes: Int | None
    """Invalid replies after which a client is no longer asked."""

    # What clients hold back; nothing by default in simulations.
    privacy_limit: str | None
    """The most that a client ever tells of one of its samples, for instance epsilon=3,delta=1e-5: beyond it, and
    without noise, it does not answer.
    """
    unprotected: str | Sequence[str]
    """With a limit: verbs that are answered without noise nevertheless, for instance train and evaluate."""
    dp_signature: str | None
    """Clients describe themselves under differential privacy, for instance epsilon=1,delta=1e-5, for one sample as
    the unit.
    """
    dp_training: str | None
    """Models are private for one client as the unit, for instance epsilon=8,delta=1e-4,clip=1: updates are cut to
    the length clip, count alike, and their sum in each group has noise; min_group is the smallest group;
    clip=adaptive follows the quantile (0.5) of the updates' lengths; rounds is for how many the noise is made, by
    default those of the run; noise=local: each client adds it itself.
    """
    dp_sgd: str | None
    """Clients train by private steps (DP-SGD), for instance epsilon=8,delta=1e-5, for one sample as the unit:
    gradients of samples are cut to the length clip (1), noise is added, and a sample is in a step with
    probability rate (0.1); a training has steps (epochs / rate), a client at most trainings (rounds); shuffled: a
    sample is in one step of each shuffled epoch.
    """
    min_samples: Int
    """a client trains and evaluates on at least this many distinct samples, or does not answer; 10 in deployments;
    by default 0.
    """
    min_label_samples: Int
    """Labels with fewer samples for each vector that describes them are left out of what a client reports; 10 in
    deployments; by default 0.
    """
    max_requests: Int | None
    """Deployed federations: different requests that a site answers in a round; by default determined by a rehearsal."""

    # Simulated faults, as probabilities per client and round.
    drop: Real
    """a client never receives the request; by default 0.0."""
    straggle: Real
    """a client's reply comes too late; by default 0.0."""
    hostile: Real
    """a client lies; by default 0.0."""
    hostile_kind: Literal["nonsense", "flip", "flip10", "replace", "huge", "samples"]
    """What a lying client sends: values that every check refuses; its update with the sign flipped, or flipped and
    ten times as long; a model that replaces all others'; 1e11 everywhere; or a flipped update that claims 1e9
    samples; by default 'nonsense'.
    """
    liars: Int | None
    """Instead of a probability: this many clients, drawn by the seed, lie in every round."""

    # The run itself.
    durable: bool
    """Flush to disk after every round: a power cut then loses at most one round, as a kill always does; by default
    false.
    """
    track: TrackLike
    """Who is told of the run: tensorboard, mlflow or wandb (offline), mlflow:folder=DIR where not into the run
    folder; in `run` also a function that takes a row of metrics, an object derived from `coterie.Tracker`, or a
    list of these.
    """
    plugin: FilePath | Sequence[FilePath]
    """Python file or module to import first, with methods, rules, models or data sets of your own."""


class MethodSettings(SharedSettings, total=False):
    """These, and the method."""

    algorithm: str
    """Method; see 'coterie algorithms'; by default 'fedavg'."""
    algorithm_options: Mapping[str, Any]
    """Options of the method, by name."""


class RunSettings(MethodSettings, total=False):
    """All settings of a run."""

    seed: Int
    """Random seed: everything random derives from it; by default 0."""
    out: FilePath | None
    """Run folder; by default nothing is written."""


DEFAULTS: dict[str, Any] = {
    "dataset": "digits",
    "clients": None,
    "server_share": None,
    "partition": None,
    "f_ord": None,
    "noise": None,
    "surplus": None,
    "model": None,
    "initial": None,
    "initial_digest": None,
    "rounds": 50,
    "fraction": None,
    "epochs": 10,
    "batch_size": 10,
    "lr": 0.01,
    "lr_decay": 0.0,
    "lr_power": 0.75,
    "loss": "cross-entropy",
    "optimiser": "sgd",
    "momentum": 0.5,
    "weight_decay": 0.0,
    "gradient_clip": None,
    "label_smoothing": 0.0,
    "algorithm": "fedavg",
    "rule": None,
    "threshold": None,
    "groups": None,
    "granularity": None,
    "linkage": None,
    "grouping": None,
    "aggregation": "mean",
    "clip": 3.0,
    "trim": 0.25,
    "mixing": "neighbours",
    "assumed_liars": None,
    "max_samples": None,
    "max_weight": None,
    "secure": False,
    "secure_min": 5,
    "secure_clip": 100.0,
    "secure_hidden": False,
    "newcomers": 0.0,
    "newcomer_draw": "random",
    "join_at": None,
    "admit": [],
    "newcomer_epochs": 5,
    "curriculum": None,
    "client_curriculum": None,
    "expert": None,
    "expert_epochs": 10,
    "metric": "accuracy",
    "eval_every": 5,
    "eval_clients": None,
    "test_samples": None,
    "plus": True,
    "validation": 0.0,
    "target": [],
    "engine": "embedded",
    "trainer": "auto",
    "device": "cpu",
    "workers": None,
    "batch_clients": 1,
    "gpu_share": None,
    "state": "auto",
    "address": None,
    "deadline": None,
    "min_replies": 1,
    "oversample": 0.0,
    "max_strikes": None,
    "privacy_limit": None,
    "unprotected": [],
    "dp_signature": None,
    "dp_training": None,
    "dp_sgd": None,
    "min_samples": 0,
    "min_label_samples": 0,
    "max_requests": None,
    "drop": 0.0,
    "straggle": 0.0,
    "hostile": 0.0,
    "hostile_kind": "nonsense",
    "liars": None,
    "seed": 0,
    "out": None,
    "durable": False,
    "track": [],
    "plugin": [],
}
