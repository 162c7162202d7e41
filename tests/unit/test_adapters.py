"""Adapters: the default, the per-event convenience, loading, and isolation of bad events."""

from __future__ import annotations

import pickle
import sys
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import Schema
from hypothesis import given
from hypothesis import strategies as st

from photon.adapters import RESERVED_COLUMNS, Adapted, Adapter, merge, merge_columns, per_event
from photon.join.adapting import (
    AdapterNotFound,
    adapter_of,
    combine_isolating_failures,
    fingerprint,
    load_adapter,
    skip_isolating_failures,
)
from photon.logs.columns import parse_columns
from photon.pipeline.file import load_pipeline
from photon.pipeline.sections import ForeignLog

FOREIGN = pa.table({"n": [0, 1, 2, 3, 4], "click": list("abcde")})
PRIMARY = pa.table({"query": list("vwxyz")})
NO_COLUMNS = pa.schema([])  # a table that has no columns from the adapter yet


class Table(Adapter):
    """An adapter from a function on tables."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def combine(self, foreign: pa.Table, primary: pa.Table) -> Any:
        return self.function(foreign, primary)


@pytest.mark.parametrize(
    ("foreign", "primary", "merged"),
    [
        pytest.param(
            {"id": "f", "time": 1},
            {"id": "p", "host": "h"},
            {"id": "f", "time": 1, "primary_id": "p", "primary_host": "h"},
            id="foreign names stay, primary ones get the prefix, taken or not",
        ),
        pytest.param(
            {"primary_id": 1, "PRIMARY_n": 2},
            {"id": 3},
            {"foreign_primary_id": 1, "foreign_PRIMARY_n": 2, "primary_id": 3},
            id="a foreign name with the prefix gets another one",
        ),
        pytest.param(
            {"_batch": 1, "foreign__batch": 2, "foreign_n": 3},
            {"n": 4},
            {"foreign__batch": 1, "foreign_foreign__batch": 2, "foreign_n": 3, "primary_n": 4},
            id="what looks like such a name gets it once more",
        ),
    ],
)
def test_merging_names_each_column_by_its_side_and_name_alone(foreign, primary, merged) -> None:
    row = merge(pa.Table.from_pylist([foreign]), pa.Table.from_pylist([primary])).to_pylist()[0]
    assert list(row.items()) == list(merged.items())


def test_the_prefix_of_primary_columns_is_a_setting(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    log = "files: '{}', format: csv, id: id, time: at"
    file.write_text(
        f"name: clicks\ndatacenters: {{east: {{logs: logs}}}}\n"
        f"primary: {{{log.format('q/*')}, prefix: query_}}\nforeign: {{{log.format('c/*')}, key: query}}\n"
    )
    pipeline = load_pipeline(file)
    row = adapter_of(pipeline).combine(pa.table({"query_id": [1]}), pa.table({"id": [2]})).to_pylist()
    assert row == [{"foreign_query_id": 1, "query_id": 2}]
    assert merge_columns.primary_prefix == "primary_", "another pipeline's adapter stays as it is"


@pytest.mark.parametrize("name", RESERVED_COLUMNS)
def test_a_users_column_with_a_name_of_photons_own_gets_the_prefix_of_its_side(name) -> None:
    merged = merge(pa.table({name.upper(): [1]}), pa.table({name: [2]}))
    assert merged.column_names == [f"foreign_{name.upper()}", f"primary_{name}"]


@given(
    *[
        st.lists(
            st.text("aA_primyfoe", min_size=1, max_size=10) | st.sampled_from(RESERVED_COLUMNS),
            unique_by=str.lower,
        )
    ]
    * 2
)
def test_merging_gives_every_column_a_name_of_its_own(foreign_names, primary_names) -> None:
    if not foreign_names:
        return
    foreign = pa.table({name: [f"f {name}"] for name in foreign_names})
    primary = pa.table({name: [f"p {name}"] for name in primary_names})
    row = merge(foreign, primary).to_pylist()[0]
    assert sorted(row.values()) == sorted(
        [*foreign.to_pylist()[0].values(), *(f"p {n}" for n in primary_names)]
    )
    assert len({name.lower() for name in row}) == len(row)
    assert not {name.lower() for name in row} & set(RESERVED_COLUMNS)


def test_a_per_event_adapter_sees_what_its_pair_has_and_nothing_of_the_others() -> None:
    seen: list[dict[str, Any]] = []
    watch = per_event(lambda f, p: seen.append(dict(f)) or {"n": f["n"], "none": f["nowhere"], "q": p["q"]})
    foreign = pa.table({"n": [1, 2], "extra": [None, "x"]})
    combined = combine_isolating_failures(watch, foreign, pa.table({"q": [3, None]}), NO_COLUMNS)
    assert seen == [{"n": 1}, {"n": 2, "extra": "x"}]
    assert combined.table.to_pylist() == [{"n": 1, "q": 3}, {"n": 2, "q": None}]


def test_the_default_adapter_skips_and_filters_nothing() -> None:
    combined = combine_isolating_failures(merge_columns, FOREIGN, PRIMARY, NO_COLUMNS)
    assert combined.table.column_names == ["n", "click", "primary_query"]
    assert (combined.kept.tolist(), combined.filtered.tolist(), combined.failures) == (
        [0, 1, 2, 3, 4],
        [],
        {},
    )
    assert skip_isolating_failures(merge_columns, FOREIGN).rows == []


def test_a_per_event_adapter_combines_and_filters() -> None:
    @per_event
    def odd(foreign: dict[str, Any], primary: dict[str, Any]) -> dict[str, Any] | None:
        return {"n": foreign["n"], "q": primary["query"]} if foreign["n"] % 2 else None

    combined = combine_isolating_failures(odd, FOREIGN, PRIMARY, NO_COLUMNS)
    assert combined.table.to_pylist() == [{"n": 1, "q": "w"}, {"n": 3, "q": "y"}]
    assert (combined.kept.tolist(), combined.filtered.tolist()) == ([1, 3], [0, 2, 4])


def test_the_keys_of_an_events_dict_are_in_an_order_of_their_own() -> None:
    log = ForeignLog(files="*", format="jsonl", id="id", key="k", time="t")
    text = per_event(lambda f, p: {"payload": ",".join(f)})
    for raws in (
        [b'{"b": 1, "a": 2}'],
        [b'{"a": 1}', b'{"b": 1, "a": 2}'],
        [b'{"c": 1, "b": 1}', b'{"b": 1, "a": 2}'],
    ):
        foreign = parse_columns(pa.array(raws, pa.binary()), b"", log).table
        pairs = foreign, PRIMARY.slice(0, len(raws))
        table = combine_isolating_failures(text, *pairs, NO_COLUMNS).table
        assert table["payload"].to_pylist()[-1] == "a,b"


def test_a_number_that_does_not_fit_beside_the_others_fails_alone() -> None:
    exact_in_no_double = 2**62 + 1
    values = [1.5, exact_in_no_double, 2.5, exact_in_no_double, 3]
    each = per_event(lambda f, p: {"value": values[f["n"]]})
    combined = combine_isolating_failures(each, FOREIGN, PRIMARY, NO_COLUMNS)
    assert combined.table.column("value").to_pylist() == [1.5, 2.5, 3.0]
    assert sorted(combined.failures) == [1, 3]


def test_a_column_may_turn_from_whole_numbers_to_fractions_within_a_batch() -> None:
    def value(foreign: dict[str, Any], primary: dict[str, Any]) -> dict[str, Any]:
        if foreign["n"] == 0:
            raise KeyError("no such thing")
        return {"value": 7 if foreign["n"] < 3 else 0.5}

    combined = combine_isolating_failures(per_event(value), FOREIGN, PRIMARY, NO_COLUMNS)
    assert combined.table.column("value").to_pylist() == [7.0, 7.0, 0.5, 0.5]
    assert list(combined.failures) == [0]


@given(st.lists(st.sampled_from(["keep", "filter", "fail"]), max_size=40))
def test_every_pair_ends_in_exactly_one_class(fates) -> None:
    def combine(foreign: pa.Table, primary: pa.Table) -> Adapted:
        if "fail" in foreign.column("fate").to_pylist():
            raise ValueError("bad")
        kept = pc.equal(foreign.column("fate"), "keep")
        return Adapted(foreign.filter(kept), kept)

    foreign = pa.table({"fate": pa.array(fates, pa.string()), "n": pa.array(range(len(fates)), pa.int64())})
    combined = combine_isolating_failures(Table(combine), foreign, foreign, NO_COLUMNS)
    by_fate = {
        fate: [i for i, each in enumerate(fates) if each == fate] for fate in ("keep", "filter", "fail")
    }
    assert combined.kept.tolist() == by_fate["keep"]
    assert combined.filtered.tolist() == by_fate["filter"]
    assert sorted(combined.failures) == by_fate["fail"]
    assert combined.table.num_rows == len(combined.kept.tolist())
    assert not combined.kept.tolist() or combined.table.column("n").to_pylist() == combined.kept.tolist()


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda f, p: None, "combine returned NoneType; expected a pyarrow.Table or Adapted"),
        (lambda f, p: f.slice(1), "combine returned 0 rows for 1 pairs; it keeps 1"),
        (lambda f, p: Adapted(f, pa.array([], pa.bool_())), "Adapted.kept: expected 1 booleans"),
        (lambda f, p: Adapted(f, pa.array([None], pa.bool_())), "got 1 values of bool with 1 nulls"),
        (lambda f, p: Adapted(f, [True]), "Adapted.kept: expected 1 booleans without nulls, got a list"),
        (lambda f, p: f.rename_columns(["_Batch", "b"]), "column '_Batch', which is Photon's own"),
    ],
)
def test_an_adapter_that_returns_what_it_must_not_fails_with_a_reason(function, reason) -> None:
    combined = combine_isolating_failures(
        Table(function), FOREIGN.slice(0, 2), PRIMARY.slice(0, 2), NO_COLUMNS
    )
    assert sorted(combined.failures) == [0, 1]
    assert reason in combined.failures[0]


@pytest.mark.parametrize("value", [time(1, 2), timedelta(1), Decimal(10**40), {"a": 1, "A": 2}])
def test_a_value_that_no_table_holds_fails_alone(value) -> None:
    some = per_event(lambda f, p: {"v": value} if f["n"] == 3 else {"n": f["n"]})
    combined = combine_isolating_failures(some, FOREIGN, PRIMARY, NO_COLUMNS)
    assert combined.kept.tolist() == [0, 1, 2, 4]
    assert list(combined.failures) == [3]
    Schema.from_arrow(combined.table.schema)  # raises where Delta does not know a type


@pytest.mark.parametrize("value", [[], {}, {"a": None}, [{"a": None}], {"a": []}])
def test_a_value_that_does_not_tell_its_columns_type_makes_no_column(value) -> None:
    empty = per_event(lambda f, p: {"n": f["n"], "v": value})
    assert combine_isolating_failures(empty, FOREIGN, PRIMARY, NO_COLUMNS).table.column_names == ["n"]


def test_a_part_that_is_always_null_is_left_out_of_its_column() -> None:
    parts = per_event(lambda f, p: {"v": {"a": f["n"], "b": None}})
    table = combine_isolating_failures(parts, FOREIGN, PRIMARY, NO_COLUMNS).table
    assert table.schema == pa.schema([("v", pa.struct([("a", pa.int64())]))])


def test_an_empty_list_is_one_where_its_column_is_known() -> None:
    lists = per_event(lambda f, p: {"v": [f["n"]] if f["n"] == 2 else []})
    known = combine_isolating_failures(lists, FOREIGN, PRIMARY, NO_COLUMNS).table
    assert known["v"].to_pylist() == [[], [], [2], [], []]
    alone = combine_isolating_failures(lists, FOREIGN.slice(0, 1), PRIMARY.slice(0, 1), known.schema).table
    assert alone["v"].to_pylist() == [[]]


def test_a_part_that_the_tables_column_lacks_is_not_dropped_in_silence() -> None:
    has = pa.schema([("v", pa.list_(pa.struct([("a", pa.int64())])))])
    grows = per_event(lambda f, p: {"v": [{"a": 1, "b": 2}] if f["n"] == 1 else [{"a": 1, "b": None}]})
    combined = combine_isolating_failures(grows, FOREIGN, PRIMARY, has)
    assert combined.kept.tolist() == [0, 2, 3, 4]
    assert "column 'v' has no part 'b' in its table" in combined.failures[1]


def test_a_decimal_column_has_room_for_longer_numbers_than_its_first() -> None:
    money = per_event(lambda f, p: {"v": Decimal(10 ** (6 * f["n"])) + Decimal("0.25")})
    first = combine_isolating_failures(money, FOREIGN.slice(0, 1), PRIMARY.slice(0, 1), NO_COLUMNS).table
    assert not combine_isolating_failures(money, FOREIGN, PRIMARY, first.schema).failures


@pytest.mark.parametrize("row", [[], (), 3, "text", True])
def test_a_per_event_adapter_that_returns_no_dict_fails_with_a_reason(row) -> None:
    no_dict = per_event(lambda f, p: row)
    combined = combine_isolating_failures(no_dict, FOREIGN.slice(0, 1), PRIMARY.slice(0, 1), NO_COLUMNS)
    assert f"the function returned {type(row).__name__}; expected a dict, or None" in combined.failures[0]


def test_an_adapter_that_would_end_its_process_fails_on_its_pair_alone() -> None:
    leaves = per_event(lambda f, p: sys.exit("done") if f["n"] == 2 else {"n": f["n"]})
    combined = combine_isolating_failures(leaves, FOREIGN, PRIMARY, NO_COLUMNS)
    assert combined.kept.tolist() == [0, 1, 3, 4]
    assert combined.failures == {2: "adapter: SystemExit: done"}


def test_columns_that_are_one_for_the_table_may_not_both_have_a_value() -> None:
    foreign = pa.table({"id": [1, 2, 3], "a b": ["x", None, "z"], "A_b": [None, "y", "z"]})
    combined = combine_isolating_failures(Table(lambda f, p: f), foreign, foreign, NO_COLUMNS)
    assert combined.table.to_pylist() == [{"id": 1, "a_b": "x"}, {"id": 2, "a_b": "y"}]
    assert list(combined.failures) == [2]
    assert "two values for column 'a_b'" in combined.failures[2]


def test_a_column_that_the_table_has_in_another_case_keeps_the_tables_name_and_type() -> None:
    has = pa.schema([("Amount", pa.int64()), ("a_b", pa.string())])
    table = combine_isolating_failures(
        Table(lambda f, p: f), pa.table({"amount": ["5"], "A b": ["x"]}), FOREIGN.slice(0, 1), has
    ).table
    assert table.to_pylist() == [{"Amount": 5, "a_b": "x"}]


def test_rows_stay_with_their_pairs_when_one_alone_has_nothing_but_nulls() -> None:
    @per_event
    def fails_at_1(foreign: dict[str, Any], primary: dict[str, Any]) -> dict[str, Any]:
        if foreign["n"] == 1:
            raise KeyError("no such thing")
        return {"v": foreign["n"] or None}

    schema = pa.schema([("v", pa.int64())])
    combined = combine_isolating_failures(fails_at_1, FOREIGN, PRIMARY, schema)
    assert (combined.kept.tolist(), combined.table["v"].to_pylist()) == ([0, 2, 3, 4], [None, 2, 3, 4])
    assert sorted(combined.failures) == [1]


def test_a_row_of_nothing_but_nulls_is_a_row_alone_as_among_others() -> None:
    bare = per_event(lambda f, p: {"v": f["nowhere"]} if f["n"] % 2 else {})
    for count in (1, 2, 5):
        pairs = FOREIGN.slice(0, count), PRIMARY.slice(0, count)
        combined = combine_isolating_failures(bare, *pairs, NO_COLUMNS)
        assert (combined.kept.tolist(), combined.table.num_rows) == (list(range(count)), count)


def test_no_value_changes_for_the_sake_of_other_rows() -> None:
    day, noon = date(2024, 1, 1), datetime(2024, 1, 1, 12)
    mixed = per_event(lambda f, p: {"at": noon if f["n"] == 1 else day, "x": 1.5 if f["n"] == 2 else 2})
    combined = combine_isolating_failures(mixed, FOREIGN.slice(0, 3), PRIMARY.slice(0, 3), NO_COLUMNS)
    assert combined.table["x"].to_pylist() == [2, 1.5]
    assert list(combined.failures) == [1], "a time is no date, and becomes none"


def test_an_adapter_that_fails_once_is_asked_about_few_pairs_again() -> None:
    calls = []

    def combine(foreign: pa.Table, primary: pa.Table) -> pa.Table:
        calls.append(foreign.num_rows)
        if 700 in foreign.column("n").to_pylist():
            raise ValueError("bad")
        return foreign

    foreign = pa.table({"n": range(1024)})
    assert list(combine_isolating_failures(Table(combine), foreign, foreign, NO_COLUMNS).failures) == [700]
    assert len(calls) <= 21  # 1,024 pairs are halved ten times


def test_no_pairs_are_no_call() -> None:
    empty = FOREIGN.slice(0, 0)
    combined = combine_isolating_failures(Table(None), empty, empty, NO_COLUMNS)
    assert (combined.table.num_rows, combined.kept.tolist(), combined.failures) == (0, [], {})


def test_tables_that_are_not_aligned_are_refused() -> None:
    with pytest.raises(ValueError, match="5 foreign and 1 primary rows"):
        combine_isolating_failures(merge_columns, FOREIGN, PRIMARY.slice(0, 1), NO_COLUMNS)


def test_an_adapter_may_pass_over_events_before_any_lookup() -> None:
    class SkipsOdd(Adapter):
        def skip(self, foreign: pa.Table) -> Any:
            if 2 in foreign.column("n").to_pylist():
                raise ValueError("two")
            return pc.equal(pc.bit_wise_and(foreign.column("n"), 1), 1)

    skipped = skip_isolating_failures(SkipsOdd(), FOREIGN)
    assert skipped.rows == [1, 3]
    assert skipped.failures == {2: "adapter: ValueError: two"}


def test_a_skip_mask_of_the_wrong_length_is_a_failure() -> None:
    class Short(Adapter):
        def skip(self, foreign: pa.Table) -> Any:
            return pa.array([], pa.bool_())

    assert sorted(skip_isolating_failures(Short(), FOREIGN).failures) == [0, 1, 2, 3, 4]


def test_the_default_adapter_is_found_by_its_name_and_pickles() -> None:
    found = load_adapter("photon.adapters:merge_columns")
    assert found is merge_columns
    assert isinstance(pickle.loads(pickle.dumps(found)), Adapter)


def test_a_module_that_stands_in_for_the_one_beside_the_pipeline_file_is_refused_unless_it_is_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    source = "from photon.adapters import merge_columns\njoin = merge_columns\n"
    folders = {name: tmp_path / name for name in ("first", "copy", "other")}
    for name, folder in folders.items():
        folder.mkdir()
        changed = "# another one\n" if name == "other" else ""
        (folder / "adapter_of_several.py").write_text(source + changed)
    for name in ("first", "copy"):
        assert isinstance(load_adapter("adapter_of_several:join", folders[name]), Adapter)
    with pytest.raises(AdapterNotFound, match=r"other.adapter_of_several.py, and .*first.*another name"):
        load_adapter("adapter_of_several:join", folders["other"])


def test_an_adapter_is_found_beside_the_pipeline_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.path", list(sys.path))
    source = "from photon.adapters import Adapter, per_event\n"
    source += "@per_event\ndef one(f, p): return f\nclass Two(Adapter): ...\n"
    (tmp_path / "beside_pipeline.py").write_text(source)
    assert isinstance(load_adapter("beside_pipeline:one", tmp_path), Adapter)
    assert isinstance(load_adapter("beside_pipeline:Two", tmp_path), Adapter)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("merge_columns", "expected module:attribute, got 'merge_columns'"),
        ("photon.adapters:", "expected module:attribute"),
        ("no_such_module:one", "no module 'no_such_module' among the installed ones nor in "),
        ("photon.no_such:one", "no module 'photon.no_such'"),
        ("photon.adapters:merge_colums", "module photon.adapters has no 'merge_colums'"),
        ("photon.adapters:merge", "got function; decorate it with photon.adapters.per_event"),
        ("photon.adapters:RESERVED_COLUMNS", "expected a photon.adapters.Adapter, got tuple"),
        ("broken_adapter:one", "module broken_adapter raised ZeroDivisionError"),
        ("needs_more:one", "module needs_more can't be imported: No module named 'not_installed'"),
        ("photon.adapters:PerEventAdapter", "PerEventAdapter\\(\\) raised"),
    ],
)
def test_an_adapter_that_cannot_be_had_says_why(
    spec: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.path", list(sys.path))
    (tmp_path / "broken_adapter.py").write_text("1 / 0")
    (tmp_path / "needs_more.py").write_text("import not_installed")
    with pytest.raises(AdapterNotFound, match=message):
        load_adapter(spec, tmp_path)


PER_EVENT = """
from photon.adapters import per_event


@per_event
def ours(foreign, primary):
    return {"click": foreign["click"]}
"""
CLICKS = """
name: clicks
datacenters: {east: {logs: logs}}
primary: {files: "q*.csv", format: csv, id: id, time: at}
foreign: {files: "c*.csv", format: csv, id: id, key: key, time: at}
adapter: fingerprinted:ours
"""


def test_a_fingerprint_changes_with_the_function_the_logs_and_what_is_named_beside_them(
    tmp_path: Path,
) -> None:
    module, file = tmp_path / "fingerprinted.py", tmp_path / "pipeline.yaml"
    module.write_text(PER_EVENT)
    file.write_text(CLICKS)
    pipeline = load_pipeline(file)
    first = fingerprint(pipeline, "epoch 1")
    assert fingerprint(pipeline, "epoch 1") == first
    assert fingerprint(pipeline, "epoch 2") != first
    file.write_text(CLICKS.replace("key: key", "key: query"))
    assert fingerprint(load_pipeline(file), "epoch 1") != first
    file.write_text(CLICKS + "backfill: {first_look_days: 3}")
    assert fingerprint(load_pipeline(file), "epoch 1") == first
    module.write_text(PER_EVENT.replace("click", "text"))
    assert fingerprint(pipeline, "epoch 1") != first
