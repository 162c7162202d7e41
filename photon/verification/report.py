"""The report of a verification: the equation of each datacenter, what is wrong, and what to do about it."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from photon.process.clock import in_iso, in_utc
from photon.process.readable import typed
from photon.state.outcomes import OUTCOME_CLASSES
from photon.verification.days import Window

# Terms of the equation. Nobody can read `lost` records again, so nobody can verify them.
TERMS = ("foreign", *(name for name in OUTCOME_CLASSES if name != "lost"), "missing")
SIGNS = {"foreign": "", "joined": "= "}  # all other terms are added
FindingKind = Literal[
    "missing",
    "table_gone",
    "duplicate_rows",
    "row_without_event",
    "row_put_back",
    "side_row_missing",
    "different_values",
    "unjoinable_but_joinable",
    "unjoinable_but_joinable_when_complete",
    "log_copy_short",
    "conflicting",
    "ambiguous",
    "primary_missing",
    "unmatched_twice",
    "unmatched_without_primary",
    "feed_lacks_files",
    "feed_lacks_rows",
    "feed_rows_twice",
    "feed_rows_of_nobody",
]

WITHOUT_ROWS: tuple[FindingKind, ...] = ("missing", "table_gone")  # of events whose rows are not there


@dataclass(frozen=True, slots=True)
class Meaning:
    """How a kind of finding is told, whether it breaks a promise, and what to do.

    `Finding.remedy` has commands in the place of REBUILD, TRACE and DELETE; PIPELINE and DATACENTER are put
    in where they are known (`typed`).
    """

    says: str
    remedy: str
    violation: bool = True


MEANINGS: Mapping[FindingKind, Meaning] = {
    "missing": Meaning(
        "records that should be joined and are in no table",
        "photon recover PIPELINE: the datacenter that joined them (if none did: each that has them) looks at "
        "them again and joins them, while it runs or at its next start. Rows that are gone from a table may "
        "be put back first, from a copy of its lake",
    ),
    "table_gone": Meaning(
        "tables of joined events that are gone, although their datacenter has begun to join",
        "put the lake folder back from a copy before anything else; no id is forgotten until all is verified",
    ),
    "duplicate_rows": Meaning(
        "ids with more than one row in the tables of all datacenters",
        "the promise of one row an id is broken: TRACE shows both rows; keep the files of both tables for "
        "analysis; then REBUILD leaves one row; run it for each datacenter and day named",
    ),
    "row_without_event": Meaning(
        "rows whose foreign event is not in the raw logs at the row's place",
        "somebody altered the row or the log: REBUILD finds the place of a row again, and takes out one "
        "whose id was altered; then photon recover PIPELINE joins its true event. If it says that a row "
        "stays, put the log back from another one's copy",
    ),
    "row_put_back": Meaning(
        "rows that were acknowledged as taken and are there again",
        "somebody put them back, or inserted them again. Take them out: photon hold PIPELINE DATACENTER, "
        "then DELETE, then photon resume PIPELINE DATACENTER and photon verify PIPELINE. If they are to "
        "stay: photon acknowledge PIPELINE DATACENTER --rows lists anew what has no row",
    ),
    "side_row_missing": Meaning(
        "records that were given up, came too late or are dead letters, without a row in the table of these",
        "somebody deleted rows of a side table: its Delta log says who, and the version before has them. "
        "Append them again from there, or from a copy of the lake. Joined rows do not depend on them",
    ),
    "different_values": Meaning(
        "rows whose values differ from a join of the raw logs made now",
        "if the adapter, a declared type, a key or id, or a log's time_unit, time_format or time_zone was "
        "changed, that is why; else somebody changed the table or the logs: REBUILD makes the day's rows "
        "again; run it for each day named",
    ),
    "unjoinable_but_joinable": Meaning(
        "events given up as unjoinable whose primary event came after all",
        "photon recover PIPELINE: they are looked for again",
        violation=False,
    ),
    "unjoinable_but_joinable_when_complete": Meaning(
        "events given up when the inputs were declared complete, although their primary had been read",
        "photon recover PIPELINE, or join again with --complete: they are looked for again; if they stay "
        "unjoinable, the index does not find the primary",
    ),
    "log_copy_short": Meaning(
        "log files of other datacenters with events that this one's copy of the logs lacks",
        "copy the named bytes, to the end of the last line, from the other datacenter's file into a new "
        "file of this one's logs that the same glob fits, below the header line if there is one; what is "
        "here already counts as duplicates. Where the own file of this name is the other one cut short, you "
        "may put the whole one in its place instead. The dispatcher takes it up by itself, and photon "
        "verify PIPELINE tells when nothing is lacking any more",
        violation=False,
    ),
    "conflicting": Meaning(
        "duplicates that say something else than the record of their id that joined, as its join has counted",
        "look whether foreign.id is an id at all: the table conflicting of its lake names both places of "
        "some and the columns that differ. If it is none, take another column or several for foreign.id, in "
        "a new pipeline: records that count as duplicates have no row",
        violation=False,
    ),
    "ambiguous": Meaning(
        "rows for which a nearer primary record of the same id and other content is in the logs by now",
        "look whether primary.id is an id at all; where ids are used again, set retry.lookup_window below "
        "half of the time between two uses. The row keeps the primary that it joined",
        violation=False,
    ),
    "primary_missing": Meaning(
        "primary events that are due, that no joined row names, and that have no row in unmatched",
        "photon unmatched PIPELINE --anew: it looks at all primary events again, and writes these",
    ),
    "unmatched_twice": Meaning(
        "primary events with more than one row in unmatched, over all datacenters",
        "the promise of one row a primary is broken: keep the tables unmatched for analysis, and count ids "
        "there, not rows",
    ),
    "unmatched_without_primary": Meaning(
        "rows in unmatched whose primary event is not in the raw logs at the row's place",
        "somebody altered the row or the log: put the log back from another one's copy, or the table",
    ),
    "feed_lacks_files": Meaning(
        "files that the marker of the fed log counts, which are not there and were not read",
        "copy them from another datacenter's folder, which has files with the same bytes; what waits for "
        "their rows is joined then",
    ),
    "feed_lacks_rows": Meaning(
        "rows of the pipeline before that are not in the fed log, though its marker is beyond them",
        "somebody altered the files, or their lake was put back: copy the files from another datacenter's "
        "folder if they differ there; else photon follow its pipeline into an empty folder, and name that "
        "one by primary.files: a new epoch reads it",
    ),
    "feed_rows_twice": Meaning(
        "rows of the pipeline before that are in the fed log more than once",
        "somebody copied files or lines into the folder: take them out. A join takes the first one",
    ),
    "feed_rows_of_nobody": Meaning(
        "rows in the fed log that the release of its marker does not have",
        "if a lake of the pipeline before was put back, they were made again under other names, and both "
        "are in the log; a join takes the first one. Else somebody altered the files",
        violation=False,
    ),
}


MOST_EXAMPLES = 10  # so many of each kind of finding fit a screen, and all are counted
_DAY_OF_ROW = re.compile(r"\brow of (\d{4}-\d\d-\d\d)\b")
_LAKE_OF_ROW = re.compile(r"(\S+): row of ")


@dataclass(frozen=True, slots=True)
class Example:
    """One case of a finding. `where`: file number and offset, or tables."""

    event_id: str
    where: str
    detail: str = ""
    known_us: int | None = None  # when a recorded verification told it first; None: none has


@dataclass(frozen=True, slots=True)
class Case:
    """One record that recovery may have looked at again."""

    event_id: str
    occurrence: str  # in the epoch of its report
    evidence: int  # `Evidence` of it
    holder: str | None = None  # the datacenter that joined its event
    time_us: int | None = None  # of its record; None: not known


@dataclass(frozen=True)
class Finding:
    """All cases of one kind in one datacenter: their number, and some of them."""

    kind: FindingKind
    count: int
    examples: tuple[Example, ...] = ()
    cases: tuple[Case, ...] = ()  # one page of the cases that recovery mends
    pages: tuple[str, ...] = ()  # the other pages, by name (`case_pages`)
    new: int | None = None  # cases that no recorded verification has told; None: nobody knows
    acting: Mapping[str, int] = field(default_factory=dict)  # cases by the datacenter that has to act

    @property
    def meaning(self) -> Meaning:
        return MEANINGS[self.kind]

    @property
    def day(self) -> str:
        """The day of the first row among the examples; empty: none of them is a row."""
        return next((found[1] for one in self.examples if (found := _DAY_OF_ROW.search(one.where))), "")

    @property
    def remedy(self) -> str:
        """How to mend it, with the day and the event of an example in its commands."""
        says = self.meaning.remedy
        words = {"REBUILD": "a rebuild of the days of its rows", "TRACE": "a trace", "DELETE": "delete them"}
        if self.day:
            words["REBUILD"] = f"photon backfill PIPELINE -d DATACENTER --day {self.day} --rebuild"
        if self.examples:
            words["TRACE"] = f"photon trace PIPELINE {shlex.quote(self.examples[0].event_id)}"
            ids = ", ".join("'" + one.event_id.replace("'", "''") + "'" for one in self.examples)
            words["DELETE"] = f"DELETE FROM joined_events WHERE _event_id IN ({ids})"
            if (lake := _LAKE_OF_ROW.match(self.examples[0].where)) is not None:
                says = says.replace("DATACENTER", lake[1])
        return re.sub("|".join(words), lambda found: words[found[0]], says)

    def number(self) -> str:
        """How many cases there are, and how many of them are news."""
        if self.new is None or self.new == self.count:
            return f"{self.count:,}"
        return f"{self.count:,} ({f'{self.new:,} new' if self.new else 'told before'})"

    def is_left_to_others(self, datacenter: str) -> bool:
        """Whether only other datacenters than that of the finding have to act."""
        return bool(self.acting) and datacenter not in self.acting

    def as_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "count": self.count,
            "new": self.new,
            "acting": dict(self.acting),
            "says": self.meaning.says,
            "what_to_do": self.remedy,
            "examples": [asdict(example) for example in self.examples],
            **({"cases": [asdict(case) for case in self.cases]} if self.cases else {}),
            **({"pages": list(self.pages)} if self.pages else {}),
        }


# Each datacenter that has read such an event tells of it.
TOLD_BY_EACH = ("missing", "unjoinable_but_joinable_when_complete")


def events_in(findings: Iterable[Finding]) -> int:
    """How many events findings of several datacenters are of: each counts once, as far as they are named."""
    total, by_kind = 0, defaultdict[FindingKind, list[Finding]](list)
    for finding in findings:
        by_kind[finding.kind].append(finding)
    for kind, found in by_kind.items():
        if kind not in TOLD_BY_EACH:
            total += sum(one.count for one in found)
            continue
        ids = [_all_ids(one) for one in found]
        known = set[str]().union(*(each for each in ids if each is not None))
        total += max([len(known), *(one.count for one, each in zip(found, ids, strict=True) if each is None)])
    return total


def said_of(found: Iterable[tuple[str, Finding]]) -> list[str]:
    """Texts of findings, each with its datacenter; several that tell of the same events make one."""
    by_kind, said = defaultdict[FindingKind, list[tuple[str, Finding]]](list), list[str]()
    for name, finding in found:
        by_kind[finding.kind].append((name, finding))
    for kind, group in by_kind.items():
        says, events = MEANINGS[kind].says, events_in(finding for _, finding in group)
        numbers = {finding.number() for _, finding in group}
        if events == sum(finding.count for _, finding in group):
            said += [f"{name}: {finding.number()} {says}" for name, finding in group]
        elif len(numbers) == 1 and events == group[0][1].count:
            said.append(f"{', '.join(name for name, _ in group)}: {numbers.pop()} {says}")
        else:
            each = ", ".join(f"{name} {finding.number()}" for name, finding in group)
            said.append(f"{each}, {events:,} in all: {says}")
    return said


def _all_ids(finding: Finding) -> set[str] | None:
    """The events of a finding; None where it does not name all of them."""
    for named in (finding.cases, finding.examples):
        if len(named) == finding.count:
            return {one.event_id for one in named}
    return None


@dataclass(frozen=True, slots=True)
class Unverified:
    """A log file that can't be read again from some byte on, so that its records can't be verified."""

    path: str
    side: str
    bytes: int  # without those that an earlier verification has seen
    reason: str


@dataclass(frozen=True, slots=True)
class VerifiedEarlier:
    """Foreign log files that can't be read again, and were fully verified before."""

    files: int = 0
    bytes: int = 0
    example: str = ""  # path of one of them


@dataclass(frozen=True)
class DatacenterReport:
    """The equation of one datacenter over all that it has read, and what was found."""

    classes: Mapping[str, int] = field(default_factory=dict)  # number of foreign records
    findings: Sequence[Finding] = ()
    unverified: Sequence[Unverified] = ()
    verified_earlier: VerifiedEarlier = VerifiedEarlier()  # their records are in no class any more
    rows: int = 0  # rows of this datacenter; none count if it was given up as lost
    records_read: int = 0  # foreign ones; the others are settled since an earlier verification
    rows_not_compared: int = 0  # neither event nor primary can be read again, or their batch is not completed
    notes: Sequence[str] = ()
    verified_until_us: int | None = None  # `classes.verified_until_us`
    epoch: str | None = None  # that has read the logs; None: nothing was ever read
    state_is_unreadable: bool = False  # nobody knows what was read: nothing is verified
    completed: int = 0  # the datacenter's last batch then
    release: int | None = None  # its newest one then, if it awaits a verification (R4)
    newly_verified_offsets: Mapping[int, int] = field(default_factory=dict)  # foreign files by number
    primaries: Mapping[str, int] = field(default_factory=dict)  # of who writes unmatched ones: ids by term

    @property
    def foreign(self) -> int:
        """All foreign records that could be read again."""
        return sum(self.classes.values())

    @property
    def violations(self) -> list[Finding]:
        """The findings that break a promise."""
        return [finding for finding in self.findings if finding.meaning.violation]

    def equation(self) -> dict[str, int]:
        """The terms of the equation by name, in its order."""
        return {"foreign": self.foreign, **{name: self.classes.get(name, 0) for name in TERMS[1:]}}

    def as_dict(self) -> dict[str, Any]:
        return {
            **self.equation(),
            "rows": self.rows,
            "rows_not_compared": self.rows_not_compared,
            "records_read": self.records_read,
            "verified_until_us": self.verified_until_us,
            "epoch": self.epoch,
            "completed": self.completed,
            "release": self.release,
            "violations": [finding.as_dict() for finding in self.violations],
            "findings": [f.as_dict() for f in self.findings if not f.meaning.violation],
            "unverified": [asdict(file) for file in self.unverified],
            "verified_earlier": asdict(self.verified_earlier),
            "notes": list(self.notes),
            **({"primaries": dict(self.primaries)} if self.primaries else {}),
        }


def equation_table(columns: Mapping[str, Mapping[str, int]]) -> list[list[str]]:
    """Equations side by side, as cells: the columns' names, then a row for each term, with its sign."""
    terms = [
        [f"{SIGNS.get(term, '+ ')}{term}", *(f"{column[term]:,}" for column in columns.values())]
        for term in ("foreign", *OUTCOME_CLASSES, "missing")
        if all(term in column for column in columns.values())
    ]
    return [["", *columns], *terms]


@dataclass(frozen=True)
class ReportedWindow:
    """The event times of a report: records without a time are in none."""

    window: Window
    closed: Mapping[str, bool]  # one each datacenter: it has read its primary logs beyond the window

    def as_dict(self) -> dict[str, Any]:
        ends = {"from": in_iso(self.window.start_us, "seconds"), "to": in_iso(self.window.end_us, "seconds")}
        return {**ends, "closed": dict(self.closed)}

    def sentence(self) -> str:
        """The period that was verified, for people."""
        first, last = (in_utc(us, "minutes") for us in (self.window.start_us, self.window.end_us))
        still_open = [name for name, is_closed in self.closed.items() if not is_closed]
        end = f"; still open in {', '.join(still_open)}" if still_open else "; closed"
        return f"events from {first} until before {last}{end}"


@dataclass(frozen=True)
class VerificationReport:
    """The results of one verification, by datacenter; `rows` are those of all datacenters."""

    datacenters: Mapping[str, DatacenterReport]
    rows: int
    window: ReportedWindow | None = None  # None: of all times
    retired: Sequence[str] = ()  # were asked for, and never run again: others answer for what was theirs

    def equations(self) -> list[list[str]]:
        """The table of all equations, and each datacenter's rows below them."""
        reports = self.datacenters
        return [
            *equation_table({name: one.equation() for name, one in reports.items()}),
            ["rows", *(f"{one.rows:,}" for one in reports.values())],
        ]

    @property
    def ok(self) -> bool:
        """Whether no promise is broken."""
        return not any(report.violations for report in self.datacenters.values())

    @property
    def not_done(self) -> list[str]:
        """The datacenters that could not be verified at all."""
        return [name for name, report in self.datacenters.items() if report.state_is_unreadable]

    def typed(self, pipeline_file: Path) -> dict[str, Any]:
        """As `as_dict`, with commands as they can be typed."""
        value = self.as_dict()
        for name in self.datacenters:
            for kind in ("violations", "findings"):
                for one in value[name].get(kind, ()):
                    one["what_to_do"] = typed(one["what_to_do"], pipeline_file, name)
        return value

    def as_dict(self) -> dict[str, Any]:
        reports = {name: report.as_dict() for name, report in self.datacenters.items()}
        of_window = {"window": self.window.as_dict()} if self.window is not None else {}
        retired = {"retired": list(self.retired)} if self.retired else {}
        return {**reports, **of_window, **retired, "rows": self.rows, "ok": self.ok}
