"""Slow cores, of which this machine has many: control groups, each with a share of a core.

A process that is started on one stays there with all that it starts. Needs Linux and root.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

CPU_GROUPS = (Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup"))  # version 1, version 2
PERIOD_US = 10_000  # short, so that a core is slow rather than stopped now and then
MOST_WEIGHT = {"cpu.shares": "262144", "cpu.weight": "10000"}
_ENTER = 'echo $$ > "$0/cgroup.procs" && exec "$@"'


class NoSlowCores(Exception):
    """This machine, or this user, can't make control groups; the message says why."""


@dataclass(frozen=True)
class SlowCore:
    """One core, at full speed until `slow_down`."""

    group: Path

    def command(self, words: Sequence[str]) -> list[str]:
        """These words, as a command that runs on this core."""
        return ["sh", "-c", _ENTER, str(self.group), *words]

    def slow_down(self, share: float) -> None:
        """Give it this share of a core of the machine."""
        quota_us = round(share * PERIOD_US)
        if (self.group / "cpu.max").exists():
            (self.group / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
        else:
            (self.group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (self.group / "cpu.cfs_quota_us").write_text(str(quota_us))

    def speed_up(self) -> None:
        """Take its limit away."""
        if (self.group / "cpu.max").exists():
            (self.group / "cpu.max").write_text(f"max {PERIOD_US}")
        else:
            (self.group / "cpu.cfs_quota_us").write_text("-1")


@contextmanager
def slow_cores(count: int) -> Iterator[list[SlowCore]]:
    """So many cores, which come before all else that runs on the machine; gone at the end. NoSlowCores."""
    parent = next((each for each in CPU_GROUPS if _limits_cpu(each)), None)
    if parent is None:
        raise NoSlowCores("no control groups for CPU time; expected Linux with /sys/fs/cgroup")
    made: list[SlowCore] = []
    try:
        for number in range(count):
            made.append(SlowCore(_make(parent / f"photon-{os.getpid()}-{number}")))
        yield made
    finally:
        for core in made:
            with suppress(OSError):  # a group whose processes have not ended stays behind
                core.group.rmdir()


def _make(group: Path) -> Path:
    try:
        group.mkdir()
        for name, most in MOST_WEIGHT.items():
            if (group / name).exists():
                (group / name).write_text(most)
    except OSError as error:
        raise NoSlowCores(f"{group} can't be made: {error.strerror}; expected the rights of root") from error
    return group


def _limits_cpu(parent: Path) -> bool:
    control = parent / "cgroup.subtree_control"  # version 2 alone has it
    if control.exists():
        with suppress(OSError):
            control.write_text("+cpu")
        return "cpu" in control.read_text().split()
    return (parent / "cpu.cfs_quota_us").exists()
