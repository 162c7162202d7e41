"""A test without its program is skipped and named at the end of the run, and no other test is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.documents import ROOT
from tests.support.programs import KEPT_IN, PROGRAMS, Program, Skipped, main, needed, told

SKIPPING = """
from tests.support.programs import PROGRAMS, Program, needed

PROGRAMS["logrotate"] = Program("logrotate", "apt-get install logrotate", lambda: None)

def test_one() -> None:
    needed("logrotate")

def test_two() -> None:
    needed("logrotate")

def test_here() -> None:
    assert True
"""


def run(folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(SKIPPING)
    command = [sys.executable, "-m", "pytest", "-q", "--rootdir", str(folder), "-c", "/dev/null"]
    return subprocess.run(
        [*command, "-p", "tests.support.programs", str(folder / "test_it.py")],
        capture_output=True, text=True, check=False, cwd=ROOT, env=environment,
    )  # fmt: skip


def test_the_end_of_a_run_names_the_program_and_its_tests_in_one_line(tmp_path: Path) -> None:
    done = run(tmp_path, {"PATH": "/usr/bin:/bin"})
    assert done.returncode == 0, done.stdout
    line = "skipped, for there is no logrotate on this machine (apt-get install logrotate): 2 of test_it.py"
    assert done.stdout.splitlines().count(line) == 1


def test_stages_keep_what_they_skipped_for_the_end_of_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "skipped"
    for _ in range(2):
        assert "skipped, for" not in run(tmp_path, {"PATH": "/usr/bin:/bin", KEPT_IN: str(kept)}).stdout
    assert main(kept) == 0
    assert capsys.readouterr().out.splitlines() == [
        told([Skipped(PROGRAMS["logrotate"].reason, "test_it.py")] * 4)[0]
    ]


def test_a_test_that_is_skipped_for_anything_else_fails_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "skipped").write_text("no mood today\ttests/unit/test_x.py::test_it\n")
    assert main(tmp_path / "skipped") == 1
    assert (
        "tests/unit/test_x.py::test_it was skipped, and no missing program excuses it"
        in capsys.readouterr().err
    )


def test_a_run_that_skips_nothing_says_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(tmp_path / "skipped") == 0
    assert capsys.readouterr().out == ""


def test_a_program_that_is_there_is_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROGRAMS, "here", Program("here", "none", lambda: sys.executable))
    assert needed("here") == sys.executable
