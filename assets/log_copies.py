"""Whether the copies of the logs agree, as a check of Dagster's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dagster import AssetCheckResult, AssetCheckSeverity, MetadataValue

from assets.runs import Metadata, markdown_table
from photon.process.readable import typed
from photon.verification.log_copies.lacks import KIND
from photon.verification.report import VerificationReport

COPIES_CHECK = "copies_agree"
COPIES_AGREE = "Every datacenter's copy of the logs has the events that the others have."


def copies_check(
    report: VerificationReport, problems: Sequence[str], pipeline_file: Path | str
) -> AssetCheckResult:
    """Warns where a copy is short, with the datacenter that has to act, and from where on."""
    found = [
        (name, finding)
        for name, one in report.datacenters.items()
        for finding in one.findings
        if finding.kind == KIND
    ]
    rows = [
        [name, example.where, example.detail, f"`{example.event_id}`"]
        for name, finding in found
        for example in finding.examples
    ]
    says = [f"{name}: {finding.number()} {finding.meaning.says}" for name, finding in found]
    metadata: Metadata = {"count": sum(finding.count for _, finding in found)}
    if rows:
        columns = ["datacenter that has to act", "another one has", "what is lacking", "first event"]
        metadata["examples"] = MetadataValue.md(markdown_table([columns, *rows], "-"))
        remedy = "; ".join(
            dict.fromkeys(typed(finding.remedy, pipeline_file, name) for name, finding in found)
        )
        says.append(f"What to do: {remedy}")
        metadata["what_to_do"] = remedy
    return AssetCheckResult(
        check_name=COPIES_CHECK,
        passed=not found,
        severity=AssetCheckSeverity.WARN,
        description=". ".join([*(says or ["No copy lacks anything that another one has."]), *problems]),
        metadata=metadata,
    )
