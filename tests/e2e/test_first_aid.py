"""First-aid commands say what they know whatever hangs, and name the process and the command that ends it."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from orchestration.demo.traffic import Traffic
from photon.dispatcher.shift.lease import lease_status_of
from tests.e2e.photon_process import PATIENCE_SECONDS, photon, running
from tests.support.local_servers import local_server
from tests.support.stopped_processes import stopped

WITHIN = ("--within", "2")
COMMANDS = (("status",), ("registry", "state"), ("trace",))

pytestmark = [pytest.mark.server, pytest.mark.slow]


@pytest.fixture
def pipeline(tmp_path: Path) -> Iterator[Path]:
    """A pipeline of one datacenter that has joined, whose local registry runs."""
    traffic = Traffic(1, ("east",), duration_seconds=2)
    file = traffic.write_pipeline(tmp_path, "aid")
    traffic.write_all(tmp_path)
    with local_server(tmp_path / "state" / "registry"):
        photon("join", file, "--until-idle", "--engine", "local")
        yield file


def said_by(*command: str, file: Path) -> str:
    """All that a command prints within two seconds of asking."""
    more = ["c1-00000001"] if command == ("trace",) else []
    done = photon(*command, file, *more, *WITHIN, status=None)
    assert done.returncode in (0, 3), done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_registry_server_that_is_stopped_is_named_with_the_command_that_has_it_go_on(
    pipeline: Path, command: tuple[str, ...]
) -> None:
    server = json.loads((pipeline.parent / "state" / "registry" / "server.json").read_text())["server_pid"]
    with stopped(server):
        said = said_by(*command, file=pipeline)
    assert f"process {server} is stopped: kill -CONT {server} has it go on, kill -9 {server} ends it" in said
    if command != ("registry", "state"):
        assert "east" in said, "what can be known is told"


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_endpoints_that_answer_nothing_are_named(tmp_path: Path, command: tuple[str, ...]) -> None:
    with closing(socket.create_server(("127.0.0.1", 0), backlog=64)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        file = Traffic(1, ("east",)).write_pipeline(tmp_path, "aid")
        file.write_text(file.read_text() + f"registry: {{endpoints: [{{url: {url}, region: local}}]}}\n")
        said = said_by(*command, file=file)
    assert url in said
    assert "no answer within" in said or "does not answer" in said or "timed out" in said, said


def test_a_join_that_is_stopped_is_named_at_once_with_the_command_that_has_it_go_on(pipeline: Path) -> None:
    state = pipeline.parent / "state" / "east"
    with running("join", pipeline, "--engine", "local") as process:
        ends = time.monotonic() + PATIENCE_SECONDS
        while not lease_status_of(state).is_locked and time.monotonic() < ends:
            time.sleep(0.05)
        with stopped(process.pid):
            done = photon("status", pipeline, "--check", *WITHIN, status=1)
    first, _, headline, *_ = done.stdout.splitlines()
    assert first == "1 of 1 datacenter needs somebody: east is silent"
    assert headline.startswith("east is SILENT: no sign of life for ")
    assert f"process {process.pid} is stopped: kill -CONT {process.pid} has it go on" in headline
