"""Dagster's instance as a code server keeps it open between the ticks of its sensors.

`context.instance` opens storage anew in each tick, and compares its tables' revision: four fifths of the work
of a tick, 0.1 s of a core. All ticks of a code server refer to one instance until somebody changes Dagster's
settings.
"""

from __future__ import annotations

import threading

from dagster import DagsterInstance, SensorEvaluationContext
from dagster._core.instance.ref import InstanceRef


class KeptInstance:
    """The instance to which the last tick referred; threads share it, as those of Dagster's webserver do."""

    def __init__(self) -> None:
        self._opening = threading.Lock()
        self._kept: tuple[InstanceRef, DagsterInstance] | None = None

    def of(self, context: SensorEvaluationContext) -> DagsterInstance:
        """The instance to which a tick refers; without a reference the one that it has, as in a test."""
        reference = context.instance_ref
        if reference is None:
            return context.instance
        with self._opening:
            # An earlier one is left to its ticks; it holds no connection, so nothing has to close it.
            if self._kept is None or self._kept[0] != reference:
                self._kept = reference, DagsterInstance.from_ref(reference)
            return self._kept[1]


KEPT = KeptInstance()
