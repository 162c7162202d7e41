"""Making and finding registries, and what is refused; on a local server, started on demand."""

from __future__ import annotations

import multiprocessing
import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bench.store_servers import dynamodb_client
from photon.clock import SystemClock
from photon.ledger.address import EndpointAddress
from photon.ledger.errors import RegistryMismatch, RegistryMissing, RegistryUnavailable
from photon.ledger.opening import close_registries, endpoints_of, find_registry, init_registry, open_registry
from photon.ledger.servers.local_server import local_server
from photon.ledger.stores.copies import Done, NoReply
from photon.pipeline.event_key import EventKey
from photon.pipeline.file import Pipeline
from photon.pipeline.sections import Datacenter, Endpoint, ForeignLog, PrimaryLog, Registry
from photon.registry.address import RegistryAddress
from photon.registry.consensus.acceptor import Insert
from photon.registry.consensus.layout import ItemKey
from photon.registry.consensus.register import ReshardingRefused
from photon.registry.dynamodb.wire import WireClient
from photon.registry.interface import Claim, Lost, Unknown, Won
from photon.registry.operations.directory import DIRECTORY
from photon.registry.operations.resharding import Resharded, reshard

EAST, WEST = "east:e:1#p:1:0", "west:e:1#p:1:0"
QUICK = timedelta(seconds=1)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with local_server(tmp_path_factory.mktemp("dynamodb")) as started:
        yield started


@pytest.fixture
def client(url: str) -> Any:
    made = dynamodb_client(url, "local", timedelta(seconds=10), 4)
    yield made
    for table in made.list_tables()["TableNames"]:
        made.delete_table(TableName=table)


@pytest.fixture(autouse=True)
def everything_closed() -> Iterator[None]:
    yield
    close_registries()


def pipeline(url: str, name: str = "events", time_in_id: bool = False) -> Pipeline:
    foreign = ForeignLog(files="*", format="csv", id=("id",), key=("key",), time="t", time_in_id=time_in_id)
    return Pipeline(
        name=name,
        file=Path("/nowhere/events.yaml"),
        datacenters={"east": Datacenter(logs=Path("l"), lake=Path("k"), state=Path("s"))},
        primary=PrimaryLog(files="*", format="csv", id=("id",), time="t"),
        foreign=foreign,
        registry=Registry(endpoints=(Endpoint(url=url),), total_timeout=QUICK),
    )


def is_there(client: Any, address: RegistryAddress) -> bool:
    return address.tables[0] in client.list_tables()["TableNames"]


@pytest.mark.server
def test_a_registry_that_was_never_made_is_missing_and_not_made_by_looking(url: str, client: Any) -> None:
    with pytest.raises(
        RegistryMissing, match=r"photon registry init /nowhere/events\.yaml.*photon registry refill"
    ):
        find_registry(pipeline(url))
    assert client.list_tables()["TableNames"] == []


@pytest.mark.server
def test_a_registry_that_was_made_is_found(url: str, client: Any) -> None:
    made = init_registry(pipeline(url), SystemClock())
    assert find_registry(pipeline(url)) == made
    assert is_there(client, made)


@pytest.mark.server
def test_making_it_again_returns_the_same_one(url: str, client: Any) -> None:
    made = init_registry(pipeline(url), SystemClock())
    assert init_registry(pipeline(url), SystemClock()) == made


@pytest.mark.server
def test_of_many_inits_at_once_one_wins_and_leaves_no_table_of_the_others(url: str, client: Any) -> None:
    with ThreadPoolExecutor(6) as pool:
        made = set(pool.map(lambda _: init_registry(pipeline(url), SystemClock()), range(6)))
    (address,) = made
    assert sorted(client.list_tables()["TableNames"]) == sorted([address.tables[0], DIRECTORY])


@pytest.mark.server
def test_each_pipeline_has_a_table_of_its_own(url: str, client: Any) -> None:
    one, other = (init_registry(pipeline(url, name), SystemClock()) for name in ("one", "one-more"))
    assert one.tables != other.tables
    assert find_registry(pipeline(url, "one")) == one


@pytest.mark.server
def test_other_settings_of_ids_are_refused_with_the_remedy(url: str, client: Any) -> None:
    init_registry(pipeline(url), SystemClock())
    for attempt in (find_registry, lambda p: init_registry(p, SystemClock())):
        with pytest.raises(RegistryMismatch, match="Put those settings back"):
            attempt(pipeline(url, time_in_id=True))


@pytest.mark.server
def test_another_number_of_shards_in_the_file_leaves_the_registry_as_it_is(url: str, client: Any) -> None:
    settings = pipeline(url, time_in_id=True)
    init_registry(settings, SystemClock())
    more = settings.registry.model_copy(update={"shards": 99})
    address = init_registry(settings.model_copy(update={"registry": more}), SystemClock())
    assert [config.shards for config in open_registry(address).register.read().configs] == [128]


@pytest.mark.server
def test_shards_change_from_the_horizon_on_and_are_refused_where_ids_carry_no_time(
    url: str, client: Any
) -> None:
    settings = pipeline(url, time_in_id=True)
    register = open_registry(init_registry(settings, SystemClock())).register.read()
    assert reshard(settings, 48) == Resharded(128, 48, register.horizon_us)
    assert reshard(settings, 48) == Resharded(48, 48, register.horizon_us)
    assert reshard(settings, 128) == Resharded(48, 128, None)
    timeless = pipeline(url, "timeless")
    init_registry(timeless, SystemClock())
    with pytest.raises(ReshardingRefused):
        reshard(timeless, 48)


@pytest.mark.server
def test_a_register_of_another_pipeline_is_refused(url: str, client: Any) -> None:
    address = init_registry(pipeline(url), SystemClock())
    entry = {"p": {"S": "pipeline"}, "s": {"S": "other"}, "t": {"S": address.tables[0]}}
    client.put_item(TableName=DIRECTORY, Item=entry)
    with pytest.raises(RegistryMismatch, match="belongs to the pipeline events"):
        find_registry(pipeline(url, "other"))


@pytest.mark.server
def test_a_table_that_is_gone_is_an_endpoint_that_is_down(url: str, client: Any) -> None:
    address = init_registry(pipeline(url), SystemClock())
    registry = open_registry(address)
    registry.commit([Claim(EventKey("a"), EAST)])
    client.delete_table(TableName=address.tables[0])
    assert isinstance(registry.commit([Claim(EventKey("a"), EAST)])[0], Unknown)
    with pytest.raises(RegistryUnavailable):
        find_registry(pipeline(url))
    assert not is_there(client, address)


def test_an_endpoint_that_refuses_connections_is_unavailable_and_named_once() -> None:
    url = "http://127.0.0.1:1"
    with pytest.raises(RegistryUnavailable) as raised:
        find_registry(pipeline(url))
    begin = f"too few endpoints of the registry answer: {url} does not answer (Could not connect"
    assert str(raised.value).startswith(begin)


@pytest.mark.server
def test_ids_that_carry_their_time_have_a_horizon_ahead_of_now(url: str, client: Any) -> None:
    clock = SystemClock()
    register = open_registry(init_registry(pipeline(url, time_in_id=True), clock)).register.read()
    assert register.horizon_us is not None
    assert register.horizon_us > clock.now_us()
    assert [config.shards for config in register.configs] == [128]


def register_in_a_process(pickled: bytes, results: Any) -> None:
    registry = open_registry(pickle.loads(pickled))
    results.put(registry.commit([Claim(EventKey("a"), WEST)])[0])
    close_registries()


@pytest.mark.server
def test_another_process_opens_the_registry_from_its_pickled_address(url: str, client: Any) -> None:
    address = init_registry(pipeline(url), SystemClock())
    assert open_registry(address).commit([Claim(EventKey("a"), EAST)]) == [Won()]
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    process = context.Process(target=register_in_a_process, args=(pickle.dumps(address), results))
    process.start()
    outcome = results.get(timeout=60)
    process.join()
    assert isinstance(outcome, Lost)
    assert outcome.holder.token == EAST


@pytest.mark.server
@pytest.mark.parametrize("transactions", [False, True])
def test_at_a_url_ids_are_inserted_by_transactions_only_if_the_pipeline_file_says_so(
    url: str, client: Any, transactions: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = Endpoint(url=url, transactions=True) if transactions else Endpoint(url=url)
    registry = Registry(endpoints=(endpoint,), total_timeout=QUICK)
    address = init_registry(pipeline(url).model_copy(update={"registry": registry}), SystemClock())
    sent: list[str] = []
    post = WireClient.post

    def note(wire: WireClient, operation: str, body: bytes) -> Any:
        sent.append(operation)
        return post(wire, operation, body)

    monkeypatch.setattr(WireClient, "post", note)
    ids = [Claim(EventKey(f"id-{i}"), EAST) for i in range(30)]
    assert open_registry(address).commit(ids) == [Won()] * 30
    in_batches = ["batch_execute_statement"] * 2  # of at most 25
    assert [one for one in sent if "get" not in one] == (
        ["transact_write_items"] if transactions else in_batches
    )


def test_the_local_registry_inserts_by_transactions() -> None:
    local = pipeline("http://unused").model_copy(update={"registry": Registry(endpoints="local")})
    assert endpoints_of(local) == (EndpointAddress(local.registry_folder, transactions=True),)


def test_each_endpoint_keeps_the_profile_and_the_role_that_the_file_gives_it() -> None:
    role = "arn:aws:iam::123456789012:role/photon"
    named = Endpoint(url="https://a", region="eu-1", profile="near", role=role)
    file = pipeline("http://unused").model_copy(update={"registry": Registry(endpoints=(named,))})
    assert endpoints_of(file) == (EndpointAddress("https://a", "eu-1", profile="near", role=role),)


@pytest.mark.server
def test_a_key_that_the_endpoint_refuses_does_not_hold_up_the_others(url: str, client: Any) -> None:
    (acceptor,) = open_registry(init_registry(pipeline(url), SystemClock())).endpoints.acceptors
    too_long, fine = Insert(ItemKey("p", "k" * 3_000), EAST), Insert(ItemKey("p", "k"), EAST)
    refused, done = acceptor.insert([too_long, fine])
    assert isinstance(refused, NoReply)
    assert "ValidationError" in refused.reason
    assert done == Done()
