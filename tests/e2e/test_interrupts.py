"""Ctrl-C at any moment of a command, to a real process: its exit status, and what is said."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path

import psutil
import pytest

from tests.e2e.one_query import one_query
from tests.e2e.process_marks import soon
from tests.support.shares import a_share

pytestmark = [pytest.mark.server, pytest.mark.slow]

# Ctrl-C comes when one of these modules was imported: no code of Photon runs before the first.
MOMENTS = [
    "photon.process.errors",
    "click.core",
    "photon.cli.output",
    "photon.pipeline.file",
    "photon.registry.opening",
]


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    file = one_query(tmp_path_factory.mktemp("interrupted"), "c1", datacenters=("east", "west"))
    with socket.create_server(("127.0.0.1", 0)) as silent:  # a master that never answers
        by_spark = f"spark: {{master: 'spark://127.0.0.1:{silent.getsockname()[1]}'}}\n"
        file.with_name("by_spark.yaml").write_text(file.read_text() + by_spark)
        done = run(file, "join", "--complete", "--engine", "local")
        _, said = done.communicate()
        assert done.returncode == 0, said[-2000:]
        yield file


def run(file: Path, command: str, *words: str) -> subprocess.Popen[str]:
    """Start a command that writes its imports to standard error."""
    return run_quietly(file, command, *words, options=["-X", "importtime"])


def run_quietly(file: Path, command: str, *words: str, options: Sequence[str] = ()) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *options, "-m", "photon.cli.main", command, str(file), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def once_it_says(words: str) -> Callable[[subprocess.Popen[str]], None]:
    def wait(process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        assert any(words in line for line in process.stderr)

    return wait


def interrupted(
    process: subprocess.Popen[str], *moments: Callable[[subprocess.Popen[str]], None]
) -> tuple[int, str, str]:
    """Interrupt at each moment; return the status as a shell counts it, and all output after the last."""
    for wait in moments:
        wait(process)
        process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=200)
    return process.returncode if process.returncode >= 0 else 128 - process.returncode, out, err


COMMANDS = product(["status", "verify", "trace c1"], MOMENTS)
JOINS = product(["", "-d east"], MOMENTS)


@pytest.mark.parametrize("call", a_share([*COMMANDS], 0), ids=" ".join)
def test_a_command_that_is_interrupted_ends_with_130(pipeline: Path, call: tuple[str, str]) -> None:
    words, moment = call
    status, _, err = interrupted(run(pipeline, *words.split()), once_it_says(f" {moment}\n"))
    assert status == 130
    assert "Aborted!" not in err


@pytest.mark.parametrize("call", a_share([*JOINS], 0), ids=" ".join)
def test_a_join_that_is_interrupted_once_stops_in_order(pipeline: Path, call: tuple[str, str]) -> None:
    words, moment = call
    process = run(pipeline, "join", "--engine", "local", *words.split())
    status, out, _ = interrupted(process, once_it_says(f" {moment}\n"))
    assert (status, bool(out)) in [(0, True), (130, False)]  # 130: before it could listen


@pytest.mark.parametrize("words", [[], ["-d", "east"]], ids=["all", "one"])
def test_a_join_that_is_interrupted_twice_ends_at_once_with_130(pipeline: Path, words: list[str]) -> None:
    process = run(pipeline, "join", "--engine", "local", *words)
    at_once = once_it_says("once more to stop at once")
    status, out, _ = interrupted(process, once_it_says(" photon.pipeline.file\n"), at_once)
    assert status in (130, 0)
    assert status == 130 or out


@pytest.mark.spark
def test_a_command_that_is_interrupted_while_spark_starts_ends_with_130_and_leaves_no_jvm(
    pipeline: Path,
) -> None:
    process = run_quietly(pipeline.with_name("by_spark.yaml"), "verify", "--json")
    jvms: list[psutil.Process] = []

    def its_jvm_starts(process: subprocess.Popen[str]) -> None:
        while not jvms:
            assert process.poll() is None
            own = psutil.Process(process.pid)
            jvms.extend(child for child in own.children(recursive=True) if child.name() == "java")
            time.sleep(0.05)  # nothing tells that a process has started another one

    status, out, err = interrupted(process, its_jvm_starts)
    assert status == 130
    assert json.loads(out) == {"error": "interrupted", "exit_status": 130}
    assert "Traceback" not in err
    # The kernel ends it with the command, a little after on a busy machine.
    assert soon(lambda: not any(jvm.is_running() for jvm in jvms))
