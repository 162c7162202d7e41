"""What the verification has found, in few words: made of its stored reports, pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from photon.verification.report_table import StoredReport


@dataclass(frozen=True)
class Verdict:
    """Whether the join is right."""

    holds: bool
    equations: Mapping[str, Mapping[str, int]]  # by datacenter; `missing` last
    duplicate_rows: int  # events with more than one row over all tables
    remedies: tuple[str, ...] = ()  # what is wrong and what to do

    @property
    def joined(self) -> int:
        """Foreign events with a row, over all datacenters."""
        return sum(equation["joined"] for equation in self.equations.values())

    @property
    def missing(self) -> int:
        """Records that should be joined and are in no table."""
        return sum(equation["missing"] for equation in self.equations.values())


def verdict_of(reports: Mapping[str, StoredReport]) -> Verdict:
    """The verdict of one verification, from its report of each datacenter."""
    findings = [(name, found) for name, stored in reports.items() for found in stored.report["violations"]]
    return Verdict(
        # Everything had become idle before: what still waits then was not joined, whatever the reason.
        holds=all(s.ok and s.adds_up and not s.equation["pending"] for s in reports.values()),
        equations={name: stored.equation for name, stored in reports.items()},
        # Each such event is reported once, in one of the datacenters.
        duplicate_rows=sum(found["count"] for _, found in findings if found["kind"] == "duplicate_rows"),
        remedies=tuple(
            f"{name}: {found['count']:,} {found['says']}. What to do: {found['what_to_do']}"
            for name, found in findings
        ),
    )
