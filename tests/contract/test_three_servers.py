"""One registry over three DynamoDB Local servers: killed, wiped, repaired, while commits go on."""

from __future__ import annotations

import logging
import shutil
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from photon.clock import SystemClock
from photon.pipeline import Datacenter, Endpoint, ForeignLog, Pipeline, PrimaryLog, Registry
from photon.registry.directory import DIRECTORY
from photon.registry.dynamodb import dynamodb_client
from photon.registry.init import RegistryMissing, find_registry, init_registry
from photon.registry.interface import (
    Claim,
    CommitOutcome,
    EventKey,
    Joined,
    Lost,
    RegistryMismatch,
    RegistryUnavailable,
    Won,
)
from photon.registry.local_server import DATABASE, _free_port, _java_arguments, _use_write_ahead_log, answers
from photon.registry.open import close_registries, open_registry
from photon.registry.repair import repair_endpoint
from tests.contract.registry_checks import token

pytestmark = [pytest.mark.server, pytest.mark.slow]

EAST, WEST, LATER = token("east", 1), token("west", 2), token("east", 3, batch=2)
START_SECONDS = 60.0


class Server:
    """A server that keeps its port through kills."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._java: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.folder.mkdir(exist_ok=True)
        _use_write_ahead_log(self.folder / DATABASE)
        with (self.folder / "server.log").open("ab") as log:
            arguments = _java_arguments(self.folder, self.port)
            self._java = subprocess.Popen(arguments, cwd=self.folder, stdout=log, stderr=log)
        wait = threading.Event()
        for _ in range(round(START_SECONDS / 0.1)):
            if answers(self.url):
                return
            wait.wait(0.1)
        raise AssertionError(f"no answer from {self.url} within {START_SECONDS} s")

    def kill(self) -> None:
        if self._java is not None:
            self._java.kill()
            self._java.wait()
            self._java = None

    def wipe(self) -> None:
        self.kill()
        shutil.rmtree(self.folder)
        self.start()

    def client(self) -> Any:
        return dynamodb_client(self.url, "local", timedelta(seconds=10), 4)


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    folder = tmp_path_factory.mktemp("stores")
    made = [Server(folder / str(number)) for number in range(3)]
    yield made
    for server in made:
        server.kill()


@pytest.fixture
def servers(machines: list[Server]) -> Iterator[list[Server]]:
    """Three servers that run."""
    for server in machines:
        if not answers(server.url):
            server.start()
    yield machines
    close_registries()


def pipeline(name: str, *urls: str) -> Pipeline:
    return Pipeline(
        name=name,
        file=Path("/nowhere/events.yaml"),
        datacenters={"east": Datacenter(logs=Path("l"), lake=Path("k"), state=Path("s"))},
        primary=PrimaryLog(files="*", format="csv", id=("id",), time="t"),
        foreign=ForeignLog(files="*", format="csv", id=("id",), key=("key",), time="t"),
        registry=Registry(
            endpoints=tuple(Endpoint(url=url) for url in urls),
            request_timeout=timedelta(seconds=20),  # three servers on a busy machine
            deadline=timedelta(seconds=60),
        ),
    )


def over(name: str, servers: list[Server]) -> Pipeline:
    return pipeline(name, *(server.url for server in servers))


def ids(prefix: str, count: int) -> list[EventKey]:
    return [EventKey(f"{prefix}-{i}") for i in range(count)]


def test_a_minority_killed_under_load_and_brought_back_loses_no_id_and_gives_none_twice(
    servers: list[Server],
) -> None:
    events = over("killed", servers)
    registry = open_registry(init_registry(events, SystemClock()))
    passed = threading.Semaphore(0)

    def load(own: str) -> list[CommitOutcome]:
        outcomes: list[CommitOutcome] = []
        for batch in range(30):
            outcomes += registry.commit([Claim(key, own) for key in ids(f"b{batch}", 20)])
            passed.release()
        return outcomes

    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(load, own) for own in (EAST, WEST)]
        for _ in range(20):
            passed.acquire()
        servers[1].kill()
        for _ in range(20):
            passed.acquire()
        servers[1].start()
        east, west = (future.result() for future in both)
    assert Counter(type(o).__name__ for o in [*east, *west]) == {"Won": 600, "Lost": 600}
    assert all((one == Won()) != (other == Won()) for one, other in zip(east, west, strict=True))
    servers[0].kill()  # what the killed one missed is known by the third
    keys = [key for batch in range(30) for key in ids(f"b{batch}", 20)]
    later = registry.commit([Claim(key, LATER) for key in keys])
    winners = [EAST if outcome == Won() else WEST for outcome in east]
    assert [outcome.holder.token for outcome in later if isinstance(outcome, Lost)] == winners


def test_a_wiped_endpoint_is_named_and_not_used_until_it_is_repaired(
    servers: list[Server], caplog: pytest.LogCaptureFixture
) -> None:
    events = over("wiped", servers)
    running = open_registry(init_registry(events, SystemClock()))
    assert running.commit([Claim(key, EAST) for key in ids("a", 60)]) == [Won()] * 60
    servers[2].wipe()
    with caplog.at_level(logging.WARNING):
        address = find_registry(events)
    assert f"{servers[2].url} has lost its data" in caplog.text
    assert "photon registry repair /nowhere/events.yaml --endpoint URL" in caplog.text
    assert open_registry(address).commit([Claim(key, EAST) for key in ids("b", 60)]) == [Won()] * 60
    assert servers[2].client().list_tables()["TableNames"] == []

    repair = repair_endpoint(events, servers[2].url, SystemClock())
    assert (repair.copied, repair.mended) == (120, 0)
    assert set(servers[2].client().list_tables()["TableNames"]) == {repair.table, DIRECTORY}
    assert running.commit([Claim(key, EAST) for key in ids("c", 60)]) == [Won()] * 60
    stored = [
        _values(server, table) for server, table in zip(servers, find_registry(events).tables, strict=True)
    ]
    assert stored[0] == stored[1] == stored[2]
    servers[0].kill()
    everything = [*ids("a", 60), *ids("b", 60), *ids("c", 60)]
    outcomes = running.commit([Claim(key, WEST) for key in everything])
    assert all(isinstance(outcome, Lost) and outcome.holder.token == EAST for outcome in outcomes)
    assert all(isinstance(found, Joined) for found in running.lookup(everything[:120]))


def _values(server: Server, table: str) -> dict[str, str]:
    items = server.client().scan(TableName=table, ConsistentRead=True)["Items"]
    return {item["s"]["S"]: item["t"]["S"] for item in items if item["p"]["S"] != "register"}


def test_init_needs_every_endpoint_once_and_can_be_repeated(servers: list[Server]) -> None:
    events = over("late", servers)
    servers[1].kill()
    with pytest.raises(RegistryUnavailable, match=servers[1].url):
        init_registry(events, SystemClock())
    servers[1].start()
    with pytest.raises(RegistryMissing):
        find_registry(events)
    made = init_registry(events, SystemClock())
    assert made.members is not None
    assert len(set(made.members.incarnations)) == 3
    servers[1].kill()
    assert find_registry(events) == init_registry(events, SystemClock()) == made


def test_of_two_inits_at_once_one_wins_at_every_endpoint(servers: list[Server]) -> None:
    events = over("twice", servers)
    with ThreadPoolExecutor(2) as pool:
        made = set(pool.map(lambda _: init_registry(events, SystemClock()), range(2)))
    (address,) = made
    for server, table in zip(servers, address.tables, strict=True):
        there = server.client().list_tables()["TableNames"]
        assert [name for name in there if name.startswith("photon-twice-")] == [table]


def test_two_urls_of_one_store_are_refused(servers: list[Server]) -> None:
    same = servers[0].url.replace("127.0.0.1", "localhost")
    events = pipeline("same", servers[0].url, servers[1].url, same)
    with pytest.raises(RegistryMismatch, match="one and the same store"):
        init_registry(events, SystemClock())


def test_endpoints_in_another_order_are_refused_with_the_remedy(servers: list[Server]) -> None:
    init_registry(over("order", servers), SystemClock())
    with pytest.raises(RegistryMismatch, match="put the endpoints in their old order"):
        find_registry(over("order", [servers[1], servers[0], servers[2]]))


def test_a_store_restored_from_an_older_copy_is_out_of_use_before_it_is_started(
    servers: list[Server], tmp_path: Path
) -> None:
    events = over("restored", servers)
    running = open_registry(init_registry(events, SystemClock()))
    servers[1].kill()
    shutil.copytree(servers[1].folder, tmp_path / "copy")
    servers[1].start()
    assert running.commit([Claim(key, EAST) for key in ids("a", 20)]) == [Won()] * 20
    servers[1].kill()
    shutil.rmtree(servers[1].folder)
    shutil.copytree(tmp_path / "copy", servers[1].folder)
    with pytest.raises(RegistryUnavailable, match=servers[1].url):
        repair_endpoint(events, servers[1].url, SystemClock())
    servers[1].start()
    assert repair_endpoint(events, servers[1].url, SystemClock()).copied == 20
    servers[0].kill()
    outcomes = open_registry(find_registry(events)).commit([Claim(key, WEST) for key in ids("a", 20)])
    assert all(isinstance(outcome, Lost) and outcome.holder.token == EAST for outcome in outcomes)
