"""Results of verifications that are kept (docs/adr/0050): what is new beside them, and keeping more of them.

Events and keys are kept as hashes, which only tell which records are looked at again: a collision costs a
look. A record is read again where it is open, or where anything changed that its class depends on; with it
all records of its event.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from photon.jobs.dialect import F, parquet, union_of, write_parquet
from photon.jobs.verification_queries import UNDECIDED, Queries, in_ranges, place_of
from photon.jobs.verification_reach import FileTimes
from photon.jobs.verification_side_rows import lacks_row, outcome_of
from photon.logs.files import TrackedFile
from photon.storage.columns import TABLE_COLUMNS
from photon.verification.classes import Evidence
from photon.verification.days import HOUR_US
from photon.verification.kept import (
    KeptFile,
    KeptManifest,
    kept_folder,
    new_folder,
    next_number,
    run_in,
    still_needed,
    store_kept,
)
from photon.verification.report import DatacenterReport
from photon.verification.scope import Scope
from photon.verification.tasks import PLACE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SETTLED = "event long, key long, file int, offset long, hour_us long, class string, run int"
UNSETTLED = "file int, offset long, run int"  # looked at again by a run: older results no longer count
OPEN = "event long, file int, offset long"  # without a place: a row whose event is in no log
FINDINGS = "kind string, event long, known_us long"
PRIMARIES = "key long, file int, offset long, time_us long, run int"  # no key: the line is no record
# Records of these classes are settled. So are joined ones whose rows are right. Others are read each time.
FINAL = ("joined_elsewhere", "duplicates", "filtered", "skipped", "unjoinable", "too_old", "dead_letters")
# Records of these classes are looked at again if a primary of their key comes.
BY_PRIMARY = ("joined", "filtered", "unjoinable", "too_old")

Compute = Callable[["DataFrame"], "DataFrame"]  # the rows of a query, in its place


@dataclass(frozen=True)
class New:
    """The records that a verification looks at, and those that stay as they were kept."""

    records: DataFrame  # `FOREIGN_RECORDS`
    rows: DataFrame  # rows of those records' events
    settled: DataFrame  # records that are not looked at: datacenter, class, hour_us


class KeptResults:
    """The kept results of the datacenters of one verification."""

    def __init__(self, queries: Queries, computed: Compute) -> None:
        self._queries, self._computed = queries, computed
        self._session, self._scope = queries.session, queries.scope
        # Places of records that were settled, and are looked at again.
        self._reopened = self._empty("datacenter string, file int, offset long")

    # -- what is new

    def what_is_new(self) -> New:
        """The records to look at, all rows of their events, and the settled records beside them."""
        queries = self._queries
        new, rows = queries.foreign_records(), queries.all_rows()
        if not self._scope.since:
            return New(new, rows, self._empty(f"datacenter string, {SETTLED}"))
        new = self._computed(new)
        changed, open_ones = self._computed(self._changed_places()), self._computed(self._open())
        at_once = self._computed(self._at(changed).unionByName(self._by_new_primaries()))
        known = [
            new.select(_hash("event_id").alias("event")),
            open_ones.select("event"),
            self._changed_events(),
            at_once.select("event"),
        ]
        events = self._computed(union_of(known).where("event is not null").distinct())
        reopened = self._settled.join(events, "event", "left_semi").unionByName(at_once)
        self._reopened = self._computed(reopened.select(*PLACE).distinct())
        places = self._reopened.unionByName(open_ones.where("file is not null").select(*PLACE)).distinct()
        records = new.unionByName(queries.records_at(places))
        rows = rows.withColumn("hash", _hash("event_id"))
        rows = rows.join(events.withColumnRenamed("event", "hash"), "hash", "left_semi").drop("hash")
        return New(self._computed(records), rows, self._settled.join(self._reopened, PLACE, "left_anti"))

    @cached_property
    def _settled(self) -> DataFrame:
        """The settled records of files that are trusted: the columns of `SETTLED` with their datacenter."""
        found = self._empty(f"datacenter string, {SETTLED}")
        for name in self._scope.since:
            settled, unsettled = (
                self._kept(name, "settled", SETTLED),
                self._kept(name, "unsettled", UNSETTLED),
            )
            until = unsettled.groupBy("file", "offset").agg(F.max("run").alias("until"))
            settled = settled.join(until, ["file", "offset"], "left")
            settled = settled.where("until is null or run >= until").drop("until")
            found = found.unionByName(settled.withColumn("datacenter", F.lit(name)))
        return found

    def _open(self) -> DataFrame:
        """Records that the last run has left open in trusted files, and events without a record."""
        found = self._empty(f"datacenter string, {OPEN}")
        for name, since in self._scope.since.items():
            last = self._read(name, since.kept, "open", OPEN, since.kept.number)
            files = self._trusted(name).withColumn("is_trusted", F.lit(True)).drop("since_run")
            last = last.join(files, "file", "left").where("file is null or is_trusted").drop("is_trusted")
            found = found.unionByName(last.withColumn("datacenter", F.lit(name)))
        return found

    def _changed_events(self) -> DataFrame:
        """Events of rows, here or elsewhere, that came or went since results were kept."""
        found = [self._empty("event long")]
        for since in self._scope.since.values():
            for table, changed in since.changed.items():
                if changed.all:
                    ids = self._queries.ids_in(self._scope.tables[table], changed.all)
                    found.append(ids.select(_hash("event_id").alias("event")))
        return union_of(found)

    def _changed_places(self) -> DataFrame:
        """Places of which something new may be known: from a side table, a person or the dispatcher."""
        found = [self._empty("datacenter string, file int, offset long")]
        for name, since in self._scope.since.items():
            read = self._scope.read_offsets[name]
            found.append(self._queries.waiting(name).select(F.lit(name), "file", "offset"))
            letters = [(name, each.file_number, each.offset_bytes) for each in since.mended]
            found.append(self._session.createDataFrame(letters, found[0].schema))
            for table, changed in since.changed.items():
                if table[1] in TABLE_COLUMNS and table[1] != "joined_events" and changed.all:
                    rows = self._queries.ids_in(self._scope.tables[table], changed.all)
                    rows = rows.where(F.col("_epoch") == F.lit(read.epoch or ""))
                    found.append(rows.select(F.lit(name), *place_of("_occurrence", "file", "offset")))
            taken_up = self._settled.where(F.col("datacenter") == name).where(in_ranges(read.requeued))
            found.append(taken_up.select(*PLACE))
        return union_of(found).distinct()

    def _at(self, places: DataFrame) -> DataFrame:
        return self._settled.join(places, PLACE, "left_semi")

    def _by_new_primaries(self) -> DataFrame:
        """Settled records for whose key there is a primary that is new."""
        keys = self._new_primaries.where("lost_path is null").select("datacenter", "key").distinct()
        return self._settled.where("key is not null").join(keys, ["datacenter", "key"], "left_semi")

    def known_findings(self) -> DataFrame:
        """The findings of the last recorded verification: `FINDINGS` with their datacenter."""
        found = self._empty(f"datacenter string, {FINDINGS}")
        for name, kept in self._scope.kept.items():
            last = self._read(name, kept, "findings", FINDINGS, kept.number)
            found = found.unionByName(last.withColumn("datacenter", F.lit(name)))
        return self._computed(found)

    # -- primary events

    @cached_property
    def _new_primaries(self) -> DataFrame:
        found = self._queries.primary_keys()
        return self._computed(found.withColumn("key", F.when(F.col("key").isNotNull(), _hash("key"))))

    def primaries(self) -> DataFrame:
        """Where all lines of primary logs are that can be read; without a `key` one is no record."""
        columns = [*PLACE, "key", "time_us"]
        known = self._new_primaries.where("lost_path is null").select(*columns)
        for name in self._scope.since:
            kept = self._kept(name, "primaries", PRIMARIES).withColumn("datacenter", F.lit(name))
            known = known.unionByName(kept.select(*columns))
        return known

    def primaries_of(self, records: DataFrame) -> DataFrame:
        """Primaries whose key may be that of a record that needs one, and bytes that can't be read."""
        keys = records.where("raw is not null").select("datacenter", _hash("key").alias("key")).distinct()
        places = self.primaries().join(keys, ["datacenter", "key"], "left_semi").select(*PLACE)
        lost = self._new_primaries.where("lost_path is not null").drop("key")
        return self._queries.primaries_at(places).unionByName(lost, allowMissingColumns=True)

    # -- keeping results

    def store(
        self,
        verified: DataFrame,
        in_question: DataFrame,
        reports: Mapping[str, DatacenterReport],
        files: Mapping[str, Mapping[int, FileTimes]],
        unreadable: Collection[tuple[str, int]],
    ) -> None:
        """Keep the results of this verification, `verified` by `settled_records`. LakeUnavailable."""
        known = F.min("known_us").alias("known_us")
        told = in_question.where("event_id is not null").select("*", _hash("event_id").alias("event"))
        told = self._computed(told.groupBy("datacenter", "kind", "event").agg(known))
        known_us = F.coalesce("known_us", F.lit(self._scope.at_us)).alias("known_us")
        for name, report in reports.items():
            if report.epoch is None or report.state_is_unreadable:
                continue
            number = next_number(self._scope.pipeline, name)
            folder = new_folder(self._scope.pipeline, name, number)
            mine, run = F.col("datacenter") == name, F.lit(number).alias("run")
            own = verified.where(mine)
            no_place = [F.lit(None).cast("int").alias("file"), F.lit(None).cast("long").alias("offset")]
            left = own.where("not is_settled").select("event", "file", "offset")
            written = {
                "settled": own.where("is_settled").select(
                    "event", "key", "file", "offset", "hour_us", "class", run
                ),
                "unsettled": self._reopened.where(mine).select("file", "offset", run),
                "open": left.unionByName(told.select("event", *no_place).distinct()),
                "findings": told.where(mine).where("kind is not null").select("kind", "event", known_us),
                "primaries": self._new_primaries.where(mine)
                .where("lost_path is null")
                .select("key", "file", "offset", "time_us", run),
            }
            for what, frame in written.items():
                write_parquet(frame, folder, what)
            gone = {of_file for where, of_file in unreadable if where == name}
            since = self._scope.since.get(name)
            kept_files = _kept_files(self._scope, name, number, files[name], gone)
            before = still_needed(since.kept.runs, kept_files) if since else ()
            store_kept(
                self._scope.pipeline,
                name,
                KeptManifest(
                    fingerprint=self._scope.fingerprint(name),
                    runs=(*before, run_in(folder, number, self._scope.at_us)),
                    files=kept_files,
                    commits=self._scope.commits(name),
                    mended={str(at): one.batch for at, one in self._scope.mended[name].letters.items()},
                ),
            )

    # -- files

    def _kept(self, datacenter: str, what: str, columns: str) -> DataFrame:
        """The results that all runs have kept for trusted files."""
        found = self._read(datacenter, self._scope.since[datacenter].kept, what, columns)
        return found.join(self._trusted(datacenter), "file").where("run >= since_run").drop("since_run")

    def _trusted(self, datacenter: str) -> DataFrame:
        files = self._scope.since[datacenter].trusted
        rows = sorted((number, each.since_run) for number, each in files.items())
        return F.broadcast(self._session.createDataFrame(rows, "file int, since_run int"))

    def _read(
        self, datacenter: str, kept: KeptManifest, what: str, columns: str, only: int | None = None
    ) -> DataFrame:
        folder = kept_folder(self._scope.pipeline, datacenter)
        paths = [
            str(folder / run.folder / name)
            for run in kept.runs
            for name in run.files
            if name.startswith(f"{what}/") and only in (None, run.number)
        ]
        return parquet(self._session, paths, columns)

    def _empty(self, columns: str) -> DataFrame:
        return self._session.createDataFrame([], columns)


def settled_records(
    records: DataFrame, decided: DataFrame, verdicts: DataFrame, in_question: DataFrame
) -> DataFrame:
    """Records with `is_settled`: whether their class stays until something changes."""
    same = verdicts.where("verdict = 'same'").select("datacenter", "event_id").distinct()
    questions = in_question.where("event_id is not null").select("event_id").distinct()
    found = outcome_of(records, decided)
    found = found.join(same.withColumn("is_same", F.lit(True)), ["datacenter", "event_id"], "left")
    found = found.join(questions.withColumn("is_open", F.lit(True)), "event_id", "left")
    was_undecided, outcome = F.col("class") == UNDECIDED, F.col("outcome")
    waits = F.col("evidence").bitwiseAND(F.lit(int(Evidence.PENDING | Evidence.GIVEN_UP))) != 0
    # Where no table knows a record, the registry says that nobody has registered it: until somebody does.
    is_final = outcome.isin(*FINAL) & ~(was_undecided & (outcome == "unjoinable"))
    is_joined = (outcome == "joined") & F.col("is_same")
    is_settled = (is_final | is_joined) & ~waits & ~lacks_row() & F.col("is_open").isNull()
    by_primary = outcome.isin(*BY_PRIMARY)
    hour = F.floor(F.col("time_us") / HOUR_US) * HOUR_US
    return found.select(
        *PLACE,
        F.when(F.col("event_id").isNotNull(), _hash("event_id")).alias("event"),
        F.when(by_primary & F.col("key").isNotNull(), _hash("key")).alias("key"),
        hour.cast("long").alias("hour_us"),
        outcome.alias("class"),
        F.coalesce(is_settled, F.lit(False)).alias("is_settled"),
    )


def _kept_files(
    scope: Scope, datacenter: str, number: int, times: Mapping[int, FileTimes], gone: Collection[int]
) -> dict[int, KeptFile]:
    """How far results are kept of each file after this run."""

    def files() -> Iterator[tuple[int, TrackedFile]]:
        for file, tracked in scope.read_offsets[datacenter].files.items():
            if tracked.state == "open" and file not in gone:
                yield file, tracked

    since, looks = scope.since.get(datacenter), scope.looks[datacenter]
    trusted = since.trusted if since is not None else {}
    return {
        file: KeptFile(
            end_bytes=tracked.offset_bytes,
            since_run=trusted[file].since_run if file in trusted else number,
            size_bytes=look.size_bytes,
            changed_ns=look.changed_ns,
            latest_us=times.get(file, FileTimes()).latest_us,
        )
        for file, tracked in files()
        if (look := looks[file]) is not None
    }


def _hash(column: str) -> Column:
    return F.xxhash64(F.col(column))
