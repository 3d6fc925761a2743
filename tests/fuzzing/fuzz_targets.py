"""Every reader of bytes in Coterie: what it is given, how it is called, and by which error it refuses."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from fuzz_binary import compressed, mat, npy, pickled, png, safetensors, zipped
from fuzz_corpus import FEDERATION, NONCE
from fuzz_mutations import Mutation, json_lines, json_tree, toml_lines

from coterie.errors import CoterieError
from coterie.messages.wire import WireError


@dataclass(frozen=True)
class Target:
    """A reader."""

    name: str
    kind: str
    """Under which the sound inputs are kept."""
    file: str
    """A pattern of the files to change, one at a time."""
    read: Callable[[Path, Path], Any]
    """Takes the folder of an input, and the file in it that was changed."""
    known: Sequence[Mutation] = ()
    refusals: tuple[type[Exception], ...] = (CoterieError,)
    share: float = 1.0
    """Of inputs, compared with other readers."""


def _message(folder: Path, file: Path) -> None:
    from coterie.messages import wire

    wire.decode(file.read_bytes())


def _answer(folder: Path, file: Path) -> None:
    """What the server does with an answer: decode it and hold it against its request."""
    from coterie.federation.exchange import error_in_reply
    from coterie.messages import Reply, Request, wire
    from coterie.messages.limits import Limits

    sent = wire.decode((folder.parent / "request" / "message").read_bytes())
    answer = wire.decode(file.read_bytes())
    if isinstance(answer, Reply) and isinstance(sent, Request):
        error_in_reply(sent, answer, Limits(sent.models["m"], 9))


def _checkpoint(folder: Path, file: Path) -> None:
    from coterie.federation.checkpoint import load_checkpoint

    load_checkpoint(folder / "checkpoint.safetensors")


def _trained(folder: Path, file: Path) -> None:
    """What `predict`, `export` and `layers` take out of a run."""
    from coterie.run.trained_models import find_model

    find_model(folder, client=0)
    find_model(folder, client=3)


def _state(folder: Path, file: Path) -> None:
    from coterie.client import DiskStore

    DiskStore(folder / "clients").load(int(file.parent.name), before=99)


def _packed_states(folder: Path, file: Path) -> None:
    """What `resume` does with the states of many clients; others than the latest are void."""
    from coterie.client import PackedStore

    store = PackedStore(folder / "clients")
    for client in store.clients():
        store.load(client, before=99)
    store.remove_later()


def _journal(folder: Path, file: Path) -> None:
    """What `resume` goes on from, with a mark that is right for it."""
    from coterie.client import DiskStore
    from coterie.federation.journal import Journal
    from coterie.results.checks import error_in_history

    content, journal = file.read_bytes(), Journal(file)
    journal.restore({"bytes": len(content), "digest": hashlib.blake2b(content, digest_size=16).hexdigest()})
    error_in_history(journal.rows, [1, 2])
    DiskStore(folder / "clients").go_on_from(journal.states)


def _page(folder: Path, file: Path) -> None:
    from coterie.report.folders import make_page
    from coterie.report.page import render

    render(make_page([folder]))


def _run_folder(folder: Path, file: Path) -> None:
    """What `report` and Python's `Result` show of a run."""
    from coterie.report.tables import result_table
    from coterie.results.run_folder import RunFolder
    from coterie.run.result import Result

    _page(folder, file)
    RunFolder(folder).expert_settings()
    result_table([Result.load(folder).to_json()])


def _compared(folder: Path, file: Path) -> None:
    _page(folder, file)


def _reproduced(folder: Path, file: Path) -> None:
    from coterie.results.reproductions import read_reproduction

    _page(folder, file)
    whole = read_reproduction(folder / "reproduction.json")
    for format in ("text", "markdown", "csv", "latex"):
        whole.report(format)


def _config(folder: Path, file: Path) -> None:
    """What `run --config` does before it reads data."""
    from coterie.results.formats import read_toml
    from coterie.run.validation import make_config

    make_config(read_toml(file), str(file))


def _run_config(folder: Path, file: Path) -> None:
    """What `resume` does first."""
    from coterie.results.run_folder import RunFolder
    from coterie.run.runner import _checkpoint_of
    from coterie.run.validation import read_run_config

    run = RunFolder.open(folder)
    _checkpoint_of(run, read_run_config(run))


def _design(folder: Path, file: Path) -> None:
    from coterie.compare.design import Design

    Design.read(file).check()


def _groups(folder: Path, file: Path) -> None:
    from coterie.algorithms.given_groups import read_groups

    assert all(group for group in read_groups(file).values())


def _book(folder: Path, file: Path) -> None:
    from coterie.reproduce.catalogue import read_own

    for name, item in read_own(file).items():
        list(item.cells())
        assert name


def _federation(folder: Path, file: Path) -> None:
    from coterie.deploy.terms import check_terms, read_terms

    check_terms(read_terms(folder))


def _site(folder: Path, file: Path) -> None:
    from coterie.deploy.terms import read_site

    read_site(folder / "site.toml")


def _registry(folder: Path, file: Path) -> None:
    from coterie.engine.flower.site_registry import SiteRegistry
    from coterie.results.run_folder import RunFolder

    RunFolder(folder).read_sites()
    registry = SiteRegistry.open(file, {"shape": [1, 8, 8]})
    assert len(registry.samples) == len({site.client for site in registry.sites.values()})
    registry.path = None
    registry.register({1: {"name": "site-new", "key": "1" * 64, "signature": "1" * 128, "samples": 5}}, {1: ""})


def _site_state(folder: Path, file: Path) -> None:
    """What a site reads before it takes part."""
    site = _site_of(folder)[1]
    site.joined_under(FEDERATION)
    site.introduce(FEDERATION, NONCE)
    site.data()


def _joined(folder: Path, file: Path) -> None:
    """Which federations a site has joined, when another one greets it."""
    from coterie.engine.flower.site_record import SiteMemory

    SiteMemory(folder / "state").federations()


def _counted(folder: Path, file: Path) -> None:
    """How many samples a site had when it last answered."""
    from coterie.engine.flower.site_record import FewSamplesChanged, SiteMemory

    with contextlib.suppress(FewSamplesChanged):
        SiteMemory(folder / "state").check_samples({"train": 48, "test": 12}, 10)


def _asked(folder: Path, file: Path) -> None:
    """What a site was asked before, when it is asked again."""
    _site_of(folder)[1].answer(0, FEDERATION, (folder / "requests" / "0").read_bytes())


def _request(folder: Path, file: Path) -> None:
    """What a site does with a request: it answers, or says why not.

    A model may be a part of one; where it lacks what a verb needs, the app says so by the type of the error, KeyError.
    """
    from coterie.messages import wire

    (folder / "state" / FEDERATION / "asked.json").unlink(missing_ok=True)
    wire.decode(_site_of(folder)[1].answer(0, FEDERATION, file.read_bytes()))


def _site_of(folder: Path) -> tuple[Any, Any]:
    from coterie.deploy.deployment import make_site
    from coterie.deploy.terms import read_site, read_terms

    logging.getLogger("coterie").setLevel(logging.CRITICAL)
    terms = read_terms(folder)
    return terms, make_site(terms, read_site(folder / "site.toml"))


def _introduction(folder: Path, file: Path) -> None:
    """How a node introduces itself: any values by name."""
    from coterie.engine.flower.site_registry import SiteRegistry

    try:
        said = json.loads(file.read_bytes()[: 10**5])
    except (ValueError, RecursionError):  # Flower's to refuse
        return
    SiteRegistry(federation=FEDERATION).register({1: said if isinstance(said, dict) else {}}, {1: NONCE})


def _flags(folder: Path, file: Path) -> None:
    """What stands behind flags, a line each."""
    from coterie.run.values import parse_choice, parse_seeds, parse_value, split_list

    for read in (parse_value, parse_choice, parse_seeds, split_list):
        for line in file.read_text(errors="replace").splitlines():
            with contextlib.suppress(CoterieError):
                read(line)


def _data(folder: Path, file: Path) -> None:
    """What `--dataset PATH` and `data check` do, by the folder and by the file."""
    from coterie.data import read

    read(folder)


def _data_file(folder: Path, file: Path) -> None:
    from coterie.data import read

    read(file)


def _mapped_data(folder: Path, file: Path) -> None:
    """As `_data`, of arrays that are too large to be taken into memory."""
    from coterie.data import read
    from coterie.data.readers import npz

    with mock.patch.object(npz, "MEMORY", 0):
        read(file).train.x[:].sum()


def _rows(folder: Path, file: Path) -> None:
    from coterie.data import read_inputs
    from coterie.data.tables.encoding import EncodedColumn, TableEncoding

    columns = (EncodedColumn("age", fill=40.0), EncodedColumn("job", ("clerk", "cook")))
    read_inputs(file, (3,), {}, ("high", "low"), TableEncoding("label", columns))


def _inputs(folder: Path, file: Path) -> None:
    from coterie.data import read_inputs

    read_inputs(file, (1, 8, 8))


def _pickle(folder: Path, file: Path) -> None:
    _data(folder, file)


def _expert(folder: Path, file: Path) -> None:
    from coterie.messages import ModelSpec
    from coterie.run.expert import read_expert

    read_expert(str(file), ModelSpec("mlp", (1, 8, 8), 10, {"hidden": 4}))


def _exported(folder: Path, file: Path) -> None:
    from coterie.run.export import load_exported

    load_exported(file)


def _graph(folder: Path, file: Path) -> None:
    from coterie.coreset.files import read_graph

    read_graph(file)
    read_graph(file, symmetrise=True)


def _costs(folder: Path, file: Path) -> None:
    from coterie.coreset.files import read_costs, read_graph

    read_costs(file, read_graph(folder / "graph.csv"))


def _cora(folder: Path, file: Path) -> None:
    from coterie.reproduce import graphs

    (graphs._cora_npz if file.suffix == ".npz" else graphs._cora_text)(
        file.with_suffix(".content") if file.suffix == ".cites" else file
    )


TARGETS = [
    Target("message", "message", "message", _message, [safetensors], (WireError,), 4),
    Target("answer held against its request", "message", "message", _answer, [safetensors], (WireError,), 2),
    Target("checkpoint", "run", "checkpoint*.safetensors", _checkpoint, [safetensors], share=2),
    Target("checkpoint, models taken out", "run", "checkpoint*.safetensors", _trained, [safetensors], share=2),
    Target("journal.jsonl", "run", "journal.jsonl", _journal, [json_lines]),
    Target("client state", "run", "clients/*/*.safetensors", _state, [safetensors], share=2),
    Target("client states, packed", "packed", "clients/*.states", _packed_states, [safetensors]),
    Target("result.json", "run", "result.json", _run_folder, [json_tree], share=2),
    Target("result.json of many clients", "run-of-many", "result.json", _run_folder, [json_tree]),
    Target("columns of many clients", "run-of-many", "clients-*.safetensors", _run_folder, [safetensors]),
    Target("metrics.jsonl", "run", "metrics.jsonl", _run_folder, [json_lines], share=2),
    Target("views.safetensors", "run", "views.safetensors", _run_folder, [safetensors]),
    Target("config.toml of a run, page", "run", "config.toml", _run_folder, [toml_lines]),
    Target("config.toml of a run, resume", "run", "config.toml", _run_config, [toml_lines]),
    Target("run --config", "run", "config.toml", _config, [toml_lines], share=2),
    Target("comparison.toml, page", "comparison", "comparison.toml", _compared, [toml_lines]),
    Target("comparison.toml, compare", "comparison", "comparison.toml", _design, [toml_lines]),
    Target("comparison.json", "comparison", "comparison.json", _compared, [json_tree]),
    Target("result.json in a comparison", "comparison", "*/*/result.json", _compared, [json_tree]),
    Target("reproduction.json", "reproduction", "reproduction.json", _reproduced, [json_tree]),
    Target("catalogue of one's own", "book", "own.toml", _book, [toml_lines]),
    Target("federation.toml", "app", "federation.toml", _federation, [toml_lines], share=2),
    Target("site.toml", "app", "site.toml", _site, [toml_lines]),
    Target("sites.json", "app", "sites.json", _registry, [json_tree], share=2),
    Target("introduction of a site", "introduction", "said.json", _introduction, [json_tree]),
    Target("groups of clients, csv", "groups", "groups.csv", _groups, share=0.3),
    Target("groups of clients, json", "groups", "groups.json", _groups, [json_tree], share=0.3),
    Target("texts of flags", "flags", "lines", _flags, share=0.5),
    Target("secret of a site", "app", "state/secret", _site_state, share=0.3),
    Target("policy of a site", "app", f"state/{FEDERATION}/policy.json", _site_state, [json_tree]),
    Target("federations of a site", "app", "state/federations.json", _joined, [json_tree], share=0.3),
    Target("samples of a site", "app", "state/samples.json", _counted, [json_tree], share=0.3),
    Target("what a site was asked", "app", f"state/{FEDERATION}/asked.json", _asked, [json_tree], share=0.5),
    Target("request at a site", "app", "requests/*", _request, [safetensors], (CoterieError, KeyError), 2),
    Target("data of a site", "app", "data.npz", _site_state, [zipped(npy)]),
    Target("npz", "npz", "data.npz", _data, [zipped(npy)], share=2),
    Target("npz that stays in its file", "npz-mapped", "data.npz", _mapped_data, [zipped(npy)]),
    Target("inputs to predict", "inputs", "x.npz", _inputs, [zipped(npy)]),
    Target("idx", "idx", "*ubyte", _data),
    Target("idx in gzip", "idx-gz", "*.gz", _data, [compressed()]),
    Target("idx in zip", "zip", "gzip.zip", _data_file, [zipped(compressed())]),
    Target("cifar, pickled", "pickle", "data_batch_1", _data, [pickled], share=3),
    Target("cifar, binary", "cifar", "*.bin", _data, share=0.3),
    Target("cifar in tar.gz", "tar", "*.tar.gz", _data_file, [compressed(pickled)]),
    Target("svhn, mat", "mat", "*.mat", _data, [mat]),
    Target("stl10", "stl10", "*.bin", _data, share=0.3),
    Target("usps, libsvm", "libsvm", "usps*", _data, share=0.5),
    Target("usps, bzip2", "libsvm-bz2", "usps.bz2", _data, [compressed()], share=0.5),
    Target("usps, hdf5", "hdf5", "usps.h5", _data_file),
    Target("leaf", "leaf", "all_data/data.json", _data, [json_tree], share=2),
    Target("word vectors", "vectors", "glove*.txt", _data),
    Target("plays", "plays", "input.txt", _data, share=0.5),
    Target("table, csv", "csv", "people.csv", _data),
    Target("table, csv in gzip", "csv-gz", "people.csv.gz", _data, [compressed()], share=0.5),
    Target("rows to predict for", "csv", "people.csv", _rows, share=0.5),
    Target("png", "png", "*/*/*.png", _data, [png]),
    Target("jpeg", "jpeg", "*/*/*.jpeg", _data),
    Target("celeba", "celeba", "*.txt", _data, share=0.5),
    Target("expert", "run-expert", "*.safetensors", _expert, [safetensors]),
    Target("export", "export", "model.safetensors", _exported, [safetensors], share=2),
    Target("graph, lines", "graph", "graph.csv", _graph),
    Target("graph, npz", "graph-npz", "graph.npz", _graph, [zipped(npy)], share=2),
    Target("costs, lines", "costs", "costs.csv", _costs, share=0.5),
    Target("costs, npy", "costs-npy", "costs.npy", _costs, [npy], share=0.5),
    Target("cora, text", "cora", "cora/cora.*", _cora, share=0.5),
    Target("cora, npz", "cora-npz", "cora.npz", _cora, [zipped(npy)]),
]
