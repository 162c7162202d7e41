"""Add to these histories what seldom befalls logs: their names change hands, and copies come back.

python -m tests.unit.rotating_history --odd --seeds 2000
"""

from __future__ import annotations

import gzip
import os
import shutil
from pathlib import Path

from tests.unit.rotating_history import History, Written


class OddHistory(History):
    """One history; its seed decides what happens."""

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(folder, seed)
        self.has_switched = False
        self.hidden: set[Path] = set()

    def deeds(self) -> list[object]:
        odd = [self.swap, self.swap, self.put_back, self.put_back, self.write_over, self.regrow]
        odd += [self.compress_at_once, self.move_by_copying, self.compress_at_once, self.switch_link]
        return [*super().deeds(), *odd]

    def current(self, name: str) -> Written | None:
        """Return the log; its writer opens a file that somebody has put in its place."""
        file = super().current(name)
        if file is not None and file.writer < 0:
            file.writer = os.open(self.places[name], os.O_WRONLY | os.O_APPEND)
        return file

    def swap(self) -> None:
        """Two files of a log in one folder change names; one of them may be the log."""
        pairs = [
            (one, other)
            for at, one in enumerate(self.files)
            for other in self.files[at + 1 :]
            if one.place is not None and other.place is not None and one.log == other.log
            if (one.place.parent, one.place.suffix == ".gz")
            == (other.place.parent, other.place.suffix == ".gz")
        ]
        if pairs:
            one, other = self.chance.choice(pairs)
            assert one.place is not None
            assert other.place is not None
            first, second = one.place, other.place
            self.move(one, self.folder / "away" / "in between")
            self.move(other, first)
            self.move(one, second)

    def put_back(self) -> None:
        """Copy a file that nobody writes any more into the folder of its log, by a name of a rotation."""
        rotated = [file for file in self.rotated() if file.writer < 0]
        if rotated:
            file = self.chance.choice(rotated)
            place = self.make_room(file.log)
            assert file.place is not None
            if file.place.suffix == ".gz":
                place = place.with_name(f"{place.name}.gz")
            self.copy(file, place)
            self.files.append(Written(file.log, place, -1, False, list(file.lines)))

    def write_over(self) -> None:
        """Write a new log elsewhere and move it over the old one."""
        if (file := self.a_log()) is not None:
            place, file.place = file.place, None
            assert place is not None
            new = self.folder / "away" / "new"
            writer = os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND)
            os.write(writer, self.first_line)
            self.files.append(Written(file.log, new, writer, file.log in self.followed))
            self.write(self.files[-1])
            self.move(self.files[-1], place)

    def regrow(self) -> None:
        """Truncate a log and write it anew with as many bytes as it had."""
        file = self.a_log()
        if file is None:
            return
        assert file.place is not None
        room = file.place.stat().st_size - len(self.first_line)
        if room < 20:
            return
        os.ftruncate(file.writer, 0)
        os.write(file.writer, self.first_line)
        new = Written(file.log, file.place, file.writer, file.log in self.followed)
        self.count += 1
        end = b" %d" % self.count  # logs of one size with the same 256 bytes at their ends are no two logs
        line = (b"line %d" % self.count).ljust(room - 1 - len(end), b".") + end
        os.write(new.writer, line + b"\n")
        new.lines.append(line)
        if self.first_line and file.seen_lines <= 0:
            file.is_telling = False  # like a copy, it may seem to have grown
        file.place, file.writer, file.held_by = None, -1, 0
        self.files.append(new)
        self.touch(new)

    def compress_at_once(self) -> None:
        """Compress a rotated file that somebody has open, and delete it."""
        if (file := self.open_and_rotated()) is not None:
            assert file.place is not None
            compressed = file.place.with_name(f"{file.place.name}.gz")
            written_ns = file.place.stat().st_mtime_ns
            compressed.write_bytes(gzip.compress(file.place.read_bytes()))
            os.utime(compressed, ns=(written_ns, written_ns))
            self.leave_behind(file, compressed)

    def move_by_copying(self) -> None:
        """Move a rotated file that somebody has open to another disk: copy and delete it."""
        if (file := self.open_and_rotated()) is not None:
            self.count += 1
            place = self.folder / "logs/old" / f"{file.log}.log.{self.count}"
            self.copy(file, place)
            self.leave_behind(file, place)
            if self.first_line and file.seen_lines <= 0:
                self.hidden.add(place)  # a log that begins alike in its place is taken for it, and is told

    def leave_behind(self, file: Written, place: Path) -> None:
        """Put a file at another place; its writer has the old one open, which has no name any more."""
        assert file.place is not None
        file.place.unlink()
        behind = Written(file.log, None, file.writer, file.is_sought, list(file.lines), file.number)
        behind.held_by, behind.is_telling = file.held_by, file.is_telling
        is_at_rest = file.seen_at_rest is not None
        behind.seen_at_rest = file.seen_at_rest if is_at_rest else len(file.lines)  # all that others know
        self.files.append(behind)
        file.place, file.writer, file.held_by = place, -1, 0

    def switch_link(self) -> None:
        """The link in the folder of logs leads to another folder from now on, as of a new pod."""
        if self.chance.random() < 0.7:
            return
        self.has_switched = True
        self.count += 1
        target = self.folder / f"pods/{self.count}/web.log"
        target.parent.mkdir()
        link = self.folder / "logs/c/web.log"
        link.unlink()
        link.symlink_to(f"../../pods/{self.count}/web.log")
        self.places["web"] = target

    def is_in_sight(self, file: Written, place: Path) -> bool:
        """Nobody looks for rotations where no link leads any more, or leads to no log yet."""
        is_hidden = (self.has_switched and file.log == "web") or place in self.hidden
        return super().is_in_sight(file, place) and not is_hidden

    def rotated(self) -> list[Written]:
        return [file for file in self.files if file.place is not None and not self.is_current(file)]

    def open_and_rotated(self) -> Written | None:
        found = [file for file in self.rotated() if file.writer >= 0]
        return self.chance.choice(found) if found else None

    def copy(self, file: Written, place: Path) -> None:
        """Copy a file with its time, or with the time of now."""
        assert file.place is not None
        keeps = self.chance.random() < 0.5
        shutil.copy2(file.place, place)
        if not keeps:
            os.utime(place, ns=(self.now_us * 1_000, self.now_us * 1_000))
