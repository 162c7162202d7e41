"""Each rule of kept results by itself: what counts, and what has its record read again (docs/adr/0050).

Whole verifications beside kept results are in `test_verify_kept`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from photon.jobs.verification_kept import KeptResults, settled_records
from photon.jobs.verification_queries import UNDECIDED, Queries
from photon.logs.files import ByteRange
from photon.state.view import ReadOffsets
from photon.state.waiting.waiting_view import WAITING_COLUMNS
from photon.storage.changes import ChangedFiles
from photon.storage.columns import TABLE_COLUMNS
from photon.storage.tokens import Occurrence
from photon.verification.classes import Evidence
from photon.verification.kept import FOLDER, KeptFile, KeptManifest, KeptRun
from photon.verification.scope import TableSnapshot
from photon.verification.since import Since
from photon.verification.spool import Spool
from tests.support.csv_pipelines import csv_pipeline

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

EPOCH, OTHER_EPOCH = "e1", "e0"
INT32, INT64 = pa.int32(), pa.int64()
COLUMNS = {
    "settled": {
        "event": INT64,
        "key": INT64,
        "file": INT32,
        "offset": INT64,
        "hour_us": INT64,
        "class": pa.string(),
        "run": INT32,
    },
    "unsettled": {"file": INT32, "offset": INT64, "run": INT32},
    "open": {"event": INT64, "file": INT32, "offset": INT64},
}
Row = Mapping[str, Any]


class Stored:
    """The runs of datacenter east, as they were written; files 1 and 2 are trusted."""

    def __init__(self, session: Any, folder: Path) -> None:
        self.pipeline = csv_pipeline(folder, {})
        self.session, self.folder = session, folder
        self.runs: list[KeptRun] = []
        self.trusted = {number: KeptFile(1_000, 1, 1_000, 0) for number in (1, 2)}
        self.changed: dict[Any, ChangedFiles] = {}
        self.mended: tuple[Occurrence, ...] = ()
        self.read = ReadOffsets(EPOCH)

    def run(self, **rows: Sequence[Row]) -> None:
        """Store one more run, which has kept these rows."""
        number, files = len(self.runs) + 1, dict[str, int]()
        folder = self.pipeline.datacenters["east"].lake / FOLDER / f"run-{number}"
        for what, some in rows.items():
            (folder / what).mkdir(parents=True)
            path = folder / what / "part.parquet"
            schema = pa.schema(COLUMNS[what])
            pq.write_table(pa.Table.from_pylist([{"run": number, **row} for row in some], schema), path)
            files[f"{what}/part.parquet"] = path.stat().st_size
        self.runs.append(KeptRun(number, number, folder.name, files))

    def table(self, name: Any, *rows: Row, removed: bool = False, datacenter: str = "east") -> None:
        """Have a file with these rows come into a table, or leave it."""
        path = self.folder / f"{datacenter}-{name}.parquet"
        pq.write_table(pa.Table.from_pylist(list(rows), TABLE_COLUMNS[name]), path)
        files = (str(path),)
        changed = ChangedFiles(removed=files) if removed else ChangedFiles(added=files)
        self.changed[datacenter, name] = changed

    def hashes(self, *events: str) -> set[int]:
        frame = self.session.createDataFrame([(event,) for event in events], "event string")
        return {row[0] for row in frame.selectExpr("xxhash64(event)").collect()}

    def results(self) -> KeptResults:
        kept = KeptManifest("print", tuple(self.runs))
        scope: Any = SimpleNamespace(
            pipeline=self.pipeline,
            since={"east": Since(kept, self.trusted, self.changed, self.mended)},
            read_offsets={"east": self.read},
            tables={where: TableSnapshot(self.folder, TABLE_COLUMNS[where[1]]) for where in self.changed},
        )
        spool = Spool(self.pipeline, in_lakes=False)
        queries = Queries(self.session, scope, SimpleNamespace(), spool)  # type: ignore[arg-type]
        return KeptResults(queries, lambda frame: frame)

    def counted(self) -> list[tuple[int, int, str]]:
        """The settled records that count: file, offset, class."""
        found = self.results()._settled.select("file", "offset", "class").collect()
        return sorted(tuple(row) for row in found)

    def looked_at(self) -> list[tuple[int, int]]:
        """Return the places of which something new may be known."""
        found = self.results()._changed_places().select("file", "offset").collect()
        return sorted(tuple(row) for row in found)


@pytest.fixture
def stored(session: Any, tmp_path: Path) -> Stored:
    return Stored(session, tmp_path)


def settled(offset: int, outcome: str = "joined", file: int = 1, event: int = 0) -> Row:
    return {"event": event or offset, "file": file, "offset": offset, "hour_us": 0, "class": outcome}


def at(file: int, offset: int) -> Row:
    return {"file": file, "offset": offset}


# -- what counts


def test_a_record_counts_once_as_it_was_settled_last(stored: Stored) -> None:
    stored.run(settled=[settled(10), settled(20)])
    stored.run(unsettled=[at(1, 10)])
    assert stored.counted() == [(1, 20, "joined")]
    stored.run(settled=[settled(10, "filtered")], unsettled=[at(1, 10)])
    assert stored.counted() == [(1, 10, "filtered"), (1, 20, "joined")]


def test_only_results_of_trusted_files_count_from_the_run_on_in_which_they_were_read(stored: Stored) -> None:
    stored.run(settled=[settled(10), settled(10, file=2), settled(10, file=3)])
    stored.run(settled=[settled(20, file=2)])
    stored.trusted[2] = KeptFile(1_000, since_run=2, size_bytes=1_000, changed_ns=0)
    assert stored.counted() == [(1, 10, "joined"), (2, 20, "joined")]


def test_what_the_last_run_left_open_is_read_again_and_what_has_no_place_too(stored: Stored) -> None:
    stored.run(open=[{"event": 1, **at(1, 10)}])
    stored.run(open=[{"event": 2, **at(1, 20)}, {"event": 3}, {"event": 4, **at(3, 10)}])
    found = stored.results()._open().select("event").collect()
    assert sorted(row["event"] for row in found) == [2, 3]


# -- what is looked at again


def letter(occurrence: str, epoch: str = EPOCH) -> Row:
    return {"_datacenter": "east", "_epoch": epoch, "_batch": 1, "_occurrence": occurrence, "event_id": "c"}


def test_a_record_is_looked_at_when_a_row_of_it_came_into_or_went_from_a_side_table(stored: Stored) -> None:
    stored.run(settled=[settled(10), settled(20), settled(30)])
    stored.table("dead_letters", letter("1:10"))
    stored.table("unjoined", letter("1:20"), letter("1:30", OTHER_EPOCH), removed=True)
    stored.table("too_old", letter("2:40"))
    assert stored.looked_at() == [(1, 10), (1, 20), (2, 40)]


def test_a_mended_letter_a_requeued_range_and_what_waits_are_looked_at(stored: Stored) -> None:
    stored.run(settled=[settled(10), settled(20), settled(30)])
    assert stored.looked_at() == []
    stored.mended = (Occurrence.parse("2:5"),)
    waiting = {field.name: None for field in WAITING_COLUMNS} | {"file": 2, "offset": 7, "given_up": False}
    stored.read = ReadOffsets(
        EPOCH,
        requeued=(ByteRange(1, 15, 25, 0, 1),),
        waiting=pa.Table.from_pylist([waiting], WAITING_COLUMNS),
    )
    assert stored.looked_at() == [(1, 20), (2, 5), (2, 7)]


def test_the_events_of_rows_that_came_or_went_are_looked_at_in_every_epoch(stored: Stored) -> None:
    row = letter("1:10") | {"_event_id": "c1"}
    stored.table("joined_events", row, removed=True)
    stored.table("joined_events", row | {"_event_id": "c2", "_epoch": OTHER_EPOCH}, datacenter="west")
    found = stored.results()._changed_events().select("event").collect()
    assert {row["event"] for row in found} == stored.hashes("c1", "c2")


def test_a_settled_record_is_looked_at_when_a_new_primary_has_its_key(stored: Stored) -> None:
    stored.run(settled=[settled(10) | {"key": 7}, settled(20) | {"key": 8}, settled(30)])
    results = stored.results()
    new = [("east", 7, 1, 0, None), ("west", 8, 1, 0, None), ("east", None, 2, 0, "lost.csv")]
    columns = "datacenter string, key long, file int, offset long, lost_path string"
    results.__dict__["_new_primaries"] = stored.session.createDataFrame(new, columns)
    assert [row["offset"] for row in results._by_new_primaries().select("offset").collect()] == [10]


# -- what is settled


CASES = {  # class, evidence, what was decided, whether its row is as it should be, whether it is in question
    "joined, its row is right": (("joined", 0, None, True, False), True),
    "joined, its row differs": (("joined", 0, None, False, False), False),
    "a duplicate": (("duplicates", 0, None, False, False), True),
    "filtered": ((UNDECIDED, 0, "filtered", False, False), True),
    "missing": ((UNDECIDED, 0, "missing", False, False), False),
    "unjoinable, as a table says": (("unjoinable", int(Evidence.UNJOINED), "unjoinable", False, False), True),
    "unjoinable, as only the registry says": ((UNDECIDED, 0, "unjoinable", False, False), False),
    "given up": (("unjoinable", int(Evidence.GIVEN_UP), "unjoinable", False, False), False),
    "pending": (("pending", int(Evidence.PENDING), None, False, False), False),
    "with a finding": (("joined", 0, None, True, True), False),
}


def test_a_record_is_settled_when_nothing_is_open_about_it(session: Any) -> None:
    records, decided, verdicts, questions = [], [], [], []
    for number, ((outcome, evidence, answer, is_same, is_open), _) in enumerate(CASES.values()):
        event = f"c{number}"
        records.append(("east", 1, number, event, "q", 0, evidence, outcome, None))
        if answer is not None:
            decided.append(("east", 1, number, answer))
        if outcome == "joined":
            verdicts.append(("east", event, "same" if is_same else "differs"))
        if is_open:
            questions.append((event,))
    place = "datacenter string, file int, offset long"
    of_records = "event_id string, key string, time_us long, evidence int, class string, lost_path string"
    found = settled_records(
        session.createDataFrame(records, f"{place}, {of_records}"),
        session.createDataFrame(decided, f"{place}, outcome string"),
        session.createDataFrame(verdicts, "datacenter string, event_id string, verdict string"),
        session.createDataFrame(questions, "event_id string"),
    )
    is_settled = {row["offset"]: row["is_settled"] for row in found.collect()}
    assert {name: is_settled[n] for n, name in enumerate(CASES)} == {n: one for n, (_, one) in CASES.items()}
