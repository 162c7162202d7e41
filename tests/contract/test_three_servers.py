"""One registry over three or five servers: killed, stalled, wiped, repaired, while commits go on."""

from __future__ import annotations

import logging
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from multiprocessing import get_context
from pathlib import Path

import pytest

from bench.store_servers import StoreServer, is_available, registry_pipeline, store_servers
from photon.clock import SystemClock
from photon.faults import arm, disarm
from photon.ledger.address import EndpointAddress
from photon.ledger.errors import RegistryMismatch, RegistryMissing, RegistryUnavailable
from photon.ledger.opening import close_registries, find_registry, init_registry, open_registry
from photon.pipeline.event_key import EventKey
from photon.pipeline.file import Pipeline
from photon.pipeline.sections import Registry
from photon.registry.interface import Claim, CommitOutcome, IdRegistry, Joined, Lost, Won
from photon.registry.operations.copying import RepairSuperseded
from photon.registry.operations.directory import DIRECTORY, Directory
from photon.registry.operations.gc import EndpointGc, gc_pass, raise_boundary
from photon.registry.operations.ranges import ITEMS_BETWEEN_NOTES
from photon.registry.operations.repair import repair_endpoint
from photon.registry.operations.repair_dry_run import would_repair
from photon.testing.crashes import SimulatedCrash, raise_simulated_crash
from tests.contract.registry_backends import SERVER_KINDS
from tests.contract.registry_checks import token

pytestmark = [pytest.mark.server, pytest.mark.slow]

EAST, WEST, LATER = token("east", 1), token("west", 2), token("east", 3, batch=2)
IDS_PER_BATCH = 20
PAGES_UNDER_WAY = 300  # ids of the shards that were being copied, and of those since the position was noted


@pytest.fixture(scope="module", params=SERVER_KINDS)
def machines(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[StoreServer]]:
    if not is_available(request.param):
        pytest.skip(f"there is no {request.param} on this machine")
    with store_servers(request.param, tmp_path_factory.mktemp("stores"), 5) as servers:
        yield servers


@pytest.fixture
def five(machines: list[StoreServer]) -> Iterator[list[StoreServer]]:
    """Five servers that run."""
    for server in machines:
        server.start()
    yield machines
    close_registries()


@pytest.fixture
def servers(five: list[StoreServer]) -> list[StoreServer]:
    """Three of them."""
    return five[:3]


def pipeline(name: str, *urls: str) -> Pipeline:
    settings = Registry(
        request_timeout=timedelta(seconds=20),  # five servers on a busy machine
        total_timeout=timedelta(seconds=60),
    )
    return registry_pipeline(name, urls, settings)


def over(name: str, servers: list[StoreServer]) -> Pipeline:
    return pipeline(name, *(server.url for server in servers))


def ids(prefix: str, count: int) -> list[EventKey]:
    return [EventKey(f"{prefix}-{i}") for i in range(count)]


class Load:
    """Two datacenters that register the same ids, batch after batch, until `end`."""

    def __init__(self, registry: IdRegistry) -> None:
        self._registry = registry
        self._passed = threading.Semaphore(0)
        self._is_over = threading.Event()
        self._pool = ThreadPoolExecutor(2)
        self._both: list[Future[list[CommitOutcome]]] = []

    def __enter__(self) -> Load:
        self._both = [self._pool.submit(self._commit, own) for own in (EAST, WEST)]
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._pool.shutdown()

    def _commit(self, own: str) -> list[CommitOutcome]:
        outcomes: list[CommitOutcome] = []
        while not self._is_over.is_set():
            batch = ids(f"b{len(outcomes) // IDS_PER_BATCH}", IDS_PER_BATCH)
            outcomes += self._registry.commit([Claim(key, own) for key in batch])
            self._passed.release()
        return outcomes

    def go_on_for(self, batches: int) -> None:
        """Wait until so many more batches have passed."""
        for _ in range(batches):
            self._passed.acquire()

    def winners(self) -> dict[EventKey, str]:
        """Who won each id, once it is over; every id had exactly one winner."""
        east, west = (future.result() for future in self._both)
        assert [outcome for outcome in [*east, *west] if not isinstance(outcome, Won | Lost)] == []
        won: list[tuple[EventKey, str]] = []
        for own, outcomes in ((EAST, east), (WEST, west)):
            for index, outcome in enumerate(outcomes):
                if outcome == Won():
                    won.append((EventKey(f"b{index // IDS_PER_BATCH}-{index % IDS_PER_BATCH}"), own))
        assert len(won) == max(len(east), len(west))
        assert len(dict(won)) == len(won)
        return dict(won)


def check_that_all_lost_to(registry: IdRegistry, winners: dict[EventKey, str]) -> None:
    """No id is lost, and none is let in again."""
    later = registry.commit([Claim(key, LATER) for key in winners])
    assert {type(outcome) for outcome in later} == {Lost}
    named = [outcome.holder.token for outcome in later if isinstance(outcome, Lost)]
    assert named == list(winners.values())


def check_that_all_agree(servers: list[StoreServer], events: Pipeline, count: int) -> None:
    """Every endpoint has the same value for each of so many ids."""
    first, *others = (
        _values(server, table) for server, table in zip(servers, find_registry(events).tables, strict=True)
    )
    assert len(first) == count
    assert all(other == first for other in others)


def _values(server: StoreServer, table: str) -> dict[str, str]:
    pages = server.client().get_paginator("scan").paginate(TableName=table, ConsistentRead=True)
    items = [item for page in pages for item in page["Items"] if item["p"]["S"] != "register"]
    return {item["s"]["S"]: item["t"]["S"] for item in items}


def test_one_of_three_killed_under_load_and_brought_back_loses_no_id_and_gives_none_twice(
    servers: list[StoreServer],
) -> None:
    registry = open_registry(init_registry(over("killed", servers), SystemClock()))
    with Load(registry) as load:
        load.go_on_for(20)
        servers[1].kill()
        load.go_on_for(20)
        servers[1].start()
        load.go_on_for(20)
    winners = load.winners()
    servers[0].kill()  # what the killed one missed is known by the third
    check_that_all_lost_to(registry, winners)


def test_two_of_five_killed_under_load_lose_no_id_and_after_their_repair_all_agree(
    five: list[StoreServer],
) -> None:
    events = over("two-of-five", five)
    registry = open_registry(init_registry(events, SystemClock()))
    with Load(registry) as load:
        load.go_on_for(10)
        five[1].kill()
        load.go_on_for(10)
        five[4].kill()
        load.go_on_for(10)
    winners = load.winners()
    check_that_all_lost_to(registry, winners)
    five[1].start()
    five[4].start()
    repair_endpoint(events, five[1].url)
    repair_endpoint(events, five[4].url)
    check_that_all_agree(five, events, len(winners))
    five[0].kill()
    five[2].kill()
    check_that_all_lost_to(registry, winners)  # a client that was idle during both repairs


def test_a_stalled_endpoint_costs_time_and_what_it_does_late_lets_nobody_in_twice(
    servers: list[StoreServer],
) -> None:
    events = pipeline("stalled", *(server.url for server in servers))
    # So that the stalled one is given up soon, and the others are not.
    patience = events.registry.model_copy(update={"request_timeout": timedelta(seconds=3)})
    registry = open_registry(init_registry(events.model_copy(update={"registry": patience}), SystemClock()))
    with Load(registry) as load:
        load.go_on_for(20)
        servers[2].stall()
        try:
            load.go_on_for(20)
        finally:
            servers[2].resume()
        load.go_on_for(20)
    winners = load.winners()
    servers[0].kill()
    check_that_all_lost_to(registry, winners)


def test_a_wiped_endpoint_is_named_and_not_used_until_it_is_repaired(
    servers: list[StoreServer], caplog: pytest.LogCaptureFixture
) -> None:
    events = over("wiped", servers)
    running = open_registry(init_registry(events, SystemClock()))
    assert running.commit([Claim(key, EAST) for key in ids("a", 60)]) == [Won()] * 60
    servers[2].wipe()
    with caplog.at_level(logging.WARNING):
        address = find_registry(events)
    assert f"{servers[2].url} has lost its data" in caplog.text
    assert f"photon registry repair /nowhere/events.yaml --endpoint {servers[2].url}" in caplog.text
    assert open_registry(address).commit([Claim(key, EAST) for key in ids("b", 60)]) == [Won()] * 60
    assert servers[2].client().list_tables()["TableNames"] == []

    to_come = would_repair(events, servers[2].url)
    assert (to_come.table, to_come.problem, to_come.silent) == (None, "", ())
    assert servers[2].client().list_tables()["TableNames"] == []  # a dry run makes none
    repair = repair_endpoint(events, servers[2].url)
    assert (repair.copied, repair.mended) == (120, 0)
    assert would_repair(events, servers[2].url).table == repair.table
    assert set(servers[2].client().list_tables()["TableNames"]) == {repair.table, DIRECTORY}
    assert running.commit([Claim(key, EAST) for key in ids("c", 60)]) == [Won()] * 60
    check_that_all_agree(servers, events, count=180)
    servers[0].kill()
    everything = [*ids("a", 60), *ids("b", 60), *ids("c", 60)]
    outcomes = running.commit([Claim(key, WEST) for key in everything])
    assert all(isinstance(outcome, Lost) and outcome.holder.token == EAST for outcome in outcomes)
    assert all(isinstance(found, Joined) for found in running.lookup(everything[:120]))


def test_a_repair_that_another_one_has_overtaken_leaves_the_endpoint_to_it(
    servers: list[StoreServer],
) -> None:
    events = over("overtaken", servers)
    init_registry(events, SystemClock())
    servers[2].wipe()
    overtaking: list[str] = []
    arm(
        "repair.after_down",
        crash=lambda: overtaking.append(repair_endpoint(events, servers[2].url).table),
    )
    try:
        with pytest.raises(RepairSuperseded):
            repair_endpoint(events, servers[2].url)
    finally:
        disarm()
    assert set(servers[2].client().list_tables()["TableNames"]) == {*overtaking, DIRECTORY}
    servers[0].kill()
    registry = open_registry(find_registry(events))
    assert registry.commit([Claim(EventKey("a"), EAST)]) == [Won()]


def test_a_repair_removes_what_those_before_it_have_left_and_no_other_table(
    servers: list[StoreServer],
) -> None:
    events, more = over("died", servers), over("died-more", servers)
    init_registry(events, SystemClock())
    other = init_registry(more, SystemClock()).tables[2]
    for point in ("repair.after_table", "repair.before_up"):
        arm(point, crash=raise_simulated_crash)
        with pytest.raises(SimulatedCrash):
            repair_endpoint(events, servers[2].url)
        disarm()
    directory = Directory(EndpointAddress(servers[2].url), SystemClock())
    assert len(directory.tables_of("died")) == 3
    repair = repair_endpoint(events, servers[2].url)
    assert directory.tables_of("died") == [repair.table]
    assert directory.has(other)


# -- upkeep that is killed


def old_ids(count: int) -> list[EventKey]:
    """Some more than lie between two times that a position is noted."""
    return [EventKey(f"old-{i}", at_us=i) for i in range(ITEMS_BETWEEN_NOTES + count)]


def killed_at(spec: str, work: Callable[..., object], *arguments: object) -> None:
    """Have a process do this work, and die by `kill -9` at a fault point."""
    process = get_context("spawn").Process(target=_die_at, args=(spec, work, *arguments))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL


def _die_at(spec: str, work: Callable[..., object], *arguments: object) -> None:
    arm(spec)
    work(*arguments)


def test_a_repair_that_was_killed_goes_on_where_it_was(servers: list[StoreServer]) -> None:
    events, keys = over("killed-repair", servers), old_ids(1_000)
    registry = open_registry(init_registry(events, SystemClock()))
    assert set(registry.commit([Claim(key, EAST) for key in keys])) == {Won()}
    servers[2].wipe()
    killed_at("repair.after_page:1000", repair_endpoint, events, servers[2].url)  # of 1,024 shards
    (half_filled,) = find_registry(events).tables[2:]

    repair = repair_endpoint(events, servers[2].url)
    assert repair.went_on
    assert repair.table == half_filled
    assert 0 < repair.copied <= 1_000 + PAGES_UNDER_WAY
    check_that_all_agree(servers, events, len(keys))
    assert repair_endpoint(events, servers[2].url).copied == len(keys), (
        "one that has ended leaves no position"
    )


def test_a_repair_that_was_killed_begins_anew_if_the_new_store_was_lost_too(
    servers: list[StoreServer],
) -> None:
    events, keys = over("lost-again", servers), old_ids(0)
    registry = open_registry(init_registry(events, SystemClock()))
    registry.commit([Claim(key, EAST) for key in keys])
    servers[2].wipe()
    killed_at("repair.after_page:1020", repair_endpoint, events, servers[2].url)
    servers[2].wipe()
    repair = repair_endpoint(events, servers[2].url)
    assert (repair.went_on, repair.copied) == (False, len(keys))
    check_that_all_agree(servers, events, len(keys))


def test_a_comparison_that_was_killed_is_gone_on_with_unless_the_repair_is_to_begin_anew(
    servers: list[StoreServer],
) -> None:
    events, keys = over("killed-comparison", servers), ids("a", 50)
    registry = open_registry(init_registry(events, SystemClock()))
    registry.commit([Claim(key, EAST) for key in keys])
    servers[2].wipe()
    killed_at("repair.after_compared:500", repair_endpoint, events, servers[2].url)
    repair = repair_endpoint(events, servers[2].url)
    assert (repair.went_on, repair.copied) == (True, 0)
    killed_at("repair.after_compared:500", repair_endpoint, events, servers[2].url)
    again = repair_endpoint(events, servers[2].url, anew=True)
    assert (again.went_on, again.copied) == (False, 50)


def test_a_gc_that_was_killed_goes_on_where_it_was(
    servers: list[StoreServer], caplog: pytest.LogCaptureFixture
) -> None:
    events, keys = over("killed-gc", servers), old_ids(1_000)
    registry = open_registry(init_registry(events, SystemClock()))
    registry.commit([Claim(key, EAST) for key in keys])
    killed_at("gc.after_page:3000", run_gc, events, len(keys))  # of 1,024 shards at three endpoints
    with caplog.at_level(logging.INFO):
        done = run_gc(events, len(keys))
    assert "goes on behind" in caplog.text
    assert all(one.deleted.items < len(keys) / 2 and not one.problem for one in done)
    for server, table in zip(servers, find_registry(events).tables, strict=True):
        assert _values(server, table) == {}


def run_gc(events: Pipeline, boundary_us: int) -> list[EndpointGc]:
    registry = open_registry(find_registry(events))
    return gc_pass(registry, raise_boundary(registry, boundary_us))


def test_a_repair_whose_old_table_can_not_be_removed_has_ended_and_names_it(
    servers: list[StoreServer], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    events = over("protected", servers)
    old = init_registry(events, SystemClock()).tables[2]

    def is_protected(self: Directory, table: str) -> None:
        raise RegistryUnavailable("Resource cannot be deleted as it is currently protected")

    monkeypatch.setattr(Directory, "remove", is_protected)
    with caplog.at_level(logging.WARNING):
        repair = repair_endpoint(events, servers[2].url)
    assert f"the table {old} at {servers[2].url} is not needed any more" in caplog.text
    assert find_registry(events).tables[2] == repair.table


def test_a_directory_is_not_changed_by_one_who_saw_an_older_one(servers: list[StoreServer]) -> None:
    directory = Directory(EndpointAddress(servers[0].url), SystemClock())
    assert directory.replace_table_of("events", None, "photon-events-1")
    assert directory.replace_table_of("events", "photon-events-1", "photon-events-2")
    assert not directory.replace_table_of("events", "photon-events-1", "photon-events-3")
    assert directory.table_of("events") == "photon-events-2"
    assert not directory.has("photon-events-3")


def test_init_needs_every_endpoint_once_and_can_be_repeated(servers: list[StoreServer]) -> None:
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


def test_of_two_inits_at_once_one_wins_at_every_endpoint(servers: list[StoreServer]) -> None:
    events = over("twice", servers)
    with ThreadPoolExecutor(2) as pool:
        made = set(pool.map(lambda _: init_registry(events, SystemClock()), range(2)))
    (address,) = made
    for server, table in zip(servers, address.tables, strict=True):
        there = server.client().list_tables()["TableNames"]
        assert [name for name in there if name.startswith("photon-twice-")] == [table]


def test_two_urls_of_one_store_are_refused(servers: list[StoreServer]) -> None:
    same = servers[0].url.replace("127.0.0.1", "localhost")
    events = pipeline("same", servers[0].url, servers[1].url, same)
    with pytest.raises(RegistryMismatch, match="one and the same store"):
        init_registry(events, SystemClock())


def test_endpoints_in_another_order_are_refused_with_the_remedy(servers: list[StoreServer]) -> None:
    init_registry(over("order", servers), SystemClock())
    with pytest.raises(RegistryMismatch, match="put the endpoints in their old order"):
        find_registry(over("order", [servers[1], servers[0], servers[2]]))


def test_a_store_restored_from_an_older_copy_is_out_of_use_before_it_is_started(
    servers: list[StoreServer], tmp_path: Path
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
        repair_endpoint(events, servers[1].url)
    servers[1].start()
    assert repair_endpoint(events, servers[1].url).copied == 20
    servers[0].kill()
    outcomes = open_registry(find_registry(events)).commit([Claim(key, WEST) for key in ids("a", 20)])
    assert all(isinstance(outcome, Lost) and outcome.holder.token == EAST for outcome in outcomes)
