"""Columns say what the forms for one id say, for every kind of id, time and token."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from photon.ledger.stores.copies import Done, NoReply
from photon.pipeline.event_key import EventKey
from photon.registry.consensus.acceptor import Insert, Same, Unchanged, different
from photon.registry.consensus.columns import (
    InsertColumn,
    ItemColumn,
    beyond_horizon,
    distinct_in_order,
    fenced,
    first_of_each,
    insert_column,
    item_column,
    once,
    too_old,
)
from photon.registry.consensus.layout import (
    SHARD_HASH,
    ItemKey,
    fast_value,
    fenced_epoch,
    is_too_old,
    item_key,
    stored_time,
)
from photon.registry.consensus.quorums import all_of_them, answered
from photon.registry.consensus.register import EpochRecord, Members, Register, ShardConfig
from photon.registry.dynamodb.bodies import inserts_in_batch, keys_to_read, puts_in_transaction
from photon.registry.endpoints.parts import Replies, batches, cut
from photon.registry.interface import Claim, ClaimColumns, Free, Holder, Joined, KeyColumns, Outcomes
from photon.testing.memory_registry import MemoryAcceptor

NOON_US = 10**15
CONFIGS = (ShardConfig(4, None, NOON_US), ShardConfig(7, NOON_US, None))
EPOCHS = {
    "live": EpochRecord("east", "live", "t1", 0),
    "over": EpochRecord("west", "retired", "t2", 0),
}
REGISTER = Register(
    "p", "s", SHARD_HASH, Members(1, ("a",)), CONFIGS, NOON_US + 50, NOON_US - 50, epochs=EPOCHS
)
ODD_IDS = ("x" * 500, "\ud800", 'a "quoted" \\ one', "two\nlines\x01", "日本語", "x" * 199, "x" * 180)


def any_key(chance: random.Random) -> EventKey:
    event_id = chance.choice(ODD_IDS) if chance.random() < 0.2 else f"id-{chance.randrange(50)}"
    time_us = chance.choice((None, NOON_US - 1, NOON_US, NOON_US + 60, -5, 2**63 - 1, -(2**63)))
    return EventKey(event_id, time_us, chance.choice((None, NOON_US - 60, NOON_US + 7)))


def any_claims(seed: int, ids_are_text: bool) -> list[Claim]:
    print(f"seed {seed}")
    chance = random.Random(seed)
    keys = [any_key(chance) for _ in range(200)]
    keys = [key for key in keys if key.id != "\ud800"] if ids_are_text else keys
    tokens = (
        f"{chance.choice(('east', 'west', 'new'))}:{chance.choice(('live', 'over', 'gone'))}:1#p:1"
        for _ in keys
    )
    return [Claim(key, f"{token}:{n}") for n, (key, token) in enumerate(zip(keys, tokens, strict=True))]


@pytest.fixture(params=[(1, True), (2, True), (3, False)], ids=str)
def claims(request: pytest.FixtureRequest) -> list[Claim]:
    return any_claims(*request.param)


def test_claims_in_columns_are_the_same_claims(claims: list[Claim]) -> None:
    columns = ClaimColumns.of(claims)
    assert list(columns) == claims
    assert [claim.key.at_us for claim in columns] == [claim.key.at_us for claim in claims]
    assert list(columns[5:9]) == claims[5:9]
    assert list(columns.take(np.array([3, 1]))) == [claims[3], claims[1]]


def test_an_item_lies_where_it_lies_for_one_id(claims: list[Claim]) -> None:
    items = item_column(ClaimColumns.of(claims).keys, CONFIGS)
    assert list(items) == [item_key(claim.key, CONFIGS) for claim in claims]


def test_ids_as_bytes_lie_where_they_lie_as_text() -> None:
    ids = pa.array(["a", "b" * 500, "日本語"])
    assert list(item_column(KeyColumns(ids.cast(pa.binary())), CONFIGS)) == list(
        item_column(KeyColumns(ids), CONFIGS)
    )


def test_a_tables_columns_may_come_in_chunks_and_with_a_dictionary() -> None:
    claims = ClaimColumns.of(any_claims(4, ids_are_text=True))
    tokens = pa.chunked_array([claims.tokens[:50], claims.tokens[50:]])
    for ids in (claims.keys.ids.dictionary_encode(), claims.keys.ids.cast(pa.large_string())):
        chunks = pa.chunked_array([ids[:30], ids[30:]])
        times_us, at_us = (pa.chunked_array([times]) for times in (claims.keys.times_us, claims.keys.at_us))
        columns = ClaimColumns(KeyColumns(chunks, times_us, at_us), tokens)
        inserts = insert_column(columns, item_column(columns.keys, CONFIGS))
        expected = insert_column(claims, item_column(claims.keys, CONFIGS))
        assert puts_in_transaction(inserts[3:9], "t") == puts_in_transaction(expected[3:9], "t")


def a_column_of(length: int) -> pa.Array:
    return pa.array([str(number) for number in range(length)])


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: KeyColumns(pa.array(["a", None])), "ids has 1 nulls"),
        (lambda: ClaimColumns(KeyColumns(a_column_of(2)), pa.array(["t", None])), "tokens has 1 nulls"),
        (lambda: ClaimColumns(KeyColumns(a_column_of(2)), a_column_of(3)), "tokens has 3 rows; expected 2"),
        (lambda: KeyColumns(a_column_of(2), None, pa.array([1])), "at_us has 1 rows; expected 2"),
        (lambda: KeyColumns(a_column_of(1), pa.array([1], pa.timestamp("ms"))), "expected microseconds"),
    ],
    ids=["null id", "null token", "more tokens", "fewer times", "milliseconds"],
)
def test_columns_that_could_be_misread_are_refused(make: Callable[[], object], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        make()


def test_times_of_a_table_and_numpys_are_taken_as_they_are() -> None:
    expected = KeyColumns.of([EventKey("a", NOON_US), EventKey("b", NOON_US + 1)])
    stamps = pa.array([NOON_US, NOON_US + 1], pa.timestamp("us", "UTC"))
    assert list(KeyColumns(pa.array(["a", "b"]), stamps)) == list(expected)
    numpys = KeyColumns(np.array(["a", "b"]), np.array([NOON_US, NOON_US + 1]))  # type: ignore[arg-type]
    assert list(numpys) == list(expected)


def test_inserts_have_value_and_time_of_those_for_one_id(claims: list[Claim]) -> None:
    columns = ClaimColumns.of(claims)
    inserts = insert_column(columns, item_column(columns.keys, CONFIGS))
    assert list(inserts) == [
        Insert(item_key(c.key, CONFIGS), fast_value(c.token), stored_time(c)) for c in claims
    ]


@pytest.mark.parametrize("token", ["", ":e:1#p:1:0", "east:e:1#p:1:0\nwest:e:1#p:1:0"])
def test_a_token_that_could_not_be_told_apart_is_refused(token: str) -> None:
    claims = ClaimColumns.of([Claim(EventKey("a"), "east:e:1#p:1:0"), Claim(EventKey("b"), token)])
    with pytest.raises(ValueError, match="is not a token"):
        insert_column(claims, item_column(claims.keys, CONFIGS))


def test_an_empty_id_is_refused() -> None:
    with pytest.raises(ValueError, match="empty id"):
        item_column(KeyColumns.of([EventKey("a"), EventKey("")]), CONFIGS)


def test_an_id_of_bytes_that_are_no_text_is_refused_with_the_id() -> None:
    with pytest.raises(ValueError, match=r"the id b'\\xff' is no UTF-8"):
        item_column(KeyColumns(pa.array([b"a", b"\xff"])), CONFIGS)


def test_times_are_refused_by_a_registry_whose_ids_carry_none() -> None:
    with pytest.raises(ValueError, match="ids of this registry carry none"):
        item_column(KeyColumns(a_column_of(2), pa.array([1, None], pa.int64())), ())


def test_too_old_and_beyond_the_horizon_is_what_is_so_for_one_id(claims: list[Claim]) -> None:
    columns = ClaimColumns.of(claims)
    assert too_old(columns.keys, REGISTER).tolist() == [is_too_old(c.key, REGISTER) for c in claims]
    times_us = [claim.key.time_us for claim in claims]
    beyond = [time_us is not None and time_us >= NOON_US + 50 for time_us in times_us]
    assert beyond_horizon(columns.keys, REGISTER).tolist() == beyond
    without = replace(REGISTER, boundary_us=None, horizon_us=None)
    assert not too_old(columns.keys, without).any()
    assert not beyond_horizon(columns.keys, without).any()


def test_an_epoch_is_over_where_it_is_so_for_one_token(claims: list[Claim]) -> None:
    over = {index: fenced_epoch(claim.token, REGISTER) for index, claim in enumerate(claims)}
    found = fenced(ClaimColumns.of(claims).tokens, REGISTER)
    assert found == {index: epoch for index, epoch in over.items() if epoch is not None}
    assert found


def test_an_item_that_is_there_twice_is_led_by_its_first_one(claims: list[Claim]) -> None:
    items = item_column(ClaimColumns.of(claims).keys, CONFIGS)
    keys = list(items)
    assert first_of_each(items).tolist() == [keys.index(key) for key in keys]


def test_distinct_items_are_in_the_order_of_their_keys(claims: list[Claim]) -> None:
    items = item_column(ClaimColumns.of([*claims, *claims]).keys, CONFIGS)
    firsts = distinct_in_order(items, first_of_each(items))
    assert list(items.take(firsts)) == sorted(set(items))
    assert firsts.max() < len(claims)


def test_a_body_has_each_text_as_it_is_and_the_table_of_its_endpoint(claims: list[Claim]) -> None:
    columns = ClaimColumns.of(claims)
    inserts = insert_column(columns, item_column(columns.keys, CONFIGS))[7:]
    expected = [[i.key.p, i.key.s, i.time, i.value] for i in inserts]
    for table in ("photon-one", "photon-another"):
        puts = [put["Put"] for put in json.loads(puts_in_transaction(inserts, table))["TransactItems"]]
        assert [[put["Item"][name]["S"] for name in "pset"] for put in puts] == expected
        assert {put["TableName"] for put in puts} == {table}
        statements = json.loads(inserts_in_batch(inserts, table))["Statements"]
        assert [[text["S"] for text in one["Parameters"]] for one in statements] == expected
        assert all(f'"{table}"' in one["Statement"] for one in statements)
        ((asked, wanted),) = json.loads(keys_to_read(inserts.items, table))["RequestItems"].items()
        assert (asked, wanted["ConsistentRead"]) == (table, True)
        assert [[key["p"]["S"], key["s"]["S"]] for key in wanted["Keys"]] == [row[:2] for row in expected]


def test_what_is_made_of_a_column_is_made_once() -> None:
    made: list[ItemColumn] = []

    def form(items: ItemColumn) -> int:
        made.append(items)
        return len(items)

    items = ItemColumn.of([ItemKey("p", "a"), ItemKey("p", "b")])
    assert [once(items, form), once(items, form)] == [2, 2]
    assert len(made) == 1


def test_inserts_of_two_endpoints_are_one_object() -> None:
    inserts = InsertColumn.of([Insert(ItemKey("p", str(number)), "T:x") for number in range(5)])
    parts = cut(5, 2, [MemoryAcceptor(), MemoryAcceptor()])
    sent = batches(inserts, parts)
    assert [list(batch) for batch in sent[::2]] == [list(inserts[:2]), list(inserts[2:4]), list(inserts[4:])]
    assert all(one is other for one, other in zip(sent[::2], sent[1::2], strict=True))


def test_replies_that_are_the_same_are_the_same_for_each_request() -> None:
    acceptors = [MemoryAcceptor(), MemoryAcceptor()]
    parts = cut(5, 2, acceptors)
    replies: Replies[object] = Replies(5, 2, parts, answered(2))
    for part in parts:
        mixed = [Unchanged(), Done()] if part.group == 2 and part.slot == 1 else None
        replies.take(part, mixed or Same(Done(), len(part.indices)))
    assert replies.are_enough()
    assert replies.are(Done).all(axis=1).tolist() == [True, True, False, True, True]
    assert replies[2] == [Done(), Unchanged()]
    assert replies[4] == [Done(), Done()]


@pytest.mark.parametrize(
    ("enough", "is_so"), [(answered(2), False), (answered(1), True), (all_of_them, False)]
)
def test_a_request_without_a_reply_keeps_the_others_waiting(enough: Callable[..., bool], is_so: bool) -> None:
    parts = cut(4, 4, [MemoryAcceptor(), MemoryAcceptor()])
    replies: Replies[object] = Replies(4, 2, parts, enough)
    replies.take(parts[0], Same(Done(), 4))
    assert replies.are_enough() == is_so
    assert isinstance(replies[3][1], NoReply)


def test_outcomes_in_a_column_are_the_same_outcomes() -> None:
    held = Joined(Holder("east", "east:e:1#p:1:0"))
    outcomes = Outcomes(np.array([0, 1, 0, 0]), [Free(), held])
    assert outcomes == [Free(), held, Free(), Free()]
    assert outcomes != [Free(), held, Free(), held]
    assert outcomes.are(Joined).tolist() == [False, True, False, False]
    assert outcomes[1:3] == Outcomes.of([held, Free()])


def test_one_reply_for_many_is_a_list_of_it() -> None:
    same = Same("yes", 3)
    assert (list(same), same[1:], same[-1]) == (["yes"] * 3, Same("yes", 2), "yes")
    with pytest.raises(IndexError):
        same[3]
    assert list(different(same)) == ["yes"]
    assert different(["a", "a"]) == ["a", "a"]
