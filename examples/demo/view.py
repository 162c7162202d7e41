"""What the user of a demo sees on standard error: a table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from examples.demo.scenario import Facts, Kill, is_idle
from photon.clock import MICROSECONDS
from photon.shift.status import DatacenterStatus

SHOW_EVERY_SECONDS = {True: 0.5, False: 5.0}  # by whether it is a terminal
RUN_ID_SHOWN = 8  # as Dagster's UI shorts it
SILENT_SECONDS = 5.0  # no sign of life for so long is worth a word; the lease ends after 10
# With numbers of a usual size they fit a terminal of 80 columns.
HEADER = ("run", "pid", "batch", "joined", "elsewhere", "waiting", "given up", "dead", "lag", "p90")


def cells(seen: DatacenterStatus, p90_seconds: float) -> tuple[str, ...]:
    """What is shown of one datacenter, below `HEADER`."""
    names = ("joined", "joined_elsewhere", "unjoinable", "dead_letters")
    joined, elsewhere, unjoinable, dead = (seen.counts.get(name, 0) for name in names)
    counts = (seen.batch, joined, elsewhere, sum(seen.waiting.values()), unjoinable, dead)
    return (
        (seen.running_run or "-")[:RUN_ID_SHOWN],
        str(seen.running_process or "-"),
        *(f"{count:,}" for count in counts),
        _seconds(seen.watermark_lag_seconds),
        _seconds(p90_seconds),
    )


def words(datacenter: str, seen: DatacenterStatus, kill: Kill | None, now_us: int, newest_row_us: int) -> str:
    """What a datacenter does now."""
    is_killed = kill is not None and kill.datacenter == datacenter and newest_row_us <= kill.gone_us
    if seen.running_process is None:
        if is_killed:
            return "killed; its next shift has to come"
        if is_idle(seen) and seen.batch:
            return "nothing to do: no shift"
        return "waits for its first shift" if not seen.batch else "work is there: a shift has to come"
    silent_us = now_us - (seen.last_sign_of_life_us or now_us)
    if silent_us > SILENT_SECONDS * MICROSECONDS:
        return f"no sign of life for {silent_us / MICROSECONDS:.0f} s"
    if is_killed:
        return "a new shift takes up what the killed one left"
    return "waits for logs to grow" if is_idle(seen) else "joins"


class View:
    """Shows a demo while it goes on."""

    def __init__(self, live: Live | None) -> None:
        """`live`: the table on a terminal; None for plain lines."""
        self._live = live
        self._shown_us = 0

    def says(self, text: str) -> None:
        """Something happened that stays to be read."""
        time = datetime.now().strftime("%H:%M:%S")
        if self._live is None:
            print(f"{time} {text}", file=sys.stderr, flush=True)
        else:
            self._live.console.print(f"[dim]{time}[/dim] {text}", highlight=False)

    def shows(self, facts: Facts, p90_seconds: Mapping[str, float], phase: str) -> None:
        """Each datacenter now; does nothing if it was shown just before."""
        every_seconds = SHOW_EVERY_SECONDS[self._live is not None]
        if facts.now_us - self._shown_us < every_seconds * MICROSECONDS:
            return
        self._shown_us = facts.now_us
        table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
        for number, name in enumerate(("", *HEADER)):
            table.add_column(name, justify="left" if number < 2 else "right", no_wrap=True)
        doing = []
        for name, seen in facts.datacenters.items():
            shown = cells(seen, p90_seconds.get(name, math.nan))
            does = words(name, seen, facts.kill, facts.now_us, facts.newest_row_us.get(name, 0))
            table.add_row(name, *shown)
            doing.append(Text(f"{name}: {does}", style="dim"))
            if self._live is None:
                self.says(as_line(name, shown, does))
        if self._live is not None:
            self._live.update(Group(Text(phase, style="bold"), table, *doing), refresh=True)


def as_line(datacenter: str, shown: tuple[str, ...], does: str) -> str:
    """The cells of one datacenter as a plain line."""
    named = (f"{name} {cell}" for name, cell in zip(HEADER, shown, strict=True))
    return f"{datacenter}: {', '.join(named)}: {does}"


@contextmanager
def open_view() -> Iterator[View]:
    """The view that fits standard error; says so where Ctrl-C ends the demo."""
    live = Live(console=Console(stderr=True), auto_refresh=False) if sys.stderr.isatty() else None
    view = View(live)
    if live is not None:
        live.start()
    try:
        yield view
    except KeyboardInterrupt:
        view.says("everything that was started is being ended; once more Ctrl-C: at once")
        raise
    finally:
        if live is not None:
            live.stop()


def _seconds(value: float | None) -> str:
    return "-" if value is None or math.isnan(value) else f"{value:.1f} s"
