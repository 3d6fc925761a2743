"""Guarantee: how private an answer is."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Guarantee:
    """(ε, δ) of differential privacy, by which an answer is noised where a verb carries one."""

    epsilon: float
    delta: float

    def __str__(self) -> str:
        return f"ε = {self.epsilon:g}, δ = {self.delta:g}"
