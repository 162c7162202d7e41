"""Many JSON lines at once: the quick reader is used where it should be, and says what each line says."""

import json

import pyarrow as pa
import pytest

from photon.logs.formats.json_blocks import read_records, ways_to
from photon.logs.formats.json_lines import JsonLines, decode_record, value_of
from photon.logs.formats.lines import join_lines

LINES = 200
BLOCKS = {
    "texts": [{"id": f"ü{n}", "at": n, "note": "n" * n} for n in range(LINES)],
    "numbers": [{"id": n, "at": n + 0.5} for n in range(LINES)],
    "escapes": [{"id": f"{n}\U0001f600\\/", "at": n, "note": "\ud7ff\n"} for n in range(LINES)],
    "missing": [{"id": "first", "at": 0}, {"at": None}, {"id": None, "at": 1}] * LINES,
    "nested": [{"a": {"id": str(n)}, "id": "0", "at": n, "list": [[n]]} for n in range(LINES)],
}


NAMES = ["id", "at"]


def block(name: str) -> pa.Array:
    return pa.array([json.dumps(record).encode() for record in BLOCKS[name]], pa.binary())


def names_in(name: str) -> list[str]:
    return [*NAMES, "a.id"] if name == "nested" else NAMES


@pytest.mark.parametrize("name", BLOCKS)
def test_ordinary_lines_are_read_at_once_and_say_what_each_says_alone(name):
    raws = block(name)
    data = join_lines(raws)
    ways = ways_to(names_in(name), raws, data)
    assert ways is not None
    columns = read_records(raws, data, ways, [False] * len(ways))
    assert columns is not None
    for way, column in zip(ways, columns, strict=True):
        said = [value_of(decode_record(raw), ".".join(way)) for raw in raws.to_pylist()]
        assert column.to_pylist() == said


def test_whole_numbers_of_which_only_the_value_matters_come_as_such():
    raws = block("texts")
    columns = read_records(raws, join_lines(raws), [("at",)], [True])
    assert columns is not None
    assert columns[0].equals(pa.array(range(LINES), pa.int64()))


def test_whole_numbers_and_others_in_one_block_are_all_read():
    raws = pa.array([f'{{"at":{n if n < LINES else n + 0.5}}}'.encode() for n in range(2 * LINES)])
    (times,) = JsonLines().texts(raws, ["at"], ["at"]).columns
    assert [float(text) for text in times.to_pylist()] == [
        n if n < LINES else n + 0.5 for n in range(2 * LINES)
    ]
