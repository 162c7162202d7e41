"""A verification as Dagster shows it: how each datacenter's classes add up, and a check for each promise."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dagster import AssetCheckResult, MetadataValue

from photon.assets.runs import Metadata, markdown_table
from photon.process.readable import typed
from photon.verification.report import Finding, FindingKind, VerificationReport, events_in, said_of

# Classes that are plotted over time, for each datacenter; the table has all.
PLOTTED = ("joined", "pending", "unjoinable", "dead_letters", "missing")
# Dagster stores so much of one example; ids and details may be long.
MOST_SHOWN_CHARACTERS = 300


@dataclass(frozen=True)
class Check:
    """A promise, and the kinds of findings that break it."""

    name: str
    promise: str
    kinds: tuple[FindingKind, ...]

    def violations(self, report: VerificationReport) -> list[tuple[str, Finding]]:
        return [
            (name, finding)
            for name, one in report.datacenters.items()
            for finding in one.violations
            if finding.kind in self.kinds
        ]


CHECKS = (
    Check(
        "nothing_missing",
        "Every foreign event whose primary exists is joined, or still waits; others are in their tables.",
        (
            "missing",
            "side_row_missing",
            "primary_missing",
            "table_gone",
            "unjoinable_but_joinable_when_complete",
            "feed_lacks_files",
            "feed_lacks_rows",
        ),
    ),
    Check(
        "nothing_twice",
        "No event has more than one row, over all datacenters.",
        ("duplicate_rows", "unmatched_twice", "feed_rows_twice"),
    ),
    Check(
        "values_agree",
        "Every row says what a join made afresh from the raw logs says, and none is there that a person "
        "acknowledged as taken.",
        ("different_values", "row_without_event", "row_put_back", "unmatched_without_primary"),
    ),
)


def report_metadata(report: VerificationReport, seconds: float, pipeline_file: Path | str) -> Metadata:
    """Metadata of a verification that took `seconds`."""
    reports = report.datacenters.values()
    terms = {
        f"{name}_{term}": count
        for name, one in report.datacenters.items()
        for term, count in one.equation().items()
        if term in PLOTTED
    }
    terms |= {
        f"{name}_primaries_{term}": count
        for name, one in report.datacenters.items()
        for term, count in one.primaries.items()
    }
    notes = _notes(report, pipeline_file)
    return {
        "equations": MetadataValue.md(markdown_table(report.equations())),
        "rows": report.rows,
        "violations": events_in(finding for one in reports for finding in one.violations),
        "rows_not_compared": sum(one.rows_not_compared for one in reports),
        "records_read": sum(one.records_read for one in reports),
        "unverified_bytes": sum(file.bytes for one in reports for file in one.unverified),
        "verified_earlier_bytes": sum(one.verified_earlier.bytes for one in reports),
        "seconds": round(seconds, 1),
        **terms,
        **({"notes": MetadataValue.md(notes)} if notes else {}),
    }


def check_result(check: Check, report: VerificationReport, pipeline_file: Path | str) -> AssetCheckResult:
    """Whether the promise is kept; if not, how many cases there are, some of them, and what to do."""
    found = check.violations(report)
    metadata: Metadata = {"count": events_in(finding for _, finding in found)}
    description = f"Holds in {', '.join(report.datacenters)}."
    if found:
        remedies = {typed(finding.remedy, pipeline_file, name): finding.kind for name, finding in found}
        description = f"{'; '.join(said_of(found))}. What to do: {'; '.join(remedies)}"
        news = (finding.count if finding.new is None else finding.new for _, finding in found)
        metadata["new_records"] = sum(news)  # an event is a record in each datacenter
        metadata["what_to_do"] = MetadataValue.md(
            "\n".join(f"- **{kind}**: {remedy}" for remedy, kind in remedies.items())
        )
        metadata["examples"] = MetadataValue.md(_examples(found))
    return AssetCheckResult(
        check_name=check.name, passed=not found, description=description, metadata=metadata
    )


def _examples(found: list[tuple[str, Finding]]) -> str:
    rows = [
        [name, finding.kind, f"`{_shown(case.event_id)}`", _shown(case.where), _shown(case.detail)]
        for name, finding in found
        for case in finding.examples
    ]
    return markdown_table([["datacenter", "kind", "event", "where", "detail"], *rows], "-")


def _notes(report: VerificationReport, pipeline_file: Path | str) -> str:
    notes = [(name, note) for name, one in report.datacenters.items() for note in one.notes]
    notes += [
        (name, f"{finding.number()} {finding.meaning.says}; {typed(finding.remedy, pipeline_file, name)}")
        for name, one in report.datacenters.items()
        for finding in one.findings
        if not finding.meaning.violation
    ]
    return "\n".join(f"- {name}: {note}" for name, note in notes)


def _shown(text: str) -> str:
    """Text of an event, shortened, without characters that would end a cell of a Markdown table."""
    flat = " ".join(text.split()).replace("|", "\\|").replace("`", "'")
    return flat if len(flat) <= MOST_SHOWN_CHARACTERS else f"{flat[:MOST_SHOWN_CHARACTERS]}..."
