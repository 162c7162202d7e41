"""Choose faults and their order: a pure function of a seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from photon.process.faults import (
    COMPACTION_FAULT_POINTS,
    FAULT_POINTS,
    GC_FAULT_POINTS,
    RECOVERY_FAULT_POINTS,
    REPAIR_FAULT_POINTS,
    ROLL_FAULT_POINTS,
    START_FAULT_POINTS,
)

POINTS = (*FAULT_POINTS, *RECOVERY_FAULT_POINTS, *START_FAULT_POINTS)
MOST_PASSINGS = 3
MOST_PAUSE_SECONDS = 1.5
AT_A_POINT = 0.7  # the share of faults that come at a fault point; the others come at any moment


@dataclass(frozen=True)
class Fault:
    """A signal for a datacenter's process: at a fault point, or after a pause."""

    kind: Literal["kill", "stop"]
    point: str  # NAME:COUNT; empty: at any moment
    pause_seconds: float
    stopped_seconds: float = 0.0

    def __str__(self) -> str:
        when = self.point or f"after {self.pause_seconds:.2f} s"
        return f"{self.kind} {when}" + (f", {self.stopped_seconds:.1f} s" if self.kind == "stop" else "")


@dataclass(frozen=True)
class Operation:
    """A command that is killed: at a fault point, or after a pause where it does not pass that."""

    words: tuple[str, ...]  # the words behind `photon`; PIPELINE stands for the file
    point: str
    kill_after_seconds: float

    def __str__(self) -> str:
        return f"photon {' '.join(self.words)}, killed at {self.point}"


# Commands of operators beside joins, and fault points that they pass.
OPERATIONS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("recover", "PIPELINE"), ("order.before_rename", "order.after_rename", "lake.after_load")),
    (("verify", "PIPELINE", "--record"), ("verify.after_files", "lake.before_commit")),
    (("registry", "gc", "PIPELINE"), (*GC_FAULT_POINTS[:2], *ROLL_FAULT_POINTS)),
    (("registry", "reshard", "PIPELINE", "1"), ROLL_FAULT_POINTS),
    (("registry", "reshard", "PIPELINE", "4"), ROLL_FAULT_POINTS),
    (("compact", "PIPELINE"), COMPACTION_FAULT_POINTS[:3]),
)
MOST_COMMAND_SECONDS = 0.5  # a command that is killed at any moment


def operations_of(chance: random.Random, kills: int) -> list[Operation]:
    """Choose so many commands, each once before any comes again."""
    made: list[Operation] = []
    while len(made) < kills:
        for words, points in chance.sample(OPERATIONS, len(OPERATIONS)):
            seconds = chance.uniform(0.05, MOST_COMMAND_SECONDS)
            made.append(Operation(words, chance.choice(points), seconds))
    return made[:kills]


def repair_of(chance: random.Random, url: str) -> Operation:
    """A repair of an endpoint that is killed."""
    words = ("registry", "repair", "PIPELINE", "--endpoint", url)
    seconds = chance.uniform(0.05, MOST_COMMAND_SECONDS)
    return Operation(words, chance.choice(REPAIR_FAULT_POINTS), seconds)


def faults_of(
    chance: random.Random,
    kills: int,
    stops: int,
    stopped_seconds: tuple[float, float],
    points: Sequence[str] = POINTS,
) -> list[Fault]:
    """Choose so many faults of each kind, in random order."""
    kinds: list[Literal["kill", "stop"]] = [*["kill"] * kills, *["stop"] * stops]  # type: ignore[list-item]
    chance.shuffle(kinds)
    made = []
    for kind in kinds:
        at_point = chance.random() < AT_A_POINT
        point = f"{chance.choice(points)}:{chance.randint(1, MOST_PASSINGS)}" if at_point else ""
        stopped = chance.uniform(*stopped_seconds) if kind == "stop" else 0.0
        made.append(Fault(kind, point, chance.uniform(0, MOST_PAUSE_SECONDS), stopped))
    return made
