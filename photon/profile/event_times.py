"""Which column says when an event was, and in which unit. Pure decisions."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass

from photon.logs.files import Side
from photon.logs.formats.times import time_texts
from photon.pipeline.values import TimeUnit
from photon.profile.column import Column, column_of, described, units_seen
from photon.profile.column_names import id_name, is_time_name, is_time_of_event, is_time_of_others
from photon.profile.findings import OpenQuestion, Proposal

NEAR = 0.1  # two columns whose scores differ by less are both likely
UNITS_OF_NUMBERS: tuple[TimeUnit, ...] = ("s", "ms", "us", "ns")


@dataclass(frozen=True, slots=True)
class EventTime:
    """The column that is the time of a side's events, or day and time of day, and its unit."""

    columns: tuple[str, ...]
    unit: TimeUnit
    format: str | None  # strptime's format, where Photon does not know by itself how it is written
    finding: Proposal


@dataclass(frozen=True, slots=True)
class TimeSaid:
    """The user's words on a side's times; None: to be found out."""

    columns: tuple[str, ...] | None = None
    unit: TimeUnit | None = None
    format: str | None = None


def event_time(
    side: Side, columns: Mapping[str, Column], said: TimeSaid, ids: Container[str]
) -> EventTime | OpenQuestion:
    """The time of a side's events. `ids`: columns that are ids or keys: times only by name."""
    if said.columns is not None:
        return _as_written(side, columns, said.columns, said)
    options = (f"--{side}-time",)
    scored = sorted(
        (-_score(column), column.name)
        for column in columns.values()
        if column.unit and column.filled and (column.name not in ids or is_time_name(column.name))
    )
    others = [column.name for column in columns.values() if column.unit and column.filled]
    if not scored and others:
        why = f"{side}: the only columns that are times are taken for ids or keys, such as {others[0]!r}"
        return OpenQuestion(options, why, tuple((name,) for name in others))
    if not scored:
        expected = "ISO 8601, or seconds, ms, us or ns since 1970"
        why = f"{side}: no column looks like a time: {described(dict(columns))}. Expected {expected}"
        return OpenQuestion(options, why)
    near = [name for score, name in scored if score - scored[0][0] < NEAR]
    if len(near) > 1:
        return OpenQuestion(options, f"{side}: several columns are times", tuple((name,) for name in near))
    day = near[0]
    clocks = [each.name for each in columns.values() if each.is_clock] if columns[day].is_date else []
    clocks = [name for name in clocks if is_time_name(name)] or clocks
    if len(clocks) > 1:
        why = f"{side}: {day!r} has days, and several columns have times of day"
        return OpenQuestion(options, why, tuple((f"{day},{clock}",) for clock in clocks))
    return _as_written(side, columns, (day, *clocks), said)


def _as_written(
    side: Side, columns: Mapping[str, Column], names: tuple[str, ...], said: TimeSaid
) -> EventTime | OpenQuestion:
    """The time of these columns with its unit, and its format where it needs one."""
    column = columns[names[0]]
    if len(names) > 1:
        column = column_of(" ".join(names), time_texts([columns[name].values for name in names]))
    name, seen, what, option = column.name, units_seen(column), f"{side} time", f"--{side}-time"
    if said.format or (column.time_formats and not said.unit):
        if said.format is None and len(column.time_formats) > 1:
            why = f"{side}: nobody can tell the day from the month in {name!r}, such as {_example(column)!r}"
            return OpenQuestion((f"{option}-format",), why, tuple((each,) for each in column.time_formats))
        form = said.format or column.time_formats[0]
        why = "the format is as you said" if said.format else f"its values are written as {form}"
        return EventTime(names, said.unit or "iso8601", form, Proposal(what, names, "sure", why))
    found = said.unit or column.unit
    if found is not None:
        why = "the unit is as you said" if said.unit else f"its values are times in {found}"
        if column.is_date:
            return EventTime(
                names, found, None, Proposal(what, names, "likely", "days without a time of day")
            )
        why += "; they name no zone, and count as UTC (time_zone)" * column.lacks_zone
        return EventTime(names, found, None, Proposal(what, names, "sure", why))
    if column.kind not in ("integer", "decimal"):  # a unit makes no time of other text
        why = (
            f"{side}: {name!r} is no time that is known: {seen}. "
            f"Say how it is written with {option}-format FORMAT, or name another column"
        )
        return OpenQuestion((option,), why)
    why = (
        f"{side}: the unit of {name!r} is not clear: {seen}. "
        "Lines of another unit become dead letters or times of other years"
    )
    return OpenQuestion((f"--{side}-unit",), why, tuple((each,) for each in UNITS_OF_NUMBERS))


def _example(column: Column) -> str:
    return str(column.different[0].as_py())


def _score(column: Column) -> float:
    name = column.name
    return (
        column.filled
        + 0.3 * is_time_name(name)
        + 0.3 * is_time_of_event(name)
        - 0.5 * is_time_of_others(name)
        - 0.5 * column.is_date
        - 0.5 * (id_name(name, frozenset()) is not None)
    )
