"""What the user of a demo sees meanwhile: a live table on a terminal, plain lines elsewhere.

Both on standard error; the summary is `summary`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from examples.demo.scenario import Facts, Kill, is_settled
from photon.clock import MICROSECONDS
from photon.shift.status import DatacenterStatus

if TYPE_CHECKING:
    from rich.console import RenderableType

LINE_EVERY_SECONDS = 5.0
SHOW_EVERY_SECONDS = 0.5
RUN_ID_SHOWN = 8  # as Dagster's UI shorts it
SILENT_SECONDS = 5.0  # no sign of life for so long is worth a word; the lease ends after 10


@dataclass(frozen=True)
class Row:
    """What is shown of one datacenter."""

    datacenter: str
    run: str
    process: str
    batch: int
    joined: int
    joined_elsewhere: int
    waiting: int
    unjoinable: int
    dead_letters: int
    lag_seconds: float | None
    p90_seconds: float
    says: str

    def as_line(self) -> str:
        """For a plain log."""
        return (
            f"{self.datacenter}: run {self.run}, process {self.process}, batch {self.batch}, "
            f"{self.joined:,} joined, {self.joined_elsewhere:,} elsewhere, {self.waiting} waiting, "
            f"{self.unjoinable} unjoinable, {self.dead_letters} dead letters, "
            f"lag {_seconds(self.lag_seconds)}, p90 {_seconds(self.p90_seconds)}: {self.says}"
        )

    def as_cells(self) -> tuple[str, ...]:
        """For a table with `HEADER`."""
        counts = (
            self.batch, self.joined, self.joined_elsewhere, self.waiting, self.unjoinable, self.dead_letters
        )  # fmt: skip
        times = (_seconds(self.lag_seconds), _seconds(self.p90_seconds))
        return self.datacenter, self.run, self.process, *(f"{count:,}" for count in counts), *times


# With numbers of a usual size they fit a terminal of 80 columns.
HEADER = (
    "", "run", "pid", "batch", "joined", "elsewhere", "waiting", "given up", "dead", "lag", "p90",
)  # fmt: skip


def rows_of(facts: Facts, p90_seconds: Mapping[str, float]) -> list[Row]:
    """What to show of each datacenter."""
    return [
        Row(
            datacenter=name,
            run=(seen.running_run or "-")[:RUN_ID_SHOWN],
            process=str(seen.running_process or "-"),
            batch=seen.batch,
            joined=seen.counts.get("joined", 0),
            joined_elsewhere=seen.counts.get("joined_elsewhere", 0),
            waiting=sum(seen.waiting.values()),
            unjoinable=seen.counts.get("unjoinable", 0),
            dead_letters=seen.counts.get("dead_letters", 0),
            lag_seconds=seen.watermark_lag_seconds,
            p90_seconds=p90_seconds.get(name, math.nan),
            says=words(name, seen, facts.kill, facts.now_us, facts.newest_row_us.get(name, 0)),
        )
        for name, seen in facts.datacenters.items()
    ]


def words(datacenter: str, seen: DatacenterStatus, kill: Kill | None, now_us: int, newest_row_us: int) -> str:
    """What a datacenter is about."""
    is_killed = kill is not None and kill.datacenter == datacenter and newest_row_us <= kill.gone_us
    if seen.running_process is None:
        if is_killed:
            return "killed; its next shift has to come"
        if is_settled(seen) and seen.batch:
            return "nothing to do: no shift"
        return "waits for its first shift" if not seen.batch else "work is there: a shift has to come"
    silent_us = now_us - (seen.last_sign_of_life_us or now_us)
    if silent_us > SILENT_SECONDS * MICROSECONDS:
        return f"no sign of life for {silent_us / MICROSECONDS:.0f} s"
    if is_killed:
        return "a new shift takes up what the killed one left"
    return "waits for logs to grow" if is_settled(seen) else "joins"


class View(Protocol):
    """Shows a demo while it goes on."""

    def says(self, text: str) -> None:
        """Something happened that stays to be read."""

    def shows(self, rows: list[Row], phase: str, now_us: int) -> None:
        """How things stand now."""

    def close(self) -> None:
        """Nothing more comes."""


class PlainView:
    """Lines on standard error."""

    def __init__(self) -> None:
        self._said_us = 0

    def says(self, text: str) -> None:
        print(f"{_clock_time()} {text}", file=sys.stderr, flush=True)

    def shows(self, rows: list[Row], phase: str, now_us: int) -> None:
        if now_us - self._said_us >= LINE_EVERY_SECONDS * MICROSECONDS:
            self._said_us = now_us
            for row in rows:
                self.says(row.as_line())

    def close(self) -> None:
        pass


class TerminalView:
    """A table that changes in place, below what happened."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._shown_us = 0
        self._live = Live(console=Console(stderr=True), auto_refresh=False)
        self._live.start()

    def says(self, text: str) -> None:
        self._live.console.print(f"[dim]{_clock_time()}[/dim] {text}", highlight=False)

    def shows(self, rows: list[Row], phase: str, now_us: int) -> None:
        if now_us - self._shown_us >= SHOW_EVERY_SECONDS * MICROSECONDS:
            self._shown_us = now_us
            self._live.update(_picture(rows, phase), refresh=True)

    def close(self) -> None:
        self._live.stop()


def open_view() -> View:
    """The view that fits standard error."""
    return TerminalView() if sys.stderr.isatty() else PlainView()


def _picture(rows: list[Row], phase: str) -> RenderableType:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for number, name in enumerate(HEADER):
        table.add_column(name, justify="left" if number < 2 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row.as_cells())
    now = [Text(f"{row.datacenter}: {row.says}", style="dim") for row in rows]
    return Group(Text(phase, style="bold"), table, *now)


def _seconds(value: float | None) -> str:
    return "-" if value is None or math.isnan(value) else f"{value:.1f} s"


def _clock_time() -> str:
    return datetime.now().strftime("%H:%M:%S")
