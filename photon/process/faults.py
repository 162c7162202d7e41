"""Fault points: named places where a test may crash the process, or have what is done there fail.

`fault_point(name)` does nothing unless the point is armed in this process, or somebody watches. A test arms
it with `arm`. A process with `PHOTON_CRASH_AT=NAME` in its environment is armed from the beginning, and so is
each process that it starts.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

FAULT_POINTS: tuple[str, ...] = (
    # in the dispatcher's process, in the order in which a batch passes them
    "plan.before_store",
    "plan.after_store",
    "batch.before_run",
    "batch.after_run",
    "claim.before",
    "claim.after",
    "side_tables.after_dead_letters",
    "side_tables.after_unjoined",
    "side_tables.after_too_old",
    "side_tables.after_left_out",
    "commit.before_main",
    "commit.after_main",
    "complete.before_transaction",
    "complete.after_transaction",
    "close.before",
    "close.after",
    "release.before_offer",
    "release.after_decided",
    "release.after_copy",
    # in a task's process
    "task.after_read",
    "task.after_index",
    "task.after_lookup",
    "task.before_candidates",
    "task.after_candidates",
    "task.after_rows_written",
    "task.after_waiting",
)

# In the dispatcher's process, where damaged waiting segments are made again or merged, and where a batch is
# abandoned.
WAITING_FAULT_POINTS: tuple[str, ...] = (
    "waiting.before_mend",
    "waiting.after_lost",
    "waiting.after_merge",
    "waiting.after_replace",
)
ABANDON_FAULT_POINTS: tuple[str, ...] = ("abandon.after_commit", "abandon.after_close")
# In the dispatcher's process, where it takes a batch that others passed over while it was silent.
TAKE_FAULT_POINTS: tuple[str, ...] = ("take.after_raised", "take.after_close")
# In the dispatcher's process, where a new epoch begins.
START_FAULT_POINTS: tuple[str, ...] = ("start.after_number", "start.after_close", "start.after_batch_0")
# In the dispatcher's process, where a batch of a silent datacenter is passed over.
RECOVERY_FAULT_POINTS: tuple[str, ...] = (
    "recover.after_passed",
    "recover.after_raised",
    "recover.after_close",
)
# In the process of recovery, which leaves a work order, then in that of the dispatcher, which takes it up.
ORDER_FAULT_POINTS: tuple[str, ...] = (
    "order.before_rename",
    "order.after_rename",
    "order.after_mended",
    "order.after_segment",
    "order.after_taken",
)
# In the process that runs the command.
ACKNOWLEDGE_FAULT_POINTS: tuple[str, ...] = ("acknowledge.after_list", "acknowledge.after_register")
RETIRE_FAULT_POINTS: tuple[str, ...] = ("retire.after_register", "retire.after_close", "retire.after_freed")
REFILL_FAULT_POINTS: tuple[str, ...] = (
    "refill.after_begun",
    "refill.after_fence",
    "refill.after_page",
    "refill.before_switch",
    "refill.after_switch",
)
REPAIR_FAULT_POINTS: tuple[str, ...] = (
    "repair.after_down",
    "repair.after_table",
    "repair.after_page",
    "repair.before_up",
    "repair.after_up",
    "repair.after_counted",
    "repair.after_compared",
)
GC_FAULT_POINTS: tuple[str, ...] = ("gc.after_boundary", "gc.after_roll", "gc.after_drop")
# In the process that begins a generation of ledgers, or meets one that is only half begun.
ROLL_FAULT_POINTS: tuple[str, ...] = ("roll.after_register", "roll.after_seal", "roll.after_opened")

# In the process of a backfill; the first one in a task of it.
BACKFILL_FAULT_POINTS: tuple[str, ...] = (
    "rebuild.in_task",
    "rebuild.after_tasks",
    "rebuild.after_note",
    "rebuild.after_removed",
    "rebuild.after_listed",
    "rebuild.after_commit",
    "rebuild.before_end",
)
# In the process of a compaction.
COMPACTION_FAULT_POINTS: tuple[str, ...] = (
    "compact.after_write",
    "compact.after_commit",
    "compact.after_checkpoint",
    "compact.after_archived",
    "compact.after_removed",
    "compact.after_vacuumed",
)

# In the process that follows a pipeline.
FOLLOW_FAULT_POINTS: tuple[str, ...] = ("follow.after_rows", "follow.after_cursor")

# In the process that lands topics, and objects.
LAND_FAULT_POINTS: tuple[str, ...] = ("land.after_write", "land.before_marker", "land.after_marker")
OBJECTS_FAULT_POINTS: tuple[str, ...] = ("land.before_name", "land.after_name")

# In the process that looks for unmatched primaries.
UNMATCHED_FAULT_POINTS: tuple[str, ...] = (
    "unmatched.before_commit",
    "unmatched.after_commit",
    "unmatched.after_document",
)

INDEX_FAULT_POINTS: tuple[str, ...] = ("index.after_merge", "index.after_replace", "index.after_reindex")

# In the process that touches a file or a table; each says which one.
DISK_FAULT_POINTS: tuple[str, ...] = ("disk.before_write", "disk.before_sync", "disk.after_sync")
LAKE_FAULT_POINTS: tuple[str, ...] = ("lake.after_load", "lake.before_commit", "lake.after_commit")

ALL_FAULT_POINTS: tuple[str, ...] = (
    *FAULT_POINTS,
    *ABANDON_FAULT_POINTS,
    *TAKE_FAULT_POINTS,
    *WAITING_FAULT_POINTS,
    *START_FAULT_POINTS,
    *RECOVERY_FAULT_POINTS,
    *ACKNOWLEDGE_FAULT_POINTS,
    *RETIRE_FAULT_POINTS,
    *REFILL_FAULT_POINTS,
    *ORDER_FAULT_POINTS,
    *REPAIR_FAULT_POINTS,
    *GC_FAULT_POINTS,
    *ROLL_FAULT_POINTS,
    *INDEX_FAULT_POINTS,
    *DISK_FAULT_POINTS,
    *LAKE_FAULT_POINTS,
    *BACKFILL_FAULT_POINTS,
    *COMPACTION_FAULT_POINTS,
    *FOLLOW_FAULT_POINTS,
    *LAND_FAULT_POINTS,
    *OBJECTS_FAULT_POINTS,
    *UNMATCHED_FAULT_POINTS,
    "verify.after_files",
)

CRASH_AT = "PHOTON_CRASH_AT"

Watcher = Callable[[str, object], None]  # told the point, and the file or folder where it has one


@dataclass
class Armed:
    """A crash to come: at the `countdown`-th passing of the point `name`."""

    name: str
    countdown: int
    crash: Callable[[], None]


_armed: Armed | None = None
_watchers: tuple[Watcher, ...] = ()
_passing = threading.Lock()  # threads of one process may pass a point at once


def kill_this_process() -> None:
    """End the process as `kill -9` does: no handler runs, nothing is flushed."""
    os.kill(os.getpid(), signal.SIGKILL)


def arm(spec: str, crash: Callable[[], None] = kill_this_process) -> None:
    """Crash at a later passing of a fault point: `NAME`, or `NAME:COUNT` for its COUNT-th passing.

    ValueError if there is no such point.
    """
    global _armed
    name, _, count = spec.partition(":")
    if name not in ALL_FAULT_POINTS:
        raise ValueError(f"no fault point is called {name!r}; there are: {', '.join(ALL_FAULT_POINTS)}")
    _armed = Armed(name, int(count or 1), crash)


def arm_by(environment: Mapping[str, str]) -> None:
    """Crash where `PHOTON_CRASH_AT` says: `NAME[:COUNT]`, or `NAME[:COUNT] MARKER` with a path.

    With MARKER only the first process to get there dies, and makes that file: so one that is started again
    goes on. Without MARKER each process that has inherited the variable dies there.
    """
    spec, _, marker = environment.get(CRASH_AT, "").partition(" ")
    if spec:
        arm(spec, partial(_kill_first, marker) if marker else kill_this_process)


def disarm() -> None:
    """Crash nowhere any more."""
    global _armed
    _armed = None


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """Tell `watcher` of every passing in this process. An error that it raises is raised at the point."""
    global _watchers
    _watchers += (watcher,)
    try:
        yield
    finally:
        _watchers = tuple(each for each in _watchers if each is not watcher)


def fault_point(name: str, place: object = None) -> None:
    """Pass the point `name`, at a file or folder: crash here if it is armed and its turn has come."""
    for watcher in _watchers:
        watcher(name, place)
    armed = _armed
    if armed is None or armed.name != name:
        return
    with _passing:
        armed.countdown -= 1
        is_now = armed.countdown == 0
    if is_now:
        disarm()
        armed.crash()


def _kill_first(marker: str) -> None:
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return
    kill_this_process()


arm_by(os.environ)
