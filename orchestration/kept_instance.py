"""Dagster's instance as a code server keeps it open between the ticks of its sensors.

`context.instance` opens storage anew in each tick, and compares its tables' revision: four fifths of the work
of a tick, 0.1 s of a core. A code server lives as long as its code, and is asked with one and the same
reference until somebody changes Dagster's settings.
"""

from __future__ import annotations

import threading

from dagster import DagsterInstance, SensorEvaluationContext
from dagster._core.instance.ref import InstanceRef


class KeptInstance:
    """The instance of the last reference; threads share it, as those of Dagster's webserver do."""

    def __init__(self) -> None:
        self._opening = threading.Lock()
        self._kept: tuple[InstanceRef, DagsterInstance] | None = None

    def of(self, context: SensorEvaluationContext) -> DagsterInstance:
        """The instance that a tick belongs to. One that was handed in, as by a test, is taken as it is."""
        reference = context.instance_ref
        if reference is None:
            return context.instance
        with self._opening:
            # An earlier one is left to its ticks; it holds no connection, so nothing has to close it.
            if self._kept is None or self._kept[0] != reference:
                self._kept = reference, DagsterInstance.from_ref(reference)
            return self._kept[1]


KEPT = KeptInstance()
