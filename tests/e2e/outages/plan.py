"""Which faults come, and in which order: a pure function of a seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from photon.faults import FAULT_POINTS, RECOVERY_FAULT_POINTS

POINTS = (*FAULT_POINTS, *RECOVERY_FAULT_POINTS)
MOST_PASSINGS = 3
MOST_PAUSE_SECONDS = 1.5
AT_A_POINT = 0.7  # the share of faults that come at a fault point; the others come at any moment


@dataclass(frozen=True)
class Fault:
    """What is done to a datacenter's process: at a fault point, or after a pause."""

    kind: Literal["kill", "stop"]
    point: str  # NAME:COUNT; empty: at any moment
    pause_seconds: float
    stopped_seconds: float = 0.0

    def __str__(self) -> str:
        when = self.point or f"after {self.pause_seconds:.2f} s"
        return f"{self.kind} {when}" + (f", {self.stopped_seconds:.1f} s" if self.kind == "stop" else "")


def faults_of(
    chance: random.Random,
    kills: int,
    stops: int,
    stopped_seconds: tuple[float, float],
    points: Sequence[str] = POINTS,
) -> list[Fault]:
    """So many faults of each kind, in random order."""
    kinds: list[Literal["kill", "stop"]] = [*["kill"] * kills, *["stop"] * stops]  # type: ignore[list-item]
    chance.shuffle(kinds)
    made = []
    for kind in kinds:
        at_point = chance.random() < AT_A_POINT
        point = f"{chance.choice(points)}:{chance.randint(1, MOST_PASSINGS)}" if at_point else ""
        stopped = chance.uniform(*stopped_seconds) if kind == "stop" else 0.0
        made.append(Fault(kind, point, chance.uniform(0, MOST_PAUSE_SECONDS), stopped))
    return made
