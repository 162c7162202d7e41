"""A fed primary log compared with the pipeline that feeds it: the rows of the marker's release, once each.

Files are read up to the last one that the marker names, and DuckDB compares the tokens of their lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from tempfile import TemporaryDirectory

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.json as pj

from photon import read
from photon.adapters import ROW_COLUMNS
from photon.feed.marker import FED_FILE, Marker, read_marker
from photon.logs.files import TrackedFile
from photon.pipeline.file import Pipeline, load_pipeline
from photon.pipeline.location import Location
from photon.process.errors import FormatTooNew, UserError
from photon.process.pace import size
from photon.process.readable import counted
from photon.releases.files import condition
from photon.state.view import read_offsets
from photon.storage.columns import text
from photon.storage.store import store_of
from photon.verification.report import DatacenterReport, Example, Finding, FindingKind, VerificationReport

BLOCK_BYTES = 2**22  # of lines, in memory at once; a longer line is refused by the reader of JSON
MEMORY = "1GB"  # of DuckDB; more is on disk
TOKEN = ("_datacenter", "_epoch", "_batch", "_plan", "_occurrence")
COLUMNS = pa.schema([ROW_COLUMNS.field(name) for name in (*TOKEN, "_event_id")])


@dataclass(frozen=True)
class FedRows:
    """The findings of comparing one datacenter's fed log; `note` says with what, or why nothing was."""

    note: str
    counts: Mapping[FindingKind, int] = field(default_factory=dict)
    examples: Mapping[FindingKind, Sequence[Example]] = field(default_factory=dict)

    @property
    def findings(self) -> list[Finding]:
        return [
            Finding(kind, count, tuple(self.examples.get(kind, ())))
            for kind, count in self.counts.items()
            if count
        ]


def with_fed_rows(
    pipeline: Pipeline, report: VerificationReport, most: int, most_bytes: int | None = None
) -> VerificationReport:
    """The report with what is wrong with fed primary logs, at most so many examples of each kind.

    `most_bytes`: longer logs are left out, and a note says so.
    """
    found = {name: _with(pipeline, name, one, most, most_bytes) for name, one in report.datacenters.items()}
    return replace(report, datacenters=found)


def _with(
    pipeline: Pipeline, name: str, report: DatacenterReport, most: int, most_bytes: int | None
) -> DatacenterReport:
    place = pipeline.datacenters[name]
    folder = pipeline.primary.fed_folder(place.logs)
    if folder is None:
        return report
    found = compare(folder, read_offsets(place.state).of("primary"), most, most_bytes)
    return replace(report, notes=(*report.notes, found.note), findings=(*report.findings, *found.findings))


def compare(
    folder: Location, tracked: Sequence[TrackedFile], most: int, most_bytes: int | None = None
) -> FedRows:
    """Compare a fed folder with the release that its marker names. `tracked`: its files, as far as read."""
    try:
        marker = read_marker(folder)
        if marker is None:
            return _not_compared(f"{folder} has no marker yet")
        all_sizes = store_of(folder).sizes().items()
        sizes = {
            name: size_bytes for name, size_bytes in all_sizes if name.endswith(".jsonl") and "/" not in name
        }
        gone = {PurePosixPath(one.file.path).name for one in tracked if not one.unread_bytes} - sizes.keys()
        last = marker.last_file or ""
        there, gone = ({n for n in some if FED_FILE.fullmatch(n) and n <= last} for some in (sizes, gone))
        if (lacking := marker.files - len(there) - len(gone)) > 0:
            lacks = f"{folder} lacks {counted(lacking, 'file')} of {marker.files:,}"
            return replace(_not_compared(lacks), counts={"feed_lacks_files": lacking})
        if gone:
            return _not_compared(f"{counted(len(gone), 'file')} of {folder} were read, and removed since")
        if most_bytes is not None and sum(sizes.values()) > most_bytes:
            has, most_of_it = size(sum(sizes.values())), size(most_bytes)
            return _not_compared(f"{folder} has {has}, and a run of Dagster compares {most_of_it} at most")
        # A join reads files of other names too; those behind the marker are about to be in a later release.
        names = sorted(n for n in sizes if n in there or not FED_FILE.fullmatch(n))
        return _compared(folder, marker, names, most)
    except (UserError, FormatTooNew, OSError, pa.ArrowException) as error:
        return _not_compared(str(error))


def _not_compared(why: str) -> FedRows:
    return FedRows(f"its fed log is not compared: {why}")


def _compared(folder: Location, marker: Marker, names: Sequence[str], most: int) -> FedRows:
    first, number = load_pipeline(marker.pipeline), marker.release.number
    rows = read.joined(first, release=number)
    for name, place in marker.begins_behind.items():
        rows = rows.filter(~((text("_datacenter") == name) & condition(place)))
    of_release = ds.Scanner.from_dataset(rows, columns=COLUMNS.names).to_reader()
    fed = pa.RecordBatchReader.from_batches(COLUMNS, _lines_of(folder, names))
    with (
        TemporaryDirectory() as spilled,
        duckdb.connect(config={"temp_directory": spilled, "memory_limit": MEMORY}) as connection,
    ):
        for table, reader in (("shown", of_release), ("fed", fed)):
            connection.register("reader", reader)
            connection.execute(f"CREATE TABLE {table} AS SELECT {', '.join(COLUMNS.names)} FROM reader")
            connection.unregister("reader")
        [[lines]] = connection.execute("SELECT count(*) FROM fed").fetchall()
        counts, examples = dict[FindingKind, int](), dict[FindingKind, Sequence[Example]]()
        for kind, query in _queries(marker).items():
            [[counts[kind]]] = connection.execute(f"SELECT count(*) FROM ({query})").fetchall()
            found = connection.execute(f"SELECT * FROM ({query}) ORDER BY ALL LIMIT {most}").fetchall()
            examples[kind] = [
                Example(row[-1], f"row of {':'.join(map(str, row[:3]))}#{row[3]}, {row[4]}") for row in found
            ]
    taken_back = marker.taken_back["deletes"]
    counts["feed_rows_of_nobody"] = max(0, counts["feed_rows_of_nobody"] - taken_back)
    note = (
        f"its fed log has {counted(lines, 'row')}, compared with release {number} of pipeline {marker.name}"
    )
    return FedRows(note + (f"; {taken_back:,} were taken back since" if taken_back else ""), counts, examples)


def _queries(marker: Marker) -> dict[FindingKind, str]:
    """A query for each kind of finding: its rows are the cases."""
    names = ", ".join(COLUMNS.names)
    gone = ", ".join(f"'{name}'" for name in marker.taken_back["lakes_gone"]) or "''"
    return {
        "feed_lacks_rows": f"SELECT {names} FROM shown EXCEPT SELECT {names} FROM fed",
        "feed_rows_twice": f"SELECT {names} FROM fed GROUP BY ALL HAVING count(*) > 1",
        "feed_rows_of_nobody": f"SELECT {names} FROM fed WHERE _datacenter NOT IN ({gone}) "
        f"EXCEPT SELECT {names} FROM shown",
    }


def _lines_of(folder: Location, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The tokens of all lines of these files. OSError, ArrowException."""
    as_written = pj.ParseOptions(explicit_schema=COLUMNS, unexpected_field_behavior="ignore")
    in_blocks = pj.ReadOptions(block_size=BLOCK_BYTES)
    for name in names:
        with store_of(folder).open(name) as file:
            for batch in pj.open_json(file, in_blocks, as_written):
                yield from pa.Table.from_batches([batch]).select(COLUMNS.names).cast(COLUMNS).to_batches()
