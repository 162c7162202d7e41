"""Logs that are moved, copied, truncated and deleted while somebody follows them, holds them, or is away.

    python -m tests.unit.rotating_history --seeds 2000

The history knows every line that was written, and where its file lies. In the end each line was read once, or
lies nowhere and its file is told as one whose bytes are lost or may be.
"""

from __future__ import annotations

import argparse
import gzip
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from photon.logs.tailing.open_files import LINGERS_US
from photon.logs.tailing.rotation import TELLING_BYTES
from photon.pipeline.sections import Limits, Tailing
from photon.process.clock import MICROSECONDS, microseconds
from tests.unit.tailing_world import World

STEPS = 30
IS_BEGUN_ALIKE = 0.6  # in this share of the seeds all logs have the same first line
MOST_PAUSES = 4  # together shorter than `tailing.idle_after`, after which a file counts as one at rest
IDLE_US = microseconds(Tailing().idle_after)
DAY_US = 86_400 * MICROSECONDS


@dataclass(eq=False)
class Written:
    """The bytes of one log as its writer knows them, wherever they lie."""

    log: str  # the name that it was begun under
    place: Path | None  # the path where it lies; None: it was deleted
    writer: int  # the descriptor that the writer has open, or -1
    is_sought: bool  # some log of this name was followed before it was begun
    lines: list[bytes] = field(default_factory=list)
    number: int = 0  # Photon's number of the file; 0: no look has seen a record of it
    # Lines that were seen of it under a rotation's name, where nobody knows it to grow.
    seen_at_rest: int | None = None
    grows_late: bool = False
    seen_lines: int = -1  # lines that a look has seen of it
    grown_us: int = 0  # the time of the last look that saw more lines than the look before
    is_telling: bool = False  # a look has seen more of it than what all files begin with
    held_by: int = 0  # the process that has had it open since a look


@dataclass(eq=False)
class Dropped:
    """A line that came between a copy and the truncation."""

    line: bytes
    copy: Written
    held_by: int  # the process that had the log open then
    is_seen: bool = False  # a look has seen the copy since


class History:
    """One history; its seed decides what happens."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.folder = folder
        self.world = World(folder / "logs", "c/*.log", "jsonl", Limits())
        self.now_us = DAY_US
        self.process = 0  # the one that runs; 0: none
        self.processes = 0
        self.files: list[Written] = []
        self.dropped: list[Dropped] = []
        self.read_lines: Counter[bytes] = Counter()
        self.followed: set[str] = set()
        self.keeps_time = self.chance.random() < 0.5  # else clocks are set back, and copies keep any times
        self.count = self.pauses = 0
        alike = b"# the same in each log" + b"." * self.chance.choice((0, 600, 2_000)) + b"\n"
        self.first_line = alike if self.chance.random() < IS_BEGUN_ALIKE else b""
        for name in ("app", "web", "old"):
            (folder / "logs" / name).mkdir(parents=True)
        for folder_ in (folder / "logs" / "c", folder / "pods", folder / "away"):
            folder_.mkdir()
        self.places = {"app": folder / "logs/c/app.log", "web": folder / "pods/web.log"}
        (folder / "logs/c/web.log").symlink_to("../../pods/web.log")

    def run(self) -> None:
        """Play the history; raise AssertionError if something does not hold."""
        try:
            self.start()
            for _ in range(STEPS):
                self.chance.choice(self.deeds())()
            self.come_to_rest()
        finally:
            if self.world.held is not None:
                self.world.held.close()
            for file in self.files:
                self.close(file)

    def deeds(self) -> list[object]:
        """List the steps that may come next, likely ones several times."""
        always = [self.append, self.append, self.append, self.append_late, self.rename, self.move_away]
        always += [self.delete_log, self.copy_and_truncate, self.delete_rotated, self.compress, self.pause]
        always += [self.move_on, self.close_one, self.come_back]
        if self.process:
            return [*always, self.look, self.read, self.read, self.read_some, self.read, self.stop, self.kill]
        return [*always, self.start]

    # -- who writes

    def append(self) -> None:
        """Write to a log, and begin it if it is not there."""
        name = self.chance.choice(sorted(self.places))
        self.write(self.current(name) or self.begin(name))

    def append_late(self) -> None:
        """Write to any file that somebody has open, wherever it is."""
        open_ = [file for file in self.files if file.writer >= 0]
        if open_:
            self.write(self.chance.choice(open_))

    def begin(self, name: str) -> Written:
        place = self.places[name]
        writer = os.open(place, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND)
        os.write(writer, self.first_line)
        self.files.append(Written(name, place, writer, name in self.followed))
        return self.files[-1]

    def write(self, file: Written) -> None:
        for _ in range(self.chance.randrange(1, 4)):
            self.count += 1
            line = b"line %d" % self.count + b"." * self.chance.choice((0, 0, 40, 400)) + b" %d" % self.count
            os.write(file.writer, line + b"\n")
            file.lines.append(line)
        self.touch(file)

    def touch(self, file: Written) -> None:
        self.now_us += MICROSECONDS // 10  # a disk that counts no finer would hide it
        back_us = 0 if self.keeps_time else self.chance.choice((0, 60, 3_600)) * MICROSECONDS
        os.utime(file.writer, ns=((self.now_us - back_us) * 1_000,) * 2)

    def put_time(self, place: Path) -> None:
        """Have a file that nobody follows by this name say any time."""
        if not self.keeps_time:
            time_us = self.now_us + self.chance.choice((-self.now_us, -3_600, -60, 0, 86_400)) * MICROSECONDS
            os.utime(place, ns=(max(1, time_us) * 1_000,) * 2)

    def close_one(self) -> None:
        moved = [file for file in self.files if file.writer >= 0 and not self.is_current(file)]
        if moved:
            self.close(self.chance.choice(moved))

    def close(self, file: Written) -> None:
        if file.writer >= 0:
            os.close(file.writer)
        file.writer = -1

    def current(self, name: str) -> Written | None:
        """The file that the pattern finds for a log."""
        return next((file for file in self.files if file.place == self.places[name]), None)

    def is_current(self, file: Written) -> bool:
        return file.place == self.places[file.log]

    def a_log(self) -> Written | None:
        logs = [file for name in sorted(self.places) if (file := self.current(name)) is not None]
        return self.chance.choice(logs) if logs else None

    # -- who rotates

    def rename(self) -> None:
        """Rename a log to `.1` beside it, and older ones one number on."""
        if (file := self.a_log()) is not None:
            self.move(file, self.make_room(file.log))

    def move_away(self) -> None:
        """Move a log out of its folder: below the logs folder, or elsewhere."""
        if (file := self.a_log()) is not None:
            self.count += 1
            folder = self.chance.choice((self.folder / "logs/old", self.folder / "away"))
            self.move(file, folder / f"{file.log}.log.{self.count}")

    def move_on(self) -> None:
        """Move a file that was moved away before."""
        moved = [
            file
            for file in self.files
            if file.place is not None and file.place.parent.name in ("old", "away")
        ]
        if moved:
            file = self.chance.choice(moved)
            self.count += 1
            assert file.place is not None
            end = ".gz" if file.place.name.endswith(".gz") else ""
            self.move(file, self.folder / "away" / f"{file.log}.{self.count}{end}")

    def come_back(self) -> None:
        """A file that was moved away is put into the folder of its log, by a name of a rotation."""
        moved = [file for file in self.files if file.place is not None and file.place.parent.name == "away"]
        if moved and self.chance.random() < 0.5:
            file = self.chance.choice(moved)
            assert file.place is not None
            end = ".gz" if file.place.name.endswith(".gz") else ""
            place = self.make_room(file.log)
            self.move(file, place.with_name(place.name + end))

    def delete_log(self) -> None:
        if (file := self.a_log()) is not None:
            self.delete(file)

    def delete_rotated(self) -> None:
        rotated = [file for file in self.files if file.place is not None and not self.is_current(file)]
        if rotated:
            self.delete(self.chance.choice(rotated))

    def copy_and_truncate(self) -> None:
        """Copy a log, with its time or without, and empty it, or write it anew, in its place."""
        if (file := self.a_log()) is None:
            return
        place = self.make_room(file.log)
        (shutil.copy2 if self.chance.random() < 0.5 else shutil.copy)(self.places[file.log], place)
        if place.stat().st_mtime_ns > self.now_us * 1_000:
            os.utime(place, ns=(self.now_us * 1_000, self.now_us * 1_000))
        self.put_time(place)
        copied = len(file.lines)
        if self.process and self.chance.random() < 0.3:
            self.chance.choice((self.look, self.read))()
        if self.chance.random() < 0.3:
            self.write(file)
        os.ftruncate(file.writer, 0)
        begins_alike = self.chance.random() < 0.7
        if begins_alike:
            os.write(file.writer, self.first_line)
        copy = Written(file.log, place, -1, file.is_sought, file.lines[:copied], file.number)
        new = Written(file.log, file.place, file.writer, file.log in self.followed)
        for dropped in self.dropped:
            if dropped.copy is file:  # an older copy had become the log
                dropped.copy = copy
        is_held = self.process and file.held_by == self.process
        # A look that saw only the line that all logs begin with may take the new log for a grown one.
        can_be_known = file.number and not (begins_alike and self.first_line and file.seen_lines <= 0)
        self.dropped += [
            Dropped(line, copy, self.process if is_held else 0)
            for line in file.lines[copied:]
            if can_be_known
        ]
        self.files[self.files.index(file) : self.files.index(file) + 1] = [copy, new]
        self.touch(new)
        if self.chance.random() < 0.5:
            self.write(new)

    def compress(self) -> None:
        """Compress a rotated file that nobody writes any more."""
        rotated = [file for file in self.files if file.place is not None and not self.is_current(file)]
        rotated = [file for file in rotated if file.writer < 0 and not file.place.name.endswith(".gz")]  # type: ignore[union-attr]
        if rotated:
            file = self.chance.choice(rotated)
            assert file.place is not None
            compressed, written_ns = (
                file.place.with_name(f"{file.place.name}.gz"),
                file.place.stat().st_mtime_ns,
            )
            compressed.write_bytes(gzip.compress(file.place.read_bytes()))
            os.utime(compressed, ns=(written_ns, written_ns))
            self.put_time(compressed)
            file.place.unlink()
            file.place, file.held_by = compressed, 0

    def make_room(self, name: str) -> Path:
        """Move each rotated file of a log one number on, and return the place of the next one."""
        first = self.places[name].with_name(f"{name}.log.1")
        for number in range(20, 0, -1):
            for end in ("", ".gz"):
                place = first.with_name(f"{name}.log.{number}{end}")
                for file in self.files:
                    if file.place == place:
                        self.move(file, first.with_name(f"{name}.log.{number + 1}{end}"))
        return first

    def move(self, file: Written, place: Path) -> None:
        assert file.place is not None
        file.place.rename(place)
        file.place = place
        if place not in self.places.values():
            self.put_time(place)

    def delete(self, file: Written) -> None:
        assert file.place is not None
        file.place.unlink()
        file.place = None

    # -- who follows

    def start(self) -> None:
        self.world.hold()
        self.processes += 1
        self.process = self.processes
        self.look()

    def stop(self) -> None:
        assert self.world.held is not None
        self.world.held.close()
        self.process = 0

    def kill(self) -> None:
        """Kill the process in a look or a batch: what that found is not stored."""
        stored, number = dict(self.world.tracked), self.world.next_number
        if self.chance.random() < 0.7:
            self.chance.choice((self.world.look, self.world.read))()
        self.world.tracked, self.world.next_number = stored, number
        self.stop()

    def pause(self) -> None:
        """Let time pass, most of it while nothing runs; meanwhile writers close deleted files."""
        if not self.process:
            self.pass_by(self.chance.choice((60, 3_600)) * MICROSECONDS)
        elif self.pauses < MOST_PAUSES:
            self.pauses += 1
            self.pass_by(LINGERS_US + MICROSECONDS)

    def pass_by(self, duration_us: int) -> None:
        self.now_us += duration_us
        for file in self.files:
            if file.place is None:
                self.close(file)

    def look(self) -> None:
        self.world.now_us = self.now_us
        self.world.look()
        self.note_a_look()

    def read(self) -> None:
        """Read all that waits in the logs, and in all files that this process has open, wherever they are."""
        self.world.now_us = self.now_us
        held = [file for file in self.files if file.held_by == self.process]
        self.note(self.world.read(budget=self.chance.choice((50, 1_000, 10**6))).values())
        self.note_a_look()
        for file in held:
            self.must_be_read(file, "what was held open is not read")

    def read_some(self) -> None:
        """Read the first of one file's waiting lines."""
        self.world.now_us = self.now_us
        waiting = self.world.look().backlog_bytes
        self.note_a_look()
        if waiting:
            self.note([self.world.read_one(self.chance.choice(sorted(waiting)), self.chance.choice((1, 60)))])

    def note(self, found: Iterable[bytes]) -> None:
        for data in found:
            self.read_lines.update(data.splitlines())
        twice = [line for line, times in self.read_lines.items() if times > 1 and line.startswith(b"line")]
        assert not twice, f"read twice: {self.told_of(twice)}"

    def note_a_look(self) -> None:
        """Note which file has which number, and is held now.

        A log that is found compressed alone may have been renamed or copied: nobody can know that who did not
        hold it.
        """
        for dropped in self.dropped:
            place = dropped.copy.place
            dropped.is_seen |= place is not None and (
                place.suffix != ".gz" or dropped.held_by == self.process
            )
        self.dropped = [dropped for dropped in self.dropped if dropped.is_seen]
        taken = {file.number for file in self.files}
        by_inode = {t.file.inode: n for n, t in self.world.tracked.items() if n not in taken}
        for file in self.files:
            if file.place is not None and not file.number:
                file.number = by_inode.get(file.place.stat().st_ino, 0)
            if file.number and file.place is not None and not file.place.name.endswith(".gz"):
                tracked = self.world.tracked[file.number]
                known = self.world.folder / tracked.file.path
                is_it = tracked.state == "open" and known.exists() and known.samefile(file.place)
                file.held_by = self.process if is_it else file.held_by
                file.is_telling |= is_it and bool(file.lines)
            if file.number:
                self.followed.add(file.log)
                file.is_telling |= len(self.first_line) < TELLING_BYTES
            grows = file.seen_at_rest is not None and len(file.lines) > file.seen_at_rest
            if file.number and not self.is_current(file) and file.held_by == self.process:
                if file.seen_at_rest is None and not file.grows_late:
                    file.seen_at_rest = len(file.lines)
                elif grows:
                    file.seen_at_rest, file.grows_late = None, True

        self.note_idle_files()

    def note_idle_files(self) -> None:
        """Note files at rest: others have grown for `tailing.idle_after`, and these have not.

        Clean-ups of old days delete such files, and nobody is to be told of it.
        """
        seen = [file for file in self.files if file.number and file.place is not None]
        for file in seen:
            if file.seen_lines != len(file.lines):
                file.seen_lines, file.grown_us = len(file.lines), self.now_us
        latest_us = max((file.grown_us for file in self.files), default=0)
        for file in seen:
            if file.grown_us < latest_us - IDLE_US:
                file.seen_at_rest = len(file.lines)
            elif self.is_current(file):
                file.seen_at_rest = None

    # -- what must hold

    def come_to_rest(self) -> None:
        """Somebody follows the logs for some time, in which nobody touches them."""
        if not self.process:
            self.start()
        for _ in range(4):
            self.read()
            self.pass_by(LINGERS_US + MICROSECONDS)
        for file in self.files:
            if file.place is not None and self.is_in_sight(file, file.place):
                self.must_be_read(file, "it lies on the disk and is not read")
            elif file.number:
                self.must_be_told(file, file.lines[: file.seen_at_rest])
        for dropped in self.dropped:
            self.must_be_told(dropped.copy, [dropped.line])

    def is_in_sight(self, file: Written, place: Path) -> bool:
        """Say whether a follower finds a file: in its log's folder, or where the follower knew it."""
        if place.parent == self.places[file.log].parent:
            return bool(file.number) or file.is_sought
        return bool(file.number) and place.parent.name == "old"

    def must_be_read(self, file: Written, else_: str) -> None:
        missing = self.unread(file.lines)
        assert not missing, f"{else_}: {self.told_of(missing)} of file {file.number}, {file.place}"

    def must_be_told(self, file: Written, lines: list[bytes]) -> None:
        inode = file.place.stat().st_ino if file.place is not None else 0
        known = [t for n, t in self.world.tracked.items() if n == file.number or t.file.inode == inode]
        is_told = any(t.end_unknown or (t.state != "open" and t.unread_bytes) for t in known)
        is_told |= not file.is_telling
        missing = self.unread(lines)
        assert is_told or not missing, f"lost without a word: {self.told_of(missing)} of file {file.number}"

    def unread(self, lines: Iterable[bytes]) -> list[bytes]:
        return [line for line in lines if not self.read_lines[line]]

    def told_of(self, lines: Iterable[bytes]) -> list[str]:
        return [line.partition(b".")[0].decode() for line in lines]


def problem_of(seed: int, kind: type[History] = History) -> str | None:
    """Run one seed: what is wrong, or None."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        try:
            kind(Path(folder), seed).run()
        except AssertionError as broken:
            return str(broken)
    return None


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Logs that are rotated out of sight.")
    parser.add_argument("--seeds", type=int, default=2_000)
    parser.add_argument("--from", type=int, default=0, dest="first")
    parser.add_argument("--odd", action="store_true", help="with what seldom befalls logs")
    arguments = parser.parse_args()
    from tests.unit.odd_history import OddHistory  # imports this module

    kind = OddHistory if arguments.odd else History
    failed = 0
    for seed in range(arguments.first, arguments.first + arguments.seeds):
        if (problem := problem_of(seed, kind)) is not None:
            failed += 1
            print(f"seed {seed}: {problem}", flush=True)
    print(f"{arguments.seeds} seeds, {failed} fail")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
