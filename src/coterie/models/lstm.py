"""The recurrent network of FedGroup's Sent140 experiments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge

from coterie.errors import CoterieError
from coterie.models import model

if TYPE_CHECKING:
    from torch import nn


@model("lstm")
def lstm(
    shape: tuple[int, ...],
    classes: int,
    *,
    hidden: Annotated[int, Ge(1), "width of the two recurrent layers"] = 100,
    dense: Annotated[int, Ge(1), "width of the layer after them"] = 30,
) -> nn.Module:
    """Two stacked LSTM layers and a dense one, for sequences of vectors such as embedded words."""
    import torch
    from torch import nn

    if len(shape) != 2:
        raise CoterieError(f"model 'lstm' needs sequences of vectors (length, features), got inputs of shape {shape}")

    class Recurrent(nn.Module):
        """Reads a sequence and answers from its last state."""

        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(shape[1], hidden, num_layers=2, batch_first=True)
            self.fc1 = nn.Linear(hidden, dense)
            # Two classes need one output: the other one's is 0, and cross-entropy becomes the logistic loss.
            self.fc2 = nn.Linear(dense, 1 if classes == 2 else classes)
            for name in [n for n, _ in self.lstm.named_parameters() if n.startswith("bias_hh")]:
                # PyTorch keeps two bias vectors where one does: the second becomes a constant that is not sent.
                zeros = torch.zeros_like(getattr(self.lstm, name).data)
                delattr(self.lstm, name)
                self.lstm.register_buffer(name, zeros, persistent=False)
            self.lstm._flat_weights = [getattr(self.lstm, name) for name in self.lstm._flat_weights_names]

        def forward(self, x: Any) -> Any:
            states, _ = self.lstm(x)
            output = self.fc2(torch.relu(self.fc1(states[:, -1])))
            return torch.cat([torch.zeros_like(output), output], dim=1) if classes == 2 else output

    return Recurrent()
