"""Put mended lines in the places of dead letters, and have them looked at again (docs/adr/0047).

A person's function or file says what a line should be. Only a line that is a record then is ordered: another
one would be a dead letter again. The dispatcher does the rest.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pyarrow as pa

from photon.adapters.user_modules import load_module
from photon.dispatcher.recovery.orders import MOST_RECORDS, OrderedRecord
from photon.logs.one_record import parse_lines
from photon.logs.parse import DEAD_LETTER_RAW_BYTES, FOREIGN_EVENTS
from photon.logs.scattered import ScatteredLines, read_lines
from photon.pipeline.file import Pipeline
from photon.process.errors import WrongUsage
from photon.storage.mended_letters import mended_letters
from photon.storage.tokens import Occurrence
from photon.upkeep.dead_letters.open_letters import (
    DeadLetter,
    OpenLetters,
    most_common,
    open_letters,
    orders_plan,
    shown,
)
from photon.upkeep.dead_letters.trial_join import try_joins
from photon.upkeep.plans import Say, silent
from photon.upkeep.recovery import OrdersPlan, Recovered

# Gets a line and why it is a dead letter; returns the mended line, or None to leave it as it is.
Mend = Callable[[bytes, str], bytes | str | None]
FORGOTTEN = "its log file is gone for days and was forgotten: log the line anew"
GONE = "its line is neither in its log nor whole in the table: put the log's file back"


@dataclass(frozen=True, slots=True)
class MendedLine:
    """A dead letter, its line as it was last tried, and what is to be in its place."""

    letter: DeadLetter
    before: bytes | None
    after: bytes | None = None  # None: it is left as it is
    problem: str = ""  # why it is not ordered, though somebody has mended it
    event_id: str | None = None
    key: str | None = None
    time_us: int | None = None
    join: str = ""  # the outcome if it were joined now, where that was tried

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "file": self.letter.path,
            "offset": self.letter.occurrence.offset_bytes,
            "reason": self.letter.reason,
            "before": shown(self.before),
            "after": shown(self.after),
            "problem": self.problem,
            "id": self.event_id,
            "key": self.key,
            "time_us": self.time_us,
            "join": self.join,
        }


@dataclass(frozen=True)
class Mending:
    """The outcome of mending the dead letters of one datacenter."""

    ordered: Recovered
    lines: Sequence[MendedLine]  # lines that somebody has mended
    left: int  # as they are
    events: pa.Table  # the records of these lines

    @property
    def problems(self) -> Counter[str]:
        return Counter(line.problem for line in self.lines if line.problem)

    def as_dict(self, most: int) -> dict[str, Any]:
        """For `--json`, with at most so many lines."""
        return {
            **self.ordered.as_dict(),
            "left_as_they_are": self.left,
            "problems": most_common(self.problems)[0],
            "lines": [line.as_dict() for line in self.lines[:most]],
        }

    def tried(self, pipeline: Pipeline, datacenter: str, most: int) -> Mending:
        """Try to join the first records, and note at their lines what would come of it.

        StateUnavailable, LakeUnavailable, AdapterNotFound.
        """
        events = self.events.slice(0, most)
        places = zip(events["_file"].to_pylist(), events["_offset"].to_pylist(), strict=True)
        outcomes = try_joins(pipeline, datacenter, events)
        outcome_at = {Occurrence(*at): said for at, said in zip(places, outcomes, strict=True)}
        lines = [replace(line, join=outcome_at.get(line.letter.occurrence, "")) for line in self.lines]
        return replace(self, lines=lines)


@dataclass(frozen=True)
class MendingPlan:
    """Mended lines, and orders for those that are records now."""

    orders: OrdersPlan
    expected: Mending

    def apply(self, say: Say = silent) -> Mending:
        """Leave the orders. StateUnavailable."""
        return replace(self.expected, ordered=self.orders.apply(say))


def plan_mending(pipeline: Pipeline, datacenter: str, mend: Mend | Edits, reason: str = "") -> MendingPlan:
    """Mend the dead letters whose reason has this text, and plan orders for those that are records now.

    At most `MOST_RECORDS` of them. StateUnavailable, LakeUnavailable, WrongUsage.
    """
    found = open_letters(pipeline, datacenter).with_reason(reason)
    lines = lines_of(pipeline, datacenter, found, found.first(MOST_RECORDS, with_raw=True))
    tried = mend.apply(lines) if isinstance(mend, Edits) else [_apply(mend, line) for line in lines]
    mended = [line for line in tried if line.after is not None or line.problem]
    parsed, events = _parsed(pipeline, found, mended)
    good = [line for line in parsed if not line.problem]
    records = [
        OrderedRecord(line.letter.occurrence, line.event_id or "", "dead_letters", mended=line.after)
        for line in good
    ]
    letters, left_out = [line.letter for line in good], len(found) - len(lines)
    orders = orders_plan(pipeline, datacenter, found, letters, records, left_out)
    return MendingPlan(orders, Mending(orders.expected, parsed, len(tried) - len(mended), events))


def lines_of(
    pipeline: Pipeline, datacenter: str, found: OpenLetters, letters: Sequence[DeadLetter]
) -> list[MendedLine]:
    """These letters with their whole lines, as they were last tried. LakeUnavailable."""
    mended = mended_letters(pipeline, datacenter, found.epoch)
    in_logs = [each for each in letters if each.occurrence.file_number in found.files]
    places = ScatteredLines(
        np.array([each.occurrence.file_number for each in in_logs], np.int64),
        np.array([each.occurrence.offset_bytes for each in in_logs], np.int64),
        np.array([each.length_bytes for each in in_logs], np.int64),
    )
    files = {number: tracked.file for number, tracked in found.files.items()}
    raws = read_lines(pipeline.datacenters[datacenter].logs, files, places).to_pylist() if in_logs else []
    read = {each.occurrence: raw for each, raw in zip(in_logs, raws, strict=True)}

    def line_of(letter: DeadLetter) -> bytes | None:
        again = mended.get(letter.occurrence)
        if again is not None and again.raw is not None:
            return again.raw
        raw = read.get(letter.occurrence)
        # Another file may be in its place by now.
        if raw is not None and raw.startswith(letter.raw):
            return without_end(raw)
        return letter.raw if 0 < letter.length_bytes <= DEAD_LETTER_RAW_BYTES else None

    return [MendedLine(letter, line_of(letter)) for letter in letters]


def load_mend(spec: str, folder: Path) -> Mend:
    """The function `module:function`, also of a module beside the pipeline file. WrongUsage."""
    module_name, _, name = spec.partition(":")
    if not module_name or not name:
        raise WrongUsage(f"--mend: expected module:function, got {spec!r}")
    module = load_module(module_name, folder, "--mend")
    found = getattr(module, name, None)
    if not callable(found):
        raise WrongUsage(f"--mend: {module_name} has no function {name!r} (it is {module.__file__})")
    mend: Mend = found
    return mend


def _apply(mend: Mend, line: MendedLine) -> MendedLine:
    """Have a person's function mend a line."""
    if line.before is None:
        return replace(line, problem=GONE)
    try:
        after: object = mend(line.before, line.letter.reason)
    except Exception as error:
        return replace(line, problem=f"the function failed on it: {type(error).__name__}: {error}")
    if after is None:
        return line
    if isinstance(after, str):
        after = to_bytes(after)
    if not isinstance(after, bytes):
        what = type(after).__name__
        return replace(line, problem=f"the function returned {what}; expected bytes, str or None")
    return replace(line, after=without_end(after))


def _parsed(
    pipeline: Pipeline, found: OpenLetters, lines: Sequence[MendedLine]
) -> tuple[list[MendedLine], pa.Table]:
    """The lines with their ids, keys and times, or why they are no records; and the records."""
    by_file: dict[int, dict[int, bytes]] = defaultdict(dict)
    for line in lines:
        place = line.letter.occurrence
        if line.after is not None and not line.problem:
            by_file[place.file_number][place.offset_bytes] = line.after
    parts, known = [FOREIGN_EVENTS.empty_table()], {}
    bad: dict[Occurrence, str] = {}
    for number, of_file in by_file.items():
        if number not in found.files:
            bad |= {Occurrence(number, offset): FORGOTTEN for offset in of_file}
            continue
        file = found.files[number].file
        parsed = parse_lines(of_file, file, pipeline.foreign, pipeline.limits)
        parts.append(parsed.events)
        for row in parsed.events.drop_columns("_raw").to_pylist():
            known[Occurrence(number, row["_offset"])] = row
        for row in parsed.dead_letters.to_pylist():
            bad[Occurrence(number, row["_offset"])] = row["reason"]
    return [_told(line, known, bad) for line in lines], pa.concat_tables(parts)


def _told(
    line: MendedLine, known: Mapping[Occurrence, Mapping[str, Any]], bad: Mapping[Occurrence, str]
) -> MendedLine:
    place = line.letter.occurrence
    if line.problem:
        return line
    if place not in known:
        why = bad.get(place, "it is blank, or more than one line")
        return replace(line, problem=f"still no record: {why}")
    row = known[place]
    return replace(line, event_id=row["_id"], key=row["_key"], time_us=row["_time_us"])


# -- a file that people edit


def without_end(line: bytes) -> bytes:
    """A line without its newline and a carriage return before it."""
    return line.removesuffix(b"\n").removesuffix(b"\r")


def to_bytes(line: str) -> bytes:
    """The bytes of a text; bytes that are no UTF-8 are in it as lone surrogates."""
    return line.encode(errors="surrogateescape")


def exported(datacenter: str, lines: Iterable[MendedLine]) -> Iterable[str]:
    """One JSON object for each letter, to be edited and given back: its line is in `line`."""
    for line in lines:
        letter = line.letter
        if line.before is not None:
            yield json.dumps(
                {
                    "datacenter": datacenter,
                    "file": letter.path,
                    "offset": letter.occurrence.offset_bytes,
                    "occurrence": str(letter.occurrence),
                    "reason": letter.reason,
                    "line": line.before.decode(errors="surrogateescape"),
                }
            )


@dataclass(frozen=True, slots=True)
class Exported:
    """Dead letters in a file. `gone`: their lines are gone from the logs; `left_out`: for the next export."""

    exported: int
    gone: int
    left_out: int


def export_letters(pipeline: Pipeline, datacenter: str, reason: str, sink: TextIO) -> Exported:
    """Write the dead letters whose reason has this text to a file. StateUnavailable, LakeUnavailable."""
    found = open_letters(pipeline, datacenter).with_reason(reason)
    letters = found.first(MOST_RECORDS, with_raw=True)
    written = list(exported(datacenter, lines_of(pipeline, datacenter, found, letters)))
    sink.writelines(f"{line}\n" for line in written)
    return Exported(len(written), len(letters) - len(written), len(found) - len(letters))


@dataclass(frozen=True)
class Edits:
    """The lines that a person has written in a file: by path, offset and, where it is named, occurrence."""

    of: Mapping[tuple[str, int, str], bytes]

    def apply(self, lines: Sequence[MendedLine]) -> list[MendedLine]:
        """The letters with the lines of the file; one whose line is what it was is left as it is."""
        at_place = Counter(_place(line) for line in lines)
        return [self._edited(line, at_place[_place(line)] > 1) for line in lines]

    def _edited(self, line: MendedLine, is_one_of_several: bool) -> MendedLine:
        path, offset = _place(line)
        after = self.of.get((path, offset, str(line.letter.occurrence)))
        if after is None:
            after = self.of.get((path, offset, ""))
            if after is not None and is_one_of_several:
                return replace(line, problem="several files had this name: export the letters, and edit that")
        return line if after is None or after == line.before else replace(line, after=after)


def _place(line: MendedLine) -> tuple[str, int]:
    return line.letter.path, line.letter.occurrence.offset_bytes


def read_edits(path: Path, datacenter: str) -> Edits:
    """The edits that a file has for this datacenter; a line without one is for each of them. WrongUsage."""
    found: dict[tuple[str, int, str], bytes] = {}
    try:
        content = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise WrongUsage(f"{path}: expected JSON lines in UTF-8, as --export writes them; {error}") from None
    for number, text in enumerate(content.split("\n"), 1):
        if not text.strip():
            continue
        try:
            one = json.loads(text)
            place = (str(one["file"]), int(one["offset"]), str(one.get("occurrence", "")))
            line = to_bytes(one["line"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            expected = 'a JSON object with "file", "offset" and "line", as --export writes it'
            raise WrongUsage(f"{path}, line {number}: expected {expected}; {error!r}") from error
        if one.get("datacenter", datacenter) == datacenter:
            found[place] = without_end(line)
    return Edits(found)
