"""Do log files have the columns that a pipeline file names? Asked before anything is started."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from photon.logs.discovery import scan
from photon.logs.lines import header_names
from photon.logs.source import UNREADABLE, open_source, read_header
from photon.pipeline.document import KeyPath, read_document
from photon.pipeline.file import ForeignLog, Log, Pipeline

_NEWEST = 3  # files per datacenter: the newest alone may be an odd one


def check_columns(pipeline: Pipeline) -> list[str]:
    """What is wrong with the columns that the pipeline file names, one message each; empty if nothing is.

    A column is missing if it is in no header of the newest log files of the datacenters. JSON lines,
    and logs without files, are not checked. What can't be read is left for the run to report.
    """
    document = read_document(pipeline.file.read_text(encoding="utf-8"))
    problems = []
    for side, log in (("primary", pipeline.primary), ("foreign", pipeline.foreign)):
        headers = dict(_newest_headers(pipeline, log)) if log.format != "jsonl" else {}
        there = {name for names in headers.values() for name in names}
        for path, column in _named_columns(side, log) if headers else ():
            if column not in there:
                place, names = next(iter(headers.items()))
                what = f"expected a column of {place}, got {column!r}; it has {', '.join(names)}"
                line, problem = document.problem(path, what)
                problems.append(f"{pipeline.file}:{line}: {problem}")
    return problems


def _named_columns(side: str, log: Log) -> Iterable[tuple[KeyPath, str]]:
    """Every column that the pipeline file names for a log, and by which key."""
    yield from (((side, "id"), name) for name in log.id)
    yield from (((side, "key"), name) for name in (log.key if isinstance(log, ForeignLog) else ()))
    yield (side, "time"), log.time
    yield from (((side, "columns", name), name) for name in log.columns)


def _newest_headers(pipeline: Pipeline, log: Log) -> Iterable[tuple[Path, list[str]]]:
    """The names in the headers of the newest files, by file."""
    for datacenter in pipeline.datacenters.values():
        newest = sorted(scan(datacenter.logs, log.files).files, key=lambda file: -file.modified_ns)
        for file in newest[:_NEWEST]:
            path = datacenter.logs / file.path
            try:
                with open_source(path, file.compressed) as source:
                    header = read_header(source, pipeline.limits.line_bytes)
                if header is not None:
                    yield path, header_names(header, log.format == "tsv")
            except (*UNREADABLE, ValueError):
                continue
