"""The local registry's server on demand: started once, shared, restarted when it died, never left behind.

On dynoxide, as it is by default; what depends on the server is tried on DynamoDB Local too.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import psutil
import pytest

from photon.pipeline.file import Pipeline
from photon.pipeline.sections import Datacenter, ForeignLog, PrimaryLog, Registry
from photon.process.clock import SystemClock
from photon.process.operating_system import state_of
from photon.registry.errors import RegistryUnavailable
from photon.registry.opening import (
    close_registries,
    init_registry,
    positions_at,
)
from photon.registry.servers import local_server as module
from photon.registry.servers import local_supervisor
from photon.registry.servers.local_server import (
    LocalServer,
    default_kind,
    hanging,
    is_silent,
    kind_of,
    running_server,
)
from photon.registry.servers.local_supervisor import DATABASES, Running, ServerKind, answers, free_port
from photon.registry.stores.copies import REGISTER_KEY, NoReply
from photon.registry.stores.dynamo import DynamoStore
from photon.toolchain.java import JavaMissing, java_command
from tests.registry.store_backends import append
from tests.support.local_servers import local_server
from tests.support.stopped_processes import stopped

KINDS: tuple[ServerKind, ...] = ("dynoxide", "dynamodb-local")
HOLD_FOR_EVER = """
import sys, time
from pathlib import Path
from photon.registry.servers.local_server import LocalServer
server = LocalServer(Path(sys.argv[1]), "dynoxide")
print(server.ensure(), flush=True)
time.sleep(600)
"""


def soon(true: Callable[[], bool], seconds: float = 20.0) -> bool:
    """Wait until something is true, and say whether it is: no clock of ours moves other processes."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if true():
            return True
        time.sleep(0.02)
    return False


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def running(folder: Path) -> Running:
    found = running_server(folder)
    assert found is not None
    return found


def user(folder: Path) -> subprocess.Popen[str]:
    """Another process that uses the server, once it has it."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD_FOR_EVER, str(folder)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("http://")
    return process


@pytest.mark.server
def test_a_server_stops_when_its_last_user_leaves(tmp_path: Path) -> None:
    with local_server(tmp_path) as url:
        pid = running(tmp_path).server_pid
        assert answers(url)
    assert soon(lambda: not is_alive(pid))
    assert soon(lambda: not (tmp_path / "server.json").exists())


@pytest.mark.server
def test_a_server_stops_when_its_users_were_killed(tmp_path: Path) -> None:
    process = user(tmp_path)
    found = running(tmp_path)
    process.kill()
    process.wait()
    assert soon(lambda: not is_alive(found.server_pid) and not is_alive(found.supervisor_pid))


@pytest.mark.server
def test_a_server_stays_for_the_users_that_are_left(tmp_path: Path) -> None:
    with local_server(tmp_path) as url:
        process = user(tmp_path)
        assert running(tmp_path).url == url
        process.kill()
        process.wait()
        time.sleep(3 * local_supervisor.USERS_POLL_SECONDS)  # the supervisor has looked, more than once
        assert answers(url)


@pytest.mark.server
def test_many_users_at_once_share_one_server(tmp_path: Path) -> None:
    servers = [LocalServer(tmp_path, "dynoxide") for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        urls = set(pool.map(LocalServer.ensure, servers))
    assert len(urls) == 1
    for server in servers:
        server.leave()


@pytest.mark.server
@pytest.mark.parametrize("victim", ["server_pid", "supervisor_pid"])
def test_a_server_that_was_killed_is_started_again(tmp_path: Path, victim: str) -> None:
    server = LocalServer(tmp_path, "dynoxide")
    server.ensure()
    before = running(tmp_path)
    os.kill(getattr(before, victim), signal.SIGKILL)
    assert soon(lambda: not is_alive(before.server_pid))
    assert answers(server.ensure())
    assert running(tmp_path).server_pid != before.server_pid
    server.leave()


@pytest.mark.server
def test_a_damaged_database_is_said_with_the_section_that_has_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "dynoxide.db").write_bytes(b"no database" * 1000)
    heading = "A lost registry"
    said = pytest.raises(RegistryUnavailable, match=f'docs/operations.md, "{heading}"')
    with said, local_server(tmp_path, "dynoxide"):
        pass
    assert f"### {heading}" in Path("docs/operations.md").read_text()


def test_a_server_that_may_only_be_slow_is_asked_again_before_it_is_ended(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        while state_of(process.pid) != "S":  # until the system has read its program from a disk
            pass
        note = {"url": "http://127.0.0.1:1", "server_pid": process.pid, "supervisor_pid": os.getpid()}
        (tmp_path / "server.json").write_text(json.dumps(note))
        assert "may be slow: try again. If it never answers: kill -9" in hanging(tmp_path)
        process.send_signal(signal.SIGSTOP)
        while state_of(process.pid) != "T":
            pass
        assert f"kill -CONT {process.pid} has it go on" in hanging(tmp_path)
    finally:
        process.kill()
        process.wait()


@pytest.mark.server
def test_a_server_that_stands_still_is_silent_and_one_that_nobody_needs_is_not(tmp_path: Path) -> None:
    assert not is_silent(tmp_path)
    with local_server(tmp_path):
        assert not is_silent(tmp_path)
        with stopped(running(tmp_path).server_pid):
            assert is_silent(tmp_path)
        assert soon(lambda: not is_silent(tmp_path))
    assert soon(lambda: running_server(tmp_path) is None)
    assert soon(lambda: not is_silent(tmp_path))  # a supervisor that is just stopping it is there a while


@pytest.mark.server
def test_a_stale_note_of_a_dead_server_is_not_believed(tmp_path: Path) -> None:
    note = {"url": "http://127.0.0.1:1", "server_pid": 1, "supervisor_pid": 1}
    (tmp_path / "server.json").write_text(json.dumps(note))
    with local_server(tmp_path) as url:
        assert url != note["url"]
        assert answers(url)


@pytest.mark.server
def test_a_note_cut_short_is_not_believed(tmp_path: Path) -> None:
    (tmp_path / "server.json").write_text('{"url": "http')
    with local_server(tmp_path) as url:
        assert answers(url)


@pytest.mark.server
def test_a_port_that_was_taken_since_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with local_server(tmp_path / "one") as url:
        taken = int(url.rsplit(":", 1)[1])
        ports = iter([taken, free_port()])
        monkeypatch.setattr(local_supervisor, "free_port", lambda: next(ports))
        (tmp_path / "two").mkdir()
        server = local_supervisor._start_server(tmp_path / "two", "dynoxide")
        assert server is not None
        try:
            assert json.loads((tmp_path / "two" / "server.json").read_text())["url"] != url
        finally:
            local_supervisor._stop(server)


@pytest.mark.server
@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_database_is_said_to_be_one(tmp_path: Path, kind: ServerKind) -> None:
    (tmp_path / DATABASES[kind]).write_bytes(b"no database" * 1_000)
    said = pytest.raises(RegistryUnavailable, match=r"not a (valid SQLite )?database")
    with said, local_server(tmp_path, kind):
        pass


@pytest.mark.server
def test_dynoxide_is_reached_over_the_loopback_address_only(tmp_path: Path) -> None:
    with local_server(tmp_path, "dynoxide") as url:
        port = int(url.rsplit(":", 1)[1])
        sockets = psutil.Process(running(tmp_path).server_pid).net_connections(kind="tcp")
        assert {s.laddr for s in sockets if s.status == psutil.CONN_LISTEN} == {("127.0.0.1", port)}


@pytest.mark.parametrize("before", ["dynamodb-local", "dynoxide"])
def test_the_data_in_a_folder_says_which_server_it_is(tmp_path: Path, before: ServerKind) -> None:
    (tmp_path / DATABASES[before]).touch()
    assert kind_of(tmp_path) == before


def test_a_new_folder_has_the_server_of_its_machine(tmp_path: Path) -> None:
    assert kind_of(tmp_path) == kind_of(tmp_path / "not there") == default_kind()


def test_the_supervisor_finds_the_package_of_its_user_wherever_that_was_started() -> None:
    first = Path(module._python_path().split(os.pathsep)[0])
    assert (first / "photon" / "registry" / "servers" / "local_server.py").samefile(module.__file__)


def test_without_java_the_reason_and_the_remedy_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_java() -> str:
        raise JavaMissing("There is no java on PATH. Install Java 17.")

    monkeypatch.setattr(local_supervisor, "java_command", no_java)
    monkeypatch.setattr(local_supervisor, "dynamodb_local_jars", lambda: tmp_path)
    refused = pytest.raises(RegistryUnavailable, match="Install Java 17")
    with refused, local_server(tmp_path, "dynamodb-local"):
        pass


@pytest.mark.server
def test_dynoxide_needs_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with local_server(tmp_path / "registry", "dynoxide") as url:
        assert answers(url)


@pytest.mark.parametrize(("kind", "target"), [("dynoxide", "setup"), ("dynamodb-local", "dynamodb-local")])
def test_without_the_server_the_make_target_that_fetches_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: ServerKind, target: str
) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    with pytest.raises(RegistryUnavailable, match=f"make {target}\\b"), local_server(tmp_path / "r", kind):
        pass


def test_a_folder_that_can_not_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RegistryUnavailable, match="make it writable"), local_server(tmp_path / "file" / "f"):
        pass


@contextmanager
def held_by_another_process(folder: Path, name: str) -> Iterator[None]:
    """A supervisor that neither serves nor ends."""
    with (folder / name).open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.mark.parametrize("lock", ["users.lock", "server.lock"])
def test_who_waits_for_a_server_that_another_process_starts_or_stops_hears_in_time_what_to_do(
    lock: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "START_SECONDS", 0.5)
    server = LocalServer(tmp_path, "dynoxide")
    with held_by_another_process(tmp_path, lock), pytest.raises(RegistryUnavailable) as raised:
        server.ensure()
    server.leave()
    for part in (
        f"dynoxide in {tmp_path}",
        f"its log {tmp_path}/server.log",
        "end the process",
        "start again",
    ):
        assert part in str(raised.value)


def test_each_thread_waits_for_a_server_once_and_not_once_for_each_other_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "START_SECONDS", 4.0)
    server, began = LocalServer(tmp_path, "dynoxide"), time.monotonic()
    with held_by_another_process(tmp_path, "server.lock"), ThreadPoolExecutor(5) as pool:
        failures = [pool.submit(server.ensure).exception for _ in range(5)]
        assert all(isinstance(failure(), RegistryUnavailable) for failure in failures)
    assert time.monotonic() - began < 5 * module.START_SECONDS, "one after the other they wait as long"
    server.leave()


def test_a_start_that_failed_is_not_tried_again_by_each_request_that_waited_for_it() -> None:
    starts, waiting = list[int](), threading.Semaphore(0)

    def connect() -> None:
        for _ in range(5):
            assert waiting.acquire(timeout=10)
        time.sleep(0.2)  # lets them reach the lock
        starts.append(1)
        raise RegistryUnavailable("it does not start")

    def request(store: DynamoStore) -> object:
        waiting.release()
        return store.get(REGISTER_KEY)

    store = DynamoStore("table", connect)
    with ThreadPoolExecutor(5) as pool:
        replies = list(pool.map(request, [store] * 5))
    assert replies == [NoReply("it does not start", "unreachable")] * 5
    assert len(starts) == 1
    for _ in range(4):
        waiting.release()
    request(store)
    assert len(starts) == 2, "who comes later tries again"


def test_a_supervisor_gives_up_a_server_that_hangs_as_soon_as_its_users_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_supervisor, "START_SECONDS", 1.0)
    started: list[int] = []

    def hangs(*_: object) -> list[str]:
        started.append(1)
        return ["sleep", "60"]

    monkeypatch.setattr(local_supervisor, "server_command", hangs)
    assert local_supervisor._start_server(tmp_path, "dynoxide") is None
    assert len(started) == 1


@pytest.mark.server
def test_a_server_that_will_not_start_says_so_with_the_end_of_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java_command()  # there is a Java: only the server's own start is to fail
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:NoSuchOption")
    with (
        pytest.raises(RegistryUnavailable, match=r"server\.log.*NoSuchOption|server\.log.*does not run"),
        local_server(tmp_path, "dynamodb-local"),
    ):
        pass


def pipeline(folder: Path, kind: ServerKind = "dynoxide") -> Pipeline:
    """Make a pipeline whose registry's folder is begun by a server of this kind."""
    (folder / "state" / "registry").mkdir(parents=True)
    (folder / "state" / "registry" / DATABASES[kind]).touch()
    return Pipeline(
        name="events",
        file=folder / "events.yaml",
        datacenters={"east": Datacenter(logs=Path("l"), lake=Path("k"), state=Path("s"))},
        primary=PrimaryLog(files="*", format="csv", id=("id",), time="t"),
        foreign=ForeignLog(files="*", format="csv", id=("id",), key=("key",), time="t"),
        # A busy machine starts a server slowly.
        registry=Registry(total_timeout=timedelta(seconds=60)),
    )


@pytest.mark.server
@pytest.mark.parametrize("kind", KINDS)
def test_a_registry_whose_server_was_killed_keeps_what_it_had_and_serves_again(
    tmp_path: Path, kind: ServerKind
) -> None:
    events = pipeline(tmp_path, kind)
    try:
        positions = positions_at(init_registry(events, SystemClock()))
        values = append(positions, 3)
        os.kill(running(events.registry_folder).server_pid, signal.SIGKILL)
        assert append(positions, 2)[:3] == values
    finally:
        close_registries()


FOREIGN_ELF = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00\xf3\x00" + bytes(100)  # for another processor
SUPERVISES = """
import sys
from pathlib import Path
from photon.registry.servers import local_supervisor
local_supervisor.server_command = lambda *_: [{program!r}]
sys.exit(local_supervisor.supervise(Path(sys.argv[1]), sys.argv[2]))
"""


@pytest.mark.parametrize(
    ("content", "mode", "remedy"),
    [
        (b"#!/bin/sh\n", 0o644, "make it executable: chmod .x {program}"),
        (
            FOREIGN_ELF,
            0o755,
            "it is no program for this machine .* remove {program} and fetch it again",
        ),
        (b"no program\n", 0o755, "it is no program for this machine .* make setup"),
        (b"#!/no/such/shell\n", 0o755, "it is no program for this machine .* make setup"),
    ],
    ids=["not executable", "another processor", "no program", "its interpreter is missing"],
)
def test_a_server_that_the_system_does_not_run_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, mode: int, remedy: str
) -> None:
    program = tmp_path / "dynoxide"
    program.write_bytes(content)
    program.chmod(mode)
    (tmp_path / "supervises.py").write_text(SUPERVISES.format(program=str(program)))
    monkeypatch.setattr(module, "_MODULE", "supervises")
    monkeypatch.setattr(module, "server_command", lambda *_, **__: [str(program)])
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    said = f"its server {program} can't be executed .*; {remedy.format(program=program)}"
    with pytest.raises(RegistryUnavailable, match=said), local_server(tmp_path / "registry", "dynoxide"):
        pass
