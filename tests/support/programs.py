"""Programs that tests need beside Python, Java and make: where each is found, and what is skipped without it.

This is a plugin of pytest, which tests/conftest.py registers. Only a test of one of these programs may be
skipped. At the end of a run, or of all stages of `make test`, it says so in a line for each program.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from infra.servers import postgres
from photon.process.errors import UserError
from photon.toolchain.minio import minio_command

# A file that all stages of a run add to; then none of them prints, and `make test` does so at its end.
KEPT_IN = "PHOTON_SKIPPED_TESTS"
# A file of tests that an earlier run skipped, one a line: `-m again` selects them.
AGAIN_IN = "PHOTON_TESTS_AGAIN"


@dataclass(frozen=True)
class Program:
    """A program that may be missing. `find` returns its path, and None or a UserError where there is none."""

    name: str
    remedy: str
    find: Callable[[], object]

    def is_there(self) -> bool:
        """Whether this machine has it."""
        with suppress(UserError):
            return self.find() is not None
        return False

    @property
    def reason(self) -> str:
        """Say why a test is skipped, by which the end of the run knows the program."""
        return f"there is no {self.name} on this machine ({self.remedy})"


def _on_path(name: str, package: str = "") -> Program:
    return Program(name, f"apt-get install {package or name}", lambda: shutil.which(name))


PROGRAMS = {
    program.name: program
    for program in (
        _on_path("logrotate"),
        _on_path("chromium"),
        _on_path("prometheus"),
        _on_path("promtool", "prometheus"),
        Program("PostgreSQL", "apt-get install postgresql", postgres.programs),
        _on_path("go", "golang"),
        Program("MinIO", "make minio, which needs Go", minio_command),
        _on_path("node", "nodejs"),
    )
}


@dataclass(frozen=True)
class Skipped:
    """A test that was skipped, and why."""

    reason: str
    test: str


_skipped: list[Skipped] = []


def needed(name: str) -> str:
    """Return where a program is; skip the test that asks where there is none."""
    program = PROGRAMS[name]
    if not program.is_there():
        pytest.skip(program.reason)
    return str(program.find())


def told(skipped: Iterable[Skipped]) -> list[str]:
    """Say which tests were skipped, in a line for each reason."""
    by_reason: dict[str, Counter[str]] = {}
    for each in skipped:
        by_reason.setdefault(each.reason, Counter())[each.test.partition("::")[0]] += 1
    return [
        f"skipped, for {reason}: " + ", ".join(f"{count} of {file}" for file, count in sorted(files.items()))
        for reason, files in sorted(by_reason.items())
    ]


def without_a_program(skipped: Iterable[Skipped]) -> list[Skipped]:
    """Return the tests that no missing program excuses."""
    excused = {program.reason for program in PROGRAMS.values()}
    return [each for each in skipped if each.reason not in excused]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what runs again."""
    again = set(Path(os.environ.get(AGAIN_IN, os.devnull)).read_text().splitlines())
    for item in items:
        if item.nodeid in again:
            item.add_marker(pytest.mark.again)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note a test that was skipped."""
    if report.skipped and isinstance(report.longrepr, tuple):
        _skipped.append(Skipped(report.longrepr[2].removeprefix("Skipped: "), report.nodeid))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Keep what was skipped for the end of all stages, or tell it now."""
    kept = os.environ.get(KEPT_IN)
    if kept:
        with Path(kept).open("a") as file:
            file.writelines(f"{each.reason}\t{each.test}\n" for each in _skipped)
    elif _skipped:
        terminalreporter.write_line("\n".join(told(_skipped)))


def main(kept: Path, may_be_others: bool = False) -> int:
    """Tell what all stages skipped; return 1 where no program excuses one, unless there may be such."""
    lines = kept.read_text().splitlines() if kept.exists() else []
    skipped = [Skipped(*line.split("\t", 1)) for line in lines]
    print(*told(skipped), sep="\n", end="\n" if skipped else "")
    wrong = [] if may_be_others else without_a_program(skipped)
    for each in wrong:
        print(f"{each.test} was skipped, and no missing program excuses it: {each.reason}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), may_be_others="--no-other" not in sys.argv))
