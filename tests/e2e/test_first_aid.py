"""First-aid commands say what they know whatever hangs, and name the process and the command that ends it."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from examples.demo.traffic import Traffic
from infra.servers.stores import fastest_kind, store_servers
from photon.dispatcher.shift.lease import lease_status_of
from tests.e2e.photon_process import PATIENCE_SECONDS, line_with, photon, running
from tests.support.commands import photon as here
from tests.support.registry_writer import writing_in
from tests.support.stopped_processes import stopped

WITHIN = ("--within", "2")
COMMANDS = (("status",), ("registry", "state"), ("trace",))

pytestmark = [pytest.mark.server, pytest.mark.slow]


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pipeline of one datacenter that has joined."""
    traffic, folder = Traffic(1, ("east",), duration_seconds=2), tmp_path_factory.mktemp("joined")
    file = traffic.write_pipeline(folder, "aid")
    traffic.write_all(folder)
    photon("join", file, "--until-idle", "--engine", "local")
    return file


def said_by(*command: str, file: Path) -> str:
    """All that a command prints within two seconds of asking."""
    more = ["c1-00000001"] if command == ("trace",) else []
    done = photon(*command, file, *more, *WITHIN, status=None)
    assert done.returncode in (0, 3), done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("command", [*COMMANDS, ("hold",)], ids=" ".join)
def test_commands_beside_a_process_that_stands_still_while_it_writes_to_the_registry_say_what_they_know(
    pipeline: Path, command: tuple[str, ...]
) -> None:
    with writing_in(pipeline.parent / "state" / "registry") as writer, stopped(writer):
        if command == ("hold",):
            said = photon(*command, pipeline, "east", status=3).stderr
        else:
            said = said_by(*command, file=pipeline)
    assert f"process {writer} (" in said
    assert f"holds it, and is stopped: kill -CONT {writer} has it go on" in said
    assert "kill -9" not in said
    if command in (("status",), ("trace",)):
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


def test_a_status_names_the_endpoint_that_is_down_while_the_others_register_ids(tmp_path: Path) -> None:
    """Broken variant: "All is well" stands over the last endpoint that may go."""
    with store_servers(fastest_kind(), tmp_path / "endpoints", 3) as servers:
        file = Traffic(1, ("east",), duration_seconds=2).write_pipeline(tmp_path, "aid")
        urls = ", ".join(f"{{url: {server.url}}}" for server in servers)
        file.write_text(file.read_text() + f"registry: {{endpoints: [{urls}]}}\n")
        photon("registry", "init", file)
        before = photon("status", file).stdout
        servers[0].kill()
        done = photon("status", file, "--check", status=1)
    assert servers[0].url not in before
    assert done.stdout.startswith(f"The registry needs somebody: {servers[0].url}"), done.stdout


@pytest.fixture
def beside_silence(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A pipeline whose only endpoint takes connections and answers nothing; and its address."""
    with closing(socket.create_server(("127.0.0.1", 0), backlog=64)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        file = Traffic(1, ("east",)).write_pipeline(tmp_path, "aid", "unmatched: {}\n")
        file.write_text(file.read_text() + f"registry: {{endpoints: [{{url: {url}, region: local}}]}}\n")
        yield file, url


@pytest.mark.parametrize(
    "command",
    [
        "hold",
        "resume",
        "verify",
        "recover",
        "retire",
        "unmatched",
        "backfill",
        "registry init",
        "registry repair",
        "registry gc",
        "registry refill",
    ],
)
def test_commands_that_can_do_nothing_without_the_registry_give_up_soon_and_name_it(
    beside_silence: tuple[Path, str], command: str
) -> None:
    file, url = beside_silence
    more = {
        **{verb: ["east"] for verb in ("hold", "resume", "retire")},
        "backfill": ["-d", "east", "--day", "2026-01-31"],
        "registry repair": ["--endpoint", url],
    }.get(command, [])
    done = here(*command.split(), file, *more)
    assert done.exit_code == 3, done.output
    assert f"the registry at {url}: no answer within 2.5 s; look at these servers" in done.stderr


@pytest.mark.parametrize("command", ["dead-letters", "releases", "compact"])
def test_commands_that_need_no_registry_answer_beside_one_that_hangs(
    beside_silence: tuple[Path, str], command: str
) -> None:
    file, _ = beside_silence
    done = here(command, file)
    assert (done.exit_code, "join" in done.stdout) == (0, True), done.output


@pytest.mark.parametrize(
    "words",
    [
        "recover --reason broken",
        "recover --day 2026-1-1",
        "verify --record --day 2026-01-31",
        "backfill -d east --fill --from 2026-01-31",
        "hold north",
        "acknowledge north --rows",
    ],
)
def test_what_is_wrong_in_a_command_is_told_beside_a_registry_that_hangs(
    beside_silence: tuple[Path, str], words: str
) -> None:
    file, _ = beside_silence
    command, *options = words.split()
    assert here(command, file, *options).exit_code == 2


def test_a_join_says_soon_what_it_waits_for(beside_silence: tuple[Path, str]) -> None:
    file, url = beside_silence
    with running("join", file, "--engine", "local") as process:
        said = f"the registry at {url}: no answer within 2.5 s; look at these servers"
        assert said in line_with("waits: ", process)
        lease = lease_status_of(file.parent / "state" / "east").lease
        assert lease is not None
        assert lease.waits_for.startswith(said), "nobody else sees what it waits for"


def test_a_join_that_is_stopped_is_named_at_once_with_the_command_that_has_it_go_on(pipeline: Path) -> None:
    state = pipeline.parent / "state" / "east"
    with running("join", pipeline, "--engine", "local") as process:
        ends = time.monotonic() + PATIENCE_SECONDS
        while not lease_status_of(state).is_locked and time.monotonic() < ends:
            time.sleep(0.05)
        with stopped(process.pid):
            done = photon("status", pipeline, "--check", *WITHIN, status=1)
    first, *rest = done.stdout.splitlines()
    # A join that was stopped while it wrote to the registry holds that as well, and status says so first.
    assert first.endswith("1 of 1 datacenter needs somebody: east is silent")
    (headline,) = (line for line in rest if line.startswith("east is SILENT: no sign of life for "))
    assert f"process {process.pid} is stopped: kill -CONT {process.pid} has it go on" in headline
