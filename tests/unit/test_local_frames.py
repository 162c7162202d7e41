"""Queries without Spark: that frames of this process mean what PySpark's mean."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from photon.jobs.dialect import F, parquet, union_of, words_of, write_parquet
from photon.jobs.local import session as local_session
from photon.jobs.local.session import LocalSession
from photon.storage.delta import LakeUnavailable


@pytest.fixture
def session(tmp_path: Path) -> Iterator[LocalSession]:
    with LocalSession({"east": tmp_path}, batch_rows=2) as made, words_of(made):
        yield made


def frame(session: LocalSession, *rows: tuple[object, ...], schema: str = "id string, number long") -> Any:
    return session.createDataFrame(rows, schema)


def values(found: Any) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in found.collect()]


def one(session: LocalSession, column: Any) -> object:
    """Evaluate an expression on the row (`a`, 7)."""
    ((found,),) = values(frame(session, ("a", 7)).select(column))
    return found


def test_a_text_joined_with_null_is_null(session: LocalSession) -> None:
    assert one(session, F.concat("id", F.lit(None))) is None
    assert one(session, F.concat("number", F.lit(" rows"))) == "7 rows"


def test_a_comparison_with_null_is_neither_true_nor_false(session: LocalSession) -> None:
    assert one(session, F.lit(None).cast("long") != F.col("number")) is None
    assert one(session, F.when(F.lit(None).cast("long") != 1, "yes")) is None


def test_a_branch_that_is_not_met_is_null_or_the_other_value(session: LocalSession) -> None:
    assert one(session, F.when(F.col("number") > 8, F.col("id"))) is None
    chosen = F.when(F.col("number") > 8, "more").when(F.col("number") > 6, F.col("id")).otherwise("less")
    assert one(session, chosen) == "a"


def test_what_is_no_number_is_null_where_that_is_allowed(session: LocalSession) -> None:
    part = F.split_part(F.lit("12:x"), F.lit(":"), F.lit(2))
    assert one(session, part.try_cast("int")) is None
    assert one(session, F.split_part(F.lit("12:x"), F.lit(":"), F.lit(1)).try_cast("long")) == 12


def test_text_that_looks_like_sql_is_text(session: LocalSession) -> None:
    assert one(session, F.lit("it's; drop")) == "it's; drop"
    named = frame(session, ("a", 1)).select(F.col("id").alias('q"uo.te'))
    assert values(named.select(F.col('`q"uo.te`'))) == [("a",)]


def test_null_comes_first_in_order(session: LocalSession) -> None:
    rows = frame(session, ("b", 1), ("a", None), ("c", 2))
    assert values(rows.orderBy("number").select("id")) == [("a",), ("b",), ("c",)]
    assert values(rows.orderBy(F.col("number").desc_nulls_first()).select("id")) == [("a",), ("c",), ("b",)]


def test_a_left_join_has_keys_first_and_null_where_nothing_fits(session: LocalSession) -> None:
    left = frame(session, ("a", 1), (None, 2), schema="id string, left_number long")
    right = frame(session, (5, "a"), (6, None), schema="right_number long, id string")
    joined = left.join(right, "id", "left")
    assert joined.columns == ["id", "left_number", "right_number"]
    assert sorted(values(joined), key=str) == [("a", 1, 5), (None, 2, None)]


def test_rows_with_and_without_a_partner(session: LocalSession) -> None:
    left, right = frame(session, ("a", 1), ("b", 2), (None, 3)), frame(session, ("a", 1), ("a", 1), (None, 3))
    assert values(left.join(right, ["number", "id"], "left_semi")) == [(1, "a")]
    without = left.join(right, ["number", "id"], "left_anti")
    assert sorted(values(without), key=str) == [(2, "b"), (3, None)]


def test_a_list_of_nothing_is_empty(session: LocalSession) -> None:
    rows = frame(session, ("a", None), ("b", 2), ("b", 2))
    lists = rows.groupBy("id").agg(F.collect_set("number").alias("numbers")).orderBy("id")
    assert values(lists) == [("a", []), ("b", [2])]
    removed = lists.select(F.size(F.array_remove("numbers", F.lit(2))).alias("left"))
    assert values(removed) == [(0,), (0,)]


def test_the_first_of_several_by_more_than_one_value(session: LocalSession) -> None:
    rows = frame(session, ("a", 2), ("a", 1), ("b", 9))
    first = rows.groupBy("id").agg(
        F.min(F.struct("number", "id")).alias("at"),
        F.min_by("number", F.struct((~(F.col("number") > 1)).alias("small"), "number")).alias("big"),
        F.count_if(F.col("number") > 1).alias("many"),
    )
    assert values(first.select("id", "at.number", "big", "many").orderBy("id")) == [
        ("a", 1, 2, 1),
        ("b", 9, 9, 1),
    ]


def test_a_union_goes_by_position_under_the_first_names(session: LocalSession) -> None:
    found = union_of([frame(session, ("a", 1)), frame(session, ("b", 2), schema="x string, y long")])
    assert found.columns == ["id", "number"]
    assert values(found) == [("a", 1), ("b", 2)]


def test_a_union_by_names_may_lack_some(session: LocalSession) -> None:
    other = frame(session, (2,), schema="number long")
    assert values(frame(session, ("a", 1)).unionByName(other, allowMissingColumns=True)) == [
        ("a", 1),
        (None, 2),
    ]


def test_a_column_is_replaced_in_its_place_or_added_last(session: LocalSession) -> None:
    rows = frame(session, ("a", 1)).withColumn("ID", F.lit("b")).withColumn("new", F.lit(True))
    assert [name.lower() for name in rows.columns] == ["id", "number", "new"]
    assert values(rows.drop("New")) == [("b", 1)]


def test_each_frame_knows_the_names_that_its_rows_have(session: LocalSession) -> None:
    rows, other = frame(session, ("a", 1)), frame(session, ("a", 2), schema="ID string, NUMBER long")
    nested = rows.select(F.struct("id", "number").alias("at"), F.col("number") + F.lit(1))
    made = {
        "select": rows.select("number", F.col("id").alias("Name")),
        "fields": nested.select("at.*"),
        "no name": nested,
        "replaced": rows.withColumn("Id", F.lit("b")).withColumn("new", F.lit(1)),
        "renamed": rows.withColumnRenamed("ID", "to"),
        "dropped": rows.drop("ID"),
        "joined": rows.join(other.withColumnRenamed("number", "there"), "id", "left"),
        "equal names": rows.join(other, "id"),
        "partners": rows.join(other, ["id"], "left_semi"),
        "groups": rows.groupBy("id").agg(F.max("number").alias("most")),
        "counted": rows.groupBy("id").count(),
        "union": rows.union(other).where("number > 0").distinct().orderBy("id").limit(3),
    }
    assert {how: one.columns for how, one in made.items()} == {
        how: one.to_arrow().column_names for how, one in made.items()
    }


def test_a_task_has_batches_and_is_run_once(session: LocalSession) -> None:
    seen: list[int] = []

    def task(batches: Any) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            seen.append(batch.num_rows)
            yield batch

    rows = frame(session, ("a", 1), ("b", 2), ("c", 3))
    found = rows.mapInArrow(task, pa.schema([("id", pa.string()), ("number", pa.int64())]))
    assert len(values(found)) == len(values(found)) == 3
    assert seen == [2, 1]


def test_rows_that_are_kept_are_those_of_then(session: LocalSession) -> None:
    rows = frame(session, ("a", 1))
    kept = rows.where("number = 1").persist()
    assert values(kept.groupBy("id").count()) == [("a", 1)]


def test_a_file_that_is_older_lacks_a_column(session: LocalSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"ID": ["a"]}), tmp_path / "old.parquet")
    schema = pa.schema([("id", pa.string()), ("number", pa.int64())])
    assert values(parquet(session, [str(tmp_path / "old.parquet")], schema)) == [("a", None)]
    assert values(parquet(session, [], "id string")) == []


def test_a_damaged_file_is_named_with_its_datacenter(session: LocalSession, tmp_path: Path) -> None:
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 no more PAR1")
    with pytest.raises(LakeUnavailable, match=r"datacenter east: .*bad\.parquet can't be read as Parquet"):
        parquet(session, [str(tmp_path / "bad.parquet")], "id string")


def test_what_is_written_is_read_again(session: LocalSession, tmp_path: Path) -> None:
    write_parquet(frame(session, ("a", 1)), tmp_path, "kept")
    (written,) = (tmp_path / "kept").glob("*.parquet")
    assert values(parquet(session, [str(written)], "id string, number long")) == [("a", 1)]


@pytest.mark.parametrize(
    ("text", "seed", "found"),
    [
        ("", 0, 0xEF46DB3751D8E999),
        ("a", 0, 0xD24EC4F1A98C6E5B),
        ("Nobody inspects the spammish repetition", 0, 0xFBCEA83C8A378BF1),
    ],
)
def test_hashes_are_those_of_xxh64(text: str, seed: int, found: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_session, "_SEED", seed)
    assert local_session.xxhash64(text) % 2**64 == found


def test_the_hash_of_null_is_sparks_seed(session: LocalSession) -> None:
    assert one(session, F.xxhash64(F.lit(None).cast("string"))) == 42
    assert one(session, F.xxhash64("id")) == local_session.xxhash64("a")
