"""One datacenter's logs, and the real tasks over them. The test says who holds which event."""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from photon.event_store.interface import IndexSnapshot
from photon.event_store.log_files import write_log_files
from photon.join.deciding import count_by_home
from photon.join.messages import IndexResult, IndexTask, JoinResult, JoinTask, TaskContext
from photon.join.tasks import run_task
from photon.logs.files import ByteRange, LogFile
from photon.logs.source import hash_bytes
from photon.pipeline.file import load_pipeline
from photon.registry.entry import Claimant, Claims, Epoch, Hashes, Times
from photon.registry.hashing import hashes_of, hashes_of_texts
from photon.registry.lookups import Hold, IdHolders, Lookups, ViewSnapshot
from photon.registry.register import Generation, Members, Register
from photon.registry.view import RecordPlaces
from photon.state.waiting.reasons import CODE_OF, REASONS
from photon.state.waiting.retries import Retries
from photon.state.waiting.segments import FOLDER, read_all_records, write_segment
from photon.storage.tokens import Occurrence, PlanKey
from tests.support.manual_clock import ManualClock

NOON_US = 1_700_000_000_000_000
PLAN = PlanKey("east", "1", 7, "this")
OTHER_PLAN = Claimant(Epoch("east", 1), 6, "other")
WEST = Claimant(Epoch("west", 3), 2, "theirs")
REGISTER = Register(
    "searches", "", Members(1, ("memory",)), generations=(Generation(2, homes=("east", "west")),)
)
PIPELINE = """
name: searches
datacenters:
  east: {logs: east}
  west: {logs: west}
primary: {files: "queries/*.jsonl", format: jsonl, id: query, time: at, time_unit: us}
foreign: {files: "clicks/*.jsonl", format: jsonl, id: click, key: query, time: at, time_unit: us}
"""


def home_of(event_id: str, register: Register) -> str:
    """The home datacenter of one event; empty if it has none."""
    return "".join(count_by_home(hashes_of_texts([event_id]), register))


def ids_at_home(datacenter: str, count: int) -> list[str]:
    """Ids of events that this datacenter takes up first."""
    return [f"c{n}" for n in range(20 * count) if home_of(f"c{n}", REGISTER) == datacenter][:count]


@dataclass
class HeldIds:
    """Stand for a snapshot of the registry: say who holds each id, and which are too old."""

    holds: dict[str, tuple[Hold, Claimant]] = field(default_factory=dict)
    places: dict[str, Occurrence] = field(default_factory=dict)  # the records of ids that this plan holds
    boundary_us: int = 0
    register: Register = REGISTER
    asked: int = 0

    def open(self, plan: Claimant) -> Lookups:
        self._by_hash = {_key(hashes_of(pa.array([one]))[0]): one for one in self.holds}
        return self

    def look_up(self, hashes: Hashes, times_us: Times) -> IdHolders:
        self.asked += len(hashes)
        holders = list(dict.fromkeys(claimant for _, claimant in self.holds.values()))
        codes, by, files, offsets_bytes = (np.full(len(hashes), -1, np.int64) for _ in range(4))
        for row, one in enumerate(hashes):
            event_id = self._by_hash.get(_key(one))
            if event_id is None:
                codes[row] = Hold.TOO_OLD if times_us[row] < self.boundary_us else Hold.NOBODY
                continue
            codes[row], holder = self.holds[event_id]
            by[row] = holders.index(holder)
            if event_id in self.places:
                place = self.places[event_id]
                files[row], offsets_bytes[row] = place.file_number, place.offset_bytes
        return IdHolders(
            codes.astype(np.int8), by.astype(np.int32), holders, RecordPlaces(files, offsets_bytes)
        )


def _key(hash_of_id: Hashes) -> tuple[int, int]:
    return int(hash_of_id[0]), int(hash_of_id[1])


class JoinWorld:
    """Logs of the datacenter east, and runs of single join tasks over them."""

    def __init__(self, folder: Path, more: str = "") -> None:
        path = folder / "pipeline.yaml"
        path.write_text(PIPELINE + more)
        self.pipeline = load_pipeline(path)
        self.logs = folder / "east"
        self.clock = ManualClock(NOON_US)
        self.held = HeldIds()
        self.context = TaskContext(
            self.pipeline,
            PLAN,
            folder / "work",
            IndexSnapshot(folder / "work" / "index", (), "none"),
            False,
            False,
        )
        for table in ("joined_events", "dead_letters", "too_old", "unjoined"):
            (folder / "lake" / "east" / table).mkdir(parents=True)
        self._files: dict[Path, int] = {}
        self.places: dict[str, list[Occurrence]] = {}  # where the records of each click are
        self.task = JoinTask()

    def hold(self, event_id: str, hold: Hold, by: Claimant, at: Occurrence | None = None) -> None:
        """Let somebody hold an event."""
        self.held.holds[event_id] = hold, by
        if at is not None:
            self.held.places[event_id] = at

    def queries(self, *ids: str) -> None:
        """Log primary events, and index them."""
        records = [{"query": one, "at": NOON_US, "text": f"text of {one}"} for one in ids]
        file, part = self._append("queries", "q.jsonl", records)
        segment = f"segment-{part.start_bytes}"
        indexed = run_task(IndexTask(((file, part),), segment), self.context, self.clock)
        assert isinstance(indexed, IndexResult), indexed
        write_log_files(self.context.index.folder, "files", [file])
        segments = (*self.context.index.segments, segment)
        index = IndexSnapshot(self.context.index.folder, segments, "files")
        self.context = replace(self.context, index=index)

    def clicks(self, *pairs: tuple[str, str | None], at_us: int = NOON_US, file: str = "a.jsonl") -> JoinTask:
        """Log foreign events as (click, query); the join task of all that were logged since the last run."""
        records = [{"click": click, "query": query, "at": at_us} for click, query in pairs]
        log_file, part = self._append("clicks", file, records)
        at = part.start_bytes
        for record in records:
            self.places.setdefault(str(record["click"]), []).append(Occurrence(log_file.number, at))
            at += len(_line(record))
        self.task = replace(self.task, ranges=(*self.task.ranges, (log_file, part)))
        return self.task

    def _append(
        self, kind: str, name: str, records: Sequence[Mapping[str, Any]]
    ) -> tuple[LogFile, ByteRange]:
        path = self.logs / kind / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = b"".join(map(_line, records))
        start = path.stat().st_size if path.exists() else 0
        with path.open("ab") as sink:
            sink.write(data)
        number = self._files.setdefault(path, len(self._files) + 1)
        head = path.read_bytes().split(b"\n")[0] + b"\n"
        side, inode = ("primary" if kind == "queries" else "foreign"), path.stat().st_ino
        file = LogFile(number, side, f"{kind}/{name}", inode, False, b"", 0, len(head), hash_bytes(head))  # type: ignore[arg-type]
        return file, ByteRange(number, start, start + len(data), zlib.crc32(data), len(records))

    def run(self, task: JoinTask | None = None, **context: Any) -> JoinResult:
        """Run the join task, for this plan."""
        self.context = replace(self.context, view=cast(ViewSnapshot, self.held), **context)
        result = run_task(task or self.task, self.context, self.clock)
        assert isinstance(result, JoinResult), result
        return result

    def win(self, result: JoinResult) -> None:
        """Let this plan hold all that the result claims."""
        for row in self.rows(result):
            at = Occurrence.parse(row["_occurrence"])
            self.hold(row["_event_id"], Hold.THIS_PLAN, Claimant(Epoch("east", 1), 7, "this"), at)

    def rows(self, result: JoinResult) -> list[dict[str, Any]]:
        """The joined rows of a result."""
        lake = self.context.folders.lake
        files = [file.path for file in result.files if file.table == "joined_events"]
        return [row for name in files for row in pq.read_table(lake / "joined_events" / name).to_pylist()]

    def waiting(self, result: JoinResult) -> Counter[str]:
        """Count the records that wait, by reason."""
        tables = [read_all_records(self.context.work / FOLDER, one.name) for one in result.waiting]
        return Counter(REASONS[code].name for table in tables for code in table["reason"].to_pylist())

    def again(self, result: JoinResult, reason: str | None = None) -> JoinTask:
        """Make the task of all waiting records; `reason`: as if they had waited for that."""
        retries, folder = [], self.context.work / FOLDER
        for one in result.waiting:
            table = read_all_records(folder, one.name)
            rows = range(table.num_rows)
            if reason is not None:
                at = table.schema.get_field_index("reason")
                codes = pa.array([CODE_OF[reason]] * len(rows), pa.int8())
                write_segment(folder, one.name, table.set_column(at, "reason", codes))
            retries.append(
                Retries.of(one.name, rows, table["_file"], table["_offset"], [self.context.final] * len(rows))
            )
        return JoinTask(retries=tuple(retries), files=tuple(file for file, _ in self.task.ranges), number=1)


def _line(record: Mapping[str, Any]) -> bytes:
    return json.dumps(record).encode() + b"\n"


def claimed(claims: Claims | None, *ids: str) -> bool:
    """Say whether these ids are claimed, and no others."""
    hashes = set() if claims is None else {_key(one) for one in claims.hashes}
    return hashes == {_key(one) for one in hashes_of(pa.array(ids, pa.string()))}
