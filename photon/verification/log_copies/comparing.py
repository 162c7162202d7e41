"""Compares the datacenters' copies of the logs, and keeps what was found of them in the lakes.

Each byte of a log is digested once. The ids of an hour are read again only where its digests differ, and once
for each difference. `CopyReaders` does the reading: with Spark in `jobs`. Readings that `copy_of` can do
without leave their table (protocol D14).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from photon.logs.files import TrackedFile
from photon.logs.folders import LogFolder, log_folder
from photon.logs.ranges import Stretch
from photon.logs.source import UNREADABLE, has_head
from photon.pipeline.file import Pipeline
from photon.pipeline.location import Location
from photon.process.clock import MICROSECONDS
from photon.process.errors import UserError
from photon.state.timeline import EpochTimeline
from photon.state.view import open_view
from photon.storage.append_table import AppendTable
from photon.storage.columns import text
from photon.verification.availability.minutes import read_until_us, timelines_of
from photon.verification.log_copies.lacks import (
    SIDES,
    CopyKnowledge,
    FileDigest,
    Hour,
    Lack,
    Suspicion,
    compared_since_us,
    short_copy,
    suspicions,
)
from photon.verification.log_copies.tasks import FilePart
from photon.verification.report import VerificationReport

_INT64 = pa.int64()
_PART = pa.struct([("file", pa.int32()), ("start", _INT64), ("end", _INT64)])
_DIGEST = pa.struct(
    [
        ("side", pa.string()),
        ("file", pa.int32()),
        *((name, _INT64) for name in ("hour_us", "events", "low", "high", "first_offset", "last_offset")),
    ]
)
# A row for each reading: its parts and digests belong together, and count together.
# An hour of event time is compared so long after it is over: an event may come into one copy of the logs so
# much later than into another.
COMPARED_AFTER_US = 15 * 60 * MICROSECONDS
MOST_HOURS_AT_ONCE = 24  # hours whose ids one run reads, the latest first; the next run takes others
COPIES = AppendTable(
    "log_copies",
    pa.schema(
        [
            ("epoch", pa.string()),
            ("number", _INT64),  # counts the epoch's readings, from 1
            ("at", pa.timestamp("us", "UTC")),
            ("parts", pa.list_(_PART)),
            ("digests", pa.list_(_DIGEST)),
            ("read_until_us", _INT64),
            *((f"{side}_unknown_until_us", _INT64) for side in SIDES),
        ]
    ),
)
COMPARED = AppendTable(
    "log_copies_compared",
    pa.schema(
        [
            ("side", pa.string()),
            ("hour_us", _INT64),
            ("fingerprint", pa.string()),
            ("lacks", pa.string()),  # as JSON: what any copy lacks
            ("at", pa.timestamp("us", "UTC")),
        ]
    ),
)


class CopyReaders(Protocol):
    """The readers that a comparison needs."""

    def digests(self, parts: Sequence[FilePart]) -> tuple[list[tuple[str, FileDigest]], set[tuple[str, int]]]:
        """Digests by datacenter, and the files (datacenter, number) with bytes that can't be read."""
        ...

    def lacks(
        self,
        parts: Sequence[FilePart],
        expected: Mapping[Hour, Collection[str]],
        paths: Mapping[tuple[str, int], str],
    ) -> tuple[list[Lack], set[tuple[str, int]]]:
        """Lines that each of the `expected` datacenters lacks in these hours, and files that can't be read.

        `paths`: of files, by datacenter and number.
        """
        ...


@dataclass
class KnownCopy:
    """One datacenter's copy, and what is new of it."""

    copy: CopyKnowledge
    epoch: str = ""
    files: Mapping[int, TrackedFile] = field(default_factory=dict)
    new_parts: list[FilePart] = field(default_factory=list)
    new_digests: list[FileDigest] = field(default_factory=list)
    problem: str = ""


@dataclass(frozen=True)
class ComparedCopies:
    """The result of a comparison."""

    lacks: tuple[Lack, ...] = ()
    own_sizes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # sizes by datacenter and path
    hours: int = 0  # hours whose digests differ
    problems: tuple[str, ...] = ()  # why a copy was left out

    def added_to(self, report: VerificationReport, most: int) -> VerificationReport:
        """The report with a finding for each datacenter whose copy is short."""
        found = dict(report.datacenters)
        for name, one in found.items():
            mine = [lack for lack in self.lacks if lack.short == name]
            finding = short_copy(mine, self.own_sizes.get(name, {}), most)
            if finding is not None:
                found[name] = replace(one, findings=(*one.findings, finding))
        return replace(report, datacenters=found)


def compare_copies(
    pipeline: Pipeline, selected: Collection[str], reading: CopyReaders, now_us: int, keep: bool
) -> ComparedCopies:
    """Digest what is new in the logs of the `selected` datacenters, and compare with what all have.

    `keep`: in the lakes, so that the next comparison reads only what is new then. LakeUnavailable.
    """
    if len(pipeline.datacenters) < 2:
        return ComparedCopies()
    known = {}
    for name in pipeline.datacenters:
        try:
            known[name] = _known(pipeline, name, name in selected, now_us)
        except UserError as error:
            known[name] = KnownCopy(CopyKnowledge(name), problem=str(error))
    _digest(known, reading)
    for name in selected:
        if keep and known[name].epoch:
            _store_copy(pipeline, known[name], now_us)
    copies = [one.copy for one in known.values() if one.epoch]
    suspects = list(suspicions(copies, COMPARED_AFTER_US, now_us))
    stored = _stored_verdicts(pipeline, selected, suspects) if suspects else {}
    asked = [each for each in suspects if (each.hour, each.fingerprint) not in stored][-MOST_HOURS_AT_ONCE:]
    found, gone = _lacks(asked, known, reading) if asked else ([], set())
    verdicts = {
        (each.hour, each.fingerprint): [lack for lack in found if (lack.side, lack.hour_us) == each.hour]
        for each in asked
        if each.hour not in gone
    }
    for name in selected:
        if keep and verdicts:
            _store_verdicts(pipeline, name, verdicts, now_us)
    verdicts = {**stored, **verdicts}
    return ComparedCopies(
        lacks=tuple(lack for each in suspects for lack in verdicts.get((each.hour, each.fingerprint), ())),
        own_sizes={
            name: {each.file.path: each.size_bytes for each in one.files.values() if each.state == "open"}
            for name, one in known.items()
        },
        hours=len(suspects),
        problems=tuple(
            f"{name}: its copy of the logs is not compared: {one.problem}"
            for name, one in known.items()
            if one.problem
        ),
    )


def _known(pipeline: Pipeline, datacenter: str, is_selected: bool, now_us: int) -> KnownCopy:
    """The digests of a copy, and what is new in it if it is selected."""
    place = pipeline.datacenters[datacenter]
    with open_view(place.state) as state:
        if state is None or state.epoch is None:
            return KnownCopy(CopyKnowledge(datacenter))
        epoch, files = state.epoch, state.files()
        begun_us = int(state.meta("begun_us") or 0) if state.follows_an_epoch else 0
        timeline = timelines_of(pipeline, datacenter, 0).get(epoch, EpochTimeline())
        until_us = read_until_us(pipeline, datacenter, state, timeline, now_us) if is_selected else 0
    copy, cut = _stored_copy(pipeline, datacenter, epoch, now_us), _cut_short(files, place.logs)
    altered = {
        number
        for number, tracked in files.items()
        if is_selected
        and tracked.state == "open"
        and tracked.altered_us
        and tracked.altered_us >= copy.digested_us.get(number, 0)
    }
    copy = replace(
        copy,
        digests=[each for each in copy.digests if each.file not in cut | altered],
        reached={number: end for number, end in copy.reached.items() if number not in altered},
    )
    # In a later epoch nobody knows what the logs had that went before it.
    unknown = {side: max(begun_us, copy.unknown_until_us.get(side, 0)) for side in SIDES}
    known = KnownCopy(replace(copy, unknown_until_us=unknown), epoch, files)
    if is_selected:
        known.copy = replace(known.copy, read_until_us=until_us)
        for tracked in files.values():
            start = copy.reached.get(tracked.file.number, tracked.file.header_bytes)
            if tracked.file.number in cut:
                continue  # the rest is read under another number, and what was cut off is what the copy lacks
            if start < tracked.offset_bytes and tracked.state != "open":
                unknown[tracked.file.side] = max(unknown[tracked.file.side], tracked.grown_us)
            elif start < tracked.offset_bytes:
                known.new_parts.append(FilePart(datacenter, Stretch(tracked, start, tracked.offset_bytes)))
    return known


def _digest(known: Mapping[str, KnownCopy], reading: CopyReaders) -> None:
    """Digest what is new. What can't be read is not tried again."""
    parts = [part for one in known.values() for part in one.new_parts]
    digests, unreadable = reading.digests(parts) if parts else ([], set())
    for name, one in known.items():
        unknown = dict(one.copy.unknown_until_us)
        for number in (number for where, number in unreadable if where == name):
            file = one.files[number]
            unknown[file.file.side] = max(unknown[file.file.side], file.grown_us)
        reached = {part.stretch.tracked.file.number: part.stretch.end_bytes for part in one.new_parts}
        one.new_digests = [digest for where, digest in digests if where == name]
        one.copy = replace(
            one.copy,
            reached={**one.copy.reached, **reached},
            digests=[*one.copy.digests, *one.new_digests],
            unknown_until_us=unknown,
        )


def _lacks(
    asked: Sequence[Suspicion], known: Mapping[str, KnownCopy], reading: CopyReaders
) -> tuple[list[Lack], set[Hour]]:
    """Events that copies lack in these hours, and the hours of which something can't be read again."""
    gone: set[Hour] = set()
    bounds: dict[tuple[str, int], tuple[int, int]] = {}
    hours: dict[tuple[str, int], set[int]] = {}
    for each in asked:
        for name in each.datacenters:
            for digest in known[name].copy.of_hour(each.hour):
                place, file = (name, digest.file), known[name].files.get(digest.file)
                if file is None or file.state != "open":
                    gone.add(each.hour)
                if file is None:  # it was forgotten
                    continue
                first, last = bounds.get(place, (digest.first_offset, digest.last_offset))
                bounds[place] = min(first, digest.first_offset), max(last, digest.last_offset)
                hours.setdefault(place, set()).add(digest.hour_us)
    parts = [
        FilePart(
            name, Stretch(known[name].files[number], first, last + 1), tuple(sorted(hours[name, number]))
        )
        for (name, number), (first, last) in bounds.items()
    ]
    expected = {each.hour: each.datacenters for each in asked if each.hour not in gone}
    paths = {place: known[place[0]].files[place[1]].file.path for place in bounds}
    lacks, unreadable = reading.lacks(parts, expected, paths)
    for name, number in unreadable:
        side = known[name].files[number].file.side
        gone |= {(side, hour_us) for hour_us in hours[name, number]}
    return [lack for lack in lacks if (lack.side, lack.hour_us) not in gone], gone


# -- what is kept


def _store_copy(pipeline: Pipeline, one: KnownCopy, now_us: int) -> None:
    row: dict[str, Any] = {
        "epoch": one.epoch,
        "number": one.copy.readings + 1,
        "at": now_us,
        "parts": [
            {"file": s.tracked.file.number, "start": s.start_bytes, "end": s.end_bytes}
            for s in (part.stretch for part in one.new_parts)
        ],
        "digests": [asdict(digest) for digest in one.new_digests],
        "read_until_us": one.copy.read_until_us,
    }
    unknown = {f"{side}_unknown_until_us": one.copy.unknown_until_us[side] for side in SIDES}
    COPIES.append(pipeline, one.copy.datacenter, [row | unknown])


def _stored_copy(pipeline: Pipeline, datacenter: str, epoch: str, now_us: int) -> CopyKnowledge:
    with COPIES.reading(pipeline, datacenter) as dataset:
        if dataset is None:
            return CopyKnowledge(datacenter)
        return copy_of(datacenter, dataset.to_table(filter=text("epoch") == epoch), now_us)


def copy_of(datacenter: str, rows: pa.Table, now_us: int) -> CopyKnowledge:
    """The digests of an epoch's files, of its readings. Of two readings at once the first one counts."""
    rows = rows.sort_by([("number", "ascending"), ("at", "ascending")])
    hours_us = (each["hour_us"] for row in rows["digests"].to_pylist() for each in row)
    since_us = compared_since_us(hours_us, now_us)
    reached: dict[int, int] = {}
    digests: list[FileDigest] = []
    digested_us: dict[int, int] = {}
    readings, until_us, unknown = 0, 0, dict.fromkeys(SIDES, 0)
    for row, at_us in zip(rows.to_pylist(), rows["at"].cast(_INT64).to_pylist(), strict=True):
        if row["number"] == readings:
            continue
        readings = row["number"]
        # A file that was altered in its place was digested anew, from its beginning.
        again = {part["file"] for part in row["parts"] if part["start"] < reached.get(part["file"], 0)}
        digests = [each for each in digests if each.file not in again]
        digested_us |= {part["file"]: at_us for part in row["parts"]}
        reached |= {part["file"]: part["end"] for part in row["parts"]}
        digests += [FileDigest(**each) for each in row["digests"] if each["hour_us"] >= since_us]
        until_us = row["read_until_us"]
        unknown = {side: max(unknown[side], row[f"{side}_unknown_until_us"]) for side in SIDES}
    return CopyKnowledge(datacenter, until_us, reached, digests, unknown, readings, digested_us)


Verdicts = dict[tuple[Hour, str], list[Lack]]


def _store_verdicts(pipeline: Pipeline, datacenter: str, verdicts: Verdicts, now_us: int) -> None:
    rows = [
        {
            "side": side,
            "hour_us": hour_us,
            "fingerprint": fingerprint,
            "lacks": json.dumps([asdict(lack) for lack in lacks]),
            "at": now_us,
        }
        for ((side, hour_us), fingerprint), lacks in verdicts.items()
    ]
    COMPARED.append(pipeline, datacenter, rows)


def _stored_verdicts(
    pipeline: Pipeline, datacenters: Iterable[str], suspects: Sequence[Suspicion]
) -> Verdicts:
    found: Verdicts = {}
    hours_us = sorted({each.hour[1] for each in suspects})
    for name in datacenters:
        with COMPARED.reading(pipeline, name) as dataset:
            wanted = pc.field("hour_us").isin(hours_us)
            rows = COMPARED.columns.empty_table() if dataset is None else dataset.to_table(filter=wanted)
        rows = rows.sort_by([("at", "descending")])  # the first one of a verdict counts
        for row, at_us in zip(rows.to_pylist(), rows["at"].cast(_INT64).to_pylist(), strict=True):
            lacks = [Lack(**{**each, "known_us": at_us}) for each in json.loads(row["lacks"])]
            found[(row["side"], row["hour_us"]), row["fingerprint"]] = lacks
    return found


def _cut_short(files: Mapping[int, TrackedFile], logs: Location) -> frozenset[int]:
    """The files that were cut short in their place: the same log replaces them, and begins alike; by number.

    What is left of such a file is read again under another number. A log that was truncated because a
    rotation has copied it elsewhere begins otherwise: what was read of it counts on.
    """
    in_place = {tracked.file.path: tracked for tracked in files.values() if tracked.state == "open"}
    return frozenset(
        number
        for number, tracked in files.items()
        if tracked.state == "replaced"
        and tracked.file.path in in_place
        and _begins_alike(tracked, in_place[tracked.file.path], log_folder(logs))
    )


def _begins_alike(before: TrackedFile, now: TrackedFile, logs: LogFolder) -> bool:
    """Whether a log begins as the file before it in its place; also if too little is left of it to tell."""
    file = before.file
    if now.size_bytes < file.header_bytes + file.head_bytes:
        return True
    try:
        with logs.open_at(now.file.path, now.file) as source:
            return has_head(source, file)
    except UNREADABLE:
        return False
