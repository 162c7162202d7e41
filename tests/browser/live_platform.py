"""Run what the browser looks at: Dagster, a local registry, two datacenters with live traffic."""

from __future__ import annotations

import json
import os
import re
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from examples.demo.dagster_stack import DagsterStack, stack_in
from examples.demo.folder import held_folder
from examples.demo.process_tree import ProcessTree
from examples.demo.traffic import Traffic
from examples.demo.traffic_process import generating
from photon.dispatcher.shift.lease import holder_of, lease_status_of
from photon.pipeline.file import Pipeline, load_pipeline
from photon.process.clock import MICROSECONDS, SystemClock
from photon.storage.delta import is_table
from photon.upkeep.backfill.days import day_of
from photon.verification.days import DAY_US
from tests.e2e.process_marks import soon
from tests.support.registry_writer import writing_in
from tests.support.stopped_processes import stopped

PIPELINE = "search_clicks"
DATACENTERS = ("east", "west")
# On two quiet cores a verification takes half a minute; on two that others kept busy it has taken eight.
PATIENCE_SECONDS = 900.0
LIVE_SECONDS = 3_600.0  # longer than all tests together
PAST_DAYS = 2  # not yesterday: shortly after midnight that day may still be open
PAST_SECONDS = 20.0
TEN_O_CLOCK_US = 10 * 3_600 * MICROSECONDS  # since the day began
# Reports come soon. No schedule does more: a scheduled recovery would repair what people repair here.
SETTINGS = """\
tailing: {idle_after: 3s}
shift: {idle: 20s}
verification: {cron: "0 0 1 1 *"}
recovery: {cron: "0 0 1 1 *"}
compaction: {cron: "0 0 1 1 *"}
registry: {state: {cron: "0 0 1 1 *"}}
backfill: {first_look_days: 0}
"""


@dataclass(frozen=True)
class LivePlatform:
    """A platform that runs, and what lies behind its UI."""

    pipeline: Pipeline
    stack: DagsterStack
    tree: ProcessTree
    past: Traffic  # traffic of a day that is closed

    @property
    def url(self) -> str:
        return self.stack.url

    @property
    def past_day(self) -> date:
        return day_of(self.past.start_us)

    def log_past_day(self) -> None:
        """Log a past day late, in files of its own, and wait until it is joined.

        The sensors of closed days must have passed it before: else they launch a fill of it themselves.
        """
        log = self.stack.folder.log("daemon")
        looks = [rf"{PIPELINE}__{name}__closed_days skipped: \S+ is not closed yet" for name in DATACENTERS]
        self.wait(lambda: all(re.search(look, log.read_text()) for look in looks), "a look at closed days")
        folder = self.stack.folder.path
        self.past.write_all(folder / "past")
        for side in ("queries", "clicks"):
            for name in DATACENTERS:
                (folder / "past" / "logs" / name / side).rename(folder / "logs" / name / side / "past")
        clicks = Counter(self.past.expected_outcomes().joined.keys())
        self.wait(lambda: self.rows_of_all(self.past_day) == clicks, "the rows of the past day")

    def table(self, datacenter: str) -> DeltaTable:
        """The joined events of a datacenter."""
        return DeltaTable(self.pipeline.datacenters[datacenter].lake / "joined_events")

    def rows_of_clicks(self, datacenter: str, day: date | None = None) -> Counter[str]:
        """Count the rows that each click has in a datacenter's table, of all days or of one."""
        if not is_table(self.pipeline.datacenters[datacenter].lake / "joined_events"):
            return Counter()
        found = self.table(datacenter).to_pyarrow_table(columns=["_event_id", "_event_time"])
        if day is not None:
            found = found.filter(pc.equal(pc.cast(found["_event_time"], "date32"), day))
        return Counter(found["_event_id"].to_pylist())

    def rows_of_all(self, day: date | None = None) -> Counter[str]:
        """The same over all datacenters."""
        return sum((self.rows_of_clicks(name, day) for name in DATACENTERS), Counter())

    def remove_rows_of_past_day(self) -> tuple[str, int]:
        """Delete half of the rows of the datacenter that has most; return its name, and how many went."""
        datacenter = max(DATACENTERS, key=lambda name: self.rows_of_clicks(name, self.past_day).total())
        ids = sorted(self.rows_of_clicks(datacenter, self.past_day))[::2]
        listed = ", ".join(f"'{id}'" for id in ids)

        def is_deleted() -> bool:
            try:
                deleted = self.table(datacenter).delete(f"_event_id IN ({listed})")
            except CommitFailedError:  # a shift has committed meanwhile
                return False
            assert deleted["num_deleted_rows"] == len(ids)
            return True

        self.wait(is_deleted, "a moment between two commits")
        return datacenter, len(ids)

    def logged_clicks(self) -> set[str]:
        """The ids of all clicks that are in the logs now; all of them have their queries there."""
        logs = self.pipeline.datacenters[DATACENTERS[0]].logs
        assert isinstance(logs, Path)
        lines = (
            line for file in logs.glob("clicks/**/*.jsonl") for line in file.read_text().splitlines(True)
        )
        return {json.loads(line)["click_id"] for line in lines if line.endswith("\n")}

    def wait_until_each_click_has_its_row(self) -> None:
        """Wait until each click that is logged now is joined: once, over all datacenters."""
        logged = self.logged_clicks()
        self.wait(lambda: logged <= self.rows_of_all().keys(), "a row of each click")
        assert set(self.rows_of_all().values()) == {1}

    def run_of(self, datacenter: str) -> str:
        """The id of the run that has the datacenter's lease, or had it last."""
        lease = lease_status_of(self.pipeline.datacenters[datacenter].state).lease
        assert lease is not None
        return lease.run

    def is_run(self, datacenter: str) -> bool:
        """Say whether a shift runs the datacenter."""
        return holder_of(self.pipeline.datacenters[datacenter].state) is not None

    def kill(self, datacenter: str) -> None:
        """Kill the datacenter's shift, as `kill -9` does."""
        process = holder_of(self.pipeline.datacenters[datacenter].state)
        assert process is not None, f"nobody runs {datacenter}"
        os.kill(process, signal.SIGKILL)

    @contextmanager
    def registry_stands_still(self) -> Iterator[None]:
        """A process stands still in the middle of a transaction of the registry."""
        with writing_in(self.stack.folder.path / "state" / "registry") as process, stopped(process):
            yield

    def wait_until_well(self) -> None:
        """Wait until a shift runs each datacenter and has joined something."""
        self.wait(lambda: all(self.is_run(n) and self.rows_of_clicks(n) for n in DATACENTERS), "rows of both")

    def wait(self, true: Callable[[], bool], what: str, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until something is true. AssertionError names what did not come, or a process that ended."""

        def is_true() -> bool:
            assert self.tree.ended() == {}, f"ended by themselves; look at {self.stack.folder.path}/*.log"
            return true()

        assert soon(is_true, seconds), f"waited {seconds:.0f} s for {what}"


@contextmanager
def live_platform(path: Path) -> Iterator[LivePlatform]:
    """Run a platform below the folder, whose datacenters both join; end all its processes afterwards."""
    now_us = SystemClock().now_us()
    seed = now_us // MICROSECONDS
    live = Traffic(seed, DATACENTERS, 50, 10, LIVE_SECONDS)
    past = replace(
        live,
        seed=seed - 1,
        duration_seconds=PAST_SECONDS,
        start_us=now_us - now_us % DAY_US - PAST_DAYS * DAY_US + TEN_O_CLOCK_US,
    )
    with held_folder(path) as folder:
        pipeline = load_pipeline(live.write_pipeline(folder.path, PIPELINE, SETTINGS))
        stack = stack_in(folder, ui_port=0)
        states = [place.state for place in pipeline.datacenters.values()]
        with ProcessTree(states, [folder.lock.fileno()]) as tree, generating(live, folder.path):
            platform = LivePlatform(pipeline, stack, tree, past)
            stack.start(tree, lambda true, _seconds, what: platform.wait(true, what))
            platform.wait_until_well()
            yield platform
