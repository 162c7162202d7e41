"""Histories of logs that are rotated under a datacenter's joins, told step by step.

Tests tell them of the product, and of a product without the rule.
"""

from __future__ import annotations

import gzip
import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from photon.dispatcher.retrying import Callbacks
from photon.health.status import status_of
from photon.join.messages import BatchTasks, TaskOutcome
from photon.join.tasks import LocalRunner
from tests.simulation.world import World, assert_counts

Way = Callable[[Path], None]  # takes the log's folder
Leave = Callable[[Path], None]  # the same, and the log is not in it any more
EVENTS = 60


def with_exact_globs(world: World) -> World:
    """The same world, in which each log is one file by name."""
    pipeline = world.pipeline
    small = {"batch_foreign_bytes": 1_000}
    changed = {
        "primary": pipeline.primary.model_copy(update={"files": f"queries/a.{pipeline.primary.format}"}),
        "foreign": pipeline.foreign.model_copy(update={"files": f"clicks/a.{pipeline.foreign.format}"}),
        "limits": pipeline.limits.model_copy(update=small),
    }
    world.use(pipeline.model_copy(update=changed))
    return world


def join_for(world: World, batches: int) -> None:
    """Join for so many batches, and stop with the rest unread."""
    done: list[object] = []
    world.join(callbacks=Callbacks(lambda: len(done) >= batches, done.append))


def log_folders(world: World) -> list[Path]:
    return [world.folder / "logs" / "east" / kind for kind in ("queries", "clicks")]


def no_event_is_lost_or_joined_twice(world: World, ways: Sequence[Way], turns_a_join: int = 1) -> None:
    """Each event is joined once, though logs are rotated with unread ends, also several times a join."""
    with_exact_globs(world)
    expected = Counter[str]()
    for turn, way in enumerate(ways):
        ids = [f"{turn}-{number}" for number in range(EVENTS)]
        world.queries(*(f"q{each}" for each in ids))
        world.clicks(*((f"c{each}", f"q{each}") for each in ids))
        expected.update(f"c{each}" for each in ids)
        if turn % turns_a_join == 0:
            join_for(world, batches=1)
        for folder in log_folders(world):
            way(folder)
    counts = world.join().counts
    joined = Counter(world.joined_ids())
    assert joined == expected, "events were lost or joined twice"
    assert_counts(counts, "bytes were read twice or counted as lost", duplicates=0, lost_bytes=0)


def what_moves_out_of_sight_under_a_join_is_joined(world: World, leave: Leave, at_task: bool = False) -> None:
    """Both logs grow and leave their folder while a join runs: between batches, or under a batch."""
    with_exact_globs(world)
    world.events("c1")
    moments = iter([lambda: grow_and_leave(world, leave)])

    def happens(*_: object) -> None:
        next(moments, lambda: None)()

    runner = Interrupted(world, happens) if at_task else None
    world.join(runner=runner, callbacks=None if at_task else Callbacks(lambda: False, happens))
    counts = world.join().counts
    assert world.joined_ids() == [f"c{number}" for number in range(1, 5)], "what left its folder is lost"
    assert_counts(counts, duplicates=0, lost_bytes=0)
    kept_bytes = status_of(world.pipeline, "east", world.clock).kept_log_bytes
    assert (kept_bytes > 0) is (leave is to_nowhere), "copies on this disk are not counted"


def grow_and_leave(world: World, leave: Leave) -> None:
    """Two records before the rename, one behind it by the old writer, and one in the new log."""
    world.events("c2", query="q2")
    folders = log_folders(world)
    writers = [(folder / "a.jsonl").open("ab") for folder in folders]
    for folder in folders:
        leave(folder)
    for writer, line in zip(
        writers,
        (
            b'{"query": "q3", "at": 1700000000000000, "text": "late"}\n',
            b'{"click": "c3", "query": "q3", "at": 1700000000000000}\n',
        ),
        strict=True,
    ):
        writer.write(line)
        writer.close()
    world.events("c4", query="q4")


class Interrupted:
    """A runner before whose first tasks something happens, when their batch is planned."""

    workers = 1

    def __init__(self, world: World, happens: Callable[[], None]) -> None:
        self._runner, self._happens = LocalRunner(world.clock), happens

    def run(self, tasks: BatchTasks) -> list[TaskOutcome]:
        self._happens()
        return self._runner.run(tasks)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runner, name)


def to_another_folder(folder: Path) -> None:
    away = folder.parent.parent.parent / "away"
    away.mkdir(exist_ok=True)
    log_in(folder).rename(away / f"{folder.name}.log")


def to_nowhere(folder: Path) -> None:
    log_in(folder).unlink()


def what_went_while_nobody_looked_is_counted(world: World) -> None:
    """Unread bytes of a log that is deleted between two joins are counted and named, until they are back."""
    with_exact_globs(world)
    ids = [str(number) for number in range(EVENTS)]
    world.clicks(("c", "q"))
    join_for(world, batches=1)
    world.clicks(*((f"c{each}", "q") for each in ids))
    join_for(world, batches=1)
    log = log_folders(world)[1] / "a.jsonl"
    unread_bytes = log.stat().st_size - world.read_state().files()[1].offset_bytes
    kept = log.rename(world.folder / "kept")
    result = world.join()
    assert result.counts.lost_bytes == unread_bytes, "what went is not counted"
    problems = status_of(world.pipeline, "east", world.clock).problems
    assert any("clicks/a.jsonl" in each and f"{unread_bytes:,} bytes" in each for each in problems)
    kept.rename(log)
    result = world.join()
    assert result.counts.lost_bytes == 0
    assert result.counts.foreign == EVENTS + 1


# -- ways of rotation


def log_in(folder: Path) -> Path:
    """The log of a folder, in whatever format it is."""
    return folder / ("a.csv" if any(folder.glob("a.csv*")) else "a.jsonl")


def rotated_in(folder: Path) -> Path:
    """Return the place where a rotation puts the log."""
    log = log_in(folder)
    return log.with_name(f"{log.name}.1")


def rename(folder: Path) -> None:
    shift(folder)
    log_in(folder).rename(rotated_in(folder))


def compress_at_once(folder: Path) -> None:
    rename(folder)
    compress(rotated_in(folder))


def compress_later(folder: Path) -> None:
    older = rotated_in(folder)
    if older.exists():
        compress(older)
    rename(folder)


def copy_truncate(folder: Path) -> None:
    shift(folder)
    rotated_in(folder).write_bytes(log_in(folder).read_bytes())
    log_in(folder).write_bytes(b"")


def copy_truncate_and_compress(folder: Path) -> None:
    copy_truncate(folder)
    compress(rotated_in(folder))


WAYS = (rename, compress_at_once, compress_later, copy_truncate, copy_truncate_and_compress)


def shift(folder: Path) -> None:
    """Move each rotated log one number on."""
    name = log_in(folder).name
    for number in range(9, 0, -1):
        for end in ("", ".gz"):
            path = folder / f"{name}.{number}{end}"
            if path.exists():
                path.rename(folder / f"{name}.{number + 1}{end}")


def compress(path: Path) -> None:
    compressed, written_ns = path.with_name(f"{path.name}.gz"), path.stat().st_mtime_ns
    compressed.write_bytes(gzip.compress(path.read_bytes()))
    os.utime(compressed, ns=(written_ns, written_ns))
    path.unlink()
