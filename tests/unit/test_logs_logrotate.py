"""The real logrotate in many configurations, with a follower and without: nothing is lost or read twice.

A follower tells of bytes that copytruncate may have lost.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from photon.logs.ranges import read_range
from tests.support.programs import needed
from tests.unit.tailing_world import World, named, refuse_to_open

READ_BYTES = 2_000  # so much of each log is read before its rotation, and not all of it


@dataclass(frozen=True)
class Configuration:
    """Settings of logrotate, and how the writer behaves."""

    settings: Sequence[str]
    rotations: int = 1
    has_link: bool = False
    writes_late: bool = False  # into the file that it had open before the rotations
    first_line: bytes = b""  # every log begins with it
    may_lose: bool = False


ALIKE = b"# the same in each log\n"

CONFIGURATIONS = {
    "create": Configuration(["create"], rotations=2, writes_late=True),
    "copy": Configuration(["copy"], rotations=2),
    "copytruncate": Configuration(["copytruncate"], rotations=2, may_lose=True),
    "copytruncate_compress": Configuration(["copytruncate", "compress"], rotations=2, may_lose=True),
    "olddir": Configuration(["create", "olddir {old}", "createolddir 755"], rotations=2, writes_late=True),
    "olddir_compress": Configuration(["create", "compress", "olddir {old}", "createolddir 755"], rotations=2),
    "compress": Configuration(["create", "compress"], rotations=2),
    "delaycompress": Configuration(["create", "compress", "delaycompress"], rotations=2),
    "dateext": Configuration(["create", "dateext"], writes_late=True),
    "dateext_compress": Configuration(["create", "dateext", "compress"]),
    "link": Configuration(["create"], rotations=2, has_link=True, writes_late=True),
    "three_rotations": Configuration(["create"], rotations=3, writes_late=True),
    "equal_first_lines": Configuration(["copytruncate"], rotations=2, first_line=ALIKE, may_lose=True),
    "equal_first_lines_create": Configuration(["create"], rotations=2, first_line=ALIKE),
}


class Writer:
    """Writes the log, and knows all that was written."""

    def __init__(self, log: Path, first_line: bytes) -> None:
        self.log, self.first_line = log, first_line
        self.lines: list[bytes] = []

    def write(self, count: int) -> None:
        start = b"" if self.log.exists() and self.log.stat().st_size else self.first_line
        new = [b"line %d" % (len(self.lines) + number) for number in range(count)]
        with self.log.open("ab") as stream:
            stream.write(start + b"".join(line + b"\n" for line in new))
        self.lines += [*start.splitlines(), *new]


@pytest.fixture
def logrotate(tmp_path: Path) -> Path:
    needed("logrotate")
    return tmp_path


def rotate(folder: Path, log: Path, settings: Sequence[str]) -> None:
    config = folder / "logrotate.conf"
    lines = "\n".join(["rotate 9", *settings]).format(old=log.parent / "old")
    config.write_text(f"{log} {{\n{lines}\n}}\n")
    command = ["logrotate", "-f", "-s", str(folder / "status"), str(config)]
    subprocess.run(command, check=True, capture_output=True)


def a_log(world: World, configuration: Configuration) -> Writer:
    """The log that is rotated; `files` matches it, or a link to it."""
    name = "../pods/x/app.log" if configuration.has_link else "c/app.log"
    log = world.folder / name
    log.parent.mkdir(parents=True)
    if configuration.has_link:
        (world.folder / "c").mkdir(parents=True)
        (world.folder / "c/app.log").symlink_to("../../pods/x/app.log")
    return Writer(Path(log.parent.resolve() / log.name), configuration.first_line)


def read_some(world: World) -> list[bytes]:
    """Look, and read the beginning of the youngest log."""
    number = max(world.look().backlog_bytes)
    byte_range, world.tracked[number] = world.tail.cut(world.tracked[number], READ_BYTES)  # type: ignore[misc]
    return read_range(world.folder, world.tracked[number].file, byte_range).splitlines()


def read_all(world: World) -> list[bytes]:
    """All that several looks bring; nothing may be lost."""
    found: list[bytes] = []
    for _ in range(4):
        read = world.read()
        assert all(not lost.unread_bytes for lost in world.last_seen.vanished)
        found += [line for data in read.values() for line in data.splitlines()]
    return found


@pytest.mark.parametrize("stopped", [False, True], ids=["running", "stopped"])
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_the_real_logrotate_loses_nothing(logrotate: Path, name: str, stopped: bool) -> None:
    configuration = CONFIGURATIONS[name]
    world = named(logrotate, "c/app.log")
    world.hold()
    writer = a_log(world, configuration)
    writer.write(300)
    found = read_some(world)
    if stopped and world.held is not None:
        world.held.close()
    with writer.log.open("ab") as had_open:
        for _ in range(configuration.rotations):
            rotate(logrotate, writer.log, configuration.settings)
            writer.write(300)
            if not stopped:
                found += read_some(world)
        if configuration.writes_late:
            had_open.write(b"late\n")
            writer.lines.append(b"late")
    if stopped:
        world.restart()
    found += read_all(world)
    assert Counter(found) == Counter(writer.lines)
    is_told = any(file.end_unknown for file in world.tracked.values())
    assert is_told or not configuration.may_lose
    assert not is_told or configuration.may_lose or stopped  # inodes of files that went are used again
    assert world.held is not None
    world.held.close()


@pytest.mark.parametrize("stopped", [False, True], ids=["running", "stopped"])
@pytest.mark.parametrize("settings", [["copytruncate"], ["copytruncate", "compress"]], ids=" ".join)
def test_a_rotation_with_a_mode_that_nobody_may_read_is_told(
    logrotate: Path, monkeypatch: pytest.MonkeyPatch, settings: Sequence[str], stopped: bool
) -> None:
    world = named(logrotate, "c/app.log")
    writer = a_log(world, Configuration(settings))
    writer.write(300)
    found = read_some(world)
    writer.log.chmod(0o600)
    rotate(logrotate, writer.log, settings)
    writer.write(10)
    if stopped:
        world.restart()
    rotated = "app.log.1.gz" if "compress" in settings else "app.log.1"
    with monkeypatch.context() as closed:
        refuse_to_open(closed, rotated)
        found += read_all(world)
        assert [problem.path for problem in world.last_seen.problems] == [f"c/{rotated}"]
    found += read_all(world)
    assert Counter(found) == Counter(writer.lines)
