"""Findings of a verification, from the results of its queries: cases are counted, and some of them named."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from photon.jobs.dialect import F, union_of
from photon.jobs.verification_primaries import PrimaryIdentity
from photon.jobs.verification_reach import Unreadable
from photon.jobs.verification_side_rows import without_side_rows
from photon.logs.forgotten_files import has_forgotten
from photon.registry.errors import RegistryUnavailable
from photon.verification import case_pages
from photon.verification.classes import Evidence
from photon.verification.report import MOST_EXAMPLES, Case, Example, Finding, FindingKind
from photon.verification.scope import Scope
from photon.verification.tasks import PLACE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row


class Findings:
    """The findings of one verification, each kind looked for by a method of its own."""

    def __init__(self, session: Any, scope: Scope, pages: bool, known: DataFrame) -> None:
        """`known`: the findings of the last recorded verification. `pages`: as for `verify`."""
        self._session, self._scope, self._pages, self._known = session, scope, pages, known
        self.of: dict[str, list[Finding]] = {name: scope.findings(name) for name in scope.selected}
        self.in_question: list[DataFrame] = []  # cases, and events whose rows nobody can compare

    def _find(self, kind: FindingKind, cases: DataFrame, to_recover: bool = False) -> None:
        """Report cases: rows with datacenter, event_id, where and detail. `to_recover`: name each of them.

        `acting`: who recovers a case. It is the case's holder, or its own datacenter if nobody holds it.
        """
        most = MOST_EXAMPLES
        cases = self._with_what_is_known(kind, cases.withColumn("kind", F.lit(kind)))
        self.in_question.append(cases.select("datacenter", "kind", "event_id", "known_us"))
        acting = F.col("datacenter")
        if to_recover:
            of_others = F.col("holder").isNotNull() & ~F.col("holder").isin(list(self._scope.never_acting))
            acting = F.when(of_others, F.col("holder")).otherwise(acting)
        counts: dict[str, list[Row]] = defaultdict(list)
        new = F.count_if(F.col("known_us").isNull()).alias("new")
        grouped = cases.groupBy("datacenter", acting.alias("acting"))
        for row in grouped.agg(F.count("*").alias("cases"), new).collect():
            counts[row["datacenter"]].append(row)
        for datacenter, rows in counts.items():
            if datacenter in self.of:
                some = cases.where(F.col("datacenter") == datacenter)
                some = some.orderBy(F.col("known_us").desc_nulls_first(), "event_id", "where")
                count = sum(row["cases"] for row in rows)
                in_pages = self._pages and to_recover and count > case_pages.MOST_CASES
                found = some.limit(case_pages.MOST_CASES if to_recover and not in_pages else most).collect()
                examples = (
                    Example(one["event_id"], one["where"], one["detail"], one["known_us"])
                    for one in found[:most]
                )
                every = tuple(_case(one) for one in found) if to_recover else ()
                pages: tuple[str, ...] = ()
                if in_pages:
                    streamed = (_case(one) for one in some.toLocalIterator())
                    every, pages = case_pages.store_pages(self._scope.pipeline, datacenter, streamed)
                finding = Finding(
                    kind,
                    count,
                    tuple(examples),
                    every,
                    pages,
                    new=sum(row["new"] for row in rows),
                    acting={row["acting"]: row["cases"] for row in rows},
                )
                self.of[datacenter].append(finding)

    def _with_what_is_known(self, kind: FindingKind, cases: DataFrame) -> DataFrame:
        """Cases with `known_us`: when a recorded verification told them first."""
        known = self._known.where(F.col("kind") == kind).select("datacenter", "event", "known_us")
        cases = cases.withColumn("event", F.xxhash64("event_id"))
        return cases.join(known, ["datacenter", "event"], "left").drop("event")

    def find_decided(self, decided: DataFrame) -> None:
        """Report missing and joinable records. RegistryUnavailable if some might be too old, or held."""
        unavailable = decided.where("outcome = 'unavailable'").select("detail").first()
        if unavailable is not None:
            raise RegistryUnavailable(unavailable["detail"])
        cases = decided.withColumn("where", F.format_string("%d:%d", "file", "offset"))
        self._find("missing", cases.where("outcome = 'missing'"), to_recover=True)
        joinable = cases.where("outcome = 'joinable'")
        given_up = F.col("evidence").bitwiseAND(F.lit(int(Evidence.GIVEN_UP))) != 0
        self._find("unjoinable_but_joinable_when_complete", joinable.where(given_up), True)
        self._find("unjoinable_but_joinable", joinable.where(~given_up), True)

    def find_differences(self, verdicts: DataFrame, unreadable: Unreadable) -> Counter[str]:
        """Report rows that differ. Returns how many could not be compared, because their primary is gone."""
        gone = self._files(unreadable).select(
            "datacenter", F.col("file").alias("primary_file"), F.lit(True).alias("gone")
        )
        verdicts = verdicts.join(gone, ["datacenter", "primary_file"], "left")
        verdicts = self._with_forgotten(verdicts, "primary_file")
        is_gone = F.col("primary_file").isNull() | F.col("gone") | F.col("forgotten")
        can_not = (F.col("verdict") == "no primary") & is_gone
        can_not = F.coalesce(can_not, F.lit(False))
        nobody = [F.lit(None).cast("string"), "event_id", F.lit(None).cast("long")]
        self.in_question.append(verdicts.where(can_not).select("datacenter", *nobody))
        cases = verdicts.where(F.col("verdict") != "same").where(~can_not)
        where = _row_place("row_time_us")
        self._find("different_values", cases.select("datacenter", "event_id", where, "detail"))
        return by_datacenter(verdicts.where(can_not))

    def find_ambiguous(self, rows: DataFrame) -> None:
        """Report rows for which a nearer primary is there by now: it may have come later."""
        detail = F.format_string("a nearer primary of its id is in %s", "primary_path").alias("detail")
        self._find("ambiguous", rows.select("datacenter", "event_id", _row_place("row_time_us"), detail))

    def find_rows_without_event(self, records: DataFrame, rows: DataFrame, unreadable: Unreadable) -> None:
        """Report rows whose event is not at their place in the raw logs, where that place can be read."""
        expected = rows.where("complete").where(F.col("datacenter").isin(list(self._scope.selected)))
        expected = expected.join(self._files(unreadable), ["datacenter", "file"], "left_anti")
        expected = self._with_forgotten(expected, "file").where(~F.col("forgotten"))
        present = records.where(F.col("event_id").isNotNull()).select(*PLACE, "event_id")
        without = expected.join(present, [*PLACE, "event_id"], "left_anti")
        detail = F.lit("no record of this id begins there").alias("detail")
        cases = without.select("datacenter", "event_id", _row_place("time_us"), detail)
        self._find("row_without_event", cases)

    def find_side_rows(
        self, records: DataFrame, decided: DataFrame, primary_lines: DataFrame, unreadable: Unreadable
    ) -> None:
        """Report records without a row in the side table of their class."""
        without_primaries = {name for (name, _), file in unreadable.items() if file.side == "primary"}
        read = self._scope.read_offsets.items()
        without_primaries |= {name for name, one in read if one.forgotten.get("primary")}
        cases = without_side_rows(records, decided, without_primaries)
        self._find("side_row_missing", union_of([cases, primary_lines]))

    def find_of_primaries(self, found: PrimaryIdentity) -> None:
        """Report primaries without a row and with several, and rows without a primary."""
        self._find("primary_missing", found.missing)
        self._find("unmatched_twice", found.twice)
        self._find("unmatched_without_primary", found.without_primary)

    def _with_forgotten(self, rows: DataFrame, file: str) -> DataFrame:
        """Rows with `forgotten`: whether the state has forgotten the log file of this number (D13)."""
        read = {name: one.files for name, one in self._scope.read_offsets.items()}
        read = {name: files for name, files in read.items() if has_forgotten(files)}
        if not read:
            return rows.withColumn("forgotten", F.lit(False))
        known = [(name, number, True) for name, files in read.items() for number in sorted(files)]
        known_files = self._session.createDataFrame(known, f"datacenter string, {file} int, is_known boolean")
        last = [(name, max(files)) for name, files in read.items()]
        last_files = self._session.createDataFrame(last, "datacenter string, last_file int")
        rows = rows.join(F.broadcast(known_files), ["datacenter", file], "left")
        rows = rows.join(F.broadcast(last_files), ["datacenter"], "left")
        is_below = F.coalesce(F.col(file) < F.col("last_file"), F.lit(False)) & (F.col(file) > 0)
        forgotten = F.coalesce(is_below & F.col("is_known").isNull(), F.lit(False))
        return rows.withColumn("forgotten", forgotten).drop("is_known", "last_file")

    def _files(self, unreadable: Unreadable) -> DataFrame:
        """As a table to join: where logs are deleted after a while there may be many thousands."""
        return F.broadcast(self._session.createDataFrame(sorted(unreadable), "datacenter string, file int"))

    def find_duplicate_rows(self, rows: DataFrame, told: DataFrame) -> None:
        """Report events of `told` with several rows, each in the first selected datacenter that has one."""
        mine = F.col("datacenter").isin(list(self._scope.selected))
        place = F.concat("datacenter", F.lit(": "), _row_place("time_us"))
        ids = told.select("event_id").distinct()
        of_told = rows if told is rows else rows.join(ids, "event_id", "left_semi")
        grouped = of_told.groupBy("event_id").agg(
            F.count("*").alias("rows"),
            F.min(F.when(mine, F.col("datacenter"))).alias("datacenter"),
            F.concat_ws("; ", F.sort_array(F.collect_list(place))).alias("where"),
        )
        detail = F.concat("rows", F.lit(" rows")).alias("detail")
        cases = grouped.where("rows > 1").select("datacenter", "event_id", "where", detail)
        self._find("duplicate_rows", cases.where(F.col("datacenter").isNotNull()))

    def find_rows_put_back(self, rows: DataFrame) -> None:
        """Report rows in their datacenters, those of retired ones in the first that is selected."""
        mine = list(self._scope.selected)
        counting = rows.where(F.col("datacenter").isin([*mine, *self._scope.never_acting]))
        owner = F.when(F.col("datacenter").isin(mine), F.col("datacenter")).otherwise(mine[0])
        place = F.concat("datacenter", F.lit(": "), _row_place("time_us")).alias("where")
        detail = F.lit("a person has acknowledged that others took it").alias("detail")
        self._find("row_put_back", counting.select(owner.alias("datacenter"), "event_id", place, detail))


def _case(row: Row) -> Case:
    return Case(row["event_id"], row["where"], row["evidence"], row["holder"], row["time_us"])


def _row_place(time_us: str) -> Column:
    """Where a row is; with the day that it says it is of, by which a rebuild finds it."""
    day = F.coalesce(F.date_format(F.timestamp_micros(time_us), "yyyy-MM-dd"), F.lit("no day"))
    parts = (F.lit("row of "), day, F.lit(", batch "), "batch", F.lit(", occurrence "))
    return F.concat(*parts, F.coalesce("occurrence", F.lit("none"))).alias("where")


def by_datacenter(frame: DataFrame) -> Counter[str]:
    """How many rows there are, by datacenter."""
    counted = frame.groupBy("datacenter").count().collect()
    return Counter({row["datacenter"]: row["count"] for row in counted})
