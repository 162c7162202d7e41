"""Bodies of requests for many ids, written from columns, without a Python object for each.

A body is written once for all endpoints: tables differ, and their names are filled in as it goes out.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from photon.registry.consensus.columns import AcceptColumn, InsertColumn, ItemColumn, once
from photon.registry.consensus.layout import ABOVE_CLEARED

_TABLE = "\0"  # in a body, the table's name: JSON has no such character
_TO_ESCAPE = r'["\\\x00-\x1f]'


def keys_to_read(items: ItemColumn, table: str) -> bytes:
    """The body of BatchGetItem: a consistent read of these items (protocol B17)."""
    return _for_table(once(items, _keys_to_read), table)


def puts_in_transaction(inserts: InsertColumn, table: str) -> bytes:
    """The body of TransactWriteItems: puts where nothing is. Its answer says what it consumed."""
    return _for_table(once(inserts, _puts), table)


def inserts_in_batch(inserts: InsertColumn, table: str) -> bytes:
    """The body of BatchExecuteStatement: inserts, each for itself."""
    return _for_table(once(inserts, _inserts), table)


def accepts_in_transaction(accepts: AcceptColumn, table: str) -> bytes:
    """The body of ExecuteTransaction: accepts. Its answer says what it consumed."""
    body = b'{"TransactStatements":[%b],"ReturnConsumedCapacity":"TOTAL"}'
    return _for_table(body % once(accepts, _accepts), table)


def accepts_in_batch(accepts: AcceptColumn, table: str) -> bytes:
    """The body of BatchExecuteStatement: accepts, each for itself."""
    return _for_table(b'{"Statements":[%b]}' % once(accepts, _accepts), table)


def _for_table(body: bytes, table: str) -> bytes:
    return body.replace(_TABLE.encode(), table.encode())


def _keys_to_read(items: ItemColumn) -> bytes:
    keys = _joined('{"p":{"S":"', items.shards, '"},"s":{"S":"', items.range_keys, '"}},')
    return b'{"RequestItems":{"%b":{"Keys":[%b],"ConsistentRead":true}}}' % (_TABLE.encode(), keys)


def _puts(inserts: InsertColumn) -> bytes:
    promise = f'"b":{{"S":"{inserts.ballot}"}},' if inserts.ballot else ""
    puts = _joined(
        f'{{"Put":{{"TableName":"{_TABLE}","Item":{{{promise}"p":{{"S":"',
        inserts.items.shards,
        '"},"s":{"S":"',
        inserts.items.range_keys,
        '"},"e":{"S":"',
        inserts.times,
        '"},"t":{"S":"',
        inserts.values,
        '"}},"ConditionExpression":"attribute_not_exists(p)"}},',
    )
    return b'{"TransactItems":[%b],"ReturnConsumedCapacity":"TOTAL"}' % puts


def _inserts(inserts: InsertColumn) -> bytes:
    parameters = {
        "p": inserts.items.shards,
        "s": inserts.items.range_keys,
        "e": inserts.times,
        "t": inserts.values,
    }
    if inserts.ballot:
        parameters["b"] = pa.repeat(inserts.ballot, len(inserts))
    names = ", ".join(f"'{name}': ?" for name in parameters)
    statement = f'INSERT INTO "{_TABLE}" VALUE {{{names}}}'
    return b'{"Statements":[%b]}' % _statements(statement, *parameters.values())


def _accepts(accepts: AcceptColumn) -> bytes:
    # What is cleared stays cleared: a proposer who prepared before that would bring the token back (B6).
    statement = (
        # One SET with commas: dynoxide 1.2.1 takes no second SET.
        f'UPDATE "{_TABLE}" SET b = ?, a = ?, t = ?'
        " WHERE p = ? AND s = ? AND (b IS MISSING OR b <= ?) AND (t IS MISSING OR t > ? OR t = ?)"
    )
    ballots, values, items = accepts.ballots, accepts.values, accepts.items
    cleared = pa.repeat(ABOVE_CLEARED, len(accepts))
    where = (items.shards, items.range_keys, ballots, cleared, values)
    return _statements(statement, ballots, ballots, values, *where)


def _statements(statement: str, *parameters: pa.StringArray) -> bytes:
    """The statement for each row, with its parameters."""
    text = json.dumps(statement.replace(_TABLE, "?table?")).replace("?table?", _TABLE)
    parts: list[str | pa.StringArray] = [f'{{"Statement":{text},"Parameters":[{{"S":"']
    for column in parameters:
        parts += [column, '"},{"S":"']
    return _joined(*parts[:-1], '"}]},')


def _joined(*parts: str | pa.StringArray) -> bytes:
    """The parts of each row one after the other, row by row, without the last comma."""
    rows = pc.binary_join_element_wise(*(p if isinstance(p, str) else _escaped(p) for p in parts), "")
    assert not rows.null_count, "a row would vanish from the request, and count as done"
    _, offsets, text = rows.buffers()
    ends = memoryview(offsets).cast("i")[rows.offset : rows.offset + len(rows) + 1]
    return bytes(memoryview(text)[ends[0] : ends[-1] - 1])


def _escaped(texts: pa.StringArray) -> Any:
    """As JSON's texts, without quotes around them."""
    if not pc.any(pc.match_substring_regex(texts, _TO_ESCAPE)).as_py():
        return texts
    return pa.array([json.dumps(text, ensure_ascii=False)[1:-1] for text in texts.to_pylist()], pa.string())
