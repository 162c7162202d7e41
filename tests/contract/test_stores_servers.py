"""Positions on real stores: one file of SQLite, one and three dynoxide, DynamoDB Local.

And servers that are killed, stalled, and put back; what befalls a file is in `test_stores_sqlite`.
"""

from __future__ import annotations

import random
import shutil
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from infra.servers.stores import StoreServer, store_servers
from photon.pipeline.file import Pipeline
from photon.pipeline.sections import Registry
from photon.process.clock import SystemClock
from photon.registry.address import LedgersAddress
from photon.registry.entry import Entry, LedgerId
from photon.registry.errors import RegistryMismatch, RegistryMissing
from photon.registry.form import checksum, encode
from photon.registry.opening import find_registry, init_registry
from photon.registry.positions import Chosen
from photon.registry.register import with_dropped, with_generation
from photon.registry.stores.opening import open_positions
from photon.registry.stores.positions import StorePositions
from tests.registry.entries import usual_claims
from tests.registry.store_backends import (
    LEDGER,
    append,
    offered,
    pipeline_over,
    read_all,
)

pytestmark = pytest.mark.server

SETTINGS = Registry(total_timeout=timedelta(seconds=30))
QUICK = Registry(total_timeout=timedelta(seconds=3))
Opened = Callable[..., StorePositions]


@pytest.fixture(scope="module")
def dynamodb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreServer]:
    with store_servers("dynamodb-local", tmp_path_factory.mktemp("dynamodb"), 1) as (server,):
        yield server


@pytest.fixture(params=["sqlite", "one", "three", "dynamodb-local"])
def urls(request: pytest.FixtureRequest, tmp_path: Path) -> list[str] | Path:
    if request.param == "sqlite":
        return tmp_path
    if request.param == "dynamodb-local":
        return [request.getfixturevalue("dynamodb").url]
    running = request.getfixturevalue("servers")
    return [server.url for server in running[: 1 if request.param == "one" else 3]]


@pytest.fixture
def opened() -> Iterator[Opened]:
    """Opens clients, and closes them at the end."""
    made: list[StorePositions] = []

    def open_one(address: LedgersAddress) -> StorePositions:
        made.append(open_positions(address))
        return made[-1]

    yield open_one
    for one in made:
        one.close()


def new_ledgers(urls: Sequence[str] | Path, settings: Registry = SETTINGS) -> LedgersAddress:
    """Ledgers of a new pipeline at these servers."""
    return init_registry(new_pipeline(urls, settings), SystemClock())


def new_pipeline(urls: Sequence[str] | Path, settings: Registry = SETTINGS) -> Pipeline:
    return pipeline_over(urls, settings, f"events-{uuid.uuid4().hex[:8]}")


def found_again(address: LedgersAddress) -> LedgersAddress:
    urls = [str(endpoint.where) for endpoint in address.endpoints]
    return find_registry(pipeline_over(urls, SETTINGS, address.pipeline))


def large_entry(before: bytes, seed: int) -> bytes:
    claims = usual_claims(5_000, seed, is_shuffled=True)
    return encode(Entry(f"writer-{seed}", checksum(before) if before else b"", claims=claims))


# -- one, three, DynamoDB Local


def test_entries_are_chosen_and_read_by_another_client(urls: list[str] | Path, opened: Opened) -> None:
    address = new_ledgers(urls)
    values = append(opened(address), 5)
    assert read_all(opened(address)) == values


def test_large_entries_come_page_by_page_as_they_were_written(urls: list[str] | Path, opened: Opened) -> None:
    address = new_ledgers(urls)
    client, values = opened(address), [b""]
    for position in range(14):  # a page has a megabyte
        values.append(large_entry(values[-1], position))
        assert offered(client.attempt(), position, values[-1]) == Chosen(values[-1])
    assert len(values[-1]) > 90_000
    assert read_all(opened(address)) == values[1:]


def test_who_comes_second_is_told_the_value_that_is_there(urls: list[str] | Path, opened: Opened) -> None:
    address = new_ledgers(urls)
    first, second = large_entry(b"", 1), large_entry(b"", 2)
    assert offered(opened(address).attempt(), 0, first) == Chosen(first)
    assert offered(opened(address).attempt(), 0, second) == Chosen(first)


def test_what_was_dropped_is_forgotten_at_every_store(urls: list[str] | Path, opened: Opened) -> None:
    address = new_ledgers(urls)
    client = opened(address)
    values = append(client, 30)
    client.change(lambda register: with_dropped(with_generation(register, 0, 1), 0))
    kept = append(client, 3, LedgerId(1, 0))
    client.forget([LEDGER, LedgerId(0, 1)])
    assert read_all(client) == []
    assert read_all(client, LedgerId(1, 0)) == kept
    assert len(values) == 30


# -- making


def test_ledgers_are_made_once_and_found_again(urls: list[str] | Path) -> None:
    pipeline = new_pipeline(urls)
    address = init_registry(pipeline, SystemClock())
    assert init_registry(pipeline, SystemClock()) == address == find_registry(pipeline)


def test_ledgers_are_not_found_where_none_were_made_or_for_other_settings(urls: list[str] | Path) -> None:
    address, other = new_ledgers(urls), new_pipeline(urls)
    with pytest.raises(RegistryMissing, match=rf"photon registry init {other.typed}.*registry refill"):
        find_registry(other)
    with pytest.raises(RegistryMismatch, match="other settings"):
        find_registry(pipeline_over(urls, SETTINGS, address.pipeline, id_="another"))


def test_two_that_make_ledgers_at_once_make_the_same(urls: list[str] | Path) -> None:
    pipeline = new_pipeline(urls)
    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(lambda _: init_registry(pipeline, SystemClock()), range(2))
    assert one == other


# -- one of three that fails


def test_a_killed_server_holds_nobody_up_and_nothing_is_lost(
    servers: list[StoreServer], opened: Opened
) -> None:
    address = new_ledgers([server.url for server in servers])
    client = opened(address)
    values = append(client, 4)
    for out in range(3):
        servers[out].kill()
        reader = opened(found_again(address))
        assert read_all(reader) in (values, values[:-1])
        longer = append(client, 2)
        assert longer[: len(values)] == values
        assert read_all(reader) == longer
        values = longer
        servers[out].start()
    assert read_all(opened(address)) == values


def test_a_server_that_hangs_is_waited_for_once(servers: list[StoreServer], opened: Opened) -> None:
    address = new_ledgers([server.url for server in servers], QUICK)
    client = opened(address)
    values = append(client, 2)
    servers[1].stall()
    try:
        longer = append(client, 5)
        assert longer[:2] == values
        assert read_all(client) == longer
    finally:
        servers[1].resume()


def test_a_server_that_lost_its_data_does_not_answer(servers: list[StoreServer], opened: Opened) -> None:
    address = new_ledgers([server.url for server in servers])
    values = append(opened(address), 3)
    servers[2].wipe()
    found = found_again(address)
    assert found.members == address.members
    assert append(opened(address), 2)[:3] == values
    assert servers[2].client().list_tables()["TableNames"] == []


def test_a_server_put_back_to_an_older_copy_hides_nothing_that_is_not_noticed(
    servers: list[StoreServer], opened: Opened, tmp_path: Path
) -> None:
    address = new_ledgers([server.url for server in servers])
    client = opened(address)
    append(client, 3)
    servers[0].kill()
    shutil.copytree(servers[0].folder, tmp_path / "older")
    servers[0].start()
    values = append(client, 4)
    servers[0].kill()
    shutil.rmtree(servers[0].folder)
    shutil.copytree(tmp_path / "older", servers[0].folder)
    servers[0].start()
    found = read_all(opened(address))
    assert found in (values, values[:-1])
    longer = append(opened(address), 2)
    last = len(values) - 1
    assert longer[:last] == values[:last]
    # All three were the last one's quorum: without the store that lost it another value can be chosen (B10).
    is_lacking = client.attempt().check({LEDGER: (last, checksum(values[last]))})[1] == {LEDGER}
    assert is_lacking is (longer[last] != values[last])
    assert read_all(opened(address)) == longer


# -- histories


@pytest.mark.parametrize("each", [20, pytest.param(100, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", ["sqlite", "three"])
def test_positions_have_one_value_each_for_all_readers_and_ever(
    kind: str, request: pytest.FixtureRequest, opened: Opened, tmp_path: Path, each: int
) -> None:
    """Eight threads append to four ledgers; two of three servers are killed under way, and come back."""
    servers = request.getfixturevalue("servers") if kind == "three" else []
    address = new_ledgers([server.url for server in servers] or tmp_path)
    ledgers = [LedgerId(0, number) for number in range(4)]

    def write(seed: int) -> list[tuple[LedgerId, list[bytes]]]:
        client, chance = opened(address), random.Random(seed)
        return [(ledger, append(client, 1, ledger)) for ledger in chance.choices(ledgers, k=each)]

    with ThreadPoolExecutor(8) as pool:
        writing = [pool.submit(write, seed) for seed in range(8)]
        for out in (2, 0) if servers else ():
            servers[out].kill()
            servers[out].start()
    found = {ledger: read_all(opened(address), ledger) for ledger in ledgers}
    for ledger, values in (told for one in writing for told in one.result()):
        known = len(values) - 1  # the last value may not be proven yet by two copies
        assert found[ledger][:known] == values[:known]
