"""A shift in one thread, on a clock and ledgers of a test."""

from __future__ import annotations

from photon.dispatcher.retrying import Callbacks
from photon.dispatcher.shift.ending import NO_LIMITS, ShiftLimits
from photon.dispatcher.shift.run import Engine, JoinRun
from photon.join.messages import BatchRunner
from photon.join.tasks import LocalRunner
from photon.pipeline.file import Pipeline
from photon.process.clock import Clock
from photon.registry.positions import Positions
from tests.support.one_thread import OneThread


def shift_in_turn(
    pipeline: Pipeline,
    datacenter: str,
    clock: Clock,
    ledgers: Positions,
    callbacks: Callbacks | None = None,
    runner: Engine | BatchRunner | None = None,
    limits: ShiftLimits = NO_LIMITS,
) -> JoinRun:
    """The product's own shift; nothing runs beside its batches."""
    return JoinRun(
        pipeline,
        datacenter,
        runner or LocalRunner(clock),
        limits,
        callbacks or Callbacks(),
        OneThread(clock),
        lambda: ledgers,
    )
