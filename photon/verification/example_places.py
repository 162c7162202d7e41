"""Examples of findings with the path of their log and the time of their line, for whoever looks at them."""

from __future__ import annotations

import re
from dataclasses import replace

from photon.logs.one_record import read_records_of
from photon.pipeline.file import Pipeline
from photon.process.clock import in_utc
from photon.state.view import ReadOffsets, read_offsets
from photon.storage.tokens import Occurrence
from photon.verification.report import DatacenterReport, Example, VerificationReport

# A record's place, or that of the record of which a row was made.
_OCCURRENCE = re.compile(r"(row of [\w -]+, batch \d+, occurrence )?(\d+:\d+)")


def with_places(pipeline: Pipeline, report: VerificationReport) -> VerificationReport:
    """The report, whose examples name files by their paths too. Reads a line for each example."""
    found = {name: _named(pipeline, name, one) for name, one in report.datacenters.items()}
    return replace(report, datacenters=found)


def _named(pipeline: Pipeline, datacenter: str, report: DatacenterReport) -> DatacenterReport:
    places = {
        (occurrence, example.event_id)
        for finding in report.findings
        for example in finding.examples
        if (occurrence := _occurrence(example)) is not None
    }
    read = read_offsets(pipeline.datacenters[datacenter].state) if places else ReadOffsets()
    if read.epoch is None or read.epoch != report.epoch:  # files are numbered otherwise
        return report
    logs = pipeline.datacenters[datacenter].logs
    lines = read_records_of(logs, sorted(places), read.files, pipeline.foreign, pipeline.limits)
    columns = (lines[name].to_pylist() for name in ("_file", "_offset", "_time_us"))
    times_us = {Occurrence(file, offset): us for file, offset, us in zip(*columns, strict=True)}

    def named(example: Example) -> Example:
        at = _occurrence(example)
        if at is None or at.file_number not in read.files:
            return example
        if at not in times_us and str(at) != example.where:  # a row of an epoch with other numbers
            return example
        time = f", of {in_utc(times_us[at], 'milliseconds')}" if at in times_us else ""
        path = read.files[at.file_number].file.path
        return replace(example, where=f"{example.where} ({path} at byte {at.offset_bytes}{time})")

    findings = [
        replace(finding, examples=tuple(named(example) for example in finding.examples))
        for finding in report.findings
    ]
    return replace(report, findings=tuple(findings))


def _occurrence(example: Example) -> Occurrence | None:
    match = _OCCURRENCE.fullmatch(example.where)
    return Occurrence.parse(match[2]) if match else None
