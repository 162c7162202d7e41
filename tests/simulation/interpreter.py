"""An endpoint that interprets the requests of `DynamoAcceptor`, and no others, as DynamoDB's reference says.

It does what only the real store does and a local one never (protocol B17): a read that does not ask for
consistency gets what was there before the last write; a page may end early, be it empty; a part of a batch
may be left undone. Held against real stores by `tests/contract/test_interpreter.py`.
"""

from __future__ import annotations

import operator
import re
import threading
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from botocore.exceptions import ClientError

from photon.registry.consensus.layout import ItemKey
from tests.simulation.keyword_client import KeywordClient

Row = Mapping[str, str]  # an item's attributes; all are texts

# The limits of DynamoDB for one request.
MOST_STATEMENTS = 25
MOST_IN_A_TRANSACTION = 100
MOST_KEYS = 100
MOST_KEY_BYTES = {"p": 2_048, "s": 1_024}

_NOTHING: Row = {}
_IS_MISSING = "IS MISSING"
_COMPARISONS: dict[str, Callable[[str, str], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
}
_INSERT = re.compile(r"INSERT INTO \"(?P<table>[^\"]+)\" VALUE \{(?P<set>.+)\}")
_UPDATE = re.compile(
    r"UPDATE \"(?P<table>[^\"]+)\" SET (?P<set>.+?) WHERE (?P<where>.+?)(?P<old> RETURNING ALL OLD \*)?"
)
_DELETE = re.compile(r"DELETE FROM \"(?P<table>[^\"]+)\" WHERE (?P<where>.+)")
_SET = {_INSERT: re.compile(r"'(\w+)': \?"), _UPDATE: re.compile(r"(\w+) = \?")}
_CONDITION = re.compile(r"(\w+) (?:(=|<|<=|>) \?|(IS MISSING))")
_NOT_A_KEY = "One or more parameter values were invalid"
_MESSAGES = {
    "DuplicateItem": "Duplicate primary key exists in table",
    "ConditionalCheckFailed": "The conditional request failed",
    "ThrottlingError": "Throughput exceeds the current capacity of the table",
    "ValidationError": _NOT_A_KEY,
}


@dataclass(frozen=True, slots=True)
class _Statement:
    """A statement before its parameters. `where`: all of them, and of each any one, must hold."""

    table: str
    verb: str
    set: tuple[str, ...]
    where: tuple[tuple[tuple[str, str], ...], ...]
    returns_old: bool


@lru_cache(100)
def _statement(text: str) -> _Statement:
    for pattern in (_INSERT, _UPDATE, _DELETE):
        found = pattern.fullmatch(text)
        if found is not None:
            parts = found.groupdict()
            names = parts["set"].split(", ") if "set" in parts else []
            return _Statement(
                parts["table"],
                text.split()[0],
                tuple(_match(_SET[pattern], name).group(1) for name in names),
                tuple(map(_ors, parts["where"].split(" AND "))) if "where" in parts else (),
                parts.get("old") is not None,
            )
    raise AssertionError(f"no such statement is known: {text}")


def _ors(text: str) -> tuple[tuple[str, str], ...]:
    either = text[1:-1].split(" OR ") if text.startswith("(") else [text]
    found = (_match(_CONDITION, one) for one in either)
    return tuple((one.group(1), one.group(2) or one.group(3)) for one in found)


def _match(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    found = pattern.fullmatch(text)
    assert found is not None, f"nobody here can read {text!r}"
    return found


@dataclass(frozen=True, slots=True)
class _Write:
    """One write, with its parameters. `conditions` as `_Statement.where`, each with what to compare to."""

    verb: str  # INSERT, UPDATE, DELETE or PUT
    key: ItemKey
    set: Row
    conditions: tuple[tuple[tuple[str, str, str], ...], ...] = ()
    returns_old: bool = False

    def problem(self, now: Row | None) -> str | None:
        """The error's code, if this write can't be done where the item is so (None: it is not there)."""
        if not all(1 <= len(_utf8(getattr(self.key, name))) <= most for name, most in MOST_KEY_BYTES.items()):
            return "ValidationError"
        match self.verb:
            case "INSERT":
                return None if now is None else "DuplicateItem"
            case "PUT":
                return None if now is None else "ConditionalCheckFailed"
            case "DELETE" if now is None:
                return None  # nothing is deleted, and that is no error
        if now is None or not all(any(_holds(now, *one) for one in either) for either in self.conditions):
            return "ConditionalCheckFailed"
        return None


def _holds(row: Row, name: str, comparison: str, other: str) -> bool:
    if comparison == _IS_MISSING:
        return name not in row
    return name in row and _COMPARISONS[comparison](row[name], other)  # what is missing compares to nothing


class Interpreter(KeywordClient):
    """A client, as `WireClient` is one, of an endpoint with one table. Thread-safe.

    `rows` is what the table has. `leaves_out`: whether to leave the next part of a request undone.
    `ends_page`: whether to end a page before its next item.
    """

    def __init__(
        self,
        table: str,
        rows: MutableMapping[ItemKey, Row] | None = None,
        leaves_out: Callable[[], bool] = lambda: False,
        ends_page: Callable[[], bool] = lambda: False,
    ) -> None:
        self._table = table
        self._rows: MutableMapping[ItemKey, Row] = {} if rows is None else rows
        self._before: dict[ItemKey, Row] = {}  # of each item, before its last write
        self._leaves_out = leaves_out
        self._ends_page = ends_page
        self._lock = threading.Lock()

    # -- writes

    def batch_execute_statement(self, Statements: Sequence[Any]) -> Any:
        """Each statement for itself."""
        writes = self._writes(Statements, MOST_STATEMENTS)

        def answer(write: _Write) -> Any:
            with self._lock:
                now = self._rows.get(write.key)
                code = "ThrottlingError" if self._leaves_out() else write.problem(now)
                if code is not None:
                    return {"Error": {"Code": code, "Message": _MESSAGES[code]}}
                self._apply(write)
            there = {"Item": _item(now)} if write.returns_old and now is not None else {}
            return {"TableName": self._table, **there}

        return {"Responses": [answer(write) for write in writes]}

    def execute_transaction(self, TransactStatements: Sequence[Any], ReturnConsumedCapacity: str) -> Any:
        """All statements, or none."""
        writes = self._writes(TransactStatements, MOST_IN_A_TRANSACTION)
        assert not any(write.returns_old for write in writes), "a transaction returns nothing"
        return self._transact(writes, ReturnConsumedCapacity)

    def transact_write_items(self, TransactItems: Sequence[Any], ReturnConsumedCapacity: str) -> Any:
        """All puts, or none; each where nothing is."""
        writes = []
        for item in TransactItems:
            ((kind, put),) = item.items()
            assert (kind, put["ConditionExpression"]) == ("Put", "attribute_not_exists(p)"), item
            self._must_be_there(put["TableName"])
            row = {name: value["S"] for name, value in put["Item"].items()}
            writes.append(_Write("PUT", ItemKey(row["p"], row["s"]), row))
        _must_differ([write.key for write in writes], MOST_IN_A_TRANSACTION)
        return self._transact(writes, ReturnConsumedCapacity)

    def _transact(self, writes: Sequence[_Write], consumed: str) -> Any:
        with self._lock:
            codes = [
                "ThrottlingError" if self._leaves_out() else write.problem(self._rows.get(write.key))
                for write in writes
            ]
            if any(codes):
                reasons = [{"Code": c, "Message": _MESSAGES[c]} if c else {"Code": "None"} for c in codes]
                raise _error("TransactionCanceledException", CancellationReasons=reasons)
            for write in writes:
                self._apply(write)
        capacity = {"TableName": self._table, "CapacityUnits": 2.0 * len(writes)}
        return {"ConsumedCapacity": [capacity]} if consumed == "TOTAL" else {}

    def _writes(self, statements: Sequence[Any], most: int) -> list[_Write]:
        writes = [self._write(s["Statement"], [value["S"] for value in s["Parameters"]]) for s in statements]
        _must_differ([write.key for write in writes], most)
        return writes

    def _write(self, text: str, parameters: Sequence[str]) -> _Write:
        statement = _statement(text)
        self._must_be_there(statement.table)
        texts = iter(parameters)
        set_ = {name: next(texts) for name in statement.set}
        conditions = tuple(
            tuple((name, op, "" if op == _IS_MISSING else next(texts)) for name, op in either)
            for either in statement.where
        )
        assert next(texts, None) is None, f"{len(parameters)} are too many parameters for {text}"
        equal = {one[0][0]: one[0][2] for one in conditions if len(one) == 1 and one[0][1] == "="}
        named = equal if statement.where else set_
        key = ItemKey(named["p"], named["s"])
        return _Write(statement.verb, key, set_, conditions, statement.returns_old)

    def _apply(self, write: _Write) -> None:
        now = self._rows.get(write.key, _NOTHING)
        self._before[write.key] = now
        if write.verb != "DELETE":
            self._rows[write.key] = {**now, **write.set}
        elif now:
            del self._rows[write.key]

    # -- reads

    def batch_get_item(self, RequestItems: Mapping[str, Any]) -> Any:
        """The items with these keys, in any order, without those that are not there."""
        ((table, wanted),) = RequestItems.items()
        self._must_be_there(table)
        keys = [_key(key) for key in wanted["Keys"]]
        _must_differ(keys, MOST_KEYS)
        left = [key for key in keys if self._leaves_out()]
        with self._lock:
            rows = [self._seen(key, wanted.get("ConsistentRead")) for key in keys if key not in left]
        found = [_item(row) for row in reversed(rows) if row]
        unprocessed = {table: {**wanted, "Keys": [_item(key._asdict()) for key in left]}} if left else {}
        return {"Responses": {table: found}, "UnprocessedKeys": unprocessed}

    def query(
        self, KeyConditionExpression: str, ExpressionAttributeValues: Mapping[str, Any], **page: Any
    ) -> Any:
        """A page of the items with one `p`, in order."""
        values = {name: value["S"] for name, value in ExpressionAttributeValues.items()}
        shard, below = values.pop(":p"), values.pop(":s", None)
        assert KeyConditionExpression == ("p = :p" if below is None else "p = :p AND s < :s")
        assert not values, f"{values} are of no use"

        def is_wanted(key: ItemKey) -> bool:
            return key.p == shard and (below is None or key.s < below)

        return self._page(is_wanted, **page)

    def _page(
        self,
        is_wanted: Callable[[ItemKey], bool],
        TableName: str,
        Limit: int,
        ConsistentRead: bool = False,
        ExclusiveStartKey: Any = None,
    ) -> Any:
        self._must_be_there(TableName)
        after = None if ExclusiveStartKey is None else _key(ExclusiveStartKey)
        found: list[ItemKey] = []
        last: ItemKey | None = None
        with self._lock:
            for key in sorted(filter(is_wanted, self._rows)):
                if after is not None and key <= after:
                    continue
                if self._ends_page():
                    last = found[-1] if found else after or ItemKey(key.p, "\0")
                    break
                found.append(key)
                if len(found) == Limit:
                    last = key  # though it may be the last one of all
                    break
            rows = [self._seen(key, ConsistentRead) for key in found]
        answer = {"Items": [_item(row) for row in rows if row]}
        return answer if last is None else {**answer, "LastEvaluatedKey": _item(last._asdict())}

    def _seen(self, key: ItemKey, consistent: bool | None) -> Row:
        now = self._rows.get(key, _NOTHING)
        return now if consistent else self._before.get(key, now)

    def describe_table(self, TableName: str) -> Any:
        """How much it has, up to date."""
        self._must_be_there(TableName)
        with self._lock:
            sizes = [_bytes(row) for row in self._rows.values()]
        return {"Table": {"TableStatus": "ACTIVE", "ItemCount": len(sizes), "TableSizeBytes": sum(sizes)}}

    def _must_be_there(self, table: str) -> None:
        if table != self._table:
            raise _error("ResourceNotFoundException")


def _must_differ(keys: Sequence[ItemKey], most: int) -> None:
    if not 0 < len(keys) <= most or len(set(keys)) < len(keys):
        raise _error("ValidationException")  # the whole request is refused (protocol B7)


def _error(code: str, **more: Any) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": code}, **more}, "Interpreted")  # type: ignore[arg-type]


def _key(item: Any) -> ItemKey:
    return ItemKey(item["p"]["S"], item["s"]["S"])


def _item(row: Row) -> dict[str, dict[str, str]]:
    return {name: {"S": text} for name, text in row.items()}


def _bytes(row: Row) -> int:
    return sum(len(name) + len(_utf8(text)) for name, text in row.items())


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
