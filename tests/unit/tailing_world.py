"""A folder of logs and somebody who follows it, for the tests of log tailing."""

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from photon.logs.files import TrackedFile
from photon.logs.ranges import read_range
from photon.logs.tailing.observation import Observation
from photon.logs.tailing.open_files import OpenFiles
from photon.logs.tailing.tail import LogTail
from photon.pipeline.sections import Limits, PrimaryLog, Tailing


class World:
    """A folder of logs and somebody who follows it, as the dispatcher does."""

    def __init__(self, folder: Path, files: str, format: str, limits: Limits) -> None:
        self.folder = folder
        self.log = PrimaryLog(files=files, format=format, id="id", time="t")
        self.limits, self.tailing = limits, Tailing(links_lead_out=True)
        self.tracked: dict[int, TrackedFile] = {}
        self.next_number = 1
        self.now_us = 0
        self.held: OpenFiles | None = None
        self.restart()

    def restart(self) -> None:
        """Lose all caches, keep what is stored."""
        if self.held is not None:
            self.hold()
        self.tail = LogTail(self.folder, "primary", self.log, self.limits, self.tailing, self.held)

    def hold(self) -> None:
        """Hold files open from now on, as a new process does."""
        if self.held is not None:
            self.held.close()
        self.held = OpenFiles(self.folder, self.folder.parent / "work", "epoch")
        self.tail = LogTail(self.folder, "primary", self.log, self.limits, self.tailing, self.held)

    def write(self, name: str, data: bytes) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def append(self, name: str, data: bytes) -> None:
        with (self.folder / name).open("ab") as file:
            file.write(data)

    def look(self, final: bool = False) -> Observation:
        self.now_us += 1
        self.last_seen = seen = self.tail.observe(self.tracked, self.next_number, self.now_us, final)
        self.tracked.update(seen.changed)
        self.next_number = max(self.tracked, default=0) + 1
        if self.held is not None:
            self.held.hold(self.tracked.values(), self.tracked)
            self.held.tend(self.tracked, self.now_us)
        return seen

    def read(self, final: bool = False, budget: int = 10**6) -> dict[int, bytes]:
        """Look, and read all that waits, by file number."""
        found: dict[int, bytes] = {}
        for number in self.look(final).backlog_bytes:
            while (cut := self.tail.cut(self.tracked[number], budget, final)) is not None:
                byte_range, self.tracked[number] = cut
                data = read_range(self.folder, self.tracked[number].file, byte_range)
                found[number] = found.get(number, b"") + data
        return found

    def read_one(self, number: int, budget: int) -> bytes:
        """Read what waits of one file, no more than so much of it, without a look before."""
        cut = self.tail.cut(self.tracked[number], budget)
        if cut is None:
            return b""
        byte_range, self.tracked[number] = cut
        return read_range(self.folder, self.tracked[number].file, byte_range)

    def paths(self) -> dict[int, str]:
        return {number: file.file.path for number, file in self.tracked.items() if file.state == "open"}


def named(tmp_path: Path, files: str, format: str = "jsonl", **limits: int) -> World:
    return World(tmp_path / "logs", files, format, Limits(**limits))


def refuse_to_open(patch: pytest.MonkeyPatch, name: str) -> None:
    """Have the system refuse to open a file of this name, as it does to those that are not root."""
    really = os.open

    def refuse(path: str, *rest: Any, **more: Any) -> int:
        if Path(path).name == name:
            raise PermissionError(13, "Permission denied", path)
        return really(path, *rest, **more)

    patch.setattr(os, "open", refuse)


@dataclass(frozen=True)
class Story:
    """Steps that happen to the files, and looks of the follower: a step is a method of `Player`."""

    steps: Sequence[tuple[Any, ...]]
    files: str = "**/*.log"
    format: str = "jsonl"
    limits: Mapping[str, int] = field(default_factory=dict)
    # If not, a follower that begins anew before each look, without caches, must see the same.
    in_one_run: bool = False


class Player:
    """The steps of a story: first what happens to files, then looks with what must come of them."""

    def __init__(self, world: World, restarts: bool) -> None:
        self.world = world
        self.restarts = restarts
        self.write, self.append = world.write, world.append

    def play(self, story: Story) -> None:
        for method, *arguments in story.steps:
            getattr(self, method)(*arguments)

    def place(self, name: str) -> Path:
        return Path(os.path.normpath(self.world.folder / name))

    def rename(self, old: str, new: str) -> None:
        os.rename(self.place(old), self.place(new))

    def remove(self, name: str) -> None:
        self.place(name).unlink()

    def copy(self, name: str, copy: str) -> None:
        shutil.copy(self.place(name), self.place(copy))

    def overwrite(self, name: str, data: bytes) -> None:
        """Write other bytes into the same inode."""
        self.place(name).write_bytes(data)

    def give_inode_to(self, number: int, name: str) -> None:
        """Note the inode of the file of that name as that of a file that was removed."""
        tracked = self.world.tracked[number]
        reused = replace(tracked.file, inode=self.place(name).stat().st_ino)
        self.world.tracked[number] = replace(tracked, file=reused)

    def look(self, final: bool = False) -> Observation:
        if self.restarts:
            self.world.restart()
        return self.world.look(final)

    def read_so_far(self, number: int, up_to: int) -> None:
        """Look, and read the first bytes of a file only."""
        self.look()
        _, self.world.tracked[number] = self.world.tail.cut(self.world.tracked[number], up_to)

    def reads(self, expected: dict[int, bytes], final: bool = False, budget: int = 10**6) -> None:
        if self.restarts:
            self.world.restart()
        assert self.world.read(final, budget) == expected

    def cuts_nothing(self, number: int) -> None:
        """Check that a cut without a look before it gets nothing."""
        assert self.world.tail.cut(self.world.tracked[number], 100) is None

    def sees_changes_of(self, *numbers: int) -> None:
        assert tuple(self.look().changed) == numbers

    def sees_waiting(self, backlog_bytes: dict[int, int]) -> None:
        assert self.look().backlog_bytes == backlog_bytes

    def sees_problems(self, *paths: str) -> None:
        assert tuple(problem.path for problem in self.look().problems) == paths

    def sees_vanish(self, *vanished: tuple[int, str, int], final: bool = False) -> None:
        """Look, and check which files vanished: number, new state, and how many bytes were not read."""
        seen = self.look(final).vanished
        assert tuple((each.file.number, each.state, each.unread_bytes) for each in seen) == vanished

    def sees_vanish_when_complete(self, *vanished: tuple[int, str, int]) -> None:
        self.sees_vanish(*vanished, final=True)

    def knows(self, number: int, facts: Mapping[str, Any]) -> None:
        """Check facts that are stored of a file."""
        tracked = self.world.tracked[number]
        for name, value in facts.items():
            assert getattr(tracked if hasattr(tracked, name) else tracked.file, name) == value, name


def cases(stories: Mapping[str, Story]) -> list[Any]:
    """Return each story in one run and, where that changes nothing, with a restart before each look."""
    return [
        pytest.param(story, restarts, id=f"{name}-restarts" if restarts else name)
        for name, story in stories.items()
        for restarts in ([False] if story.in_one_run else [False, True])
    ]


def play(story: Story, restarts: bool, tmp_path: Path) -> None:
    world = named(tmp_path, story.files, story.format, **story.limits)
    Player(world, restarts).play(story)
