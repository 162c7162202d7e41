"""Records for recovery that are too many for a report: pages of them, beside the datacenter's tables.

A page is a Parquet file, and the finding names its pages. Writers and readers hold one page at a time.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby, islice
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from photon.pipeline.file import Pipeline
from photon.pipeline.location import Location
from photon.process.clock import MICROSECONDS
from photon.storage.delta import lake_errors
from photon.storage.store import ObjectStore, store_of
from photon.verification.report import Case

FOLDER = "verification_cases"
MOST_CASES = 10_000  # that one page has; the first page of a finding is in the report itself
MOST_PAGES = 100  # for each kind in a datacenter; the next verification finds the others
# A recovery may still read the pages of a report that is no longer the newest.
REMOVED_AFTER_SECONDS = 86_400.0
COLUMNS = pa.schema(
    [
        ("event_id", pa.string()),
        ("occurrence", pa.string()),
        ("evidence", pa.int32()),
        ("holder", pa.string()),
        ("time_us", pa.int64()),
    ]
)


def pages_of(cases: Iterable[Case]) -> Iterator[list[Case]]:
    """Pages of cases that are ordered by event. An event is in one page, however many records it has."""
    page: list[Case] = []
    for _, of_event in groupby(cases, key=lambda case: case.event_id):
        records = list(of_event)
        if page and len(page) + len(records) > MOST_CASES:
            yield page
            page = []
        page += records
    if page:
        yield page


def store_pages(
    pipeline: Pipeline, datacenter: str, cases: Iterable[Case]
) -> tuple[tuple[Case, ...], tuple[str, ...]]:
    """The first page, and the names of the others, which are written. LakeUnavailable."""
    pages, folder = pages_of(cases), _folder(pipeline, datacenter)
    first, prefix = tuple(next(pages, ())), uuid.uuid4().hex
    with lake_errors(f"write to {folder}, which must be writable"):
        store = store_of(folder)
        store.make()
        _remove_old(store)
        names = [
            _write(store, f"{prefix}-{number:03}.parquet", page)
            for number, page in enumerate(islice(pages, MOST_PAGES - 1), start=2)
        ]
        store.sync(*names, "")
    return first, tuple(names)


def read_page(pipeline: Pipeline, datacenter: str, name: str) -> list[Case]:
    """The cases of a page; none if it was removed, since its report is old. LakeUnavailable."""
    folder = _folder(pipeline, datacenter)
    with lake_errors(f"read {folder}"):
        store = store_of(folder)
        if store.size_bytes(name) is None:
            return []
        return [Case(**row) for row in pq.read_table(store.open(name)).to_pylist()]


def has_event(pipeline: Pipeline, datacenter: str, name: str, event_id: str) -> bool:
    """Whether a page names an event; False if the page was removed. LakeUnavailable."""
    folder = _folder(pipeline, datacenter)
    with lake_errors(f"read {folder}"):
        store = store_of(folder)
        if store.size_bytes(name) is None:
            return False
        wanted = [("event_id", "=", event_id)]
        return bool(pq.read_table(store.open(name), columns=["event_id"], filters=wanted).num_rows)


def remove_pages(pipeline: Pipeline, datacenter: str, report: Mapping[str, Any]) -> None:
    """Remove the pages that a report names, which nobody is to read. LakeUnavailable."""
    folder, findings = _folder(pipeline, datacenter), (*report["violations"], *report["findings"])
    names = [name for finding in findings for name in finding.get("pages", ())]
    with lake_errors(f"remove pages from {folder}"):
        store_of(folder).remove(*names)


def _folder(pipeline: Pipeline, datacenter: str) -> Location:
    return pipeline.datacenters[datacenter].lake / FOLDER


def _write(store: ObjectStore, name: str, page: Sequence[Case]) -> str:
    def write(sink: BinaryIO) -> None:
        pq.write_table(pa.Table.from_pylist([asdict(case) for case in page], COLUMNS), sink)

    store.put(name, write)
    return name


def _remove_old(store: ObjectStore) -> None:
    before_us = (time.time() - REMOVED_AFTER_SECONDS) * MICROSECONDS
    store.remove(*(name for name in list(store.names()) if store.changed_us(name) < before_us))
