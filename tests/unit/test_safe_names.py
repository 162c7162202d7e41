"""Names that Delta or Arrow cut or refuse get a safe stored name, and no value is lost for its name."""

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from photon.adapters import MOST_NAME_BYTES, distinct_names, merge, stored_name
from photon.logs.columns import parse_columns
from photon.pipeline.sections import ForeignLog
from photon.storage.columns import fit

LOG = ForeignLog(files="*", format="jsonl", id="cid", key="qid", time="ts")
QUERY = pa.table({"qid": ["q1"]})


def row_of(raw: str, folder: Path) -> dict[str, object]:
    """The row of a record as its table holds it, without what is null."""
    foreign = parse_columns(pa.array([raw.encode()]), b"", LOG)
    assert not foreign.failures
    rows = fit(merge(foreign.table, QUERY), pa.schema([]))
    write_deltalake(str(folder), rows)
    (row,) = DeltaTable(str(folder)).to_pyarrow_table().to_pylist()
    return {name: value for name, value in row.items() if value is not None}


def test_keys_with_a_nul_stay_two_columns(tmp_path):
    row = row_of('{"cid":"c1","qid":"q1","ts":1700000010,"n\\u0000a":1,"n\\u0000b":2}', tmp_path)
    assert (row["n_a"], row["n_b"]) == ("1", "2")


@pytest.mark.parametrize("beside", [0, 100])
def test_the_value_of_a_key_with_a_nul_is_read_whatever_is_beside_it(beside):
    raw = b'{"cid":"c1","qid":"q1","ts":1,"n\\u0000":"v"}'
    plain = b'{"cid":"c2","qid":"q1","ts":1,"n":"w"}'
    table = parse_columns(pa.array([plain] * beside + [raw]), b"", LOG).table
    assert table["n\0"].to_pylist()[-1] == "v"


@pytest.mark.parametrize(
    ("keys", "values"),
    [
        (["\\u0000", "\\u0001", "\\u007f"], 3),
        (["a b", "a,b", "a;b", "a{b}", "(a)", "a=b", "a\\nb", "a\\tb"], 8),
        (["a", "A"], 2),
        (["", "column", "Column"], 3),
        (["a.b", "a"], 2),
        (["_event_id", "_EVENT_ID", "_Datacenter", "foreign__event_id"], 4),
        (["x" * 5_000, "x" * 5_001, "\u00e9" * 300], 3),
        (["n\\u0000", "n\\u0001", "n_"], 3),
    ],
)
def test_each_key_of_a_record_has_a_column_of_its_own(tmp_path, keys, values):
    fields = "".join(f', "{key}": "v{n}"' for n, key in enumerate(keys))
    row = row_of('{"cid": "c1", "qid": "q1", "ts": 1' + fields + "}", tmp_path)
    found = sorted(str(value) for value in row.values() if str(value).startswith("v"))
    assert found == [f"v{n}" for n in range(values)]


@pytest.mark.parametrize("name", ["a\0b", "a\r\nb", "x" * 300, "\u00e9" * 200, "", " ", "a" * 255])
def test_a_stored_name_is_safe_and_comes_of_the_name_alone(name):
    stored = stored_name(name)
    assert stored == stored_name(name)
    assert 0 < len(stored.encode()) <= MOST_NAME_BYTES
    assert not any(character < " " or character in " ,;{}()=\x7f" for character in stored)
    assert stored_name(stored) == stored


def test_long_names_that_differ_at_their_ends_stay_two():
    one, other = "x" * 300 + "1", "x" * 300 + "2"
    assert len({stored_name(name) for name in distinct_names((one, other)).values()}) == 2


@pytest.mark.parametrize("part", ["a\0b", "a b", "x" * 300])
def test_a_part_of_a_struct_that_a_table_refuses_fails_alone(part):
    struct = pa.StructArray.from_arrays([pa.array([1])], names=[part])
    with pytest.raises(ValueError, match="give it another name"):
        fit(pa.table({"s": struct}), pa.schema([]))


@pytest.mark.parametrize("value", [1e300, -1e39])
def test_a_float_that_its_column_can_not_hold_is_not_made_infinite(value):
    with pytest.raises(pa.ArrowInvalid, match="beyond float"):
        fit(pa.table({"f": [value]}), pa.schema([("f", pa.float32())]))


def test_a_decimal_in_a_column_of_floats_is_taken_where_it_loses_no_digit():
    floats = pa.schema([("price", pa.float64())])
    prices = pa.array([Decimal("12.3400"), None], pa.decimal128(18, 4))
    assert fit(pa.table({"price": prices}), floats)["price"].to_pylist() == [12.34, None]
    with pytest.raises(pa.ArrowInvalid, match="loses digits"):
        fit(pa.table({"price": pa.array([Decimal("12345678901234.5678")], pa.decimal128(18, 4))}), floats)


def test_a_float_that_was_infinite_stays_so():
    kept = fit(pa.table({"f": [float("inf"), 1.5]}), pa.schema([("f", pa.float32())]))
    assert kept["f"].to_pylist() == [float("inf"), 1.5]
