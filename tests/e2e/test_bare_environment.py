"""A machine that lacks something: one sentence with its remedy, the same in `photon status`, no defect."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from examples.demo.traffic import Traffic
from tests.e2e.photon_process import PATIENCE_SECONDS, photon
from tests.e2e.small_disk import SmallDisk

PHOTON = Path(sys.executable).with_name("photon")


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    traffic = Traffic(1, ("east", "west"), 20, 5, duration_seconds=5)
    made = traffic.write_pipeline(tmp_path)
    traffic.write_all(tmp_path)
    return made


def command(
    *arguments: str | Path,
    environment: Mapping[str, str] | None = None,
    limit: str = "",
    folder: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run the command as it is installed, in a folder of its own and under what `ulimit` is told."""
    limited = ("sh", "-c", f'ulimit {limit} && exec "$@"', "sh") if limit else ()
    # Else a limit on files cuts the bytecode of a module short, for all processes that come later.
    keeps = {"PYTHONDONTWRITEBYTECODE": "1"} if limit else {}
    return subprocess.run(
        [*limited, PHOTON, *arguments], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False,
        env={**os.environ, **keeps, **(environment or {})}, cwd=folder,
    )  # fmt: skip


def join(pipeline: Path, engine: str, **more: object) -> subprocess.CompletedProcess[str]:
    words = ("join", pipeline, "-d", "east", "--complete", "--engine", engine)
    return command(*words, **more)  # type: ignore[arg-type]


def assert_told(done: subprocess.CompletedProcess[str], pipeline: Path, *words: str) -> None:
    """One sentence with these words ended the command, and status has the same."""
    assert done.returncode == 3, done.stderr
    assert "Traceback" not in done.stderr
    told = done.stderr.splitlines()[-1].removeprefix("photon: ")
    assert [word for word in words if word not in told] == []
    assert told.removesuffix(".") in photon("status", pipeline).stdout


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"PATH": "/nowhere", "JAVA_HOME": ""}, ("no java on PATH", "Install Java 17")),
        ({"TMPDIR": "/nowhere"}, ("temporary folder /nowhere", "set TMPDIR")),
    ],
    ids=["no Java", "no temporary folder"],
)
def test_a_join_on_spark_names_what_spark_would_need(
    pipeline: Path, environment: Mapping[str, str], words: tuple[str, ...]
) -> None:
    assert_told(join(pipeline, "spark", environment=environment), pipeline, *words)


def test_a_java_that_ends_at_once_is_told_and_is_no_defect(pipeline: Path, tmp_path: Path) -> None:
    java = tmp_path / "home" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text('#!/bin/sh\n[ "$1" = -version ] && { echo \'version "17.0"\' >&2; exit; }\nexit 1\n')
    java.chmod(0o755)
    done = join(pipeline, "spark", environment={"JAVA_HOME": str(tmp_path / "home")})
    assert_told(done, pipeline, "ended before Spark had begun", str(java))


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    try:
        disk = SmallDisk(tmp_path / "full", "1m")
    except (subprocess.CalledProcessError, FileNotFoundError):
        pytest.skip("file systems can't be mounted here: a full disk can't be had")
    yield disk.folder
    disk.unmount()


@pytest.mark.slow
def test_a_full_temporary_folder_is_named_where_a_join_would_hang(pipeline: Path, full: Path) -> None:
    done = join(pipeline, "spark", environment={"TMPDIR": str(full)})
    assert_told(done, pipeline, f"temporary folder {full}", "make room there")


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ("-f 16", ("write files of 8.0 KiB", "ulimit -f unlimited")),
        pytest.param("-f 131072", ("write files of 64.0 MiB", "ulimit -f unlimited"), marks=pytest.mark.long),
        ("-v 819200", ("map 800 MiB of memory", "ulimit -v unlimited")),
        pytest.param("-v 2097152", ("map 2.0 GiB of memory", "ulimit -v unlimited"), marks=pytest.mark.long),
    ],
)
def test_a_limit_of_the_shell_is_named_before_anything_is_made(
    pipeline: Path, limit: str, words: tuple[str, ...]
) -> None:
    done = join(pipeline, "local", limit=limit)
    assert_told(done, pipeline, *words)
    assert not (pipeline.parent / "lake").exists()


@pytest.mark.parametrize("words", [("status",), ("join", "--complete", "--engine", "local")])
def test_under_a_limit_that_leaves_no_room_for_libraries_a_command_says_so(
    pipeline: Path, words: tuple[str, ...]
) -> None:
    done = command(words[0], pipeline, *words[1:], limit="-v 409600")
    assert (done.returncode, "Traceback" in done.stderr) == (3, False), done.stderr
    assert "ulimit -v unlimited" in done.stderr


def test_links_that_lead_in_a_circle_are_named_with_what_to_do(pipeline: Path) -> None:
    one = next(path for path in (pipeline.parent / "logs" / "east").rglob("*.*") if path.is_file())
    first, second = (one.with_name(f"{name}{one.suffix}") for name in ("first", "second"))
    first.symlink_to(second.name)
    second.symlink_to(first.name)
    join(pipeline, "local")
    assert "lead in a circle" in photon("status", pipeline).stdout


def plant(folder: Path) -> Path:
    """Make files that are named as what a child imports, and that nobody may take for it."""
    folder.mkdir()
    for name in ("photon", "jobs", "orchestration"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text("raise SystemExit('planted')\n")
    for name in ("fcntl", "json", "pyspark"):
        (folder / f"{name}.py").write_text("raise SystemExit('planted')\n")
    return folder


@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.spark)])
def test_no_child_imports_what_lies_in_the_folder_of_whoever_starts_it(
    pipeline: Path, tmp_path: Path, engine: str
) -> None:
    done = command(
        *("join", pipeline, "--complete", "--json", "--engine", engine), folder=plant(tmp_path / "planted")
    )
    assert done.returncode == 0, done.stderr
    assert "planted" not in done.stderr
