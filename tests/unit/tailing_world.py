"""A folder of logs and somebody who follows it, for the tests of log tailing."""

from pathlib import Path

from photon.logs.files import TrackedFile
from photon.logs.ranges import read_range
from photon.logs.tail import LogTail, Observation
from photon.pipeline.file import Limits, PrimaryLog, Tailing


class World:
    """A folder of logs and somebody who follows it, as the dispatcher does."""

    def __init__(self, folder: Path, files: str, format: str, limits: Limits) -> None:
        self.folder = folder
        self.log = PrimaryLog(files=files, format=format, id="id", time="t")
        self.limits = limits
        self.tracked: dict[int, TrackedFile] = {}
        self.next_number = 1
        self.now_us = 0
        self.restart()

    def restart(self) -> None:
        """Lose all caches, keep what is stored."""
        self.tail = LogTail(self.folder, "primary", self.log, self.limits, Tailing())

    def write(self, name: str, data: bytes) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def append(self, name: str, data: bytes) -> None:
        with (self.folder / name).open("ab") as file:
            file.write(data)

    def look(self, final: bool = False) -> Observation:
        self.now_us += 1
        seen = self.tail.observe(self.tracked, self.next_number, self.now_us, final)
        self.tracked.update(seen.changed)
        self.next_number = seen.next_number
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

    def paths(self) -> dict[int, str]:
        return {number: file.file.path for number, file in self.tracked.items() if file.state == "open"}


def named(tmp_path: Path, files: str, format: str = "jsonl", **limits: int) -> World:
    return World(tmp_path / "logs", files, format, Limits(**limits))
