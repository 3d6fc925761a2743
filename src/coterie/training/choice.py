"""Which trainer runs a network, and with how many threads."""

from collections.abc import Iterator
from contextlib import contextmanager

from coterie.errors import CoterieError
from coterie.messages import ModelSpec
from coterie.training.job import Trainer


@contextmanager
def one_thread() -> Iterator[None]:
    """Let PyTorch and BLAS use one thread per operation: clients run side by side, which is faster and repeatable."""
    import scipy.linalg  # noqa: F401  # it has a BLAS of its own, which can only be limited once it is there
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1, "blas"):
            yield
    finally:
        torch.set_num_threads(before)


def choose_trainer(wanted: str, spec: ModelSpec, device: str = "cpu") -> Trainer:
    """Return what executes plans: ``native``, ``torch``, or for ``auto`` compiled code where it can.

    A GPU has no compiled trainer: where one is named PyTorch takes all networks, for ``auto`` those that are not
    compiled.
    """
    from coterie.native import available
    from coterie.training.native_trainer import NativeTrainer, runs_natively
    from coterie.training.torch_device import choose_device
    from coterie.training.torch_trainer import TorchTrainer

    compiles, on_cpu = runs_natively(spec), device in ("cpu", "auto")
    if wanted == "native" and not on_cpu:
        raise CoterieError(
            f"the compiled trainer computes on the CPU, not on the device '{device}': use --trainer torch, or leave "
            "out one of them"
        )
    if wanted == "native" and not available():
        raise CoterieError(
            "the compiled trainer is not here: install a C++ compiler and Coterie again, or use --trainer torch"
        )
    if wanted == "native" and spec.loss is not None:
        raise CoterieError(f"the compiled trainer does not know the loss '{spec.loss}': use --trainer torch")
    if wanted == "native" and not compiles:
        raise CoterieError(f"the compiled trainer does not know the network '{spec.name}': use --trainer torch")
    native = wanted != "torch" and compiles and on_cpu and available()
    with_torch = TorchTrainer(choose_device(device))
    return NativeTrainer(with_torch) if native else with_torch
