"""Decide which columns of two samples are ids, keys and times, and in which units. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from photon.pipeline.values import TimeUnit
from photon.profile.column import Column, column_of
from photon.profile.column_names import is_time_of_others, log_words
from photon.profile.event_ids import foreign_id
from photon.profile.event_times import EventTime, TimeSaid, event_time
from photon.profile.findings import OpenQuestion, Proposal
from photon.profile.foreign_keys import key_and_id
from photon.profile.sample import CannotPropose, SideSample

LEAST_OF_PRIMARY = 0.5  # share of a foreign column that a primary one has: it names the event


@dataclass(frozen=True, slots=True)
class Answers:
    """The user's own answers; None: to be found out."""

    primary_id: tuple[str, ...] | None = None
    primary_time: tuple[str, ...] | None = None
    primary_unit: TimeUnit | None = None
    primary_time_format: str | None = None
    foreign_id: tuple[str, ...] | None = None
    foreign_key: tuple[str, ...] | None = None
    foreign_time: tuple[str, ...] | None = None
    foreign_unit: TimeUnit | None = None
    foreign_time_format: str | None = None


@dataclass(frozen=True, slots=True)
class Guess:
    """The columns of both logs."""

    primary_id: tuple[str, ...]
    primary_time: EventTime
    foreign_id: tuple[str, ...]
    foreign_key: tuple[str, ...]
    foreign_time: EventTime
    findings: tuple[Proposal, ...] = ()  # findings, and how sure each is


def guess(primary: SideSample, foreign: SideSample, answers: Answers) -> Guess | tuple[OpenQuestion, ...]:
    """The columns of both logs, after what the user said; or what he has to say.

    CannotPropose for a column that is not there.
    """
    _refuse_unknown(primary, [*(answers.primary_id or ()), *(answers.primary_time or ())], "--primary-")
    said = [*(answers.foreign_id or ()), *(answers.foreign_key or ()), *(answers.foreign_time or ())]
    _refuse_unknown(foreign, said, "--foreign-")
    primaries, foreigns = _look(primary), _look(foreign)
    words = log_words(primary.name), log_words(foreign.name)
    primary_id, key = answers.primary_id, answers.foreign_key
    found: list[Proposal | OpenQuestion] = []
    likely = key, primary_id
    if primary_id is None or key is None:
        pair = key_and_id(foreigns, primaries, key, primary_id, words[0])
        found += [pair] if isinstance(pair, OpenQuestion) else pair
        if not isinstance(pair, OpenQuestion):
            likely = key, primary_id = pair[0].columns, pair[1].columns
        elif pair.choices:  # what else is to be asked is asked with it
            likely = (pair.choices[0][0],), (pair.choices[0][1],)
    event_id = answers.foreign_id
    if event_id is None and likely[0] is not None and likely[1] is not None:
        of_primary = _of_primary(foreigns, primaries, likely[1])
        event = foreign_id(foreigns, likely[0], words[1], of_primary)
        if isinstance(event, OpenQuestion):
            found.append(event)
        elif key is not None and primary_id is not None:
            found.append(event)
            event_id = event.columns
    said_of_primary = TimeSaid(answers.primary_time, answers.primary_unit, answers.primary_time_format)
    primary_time = event_time("primary", primaries, said_of_primary, primary_id or ())
    ids = (*(event_id or ()), *(key or ()))
    said_of_foreign = TimeSaid(answers.foreign_time, answers.foreign_unit, answers.foreign_time_format)
    foreign_time = event_time("foreign", foreigns, said_of_foreign, ids)
    if (
        primary_id is None
        or key is None
        or event_id is None
        or isinstance(primary_time, OpenQuestion)
        or isinstance(foreign_time, OpenQuestion)
    ):
        return tuple(each for each in (*found, primary_time, foreign_time) if isinstance(each, OpenQuestion))
    own = (each for each in found if isinstance(each, Proposal))
    findings = (*own, primary_time.finding, foreign_time.finding)
    return Guess(primary_id, primary_time, event_id, key, foreign_time, findings)


def _refuse_unknown(sample: SideSample, names: list[str], options: str) -> None:
    for name in names:
        if name not in sample.columns:
            passed_over = f". Passed over: {'; '.join(sample.passed_over)}" if sample.passed_over else ""
            raise CannotPropose(
                f"{sample.side}: no column {name!r}, as an option {options}... says; "
                f"expected one of {', '.join(sample.columns)}{passed_over}"
            )


def _look(sample: SideSample) -> dict[str, Column]:
    """The columns of a sample. Records that differ only in when somebody got them are one."""
    columns = _columns(sample, sample.columns)
    others = [c.name for c in columns.values() if c.unit and is_time_of_others(c.name)]
    own = [name for name in columns if name not in others]
    if not (others and own):
        return columns
    table = pa.table(sample.columns)
    numbered = table.select(own).append_column("", pa.array(range(len(table)), pa.int64()))
    rows = numbered.group_by(own).aggregate([("", "min")])["_min"].combine_chunks().sort()
    if len(rows) == len(table):
        return columns
    return _columns(sample, {name: table[name].combine_chunks().take(rows) for name in columns})


def _columns(sample: SideSample, values: Mapping[str, pa.Array]) -> dict[str, Column]:
    return {
        name: column_of(name, texts, sample.json_types.get(name, frozenset()))
        for name, texts in values.items()
    }


def _of_primary(
    foreigns: dict[str, Column], primaries: dict[str, Column], primary_id: tuple[str, ...]
) -> frozenset[str]:
    """Foreign columns that tell of the primary event: it has them too, or they hold its id."""
    found = set[str]()
    for column in foreigns.values():
        if column.kind != "text" and column.form is None:
            continue  # numbers meet by chance
        for name in {column.name, *primary_id} & primaries.keys():
            met = pc.mean(pc.is_in(column.different, primaries[name].different).cast("int8")).as_py()
            if met is not None and met >= LEAST_OF_PRIMARY:
                found.add(column.name)
    return frozenset(found)
