"""Generated traffic written as time goes by: each line when it is due, with the time of its writing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from examples.demo.stories import Click
from examples.demo.traffic import Traffic, TrafficWriter
from photon.pipeline.location import Location
from photon.process.clock import MICROSECONDS, Clock, SystemClock

TICK_SECONDS = 0.01  # the longest that a line waits before it is written


@dataclass(frozen=True, slots=True)
class LiveRun:
    """All that a live run has written."""

    lines: int  # over all datacenters
    bytes: int
    most_behind_seconds: float  # the longest that a line was overdue: the machine was busy, or it is a tick


class LiveTraffic:
    """Appends a traffic below `folder`/logs in real time, whole lines in every tick.

    Each line carries `logged_at`, the time of its first writing; copies to several datacenters
    are the same bytes. So a copy that a story delays shows the time of the first one.
    """

    def __init__(
        self,
        traffic: Traffic,
        folder: Path,
        clock: Clock | None = None,
        tick_seconds: float = TICK_SECONDS,
        logs: Mapping[str, Location] | None = None,
    ) -> None:
        self._traffic, self._folder, self._logs = traffic, folder, logs
        self._clock = clock or SystemClock()
        self._tick_seconds = tick_seconds

    def run(
        self, should_stop: Callable[[], bool] = lambda: False, is_calm: Callable[[], bool] = lambda: False
    ) -> LiveRun:
        """Write until the traffic ends or `should_stop`; then every file is closed.

        While `is_calm`, no click is logged that was not logged anywhere before; queries are.
        """
        with TrafficWriter(self._traffic, self._folder, self._logs) as writer:
            return self._write(writer, should_stop, is_calm)

    def _write(
        self, writer: TrafficWriter, should_stop: Callable[[], bool], is_calm: Callable[[], bool]
    ) -> LiveRun:
        start_us = now_us = self._clock.now_us()
        copies: dict[int, tuple[bytes, int]] = {}  # a line's bytes lead to how many got it already
        lines = bytes_ = most_behind_us = 0
        for delivery in self._traffic.deliveries():
            due_us = start_us + round(delivery.at_s * MICROSECONDS)
            while now_us < due_us:
                writer.flush()
                if should_stop():
                    return LiveRun(lines, bytes_, most_behind_us / MICROSECONDS)
                self._clock.sleep(self._tick_seconds)
                now_us = self._clock.now_us()
            data, given = copies.pop(delivery.serial, (b"", 0))
            if not given and isinstance(delivery.line.event, Click) and is_calm():
                continue
            if not given:
                data = self._traffic.render_line(delivery.line, start_us, self._clock.now_us())
            if given + 1 < len(self._traffic.datacenters):
                copies[delivery.serial] = (data, given + 1)
            writer.put(delivery, data)
            lines, bytes_ = lines + 1, bytes_ + len(data)
            most_behind_us = max(most_behind_us, now_us - due_us)
        return LiveRun(lines, bytes_, most_behind_us / MICROSECONDS)
