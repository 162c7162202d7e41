"""Make a pipeline's ledgers, and find them again from what their stores answer (protocol B9).

At each store `photon-pipelines` names the table of each pipeline, and the table has the incarnation of the
store in its name. The register's members say which incarnation counts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from photon.clock import Clock, SystemClock
from photon.ledger.errors import RegistryMismatch, RegistryMissing, RegistryUnavailable
from photon.ledger.register import Members, Register, decode_register
from photon.ledger.stores.copies import REGISTER_KEY
from photon.ledger.stores.dynamo import LEDGER_TABLE, DynamoStore
from photon.ledger.stores.opening import Connection, LedgersAddress, open_positions
from photon.pipeline.sections import Registry
from photon.registry.address import EndpointAddress, table_name
from photon.registry.consensus.acceptor import NoReply
from photon.registry.consensus.decisions import majority
from photon.registry.dynamodb.answers import UNREADABLE, error_code
from photon.registry.endpoints.deadline import Deadline
from photon.registry.operations.directory import (
    ADMIN_TIMEOUT,
    DIRECTORY,
    TABLE_DEFINITION,
    TABLE_SECONDS,
    new_incarnation,
)

log = logging.getLogger(__name__)

First = Callable[[Members], Register]  # the first register of a new registry


@dataclass(frozen=True, slots=True)
class Found:
    """What a store said: the table that is named for the pipeline, and the register in it, if any."""

    table: str | None
    register: Register | None


def make_ledgers(
    pipeline: str,
    settings_hash: str,
    endpoints: Sequence[EndpointAddress],
    settings: Registry,
    first: First,
    clock: Clock,
) -> LedgersAddress:
    """Make the tables and the register that `first` gives, or return what is there with the same settings.

    Making them needs every store, once; RegistryUnavailable: repeat it. RegistryMismatch: see `find_ledgers`.
    """
    try:
        return find_ledgers(pipeline, settings_hash, endpoints, settings)
    except RegistryMissing:
        tables = [Directory(endpoint, clock).ensure_table_of(pipeline) for endpoint in endpoints]
        _require_distinct_stores(pipeline, endpoints, tables)
        members = Members(1, tuple(table.removeprefix(table_name(pipeline, "")) for table in tables))
        positions = open_positions(LedgersAddress(pipeline, tuple(endpoints), members, settings), clock)
        try:
            positions.create(first(members))
        finally:
            positions.close()
    # Those of another process that was faster, maybe: at each store one of them wins.
    return find_ledgers(pipeline, settings_hash, endpoints, settings)


def find_ledgers(
    pipeline: str, settings_hash: str, endpoints: Sequence[EndpointAddress], settings: Registry
) -> LedgersAddress:
    """The pipeline's ledgers, never made here; a minority of the stores may be down or wiped.

    RegistryMissing if there are none. RegistryMismatch if they belong to other settings, or the stores do not
    belong together. RegistryUnavailable if too few answer.
    """
    with ThreadPoolExecutor(len(endpoints), thread_name_prefix="find-ledgers") as pool:
        replies = list(pool.map(lambda endpoint: ask_store(pipeline, endpoint), endpoints))
    register = classify(pipeline, endpoints, replies)
    if register is None:
        raise RegistryMissing(
            f"There are no ledgers of the pipeline {pipeline} at {', '.join(map(str, endpoints))}."
            " If it has joined before, put the stores' data back, or the endpoints right"
        )
    if register.pipeline != pipeline:
        raise RegistryMismatch(
            f"the ledgers at {endpoints[0]} belong to the pipeline {register.pipeline};"
            " give each pipeline its own name"
        )
    if register.settings_hash != settings_hash:
        raise RegistryMismatch(
            f"the ledgers of the pipeline {pipeline} at {endpoints[0]} were made with other settings of ids"
            " and times: they would not know what is joined. Put those settings back"
        )
    return LedgersAddress(pipeline, tuple(endpoints), register.members, settings)


def classify(
    pipeline: str, endpoints: Sequence[EndpointAddress], replies: Sequence[Found | NoReply]
) -> Register | None:
    """The newest register at stores that make a registry together; None if all answer and none has one.

    Pure but for the log, which says what is wrong with a minority.
    """
    n = len(replies)
    tables = [None if isinstance(reply, NoReply) else reply.table for reply in replies]
    _require_distinct_stores(pipeline, endpoints, tables)
    registers = [r.register for r in replies if isinstance(r, Found) and r.register is not None]
    # The newest first. A majority of one membership and one of the next have a store in common.
    registers.sort(key=lambda register: register.members.version, reverse=True)
    for register in registers:
        problems = _problems(pipeline, register.members, replies)
        if len(register.members.incarnations) == n and n - len(problems) >= majority(n):
            for slot, problem in problems.items():
                log.warning("ledgers of %s: %s %s", pipeline, endpoints[slot], problem)
            return register
    silent = {slot: reply.reason for slot, reply in enumerate(replies) if isinstance(reply, NoReply)}
    problems = _problems(pipeline, registers[0].members, replies) if registers else {}
    wrong = problems.keys() - silent.keys() - {*(registers[0].members.down if registers else ())}
    if registers and (n - len(wrong) < majority(n) or not silent):  # though the silent ones were right
        raise RegistryMismatch(
            f"{_listed(endpoints, problems)}; no majority of the stores of the pipeline {pipeline} is left:"
            " name those that its ledgers were made over, or bring back their data"
        )
    if silent:
        raise RegistryUnavailable(f"too few stores answer: {_listed(endpoints, silent)}")
    return None


def _problems(pipeline: str, members: Members, replies: Sequence[Found | NoReply]) -> dict[int, str]:
    """By slot what is wrong with each store that does not count."""
    named = [table_name(pipeline, incarnation) for incarnation in members.incarnations]
    problems: dict[int, str] = {}
    for slot, reply in enumerate(replies):
        if isinstance(reply, NoReply):
            problems[slot] = f"{reply.problem} ({reply.reason})"
        elif slot >= len(named) or len(named) != len(replies):
            problems[slot] = f"is one of {len(replies)}, and the ledgers were made over {len(named)}"
        elif slot in members.down:
            problems[slot] = "is out of use until a repair of it has ended; run it again"
        elif reply.table is None:
            problems[slot] = "has lost its data, or is a new store; it is not used until it is repaired"
        elif reply.table != named[slot] and reply.table in named:
            problems[slot] = f"is number {named.index(reply.table) + 1}: put the endpoints in their old order"
        elif reply.table != named[slot]:
            problems[slot] = "has the data of other ledgers; it is not used until it is repaired"
    return problems


def _require_distinct_stores(
    pipeline: str, endpoints: Sequence[EndpointAddress], tables: Sequence[str | None]
) -> None:
    for slot, table in enumerate(tables):
        if table is not None and table in tables[:slot]:
            raise RegistryMismatch(
                f"{endpoints[tables.index(table)]} and {endpoints[slot]} are one and the same store; give the"
                f" ledgers of the pipeline {pipeline} stores of their own"
            )


def _listed(endpoints: Sequence[EndpointAddress], problems: Mapping[int, str]) -> str:
    return "; ".join(f"{endpoints[slot]} {problem}" for slot, problem in problems.items())


# -- one store


def ask_store(pipeline: str, endpoint: EndpointAddress) -> Found | NoReply:
    """What a store has of a pipeline; each request is bounded by `ADMIN_TIMEOUT`."""
    connection = Connection(endpoint, ADMIN_TIMEOUT, 1)
    try:
        table = Directory(endpoint, SystemClock(), connection).table_of(pipeline)
        if table is None:
            return Found(None, None)
        there = DynamoStore(table, connection).get(REGISTER_KEY)
    except RegistryUnavailable as error:
        return NoReply(str(error), "unreachable")
    finally:
        connection.leave()
    if isinstance(there, NoReply):
        return there
    return Found(table, None if there.value is None else decode_register(there.value))


class Directory:
    """Which table belongs to which pipeline at one store. RegistryUnavailable if it is silent."""

    def __init__(self, endpoint: EndpointAddress, clock: Clock, connection: Connection | None = None) -> None:
        self._endpoint = endpoint
        self._clock = clock
        self._connection = connection or Connection(endpoint, ADMIN_TIMEOUT, 1)

    def table_of(self, pipeline: str) -> str | None:
        """The table that is named for a pipeline; None if there is none."""
        answer = self._call(
            "get_item", _MISSING, TableName=DIRECTORY, Key=_name(pipeline), ConsistentRead=True
        )
        return str(answer["Item"]["t"]["S"]) if answer is not None and "Item" in answer else None

    def ensure_table_of(self, pipeline: str) -> str:
        """The pipeline's table, made if there is none; of two who make one at once, that of the first."""
        named = self.table_of(pipeline)
        if named is not None:
            return named
        table = table_name(pipeline, new_incarnation())
        self._create(DIRECTORY, TABLE_DEFINITION)
        self._create(table, LEDGER_TABLE)
        is_named = self._call(
            "put_item",
            "ConditionalCheckFailedException",
            TableName=DIRECTORY,
            Item={**_name(pipeline), "t": {"S": table}},
            ConditionExpression="attribute_not_exists(p)",
        )
        if is_named is None:
            self._call("delete_table", _MISSING, TableName=table)  # nobody has heard of it
        return self.table_of(pipeline) or table

    def _create(self, table: str, definition: Mapping[str, Any]) -> None:
        """Make a table, unless it is there, and wait until it can be used."""
        self._call("create_table", "ResourceInUseException", TableName=table, **definition)
        deadline = Deadline(self._clock, TABLE_SECONDS)
        while True:
            answer = self._call("describe_table", TableName=table)
            if answer is not None and answer["Table"]["TableStatus"] == "ACTIVE":
                return
            if not deadline.pause():
                raise RegistryUnavailable(
                    f"the table {table} at {self._endpoint} was not ready within {TABLE_SECONDS:.0f} s"
                )

    def _call(self, operation: str, unless: str | None = None, **request: Any) -> Any:
        """The answer; None if it is the error `unless`."""
        try:
            return getattr(self._connection(), operation)(**request)
        except ClientError as error:
            if error_code(error.response) == unless:
                return None
            raise RegistryUnavailable(f"{self._endpoint} does not let us in or fails: {error}") from error
        except (BotoCoreError, ResponseParserError, *UNREADABLE) as error:
            raise RegistryUnavailable(f"{self._endpoint} does not answer: {error}") from error


_MISSING = "ResourceNotFoundException"


def _name(pipeline: str) -> dict[str, Any]:
    return {"p": {"S": "ledgers"}, "s": {"S": pipeline}}
