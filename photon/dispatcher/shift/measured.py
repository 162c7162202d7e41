"""Keep what a datacenter's shifts measure in a small file of its state; others may read it at any time.

A shift adds to what those before it in the same epoch have written, the killed ones too. A new epoch begins
at 0. The file is for monitoring alone: one that can't be read or written stops nothing.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from pathlib import Path

from photon.process.clock import MICROSECONDS, Clock
from photon.process.measures import Measures, Meter
from photon.storage.full_disks import why_not
from photon.storage.sync import in_place_of

MEASURED_FILE = "measured.json"
FORMAT = 1
EVERY_SECONDS = 5  # Prometheus asks every 15 s

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ShiftMeasures:
    """The measures of all shifts of an epoch so far."""

    epoch: str
    written_us: int
    measures: Measures


def measured_in(state: Path) -> ShiftMeasures | None:
    """Read the file in a state folder; None if there is none, or none that this Photon reads."""
    try:
        stored = json.loads((state / MEASURED_FILE).read_text())
        if stored["format"] != FORMAT:
            return None
        return ShiftMeasures(stored["epoch"], stored["written_us"], Measures.from_json(stored))
    except (OSError, ValueError, KeyError, TypeError):
        return None


class MeasuredFile:
    """Takes measures from meters, and writes them every few seconds."""

    def __init__(self, state: Path, epoch: str, meters: tuple[Meter, ...], clock: Clock) -> None:
        self._path, self._epoch, self._meters, self._clock = state / MEASURED_FILE, epoch, meters, clock
        before = measured_in(state)
        self._measures = before.measures if before is not None and before.epoch == epoch else Measures()
        self._due_us = 0
        self._is_told = False

    def total(self, name: str) -> tuple[int, float]:
        """How many times this name has been measured, whatever its labels, and the sum of their seconds."""
        found = [each for key, each in self._measures.histograms.items() if key[0] == name]
        return sum(sum(each.counts) for each in found), sum(each.sum_seconds for each in found)

    def write_if_due(self) -> None:
        """Write it, if it was last written a few seconds ago."""
        if self._clock.now_us() >= self._due_us:
            self.write()

    def write(self) -> None:
        """Write it now, as one that is whole at any moment; a disk that does not take it is told once."""
        now_us = self._clock.now_us()
        self._due_us = now_us + EVERY_SECONDS * MICROSECONDS
        for meter in self._meters:
            self._measures.add(meter.take())
        text = json.dumps({
            "format": FORMAT, "epoch": self._epoch, "written_us": now_us, **self._measures.as_json(),
        })  # fmt: skip
        try:
            with in_place_of(self._path) as unfinished:
                unfinished.write_text(text)  # not synced: what a power cut takes is missing from a graph
        except OSError as error:
            if not self._is_told:
                log.warning(
                    "what was measured is not stored, and metrics lack it: %s", why_not(error, self._path)
                )
            self._is_told = True
