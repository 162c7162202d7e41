"""Requests as they are sent, and what follows from answers that no local store gives (protocol B17).

Local stores are always consistent, and end a page or a batch only where they have to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from photon.ledger.stores.copies import Done
from photon.ledger.stores.decisions import ballot
from photon.pipeline.event_key import EventKey
from photon.registry.consensus.acceptor import (
    Accept,
    Delete,
    Insert,
    Page,
    Prepare,
    Promised,
    Refused,
    Replace,
    Scanned,
    Stored,
    StoreSize,
    Unchanged,
)
from photon.registry.consensus.layout import REGISTER_KEY, ItemKey, item_key
from photon.registry.consensus.register import ShardConfig
from photon.registry.dynamodb.acceptor import DynamoAcceptor
from photon.registry.interface import Claim, Free, Holder, Joined, Lost, Released, Won
from photon.registry.operations.gc import gc_pass, raise_boundary
from photon.testing.faulty_store import FaultyStore
from photon.testing.manual_clock import ManualClock
from photon.testing.memory_registry import memory_registry
from tests.simulation.capricious import KEYS, Capricious, a_repair_over_pages_that_end_early
from tests.simulation.interpreter import Interpreter, Row
from tests.simulation.keyword_client import KeywordClient

TABLE = "photon-events-1"
EAST, WEST = "east:e:1#p:1:0", "west:e:1#p:1:0"
HELD, EAST_HOLDS = f"T:{EAST}", Holder("east", EAST)
A, B, C = (ItemKey("p", s) for s in "abc")
LOW, HIGH = ballot(1, "0" * 16), ballot(2, "0" * 16)
HOUR_US = 3_600_000_000


class Recording(KeywordClient):
    """An endpoint that interprets what it is asked, and keeps it."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self._interpreter = Interpreter(TABLE)

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        def ask(**request: Any) -> Any:
            self.requests.append((operation, request))
            return getattr(self._interpreter, operation)(**request)

        return ask

    def statements(self) -> Iterator[tuple[str, list[str]]]:
        """All statements that were sent, with their parameters."""
        for _, request in self.requests:
            for statement in (*request.get("Statements", ()), *request.get("TransactStatements", ())):
                yield statement["Statement"], [value["S"] for value in statement["Parameters"]]


@pytest.fixture
def endpoint() -> Recording:
    return Recording()


@pytest.fixture(params=[False, True], ids=["batches", "transactions"])
def acceptor(endpoint: Recording, request: pytest.FixtureRequest) -> DynamoAcceptor:
    return DynamoAcceptor(TABLE, lambda: endpoint, request.param)


# -- what is asked


def ask_for_everything(acceptor: DynamoAcceptor) -> None:
    """Each call of an acceptor, with each of its replies."""
    assert acceptor.insert([Insert(A, HELD), Insert(B, HELD, "5")]) == [Done(), Done()]
    assert acceptor.insert([Insert(A, HELD)]) == [Unchanged()]
    there, absent = acceptor.prepare([Prepare(A, HIGH), Prepare(C, HIGH)])
    assert (type(there), absent) == (Promised, Promised(Stored()))
    assert acceptor.prepare([Prepare(A, LOW)]) == [Refused(Stored(HELD, promised=HIGH))]
    assert acceptor.accept([Accept(A, HIGH, HELD), Accept(C, LOW, HELD)]) == [
        Done(),
        Refused(Stored(promised=HIGH)),
    ]
    assert acceptor.accept([Accept(ItemKey("p", "d"), LOW, HELD)]) == [Done()]
    assert acceptor.replace([Replace(A, HELD, "C:east"), Replace(B, "T:x", "C:x")]) == [Done(), Unchanged()]
    assert acceptor.read([A, B]) == [Stored("C:east", HIGH, HIGH), Stored(HELD)]
    assert acceptor.delete([Delete(A), Delete(B, "6")]) == [Done(), Unchanged()]
    assert isinstance(acceptor.scan_shard("p", "", A, 10), Page)
    assert isinstance(acceptor.scan_shard("p", "c", None, 10), Page)
    assert isinstance(acceptor.size(), StoreSize)


def test_every_read_and_every_page_asks_for_consistency(
    acceptor: DynamoAcceptor, endpoint: Recording
) -> None:
    ask_for_everything(acceptor)
    reads = [wanted for name, r in endpoint.requests if name == "batch_get_item" for wanted in _tables(r)]
    pages = [request for name, request in endpoint.requests if name == "query"]
    assert len(reads) >= 4  # of a call, and of each that has to know what is there
    assert len(pages) == 2
    assert [request.get("ConsistentRead") for request in (*reads, *pages)] == [True] * (len(reads) + 2)


def _tables(request: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*request["RequestItems"].values()]


def test_what_is_promised_and_accepted_is_compared_with_the_ballot_by_the_statement_itself(
    acceptor: DynamoAcceptor, endpoint: Recording
) -> None:
    acceptor.prepare([Prepare(A, HIGH)])
    acceptor.accept([Accept(A, HIGH, HELD)])
    updates = [(text, values) for text, values in endpoint.statements() if text.startswith("UPDATE")]
    ((prepare, of_prepare), (accept, of_accept)) = updates
    assert "WHERE p = ? AND s = ? AND (b IS MISSING OR b < ?)" in prepare
    assert of_prepare == [HIGH, "p", "a", HIGH]
    assert "WHERE p = ? AND s = ? AND (b IS MISSING OR b <= ?) AND (t IS MISSING OR t > ? OR t = ?)" in accept
    assert of_accept == [HIGH, HIGH, HELD, "p", "a", HIGH, "D", HELD]


def test_every_insert_is_one_where_nothing_is(acceptor: DynamoAcceptor, endpoint: Recording) -> None:
    ask_for_everything(acceptor)
    texts = [text for text, _ in endpoint.statements()]
    assert [text for text in texts if "EXISTS" in text or "UPSERT" in text or "REPLACE" in text] == []
    puts = [r["TransactItems"] for name, r in endpoint.requests if name == "transact_write_items"]
    conditions = {put["Put"]["ConditionExpression"] for items in puts for put in items}
    assert conditions <= {"attribute_not_exists(p)"}
    assert any(text.startswith("INSERT") for text in texts)


def test_a_clearing_and_a_deletion_name_what_they_expect(
    acceptor: DynamoAcceptor, endpoint: Recording
) -> None:
    acceptor.replace([Replace(A, HELD, "C:east")])
    acceptor.delete([Delete(A, "5"), Delete(B)])
    assert [*endpoint.statements()] == [
        (f'UPDATE "{TABLE}" SET t = ? WHERE p = ? AND s = ? AND t = ?', ["C:east", "p", "a", HELD]),
        (f'DELETE FROM "{TABLE}" WHERE p = ? AND s = ? AND e = ?', ["p", "a", "5"]),
        (f'DELETE FROM "{TABLE}" WHERE p = ? AND s = ?', ["p", "b"]),
    ]


def test_a_classic_round_reads_the_register_after_its_promises_and_before_it_accepts() -> None:  # B11
    store = FaultyStore(ManualClock())
    registry = memory_registry(store, clock=ManualClock())
    registry.commit([Claim(EventKey("a"), EAST)])
    seen: list[str] = []
    store.on_request = lambda kind, batch: seen.append("check" if batch[0] == REGISTER_KEY else kind)
    registry.release([Claim(EventKey("a"), EAST)])
    assert seen == ["prepare", "check", "accept", "check"]


# -- answers that say less than all


@pytest.fixture(params=[False, True], ids=["batches", "transactions"])
def capricious(request: pytest.FixtureRequest) -> Capricious:
    return Capricious(3, seed=11, transactions=request.param)


def test_what_was_left_out_of_batches_is_committed_found_and_released(capricious: Capricious) -> None:
    claims = [Claim(key, EAST) for key in KEYS]
    assert capricious.client().commit(claims) == [Won()] * 60
    assert capricious.client().commit([Claim(key, WEST) for key in KEYS]) == [Lost(EAST_HOLDS)] * 60
    assert capricious.client().release(claims[:20]) == [Released()] * 20
    assert capricious.client().clear(claims[40:]) == 20
    found = capricious.client().lookup(KEYS)
    assert found[:20] == [Free()] * 20
    assert set(found[20:40]) <= {Joined(EAST_HOLDS), Free()}  # what two of three say may decide nothing
    assert found[40:] == [Joined(Holder("east", None))] * 20


def test_gc_goes_on_behind_a_page_that_ended_early(capricious: Capricious) -> None:
    registry = capricious.client()
    registry.commit([Claim(key, EAST) for key in KEYS])
    done = gc_pass(registry, raise_boundary(registry, 50 * HOUR_US), timeless_shards=False, page_items=7)
    assert [one.problem for one in done] == [""] * 3
    young = {item_key(key, (ShardConfig(2),)) for key in KEYS[50:]}
    assert all(capricious.stored_at(slot) <= young for slot in range(3))


@pytest.mark.parametrize("page_items", [7, 1_000])
def test_a_repair_goes_on_behind_a_page_that_ended_early(capricious: Capricious, page_items: int) -> None:
    a_repair_over_pages_that_end_early(capricious, page_items)


def test_an_empty_page_may_have_others_behind_it() -> None:
    page_ends = iter([True, False])
    rows: dict[ItemKey, Row] = {A: {"p": A.p, "s": A.s, "e": "5"}}
    client = Interpreter(TABLE, rows, ends_page=lambda: next(page_ends))
    acceptor = DynamoAcceptor(TABLE, lambda: client)
    first = acceptor.scan_shard("p", "", None, 10)
    assert isinstance(first, Page)
    assert first.items == ()
    assert first.last is not None
    assert acceptor.scan_shard("p", "", first.last, 10) == Page((Scanned(A, "5", Stored()),), None)
