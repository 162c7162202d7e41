"""Log files that grow, rotate, go and come back, beside a plain model: each line is read once.

The single cases of `test_logs_tail` and `test_logs_gzip` are those that this does not surely reach.
"""

from __future__ import annotations

import gzip
import os
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from photon.logs import gzips
from photon.pipeline.sections import Limits
from tests.unit.tailing_world import World

PICKS = st.integers(0, 99)
LINES = st.integers(0, 3)


# With so few bytes a look, most gzip files are checked in two looks, and two files in three or four.
GZIP_LOOK_BYTES = 20


@dataclass
class ModelFile:
    """A log file as its writer knows it."""

    path: str
    content: bytes = b""  # decompressed
    read_bytes: int = 0
    known: bool = False  # a look has seen a record of it
    seen_path: str = ""  # the path at the last look
    compressed: bool = False
    is_whole: bool = True  # false: a gzip file that ends early
    is_unchecked: bool = False  # a gzip file that no look has seen to its end
    has_copy: bool = False  # somebody compresses the file: a .gz lies beside it

    @property
    def is_matched(self) -> bool:
        """Say whether the glob matches its name: an unknown file of another name is not read."""
        return self.path.removesuffix(".gz").endswith(".log")

    def unread(self, final: bool) -> bytes:
        """Return what the next read must bring: whole lines, and all bytes at the very end."""
        end = len(self.content) if final else self.content.rfind(b"\n") + 1
        return self.content[self.read_bytes : end]


class Histories(RuleBasedStateMachine):
    """Writers, rotations and accidents; between them the follower may look, read or restart."""

    def __init__(self) -> None:
        super().__init__()
        gzips._indexes.clear()
        self.home = tempfile.TemporaryDirectory()
        logs = Path(self.home.name) / "logs"
        self.world = World(logs, "**/*.log", "jsonl", Limits())
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr("photon.logs.tailing.whole_gzips.GZIP_LOOK_BYTES", GZIP_LOOK_BYTES)
        self.away = Path(self.home.name) / "away"
        self.world.folder.mkdir()
        self.files: list[ModelFile] = []
        self.hidden: list[ModelFile] = []
        self.count = 0
        self.now_ns = 10**18

    def teardown(self) -> None:
        try:
            self.read(budget=1_000, final=True)
        finally:
            self.patch.undo()
            self.home.cleanup()

    # -- what happens to the files

    @rule(pick=PICKS, deep=st.booleans(), lines=LINES)
    def begin_a_file(self, pick: int, deep: bool, lines: int) -> None:
        path = f"{'deep/er/' if deep else ''}{'abc'[pick % 3]}.log"
        if path in {file.path for file in self.files} or f"{path}.gz" in {file.path for file in self.files}:
            return
        self.files.append(ModelFile(path))
        self.write(self.files[-1], self.new_lines(lines))

    @rule(lines=LINES, is_whole=st.booleans())
    def bring_a_gzip_file(self, lines: int, is_whole: bool) -> None:
        self.count += 1
        file = ModelFile(f"g{self.count}.log.gz", compressed=True, is_whole=is_whole, is_unchecked=True)
        self.files.append(file)
        self.write(file, self.new_lines(lines))

    @precondition(lambda self: self.cut_short())
    @rule(pick=PICKS)
    def bring_the_rest(self, pick: int) -> None:
        file = self.cut_short()[pick % len(self.cut_short())]
        file.is_whole = True
        self.write(file, file.content)

    @precondition(lambda self: self.growing_gzips())
    @rule(pick=PICKS, lines=LINES)
    def append_a_member(self, pick: int, lines: int) -> None:
        """Grow a gzip file, also while a check of it goes on."""
        file = self.growing_gzips()[pick % len(self.growing_gzips())]
        new = self.new_lines(lines)
        with (self.world.folder / file.path).open("ab") as stream:
            stream.write(gzip.compress(new))
        file.content += new
        file.is_unchecked = True  # also one that was empty when it was checked
        self.touch(file)

    @precondition(lambda self: self.plain())
    @rule(pick=PICKS, lines=LINES, half=st.booleans())
    def append(self, pick: int, lines: int, half: bool) -> None:
        file = self.plain()[pick % len(self.plain())]
        self.write(file, file.content + self.new_lines(lines) + (b"half" if half else b""))

    @precondition(lambda self: self.plain())
    @rule(pick=PICKS, lines=LINES)
    def overwrite_in_place(self, pick: int, lines: int) -> None:
        """Copy-truncate, shorter or longer than before: another file in the same place."""
        old = self.plain()[pick % len(self.plain())]
        self.files = [file for file in self.files if file is not old]
        self.files.append(ModelFile(old.path))
        self.write(self.files[-1], self.new_lines(lines))

    @precondition(lambda self: self.may_move())
    @rule(pick=PICKS, matched=st.booleans())
    def rename(self, pick: int, matched: bool) -> None:
        """Rotate within the folder, to a name that the glob matches or not."""
        file = self.may_move()[pick % len(self.may_move())]
        self.count += 1
        path = Path(file.path)
        if file.compressed:  # only the ending .gz says that it is compressed
            name = f"r{self.count}.log.gz"
        else:
            name = f"r{self.count}.log" if matched else f"{path.name}.old{self.count}"
        os.rename(self.world.folder / path, self.world.folder / path.with_name(name))
        file.path = str(path.with_name(name))

    @precondition(lambda self: self.may_compress())
    @rule(pick=PICKS, is_whole=st.booleans())
    def begin_to_compress(self, pick: int, is_whole: bool) -> None:
        """Write the copy, or its first half; the file itself is still there."""
        file = self.may_compress()[pick % len(self.may_compress())]
        file.has_copy = True
        copy = gzip.compress(file.content)
        (self.world.folder / f"{file.path}.gz").write_bytes(copy if is_whole else copy[: len(copy) // 2])

    @precondition(lambda self: self.may_compress())
    @rule(pick=PICKS)
    def compress(self, pick: int) -> None:
        """Write the rest of the copy, or all of it, and remove the file."""
        file = self.may_compress()[pick % len(self.may_compress())]
        (self.world.folder / file.path).unlink()
        file.path, file.compressed, file.is_unchecked = f"{file.path}.gz", True, True
        file.has_copy = False
        self.write(file, file.content)

    @precondition(lambda self: self.files)
    @rule(pick=PICKS)
    def remove(self, pick: int) -> None:
        file = self.files.pop(pick % len(self.files))
        (self.world.folder / file.path).unlink()
        if file.has_copy:
            (self.world.folder / f"{file.path}.gz").unlink()

    @precondition(lambda self: self.may_move())
    @rule(pick=PICKS)
    def move_away(self, pick: int) -> None:
        file = self.may_move()[pick % len(self.may_move())]
        self.files = [other for other in self.files if other is not file]
        self.away.mkdir(exist_ok=True)
        self.count += 1
        os.rename(self.world.folder / file.path, self.away / str(self.count))
        file.path = str(self.count)
        self.hidden.append(file)

    @precondition(lambda self: self.hidden)
    @rule(pick=PICKS)
    def come_back(self, pick: int) -> None:
        file = self.hidden.pop(pick % len(self.hidden))
        path = f"back{file.path}.log{'.gz' if file.compressed else ''}"
        os.rename(self.away / file.path, self.world.folder / path)
        file.path = path
        self.files.append(file)

    # -- who follows them

    @rule()
    def look(self) -> None:
        self.world.look()
        self.note_a_look(final=False)

    @rule(budget=st.integers(1, 60))
    def read(self, budget: int, final: bool = False) -> None:
        found = self.world.read(final, budget)
        self.note_a_look(final)
        lines: Counter[bytes] = Counter()
        expected: Counter[bytes] = Counter()
        for data in found.values():
            lines.update(data.splitlines())
        for file in self.files:
            if file.known and not file.is_unchecked:
                unread = file.unread(final)
                expected.update(unread.splitlines())
                file.read_bytes += len(unread)
        assert lines == expected
        present = {file.path for file in self.files if file.known and not file.is_unchecked}
        assert present <= set(self.world.paths().values())

    @rule()
    def restart(self) -> None:
        self.world.restart()

    # -- help

    def note_a_look(self, final: bool) -> None:
        for file in self.files:
            if not file.is_whole or (file.is_unchecked and self.is_being_checked(file)):
                continue
            has_record = b"\n" in file.content or (final and bool(file.content))
            file.known = file.known or (file.is_matched and has_record)
            file.seen_path, file.is_unchecked = file.path, False

    def is_being_checked(self, file: ModelFile) -> bool:
        """Checks take several looks; when none is under way, each whole gzip file was checked."""
        known = [one for one in self.world.tracked.values() if one.state == "open"]
        sizes_bytes = {one.file.path: one.disk_bytes for one in known}
        size_bytes = (self.world.folder / file.path).stat().st_size
        return self.world.last_seen.checks_pending and sizes_bytes.get(file.path) != size_bytes

    def plain(self) -> list[ModelFile]:
        """The files that somebody may still write to."""
        return [file for file in self.files if not file.compressed and not file.has_copy]

    def cut_short(self) -> list[ModelFile]:
        return [file for file in self.files if not file.is_whole]

    def growing_gzips(self) -> list[ModelFile]:
        return [file for file in self.files if file.compressed and file.is_whole]

    def may_move(self) -> list[ModelFile]:
        return [file for file in self.files if not file.is_unchecked and not file.has_copy]

    def may_compress(self) -> list[ModelFile]:
        """Files that are at rest under the name of the last look."""
        return [
            file
            for file in self.files
            if not file.compressed and file.is_matched and file.path == file.seen_path
        ]

    def new_lines(self, number: int) -> bytes:
        self.count += number
        return b"".join(b"line %d\n" % (self.count - i) for i in range(number))

    def write(self, file: ModelFile, content: bytes) -> None:
        file.content = content
        path = self.world.folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        data = gzip.compress(content) if file.compressed else content
        with path.open("r+b" if path.exists() else "wb") as stream:  # in place, so that the inode stays
            stream.truncate(stream.write(data if file.is_whole else data[: len(data) // 2]))
        self.touch(file)

    def touch(self, file: ModelFile) -> None:
        self.now_ns += 10**9  # a disk that counts no finer would hide it
        os.utime(self.world.folder / file.path, ns=(self.now_ns, self.now_ns))


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=60, stateful_step_count=25, deadline=None, print_blob=True)
