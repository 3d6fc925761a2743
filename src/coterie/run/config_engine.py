"""The section of the configuration that says where clients run, and on what."""

from __future__ import annotations

from typing import Literal

from pydantic import field_validator, model_validator

from coterie.run.config_base import MOST, ConfigSection, setting


class EngineSection(ConfigSection):
    """Where clients run."""

    name: Literal["embedded", "flower"] = setting(
        "embedded", "where clients run: in this process, or in Ray's processes through Flower", "--engine"
    )
    trainer: Literal["auto", "native", "torch"] = setting(
        "auto", "what trains the clients; auto: compiled code where it supports the network, otherwise PyTorch"
    )
    device: str = setting(
        "cpu",
        "device for PyTorch: cpu, cuda, cuda:1, mps; auto: compiled code where possible, else a GPU if there is one",
    )
    workers: int | None = setting(None, "clients to train at a time; by default one per core", ge=1, le=4096)
    batch_clients: int = setting(
        1,
        "clients to train at once as one stacked network, with PyTorch; those whose network or plan does not allow it "
        "are trained one by one",
        ge=1,
        le=4096,
    )
    gpu_share: float | None = setting(
        None,
        "engine flower: share of a GPU that each process gets, 0.25 for four to a GPU; by default a whole one with "
        "device cuda, else none",
        ge=0,
        le=1,
    )
    state: Literal["auto", "memory", "disk"] = setting(
        "auto", "where clients' own models are kept during the run; auto: on disk above 1 GiB"
    )
    address: str | None = setting(
        None, "engine flower: a running Ray cluster, for instance auto or 10.0.0.5:6379; by default one is started"
    )
    deadline: float | None = setting(None, "deployed federations: how many seconds to wait for replies", gt=0)
    min_replies: int = setting(1, "a training round with fewer replies changes nothing", ge=1, le=MOST)
    oversample: float = setting(
        0.0, "share of extra clients to ask, 0.3 for 30 % more; the first to answer are taken", ge=0, le=1000
    )
    max_strikes: int | None = setting(None, "invalid replies after which a client is no longer asked", ge=1, le=MOST)

    @field_validator("device")
    @classmethod
    def _device(cls, name: str) -> str:
        kind, _, number = name.lower().partition(":")
        if kind not in ("auto", "cpu", "cuda", "mps") or (number and kind != "cuda") or not (number + "0").isdecimal():
            raise ValueError("should be auto, cpu, cuda, mps, or with the number of a GPU like cuda:1")
        return name.lower().removesuffix(":")

    @model_validator(mode="after")
    def _agree(self) -> EngineSection:
        if self.address is not None and self.name != "flower":
            raise ValueError("address names a Ray cluster: set name = 'flower', or leave it out")
        if self.gpu_share is not None and self.name != "flower":
            raise ValueError("gpu_share is what Ray's processes ask for: set name = 'flower', or leave it out")
        if self.batch_clients > 1 and self.name == "flower":
            raise ValueError("batch_clients is for the engine 'embedded', not for 'flower': leave out one of them")
        if self.device.startswith("cuda:") and self.name == "flower":
            raise ValueError("engine flower gives each process its GPU: write device = 'cuda', without a number")
        if self.device == "cuda" and self.gpu_share == 0:
            raise ValueError("gpu_share = 0 gives no process a GPU, but device = 'cuda': raise it, or leave it out")
        if self.state == "memory" and self.name == "flower":
            raise ValueError("engine flower keeps clients' states on disk: leave out state = 'memory'")
        return self
