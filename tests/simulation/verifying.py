"""Verification of a simulated world: the product's tasks and decisions, without Spark between them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pyarrow as pa

from photon.releases import copies
from photon.storage.columns import TableName
from photon.storage.tokens import Occurrence
from photon.upkeep.plans import carry_out
from photon.upkeep.recovery import Recovered, RecoveryPlan
from photon.verification.case_pages import store_pages
from photon.verification.classes import Evidence, class_of
from photon.verification.days import Window
from photon.verification.reading import read_foreign, read_primary
from photon.verification.report import Case, DatacenterReport, Example, Finding, FindingKind
from photon.verification.scope import Scope, open_scope
from photon.verification.tasks import TO_CLASSIFY, TaskScope, classify_records
from tests.simulation.reading import asking
from tests.simulation.world import World

SIDE_TABLES: dict[TableName, Evidence] = {
    "dead_letters": Evidence.DEAD_LETTER,
    "unjoined": Evidence.UNJOINED,
    "too_old": Evidence.TOO_OLD,
}
Record = dict[str, Any]


def verify(
    world: World, selected: Sequence[str] | None = None, window: Window | None = None
) -> dict[str, DatacenterReport]:
    """The report of each datacenter, or of those that are selected; of a window, its findings alone."""
    with asking(world):
        names = selected or list(world.pipeline.datacenters)
        awaited = copies.awaited(world.pipeline, names)
        scope = open_scope(world.pipeline, names)
        return {
            name: replace(_report(world, scope, name, window), release=awaited.get(name))
            for name in scope.selected
        }


def recover_all(world: World, dry_run: bool = False, only: str | None = None) -> dict[str, Recovered]:
    """Verify and recover, as the command does."""
    reports = {name: one.as_dict() for name, one in verify(world).items() if only in (None, name)}
    return recover_from(world, reports, dry_run)


def recover_from(
    world: World, reports: Mapping[str, Mapping[str, Any]], dry_run: bool = False
) -> dict[str, Recovered]:
    """Recover what these reports name."""
    with asking(world):
        return carry_out(lambda: RecoveryPlan(world.pipeline, reports), dry_run)


def _report(world: World, scope: Scope, name: str, window: Window | None) -> DatacenterReport:
    read = scope.read_offsets[name]
    tasks = TaskScope(
        world.pipeline,
        {(name, n): tracked.file.header for n, tracked in read.files.items()},
        {name: scope.tables[name, "joined_events"].schema},
        {name: read.requeued},
        scope.mended_lines,
        taken=scope.taken,
    )
    stretches = {side: [(name, s) for s in scope.stretches(name, side)] for side in ("foreign", "primary")}  # type: ignore[arg-type]
    read_again = [row for part in read_foreign(stretches["foreign"], tasks) for row in part.to_pylist()]
    records = [row for row in read_again if row["lost_path"] is None]  # the others are bytes that are gone
    primaries: dict[str, list[Record]] = defaultdict(list)
    for part in read_primary(stretches["primary"], tasks):
        for row in part.to_pylist():
            primaries[row["key"]].append(row)
    _add_evidence(world, scope, name, records)
    classes, open_ones = Counter[str](), []
    for record in records:
        outcome = class_of(Evidence(record["evidence"]))
        if outcome in (None, "unjoinable"):
            primary = _nearest(primaries[record["key"]], record, world.pipeline.retry.lookup_window)
            open_ones.append(
                record
                | {"primary_file": primary.get("file"), "primary_raw": primary.get("raw")}
                | {"waits": False, "undecided": outcome is None}
            )
        else:
            classes[str(outcome)] += 1
    found: dict[str, list[Record]] = defaultdict(list)
    events: set[str] = set()  # without their rows: one record of each counts, and the others are beside it
    results = list(zip(_decided(open_ones, tasks, scope), open_ones, strict=True))
    results.sort(key=lambda one: (one[0]["outcome"] not in ("missing", "joined"), not one[0]["does_join"]))
    for decided, undecided in results:
        outcome, is_here = decided["outcome"], decided["holder"] in (None, name)
        is_beside = undecided["undecided"] and decided["event_id"] in events
        if outcome in ("missing", "joined"):
            events.add(decided["event_id"])
            is_beside |= outcome == "joined" and not is_here
        if is_beside:
            outcome = str(
                class_of(decided["evidence"] | (Evidence.ROW_HERE if is_here else Evidence.ROW_ELSEWHERE))
            )
        is_told = window is None or decided["time_us"] in window
        if outcome == "joinable" and is_told:
            is_kept = decided["evidence"] & Evidence.GIVEN_UP
            found["unjoinable_but_joinable" + ("_when_complete" if is_kept else "")].append(decided)
        elif outcome == "missing" and is_told:
            found[outcome].append(decided)
        if not undecided["undecided"]:
            classes["unjoinable"] += 1
        else:
            classes[outcome] += 1
    findings = tuple(_finding(world, name, kind, cases) for kind, cases in found.items())  # type: ignore[arg-type]
    return DatacenterReport(classes, findings, epoch=read.epoch, completed=read.completed)


def _nearest(primaries: Sequence[Record], record: Record, window: timedelta | None) -> Record:
    """The primary of a record by rule F14, written independently of the product; empty: there is none."""
    around_us, most_us = record["around_us"], None if window is None else window / timedelta(microseconds=1)
    eligible = [one for one in primaries if most_us is None or abs(one["time_us"] - around_us) <= most_us]
    before = [one for one in eligible if one["time_us"] <= around_us]
    if before:
        return max(before, key=lambda one: one["time_us"])
    return min(eligible, key=lambda one: one["time_us"], default={})


def _finding(world: World, name: str, kind: FindingKind, found: list[Record]) -> Finding:
    found.sort(key=lambda one: one["event_id"])
    places = [f"{one['file']}:{one['offset']}" for one in found]
    pairs = list(zip(found, places, strict=True))
    examples = tuple(Example(one["event_id"], place, one["detail"]) for one, place in pairs)
    cases = [
        Case(one["event_id"], place, one["evidence"], one["holder"], one["time_us"]) for one, place in pairs
    ]
    return Finding(kind, len(found), examples, *store_pages(world.pipeline, name, cases))


def _decided(open_ones: list[Record], tasks: TaskScope, scope: Scope) -> list[Record]:
    if not open_ones:
        return []
    types = {"file": pa.int32(), "primary_file": pa.int32(), "raw": pa.binary(), "primary_raw": pa.binary()}
    columns = {
        name: pa.array([one[name] for one in open_ones], types.get(name))
        for name in dict.fromkeys(TO_CLASSIFY)
    }
    (batch,) = pa.table(columns).combine_chunks().to_batches()
    return [row for part in classify_records([batch], tasks, scope.view) for row in part.to_pylist()]


def _add_evidence(world: World, scope: Scope, name: str, records: list[Record]) -> None:
    read = scope.read_offsets[name]
    rows = {each: _rows(world, each, "joined_events") for each in world.pipeline.datacenters}
    rows = {each: [] if each in scope.retired else found for each, found in rows.items()}
    here = {row["_event_id"] for row in rows[name]}
    elsewhere = {row["_event_id"] for each, found in rows.items() for row in found if each != name}
    at = {row["_occurrence"]: row["_event_id"] for row in rows[name] if row["_epoch"] == read.epoch}
    side: Counter[str] = Counter()
    for table, evidence in SIDE_TABLES.items():
        for row in _rows(world, name, table):
            if row["_epoch"] != read.epoch:
                continue
            again = scope.mended[name].letters.get(Occurrence.parse(row["_occurrence"]))
            if table != "dead_letters" or again is None or row["_batch"] > again.batch:
                side[row["_occurrence"]] |= evidence
    for row in read.waiting.to_pylist():
        given_up = Evidence.GIVEN_UP if row["given_up"] else Evidence.PENDING
        side[f"{row['file']}:{row['offset']}"] |= given_up
    for record in records:
        place = f"{record['file']}:{record['offset']}"
        record["evidence"] |= side[place]
        record["evidence"] |= Evidence.JOINED * (at.get(place, "") == record["event_id"])
        record["evidence"] |= Evidence.ROW_HERE * (record["event_id"] in here)
        record["evidence"] |= Evidence.ROW_ELSEWHERE * (record["event_id"] in elsewhere)


def _rows(world: World, datacenter: str, table: TableName) -> list[Record]:
    return [row for row in world.rows(table) if row["_datacenter"] == datacenter]
