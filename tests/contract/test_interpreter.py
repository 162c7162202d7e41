"""The interpreter of the product's requests answers as real servers do, request for request."""

from __future__ import annotations

import random
import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from bench.store_servers import dynamodb_client
from bench.stored_items import stored_items
from photon.ledger.address import LOCAL_REGION
from photon.ledger.stores.copies import Done
from photon.ledger.stores.decisions import ballot
from photon.registry.consensus.acceptor import (
    Accept,
    Acceptor,
    Delete,
    Insert,
    Prepare,
    Replace,
    Scanned,
    StoreSize,
    Unchanged,
)
from photon.registry.consensus.layout import ItemKey
from photon.registry.dynamodb.acceptor import DynamoAcceptor
from photon.registry.operations.directory import TABLE_DEFINITION
from tests.contract.registry_backends import SERVER_TIMEOUT, wire_to
from tests.simulation.interpreter import Interpreter

KEYS = [ItemKey(p, s) for p in ("one", "two") for s in ("a", "b", "i\u00e9", "i\U0001f600'\"")]
VALUES = ["T:east:e:1#p:1:0", "T:west:e:1#p:1:0", "C:east", "X:east:e:1#p:1:0"]
BALLOTS = [ballot(counter, digit * 16) for counter in (1, 2, 12) for digit in "0f"]
TIMES = ["", "5", "6"]
CALLS = 400


@pytest.mark.server
@pytest.mark.parametrize("transactions", [False, True], ids=["batches", "transactions"])
@pytest.mark.parametrize("server", ["dynamodb", "dynoxide"])
def test_it_answers_as_a_server_does(server: str, transactions: bool, request: pytest.FixtureRequest) -> None:
    found = request.getfixturevalue(server)
    url = found if isinstance(found, str) else found[0]
    table = f"interpreted-{uuid.uuid4().hex}"
    tables = dynamodb_client(url, LOCAL_REGION, SERVER_TIMEOUT, 1)
    tables.create_table(TableName=table, **TABLE_DEFINITION)
    wire, interpreter = wire_to(url, LOCAL_REGION), Interpreter(table)
    real = DynamoAcceptor(table, lambda: wire, transactions)
    interpreted = DynamoAcceptor(table, lambda: interpreter, transactions)
    chance = random.Random(13)
    for number in range(CALLS):
        name, arguments = draw(chance)
        expected, answer = (answers(acceptor, name, arguments) for acceptor in (real, interpreted))
        assert answer == expected, f"call {number}: {name} {arguments}"
    assert all_items(interpreted) == all_items(real) != []
    size, counted = real.size(), interpreted.size()
    assert isinstance(size, StoreSize)
    assert isinstance(counted, StoreSize)
    assert counted == (size if size.bytes is not None else replace(counted, items=size.items))


def draw(chance: random.Random) -> tuple[str, tuple[Any, ...]]:
    """A call of an acceptor about some of a few items, so that it meets earlier ones."""
    keys = chance.sample(KEYS, chance.randrange(1, 5))

    def any_of(texts: Sequence[str]) -> str:
        return chance.choice(texts)

    match chance.choice(["insert", "read", "prepare", "accept", "replace", "delete", "scan_shard"]):
        case "insert":
            own = any_of(["", *BALLOTS])  # all inserts of a request promise the same ballot
            return "insert", ([Insert(key, any_of(VALUES), any_of(TIMES), own) for key in keys],)
        case "read":
            return "read", (keys,)
        case "prepare":
            return "prepare", ([Prepare(key, any_of(BALLOTS), any_of(TIMES)) for key in keys],)
        case "accept":
            return "accept", ([Accept(k, any_of(BALLOTS), any_of(VALUES), any_of(TIMES)) for k in keys],)
        case "replace":
            return "replace", ([Replace(key, any_of(VALUES), any_of(VALUES)) for key in keys],)
        case "delete":
            return "delete", ([Delete(key, any_of(TIMES)) for key in keys],)
    after = chance.choice([None, *KEYS])
    below = any_of(["", "b", "i"])
    # A page begins behind a key of its own shard, below where it ends.
    shard = after.p if after is not None else any_of(["one", "two"])
    within = after is None or not below or after.s < below
    return "scan_shard", (shard, below, after if within else None, chance.randrange(1, 6))


def answers(acceptor: Acceptor, name: str, arguments: tuple[Any, ...]) -> Any:
    """The answers; a deletion of what is not there may be answered in two ways."""
    found = getattr(acceptor, name)(*arguments)
    if name != "delete":
        return found
    assert all(isinstance(answer, Done | Unchanged) for answer in found), found
    return acceptor.read([delete.key for delete in arguments[0]])


def all_items(acceptor: Acceptor) -> list[Scanned]:
    """All items, from pages of three."""
    return list(stored_items(acceptor, ["one", "two"], page_items=3))
