"""Ids, keys and times inside objects of a JSON line: `user.id`."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from photon.logs.formats.json_lines import JsonLines, decode_record, value_of

MANY = 500  # lines: read in one block
ORDINARY = '{"user":{"id":"u1","n":7},"at":{"t":{"us":1.5}}}'


def read(lines: list[str], *names: str, valued: tuple[str, ...] = ()) -> list[list[str | None]]:
    texts = JsonLines().texts(pa.array([line.encode() for line in lines], pa.binary()), names, valued)
    return [column.to_pylist() for column in texts.columns]


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        (ORDINARY, "user.id", "u1"),
        (ORDINARY, "user.n", "7"),
        (ORDINARY, "at.t.us", "1.5"),
        (ORDINARY, "user", '{"id":"u1","n":7}'),
        (ORDINARY, "user.name", None),
        (ORDINARY, "user.id.x", None),
        ('{"user.id":"flat","user":{"id":"u1"}}', "user.id", "flat"),
        ('{"user.id":null,"user":{"id":"u1"}}', "user.id", None),
        ('{"user\\u002eid":"flat","user":{"id":"u1"}}', "user.id", "flat"),
        ('{"user":"\\u007b\\"id\\":\\"in a text\\"}"}', "user.id", "in a text"),
        ('{"user":[{"id":"u1"}]}', "user.id", None),
        ('{"user":"{\\"id\\":\\"in a text\\"}"}', "user.id", "in a text"),
        ('{"user":"{no object"}', "user.id", None),
        ('{"user":null}', "user.id", None),
        ('{"user":{"n":-0}}', "user.n", "-0"),
        ('{"user":{"id":"a","id":"b"}}', "user.id", "b"),
        ('{"user":{"id":"a"},"user":{"id":"b"}}', "user.id", "b"),
        ('{"user":{"id":true}}', "user.id", "true"),
        ('{"user":{"id":{"x":1}}}', "user.id", '{"x":1}'),
    ],
)
def test_a_value_in_an_object_is_the_same_alone_and_among_many_lines(
    line: str, name: str, value: str | None
) -> None:
    assert value_of(decode_record(line.encode()), name) == value
    (alone,) = read([line], name)
    assert alone == [value]
    for first in (ORDINARY, line):  # a block's types are guessed from its first line
        lines = [first] + [ORDINARY] * MANY + [line]
        (column,) = read(lines, name)
        assert column == [value_of(decode_record(each.encode()), name) for each in lines]


def test_several_values_of_one_object_come_together_with_those_outside() -> None:
    lines = [json.dumps({"id": i, "user": {"id": f"u{i}", "at": i + 0.25}}) for i in range(MANY)]
    ids, users, times = read(lines, "id", "user.id", "user.at", valued=("user.at",))
    assert (ids[3], users[3]) == ("3", "u3")
    assert [float(time or 0) for time in times] == [i + 0.25 for i in range(MANY)]


def test_an_object_and_what_is_in_it_can_both_be_wanted() -> None:
    whole, inner = read([ORDINARY] * MANY, "user", "user.id")
    assert (whole[0], inner[0]) == ('{"id":"u1","n":7}', "u1")


def test_keys_in_objects_are_written_in_the_pipeline_file_with_dots(tmp_path: Path) -> None:
    from photon.pipeline.file import load_pipeline

    path = tmp_path / "pipeline.yaml"
    path.write_text(
        "name: p\ndatacenters: {here: {logs: logs}}\n"
        'primary: {files: "q/*", format: jsonl, id: request.id, time: "@timestamp", time_unit: iso8601}\n'
        'foreign: {files: "c/*", format: jsonl, id: event.uuid, key: context.request_id, time: when, '
        "time_unit: iso8601}\n"
    )
    assert load_pipeline(path).foreign.key == ("context.request_id",)
