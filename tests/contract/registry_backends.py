"""Backends that the registry's contract is tried on, with the same faults on each."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from itertools import repeat
from typing import Any, Protocol, get_args

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError

from bench.store_servers import dynamodb_client, fastest_kind
from photon.clock import Clock
from photon.ledger.address import LOCAL_REGION
from photon.ledger.servers.local_supervisor import ServerKind
from photon.pipeline.sections import Registry
from photon.registry.consensus.acceptor import Acceptor
from photon.registry.consensus.layout import SHARD_HASH
from photon.registry.consensus.register import Members, Register, ShardConfig
from photon.registry.dynamodb.acceptor import DynamoAcceptor
from photon.registry.dynamodb.credentials import access
from photon.registry.dynamodb.wire import WireClient
from photon.registry.operations.directory import TABLE_DEFINITION
from photon.registry.quorum.proposer import QuorumRegistry
from photon.testing.faulty_store import FaultyStore
from photon.testing.manual_clock import ManualClock
from tests.simulation.interpreter import Interpreter
from tests.simulation.keyword_client import KeywordClient

START_US = 1_700_000_000_000_000
DAY_US = 86_400_000_000
SERVER_TIMEOUT = timedelta(seconds=20)
# Crash tests and histories run on what set-up fetches, and on the others in `make test-long`.
SERVER_KINDS = [
    pytest.param(kind, marks=() if kind == fastest_kind() else pytest.mark.long)
    for kind in get_args(ServerKind)
]
MEMORY = {  # how many endpoints, and how many of them are down
    "memory": (1, 0),
    "memory-3": (3, 0),
    "memory-5": (5, 0),
    "memory-3-one-down": (3, 1),
    "memory-5-two-down": (5, 2),
}
ALL_UP = [  # each store, with none of its endpoints down
    "memory",
    "memory-3",
    "memory-5",
    "interpreted-3",
    pytest.param("dynamodb-local", marks=pytest.mark.server),
    pytest.param("dynoxide-3", marks=pytest.mark.server),
]
BACKENDS = [
    *ALL_UP,
    "memory-3-one-down",
    "memory-5-two-down",
    "interpreted-batches",
    # Each server, and each way to write; the other combinations are in `make test-long`.
    pytest.param("dynoxide", marks=pytest.mark.server),
    pytest.param("dynoxide-crate-batches", marks=pytest.mark.server),
    pytest.param("dynoxide-batches", marks=[pytest.mark.server, pytest.mark.long]),
    pytest.param("dynoxide-crate", marks=[pytest.mark.server, pytest.mark.long]),
    pytest.param("dynamodb-local-batches", marks=[pytest.mark.server, pytest.mark.long]),
    pytest.param("aws", marks=[pytest.mark.server, pytest.mark.long]),  # see CONTRIBUTING.md
]
AWS = "PHOTON_CONTRACT_AWS"  # names a region and how tables' names begin: eu-central-1/photon-contract


class Faults(Protocol):
    """What a test can do to one client's way to the endpoint: see `FaultyStore`."""

    def fail(self, fault: Any, batches: int = 1) -> None: ...

    def mend(self) -> None: ...


class Backend:
    """One registry, and ways to meet it. Waiting is on a clock that only the test moves."""

    def __init__(self, ways_in: Sequence[Callable[[], tuple[Acceptor, Faults]]], timed: bool) -> None:
        self._ways_in = ways_in  # one for each endpoint
        self.clock = ManualClock(START_US)
        self.acceptors = [way_in()[0] for way_in in ways_in]
        self._clients: list[QuorumRegistry] = []
        self.client().register.create(
            Register(
                pipeline="contract",
                settings_hash="contract",
                shard_hash=SHARD_HASH,
                members=Members(1, tuple(f"store-{slot}" for slot in range(len(ways_in)))),
                configs=(ShardConfig(16),) if timed else (),
                horizon_us=START_US + 2 * DAY_US if timed else None,
            )
        )

    def client(self, clock: Clock | None = None) -> QuorumRegistry:
        """A client of the registry, as another process would have it."""
        return self.faulty_client(clock)[0]

    def faulty_client(self, clock: Clock | None = None) -> tuple[QuorumRegistry, Faults]:
        """A client and the faults on its way to the endpoints."""
        acceptors, faults = zip(*(way_in() for way_in in self._ways_in), strict=True)
        # On the machine's own clock a busy machine counts: 32 threads outbid each other for a while.
        deadline = timedelta(seconds=5 if clock is None else 60)
        settings = Registry(total_timeout=deadline, horizon_step=timedelta(days=1))
        registry = QuorumRegistry(acceptors, settings, clock or self.clock)
        self._clients.append(registry)
        return registry, faults[0] if len(faults) == 1 else AllFaults(faults)

    def close(self) -> None:
        for client in self._clients:
            client.close()


class AllFaults:
    """The same fault on the way to every endpoint."""

    def __init__(self, each: Sequence[Faults]) -> None:
        self.each = each

    def fail(self, fault: Any, batches: int = 1) -> None:
        for faults in self.each:
            faults.fail(fault, batches)

    def mend(self) -> None:
        for faults in self.each:
            faults.mend()


def memory_backend(timed: bool, endpoints: int = 1, down: int = 0) -> Backend:
    """Stores in memory; no client ever reaches the first `down` ones."""

    def ways_in(store: FaultyStore, is_down: bool) -> Callable[[], tuple[Acceptor, Faults]]:
        def another() -> tuple[Acceptor, Faults]:
            way_in = store.another_way_in()
            if is_down:
                way_in.fail("down")
                return way_in, NoFaults()
            return way_in, way_in

        return another

    stores = [FaultyStore(ManualClock()) for _ in range(endpoints)]
    return Backend([ways_in(store, number < down) for number, store in enumerate(stores)], timed)


class NoFaults:
    """Of an endpoint that is down anyway."""

    def fail(self, fault: Any, batches: int = 1) -> None: ...

    def mend(self) -> None: ...


def dynamodb_backend(urls: Sequence[str], timed: bool, transactions: Iterator[bool]) -> Backend:
    """A new table at each server. `transactions`: whether the next acceptor inserts by them."""
    table = f"contract-{uuid.uuid4().hex}"

    def client(url: str) -> Any:
        tables = dynamodb_client(url, LOCAL_REGION, SERVER_TIMEOUT, 1)
        tables.create_table(TableName=table, **TABLE_DEFINITION)
        return wire_to(url, LOCAL_REGION)

    return backend_over([client(url) for url in urls], table, timed, transactions)


def wire_to(url: str, region: str) -> WireClient:
    """A client of the product for one endpoint."""
    return WireClient(url, access(region), SERVER_TIMEOUT.total_seconds(), 40)


def aws_backend(timed: bool, request: pytest.FixtureRequest) -> Backend:
    """A new table of DynamoDB on AWS, removed after the test."""
    region, _, prefix = os.environ.get(AWS, "").partition("/")
    if not prefix:
        pytest.skip(f"{AWS} names no region and prefix of tables")
    url, table = f"https://dynamodb.{region}.amazonaws.com", f"{prefix}-{uuid.uuid4().hex}"
    tables = dynamodb_client(url, region, SERVER_TIMEOUT, 1)
    tables.create_table(TableName=table, **TABLE_DEFINITION)
    request.addfinalizer(lambda: tables.delete_table(TableName=table))
    tables.get_waiter("table_exists").wait(TableName=table, WaiterConfig={"Delay": 1, "MaxAttempts": 120})
    return backend_over([wire_to(url, region)], table, timed, repeat(False))


def interpreted_backend(timed: bool, endpoints: int, transactions: Iterator[bool]) -> Backend:
    """Stores that interpret the product's requests, in this process."""
    return backend_over([Interpreter("contract") for _ in range(endpoints)], "contract", timed, transactions)


def backend_over(clients: Sequence[Any], table: str, timed: bool, transactions: Iterator[bool]) -> Backend:
    """The product's acceptors over clients of the DynamoDB API, one for each endpoint."""

    def ways_in(client: Any) -> Callable[[], tuple[Acceptor, Faults]]:
        def another() -> tuple[Acceptor, Faults]:
            faulty = FaultyClient(client)
            return DynamoAcceptor(table, lambda: faulty, next(transactions)), faulty

        return another

    return Backend([ways_in(client) for client in clients], timed)


def backend_fixture(kinds: Sequence[Any], timed: bool) -> Any:
    """A fixture: a registry over each kind of stores in turn, on the servers of the test's fixtures."""

    @pytest.fixture(params=kinds)
    def made(request: pytest.FixtureRequest) -> Iterator[Backend]:
        backend = _make_backend(request.param, request, timed)
        yield backend
        backend.close()

    return made


def _make_backend(kind: str, request: pytest.FixtureRequest, timed: bool) -> Backend:
    if kind.startswith("memory"):
        return memory_backend(timed, *MEMORY[kind])
    if kind == "aws":
        return aws_backend(timed, request)
    if kind.startswith("interpreted"):
        return interpreted_backend(
            timed, 3 if kind.endswith("-3") else 1, repeat(not kind.endswith("-batches"))
        )
    if kind.startswith("dynoxide-crate"):
        servers = request.getfixturevalue("dynoxide_crate")
    elif kind.startswith("dynoxide"):
        servers = request.getfixturevalue("dynoxide")[: 3 if kind == "dynoxide-3" else 1]
    else:
        servers = [request.getfixturevalue("dynamodb")]
    return dynamodb_backend(servers, timed, repeat(not kind.endswith("-batches")))


class FaultyClient(KeywordClient):
    """A client that loses requests or answers, or has half of a batch left undone."""

    def __init__(self, client: Any) -> None:
        self.requests: list[str] = []
        self._client = client
        self._lock = threading.Lock()
        self._fault: str | None = None
        self._batches = 0

    def fail(self, fault: Any, batches: int = 1) -> None:
        with self._lock:
            self._fault, self._batches = fault, batches

    def mend(self) -> None:
        with self._lock:
            self._fault = None

    def execute_transaction(self, TransactStatements: Sequence[Any], **more: Any) -> Any:
        self.requests.append("execute_transaction")
        if self._fault == "unprocessed" and self._next_fault():
            raise _cancelled_for_half(len(TransactStatements))
        return self._serve(
            lambda: self._client.execute_transaction(TransactStatements=TransactStatements, **more)
        )

    def transact_write_items(self, TransactItems: Sequence[Any], **more: Any) -> Any:
        self.requests.append("transact_write_items")
        if self._fault == "unprocessed" and self._next_fault():
            raise _cancelled_for_half(len(TransactItems))
        return self._serve(lambda: self._client.transact_write_items(TransactItems=TransactItems, **more))

    def batch_execute_statement(self, Statements: Sequence[Any]) -> Any:
        self.requests.append("batch_execute_statement")
        if self._fault == "unprocessed" and self._next_fault():
            return self._throttle_half(Statements)
        return self._serve(lambda: self._client.batch_execute_statement(Statements=Statements))

    def batch_get_item(self, RequestItems: Any) -> Any:
        self.requests.append("batch_get_item")
        if self._fault == "unprocessed" and self._next_fault():
            return self._leave_half(RequestItems)
        return self._serve(lambda: self._client.batch_get_item(RequestItems=RequestItems))

    def scan(self, **request: Any) -> Any:
        self.requests.append("scan")
        return self._serve(lambda: self._client.scan(**request))

    def query(self, **request: Any) -> Any:
        self.requests.append("query")
        return self._serve(lambda: self._client.query(**request))

    def describe_table(self, **request: Any) -> Any:
        self.requests.append("describe_table")
        return self._serve(lambda: self._client.describe_table(**request))

    def _serve(self, call: Callable[[], Any]) -> Any:
        fault = self._next_fault()
        if fault == "down":
            raise EndpointConnectionError(endpoint_url="http://down")
        if fault == "lost_request":
            raise ReadTimeoutError(endpoint_url="http://slow")
        if fault == "throttled":
            error = {"Error": {"Code": "ThrottlingException", "Message": "slow down"}}
            raise ClientError(error, "BatchExecuteStatement")
        response = call()
        if fault == "lost_answer":
            raise ReadTimeoutError(endpoint_url="http://slow")
        return response

    def _next_fault(self) -> str | None:
        with self._lock:
            fault = self._fault
            if fault is not None and fault != "down":
                self._batches -= 1
                if self._batches == 0:
                    self._fault = None
            return fault

    def _throttle_half(self, statements: Sequence[Any]) -> Any:
        done = statements[1::2]
        answers = iter(self._client.batch_execute_statement(Statements=done)["Responses"] if done else [])
        throttled = {"Error": {"Code": "ThrottlingError", "Message": "slow down"}}
        return {"Responses": [next(answers) if i % 2 else throttled for i in range(len(statements))]}

    def _leave_half(self, request: Any) -> Any:
        ((table, wanted),) = request.items()
        done, left = wanted["Keys"][1::2], wanted["Keys"][::2]
        found: list[Any] = []
        if done:
            response = self._client.batch_get_item(RequestItems={table: {**wanted, "Keys": done}})
            found = response["Responses"].get(table, [])
        return {"Responses": {table: found}, "UnprocessedKeys": {table: {**wanted, "Keys": left}}}


def _cancelled_for_half(statements: int) -> ClientError:
    throttled, not_the_cause = {"Code": "ThrottlingError", "Message": "slow down"}, {"Code": "None"}
    reasons = [not_the_cause if i % 2 else throttled for i in range(statements)]
    response = {"Error": {"Code": "TransactionCanceledException"}, "CancellationReasons": reasons}
    return ClientError(response, "ExecuteTransaction")
