"""Sound inputs for every reader, to be damaged: each is a folder, of which one file is the one to change.

They are made once, by Coterie itself where it writes such files (small runs, a comparison, an export), else by hand.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import struct
import sys
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from coterie.data import Samples

FEDERATION, NONCE = "0123456789abcdef", "0" * 32
RNG = np.random.default_rng(3)
SMALL = {"clients": 4, "rounds": 2, "epochs": 1, "model": "mlp:hidden=4", "lr": 0.05, "eval_every": 1}


def pixels(*shape: int) -> np.ndarray:
    return RNG.integers(0, 256, shape, dtype=np.uint8)


def npz(**arrays: np.ndarray) -> bytes:
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)
    return content.getvalue()


def write_all(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def make(folder: Path) -> None:
    """Write all inputs."""
    for part in (runs, messages, deployments, reproductions, archives, texts, images, graphs):
        part(folder)


def runs(folder: Path) -> None:
    """Run folders, a comparison, an export and an expert."""
    from unittest import mock

    import coterie
    from coterie.client import PackedStore
    from coterie.results import client_columns
    from coterie.run.export import export

    with mock.patch.object(client_columns, "FEW", 1):  # as of many clients
        coterie.run(algorithm="fedavg", dataset="digits", out=str(folder / "run-of-many" / "plain"), **SMALL)
    coterie.run(algorithm="pacfl", groups=2, dataset="digits-rotated", out=str(folder / "run" / "grouped"), **SMALL)
    coterie.run(algorithm="fedavg", dataset="digits", out=str(folder / "run" / "plain"), newcomers=0.25, **SMALL)
    coterie.compare(
        algorithms=["fedavg", "solo"], seeds=(0,), dataset="digits", out=str(folder / "comparison" / "small"), jobs=1,
        target="L=0.1", **{**SMALL, "clients": 2},
    )  # fmt: skip
    store = PackedStore(folder / "packed" / "three" / "clients")
    for round in (1, 2, 3):
        for client in (0, 5, 7):
            store.save(client, round, {"model": {"w": np.full(4, round, np.float32)}})
    (folder / "export" / "whole").mkdir(parents=True)
    export(folder / "run" / "plain", folder / "export" / "whole" / "model.safetensors")
    coterie.run(
        algorithm="fedavg",
        dataset="digits",
        model="lenet5",
        clients=2,
        rounds=1,
        epochs=1,
        out=str(folder / "image-run"),
    )
    (folder / "export" / "smaller").mkdir(parents=True)
    export(folder / "image-run", folder / "export" / "smaller" / "model.safetensors", smaller=True)
    (folder / "run-expert" / "plain").mkdir(parents=True)
    export(folder / "run" / "plain", folder / "run-expert" / "plain" / "expert.safetensors")
    (folder / "inputs" / "x").mkdir(parents=True)
    (folder / "inputs" / "x" / "x.npz").write_bytes(npz(x=pixels(5, 8, 8), y=np.arange(5)))


def messages(folder: Path) -> None:
    """Requests, replies and failures."""
    from coterie.messages import (
        Anchor,
        ClassCounts,
        ClassCountsReply,
        Evaluate,
        EvaluateReply,
        Failure,
        InputMoments,
        InputMomentsReply,
        Losses,
        LossesReply,
        MetaStep,
        Mixture,
        ModelSpec,
        Moments,
        MomentsReply,
        Plan,
        ProximalSteps,
        Reply,
        Request,
        Schedule,
        Signature,
        SignatureReply,
        Standardisation,
        Train,
        TrainReply,
        wire,
    )

    spec, model = ModelSpec("mlp", (1, 8, 8), 10, {"hidden": 4}), {"0.weight": np.ones((4, 64), np.float32)}
    plan = Plan(lr=Schedule(0.1), steps=3, anchors=(Anchor("m", 0.1),), correction="c", meta_step=MetaStep(0.1, True))
    own = Plan(lr=Schedule(0.1), mixture=Mixture(0.5, True), proximal=ProximalSteps(15.0, 5, 0.1))
    verbs = (
        Train(plan, start=("m",)), Train(own, start=("m",)), Evaluate("m"), Losses(("m",)), Signature(3, True),
        ClassCounts(), Moments(), InputMoments(1, 255.0),
    )  # fmt: skip
    answers = (
        TrainReply(9, 3, 0.5, model, {}), TrainReply(9, 3, 0.5, model, {}), EvaluateReply(9, 3, 0.4),
        LossesReply(9, (0.4,), (9,), (3,)),
        SignatureReply(np.ones((64, 3)), np.arange(3), None), ClassCountsReply(np.arange(10)),
        MomentsReply(np.ones((10, 16), np.float32), np.ones(10, np.float32), np.arange(10)),
        InputMomentsReply(9, np.ones(1), np.ones(1)),
    )  # fmt: skip
    made = {
        "request": Request(1, 0, spec, verbs, {"m": model, "c": model}, "train", Standardisation((0.5,), (0.2,))),
        "reply": Reply(3, 1, answers),
        "failure": Failure(3, 1, "failed", "ValueError"),
    }
    for name, message in made.items():
        write_all(folder / "message" / name, {"message": wire.encode(message)})


def deployments(folder: Path) -> None:
    """The app of a federation, its registry, a site's folder, and what the site is asked."""
    from coterie.deploy.app_folder import init
    from coterie.deploy.deployment import make_site
    from coterie.deploy.rehearsal import rehearse
    from coterie.deploy.samples import site_data
    from coterie.deploy.terms import read_site, read_terms
    from coterie.engine.flower.site_registry import SiteRegistry
    from coterie.messages import Request, wire

    app = folder / "app" / "new"
    init(app)
    np.savez(app / "data.npz", x_train=pixels(120, 1, 8, 8), y_train=np.arange(120) % 10)
    write_all(app, {"state/secret": b"0123456789abcdef" * 2})
    terms, described = read_terms(app), read_site(app / "site.toml")
    site, local = make_site(terms, described), site_data(described, terms)
    registry = SiteRegistry.open(app / "sites.json", {"shape": [1, 8, 8], "classes": 10})
    registry.federation = FEDERATION
    said = site.introduce(FEDERATION, NONCE)
    registry.register({1: said}, {1: NONCE})
    write_all(folder / "introduction" / "one", {"said.json": json.dumps(said).encode()})
    asked: dict[str, Request] = {}

    def note(reply: Any, request: Request) -> Any:
        asked.setdefault(str([type(verb).__name__ for verb in request.verbs]), request)
        return reply

    parts = [(local.train, local.test)] * 3
    train, test = Samples(local.x, local.y), Samples(local.test_x, local.test_y)
    rehearse(terms, train, test, parts, note, {}, drawn_tests=local.drawn_tests)
    for number, request in enumerate(asked.values()):
        write_all(app, {f"requests/{number}": wire.encode(request)})
        site.answer(0, FEDERATION, wire.encode(request))
    flags = b"label-skew:rho=0.2\n0,1,2\n[1, [2, {a = 3}]]\nfedavg,pacfl:p=4,count=3,solo\n1e-3\n'x'\n"
    write_all(folder / "flags" / "several", {"lines": flags})


def reproductions(folder: Path) -> None:
    """A reproduction, and books."""
    from coterie.reproduce import books
    from coterie.results.charts import Bars, Series
    from coterie.results.reproductions import NumberPair, Reproduction
    from coterie.results.statistics import Spread

    chart = Bars(title="t", x_label="", y_label="%", categories=("a", "b"), series=(Series(name="n", y=(50.0, None)),))
    line = NumberPair(
        "Digits", "FedAvg", "G", "50.0", 50.0, 1.0, Spread(2, 48.0, 0.5), {"G": Spread(2, 48.0, 0.5)}, "C"
    )
    whole = Reproduction("n", "t", "s", "3", "accuracy", "%", (0, 1), (line, line), charts=(chart,), command="c")
    write_all(folder / "reproduction" / "small", {"reproduction.json": json.dumps(whole.to_json()).encode()})
    for name in ("dissertation3", "dissertation6"):
        content = (books.PLACE / f"{name}.toml").read_bytes()
        write_all(folder / "book" / name, {"own.toml": content})


def archives(folder: Path) -> None:
    """Data sets in binary formats, and packed."""
    sys.path.append(str(Path(__file__).parents[1] / "data"))
    from dataset_writers import idx, python2_pickle, python3_pickle, tar_gz

    x, y = pixels(20, 8, 8), np.arange(20) % 4
    arrays = {"x_train": x, "y_train": y, "x_test": x[:8], "y_test": y[:8], "user_train": y}
    attributes = {"attributes": (x[:, 0, :3] > 99).astype(np.int8), "attribute_names": np.array(["a", "b", "c"])}
    write_all(folder / "npz" / "plain", {"data.npz": npz(**arrays)})
    write_all(folder / "npz" / "more", {"data.npz": npz(x_train=x.astype(np.float32), y_train=y, **attributes)})
    stored = io.BytesIO()
    np.savez(stored, **arrays)
    write_all(folder / "npz-mapped" / "plain", {"data.npz": stored.getvalue()})
    text = np.frombuffer(b"To be, or not to be, that is the question. " * 60, np.uint8)
    write_all(folder / "npz" / "roles", {"data.npz": npz(text=text, role_off=np.array([0, 1200, 2500]))})
    parts = {f"{part}-{what}": idx(array) for part in ("train", "t10k") for what, array in (
        ("images-idx3-ubyte", x), ("labels-idx1-ubyte", y.astype(np.uint8)))}  # fmt: skip
    write_all(folder / "idx" / "plain", parts)
    write_all(
        folder / "idx-gz" / "packed", {f"{name}.gz": gzip.compress(part, mtime=0) for name, part in parts.items()}
    )
    colours, labels = pixels(3, 3072), [3, 0, 9]
    batches = [f"data_batch_{k}" for k in range(1, 6)] + ["test_batch"]
    for name, pickle in (("python2", python2_pickle), ("python3", python3_pickle)):
        write_all(folder / "pickle" / name, dict.fromkeys(batches, pickle(colours, {"labels": labels})))
    binary = b"".join(bytes([label]) + row.tobytes() for label, row in zip(labels, colours, strict=True))
    write_all(folder / "cifar" / "binary", {f"{batch}.bin": binary for batch in batches})
    inside = {f"cifar-10-batches-py/{batch}": python3_pickle(colours, {"labels": labels}) for batch in batches}
    (folder / "tar" / "cifar").mkdir(parents=True)
    tar_gz(folder / "tar" / "cifar" / "cifar-10-python.tar.gz", inside)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in parts.items():
            archive.writestr(f"gzip/{name}.gz", gzip.compress(part, mtime=0))
    write_all(folder / "zip" / "idx", {"gzip.zip": packed.getvalue()})
    matrices = {"X": pixels(4, 4, 3, 6), "y": np.array([[1], [2], [10], [4], [5], [6]], np.uint8)}
    write_all(folder / "mat" / "small", {"train_32x32.mat": mat_file(matrices), "test_32x32.mat": mat_file(matrices)})
    images, marks = pixels(3, 27648).tobytes(), bytes([1, 2, 10])
    stl = {"train_X.bin": images, "train_y.bin": marks, "test_X.bin": images, "test_y.bin": marks}
    write_all(folder / "stl10" / "small", stl)


def mat_file(variables: dict[str, np.ndarray]) -> bytes:
    """MATLAB's version 5: a header, then compressed elements of flags, sizes, a name and numbers."""

    def element(kind: int, body: bytes) -> bytes:
        return struct.pack("<II", kind, len(body)) + body + bytes(-len(body) % 8)

    content = b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM"
    for name, array in variables.items():
        inside = element(6, struct.pack("<II", 9, 0)) + element(5, struct.pack(f"<{array.ndim}i", *array.shape))
        inside += element(1, name.encode()) + element(2, array.tobytes(order="F"))
        packed = zlib.compress(element(14, inside))
        content += struct.pack("<II", 15, len(packed)) + packed
    return content


def texts(folder: Path) -> None:
    """Data sets that are text."""
    femnist = {"users": ["a", "b"], "num_samples": [2, 2], "user_data": {
        u: {"x": [[k / 10 for k in range(12)]] * 2, "y": [0, 1]} for u in "ab"}}  # fmt: skip
    tweets = {
        "users": ["a"],
        "user_data": {"a": {"x": [["1", "d", "q", "u", "good day"], ["2", "d", "q", "u", "bad"]], "y": [1, 0]}},
    }
    plays = {"users": ["a"], "user_data": {"a": {"x": ["to be or n", "not to be "], "y": ["o", "t"]}}}
    for name, tree in (("numbers", femnist), ("letters", plays)):
        write_all(folder / "leaf" / name, {"all_data/data.json": json.dumps(tree).encode()})
    vectors = "\n".join(f"{word} " + " ".join(["0.5"] * 50) for word in ("good", "bad", "day", "the")).encode() + b"\n"
    both = {"all_data/data.json": json.dumps(tweets).encode(), "glove.6B.50d.txt": vectors}
    write_all(folder / "leaf" / "tweets", both)
    write_all(folder / "vectors" / "glove", both)
    groups = {"groups.csv": b"client,group\n0,north\n1,south\n", "groups.json": b'{"0": "north", "1": "south"}'}
    write_all(folder / "groups" / "given", groups)
    row = " ".join(f"{k}:{k / 300:.3f}" for k in range(1, 257))
    write_all(folder / "libsvm" / "plain", {"usps": f"1 {row}\n10 {row}\n".encode(), "usps.t": f"2 {row}\n".encode()})
    write_all(folder / "libsvm-bz2" / "packed", {"usps.bz2": bz2.compress(f"1 {row}\n10 {row}\n".encode())})
    people = "age,job,label\n" + "".join(
        f"{20 + k},{('cook', 'clerk')[k % 2]},{('high', 'low')[k % 3 > 1]}\n" for k in range(40)
    )
    write_all(folder / "csv" / "plain", {"people.csv": people.encode()})
    write_all(folder / "csv-gz" / "packed", {"people.csv.gz": gzip.compress(people.encode(), mtime=0)})
    speech = "".join(f"{who}:\nTo be, or not to be, that is the question.\n\n" for who in ("HAMLET", "First Lord")) * 30
    write_all(folder / "plays" / "plain", {"input.txt": speech.encode()})


def images(folder: Path) -> None:
    """Folders of images, faces with their lists, and HDF5."""
    from PIL import Image

    def image(kind: str, grey: bool = False) -> bytes:
        content = io.BytesIO()
        Image.fromarray(pixels(12, 12) if grey else pixels(12, 12, 3)).save(content, kind)
        return content.getvalue()

    for kind in ("png", "jpeg"):
        files = {
            f"{part}/{label}/{n}.{kind}": image(kind, grey=kind == "png")
            for part in ("train", "test")
            for label in ("cat", "dog")
            for n in range(2)
        }
        write_all(folder / kind / "folder", files)
    listed = "2\nSmiling Male\na.jpg 1 -1\nb.jpg -1 1\n"
    faces = {"img/a.jpg": image("jpeg"), "img/b.jpg": image("jpeg"), "list_attr_celeba.txt": listed.encode()}
    write_all(folder / "celeba" / "two", {**faces, "identity_CelebA.txt": b"a.jpg 1\nb.jpg 2\n"})
    import h5py

    (folder / "hdf5" / "usps").mkdir(parents=True)
    with h5py.File(folder / "hdf5" / "usps" / "usps.h5", "w") as file:
        for part in ("train", "test"):
            file[f"{part}/data"], file[f"{part}/target"] = RNG.random((4, 256)), np.arange(4)


def graphs(folder: Path) -> None:
    """Graphs and costs, as text and as arrays."""
    from scipy.sparse import csr_array, save_npz

    edges = np.array([[0, 1], [1, 2], [2, 3], [3, 0], [1, 3]])
    lines = "".join(f"{a},{b},{1 + a}\n" for a, b in edges)
    write_all(folder / "graph" / "numbers", {"graph.csv": lines.encode()})
    write_all(folder / "graph" / "words", {"graph.csv": b"source target\nann bob\nbob cid\n# note\ncid ann\n"})
    write_all(folder / "graph-npz" / "edges", {"graph.npz": npz(edges=edges, weights=np.ones(5))})
    write_all(folder / "graph-npz" / "points", {"graph.npz": npz(points=RNG.random((9, 2)))})
    dense = np.zeros((4, 4))
    dense[tuple(edges.T)] = dense[tuple(edges[:, ::-1].T)] = 1.0
    write_all(folder / "graph-npz" / "dense", {"graph.npz": npz(adjacency=dense)})
    (folder / "graph-npz" / "sparse").mkdir(parents=True)
    save_npz(folder / "graph-npz" / "sparse" / "graph.npz", csr_array(dense).tocsr())
    write_all(
        folder / "costs" / "named", {"graph.csv": lines.encode(), "costs.csv": b"node,cost\n0,1\n1,2.5\n2,1\n3,4\n"}
    )
    costs = io.BytesIO()
    np.save(costs, np.arange(1.0, 5.0))
    write_all(folder / "costs-npy" / "plain", {"graph.csv": lines.encode(), "costs.npy": costs.getvalue()})
    cites = {"cora/cora.content": b"p1 0 1 1 A\np2 1 0 0 B\np3 0 0 1 A\n", "cora/cora.cites": b"p1 p2\np2 p3\n"}
    write_all(folder / "cora" / "text", cites)
    parts = {
        "feat_indices": np.array([1, 2, 0, 2]),
        "feat_indptr": np.array([0, 2, 3, 4]),
        "feat_shape": np.array([3, 3]),
    }
    write_all(folder / "cora-npz" / "arrays", {"cora.npz": npz(edges=edges[:2], labels=np.array([0, 1, 0]), **parts)})
