"""What the columns of two samples are: ids, keys, times and their units. Pure decisions."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from photon.logs.times import parse_times
from photon.pipeline.values import TimeUnit
from photon.profile.sample import CannotPropose, Sample

MOST_LOOKED_AT = 1_000  # values of a column, to tell whether they are times or a count
LEAST_TIMES = 0.9  # of the values of a time column
LEAST_DISTINCT = 0.5  # of the values of an id column: an event may be logged twice
NEAR = 0.1  # two columns whose scores differ by less are both likely
# Numbers of these many digits before the point are times between 1973 and 2286 in that unit.
_UNIT_OF_DIGITS: dict[int, TimeUnit] = {
    9: "s", 10: "s", 12: "ms", 13: "ms", 15: "us", 16: "us", 18: "ns", 19: "ns",
}  # fmt: skip
_ID_LIKE = re.compile(r"(^|[_.])(u?u?id|key|guid)$|Id$", re.IGNORECASE)
_TIME_LIKE = re.compile(r"time|ts|date|(^|[_.])at$", re.IGNORECASE)
_TIME_OF_EVENT = re.compile(r"event|(^|[.@])(time|ts|timestamp)$", re.IGNORECASE)
_TIME_OF_OTHERS = re.compile(r"arriv|ingest|receiv|updat|process|written|load", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Answers:
    """What the user said himself; None: to be found out."""

    primary_id: tuple[str, ...] | None = None
    primary_time: str | None = None
    primary_unit: TimeUnit | None = None
    foreign_id: tuple[str, ...] | None = None
    foreign_key: tuple[str, ...] | None = None
    foreign_time: str | None = None
    foreign_unit: TimeUnit | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """One answer that was found out, and others that are nearly as likely."""

    option: str  # of the command, that says otherwise
    value: str
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Guess:
    """The columns of both logs."""

    primary_id: tuple[str, ...]
    primary_time: str
    primary_unit: TimeUnit
    foreign_id: tuple[str, ...]
    foreign_key: tuple[str, ...]
    foreign_time: str
    foreign_unit: TimeUnit
    unsure: tuple[Choice, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    filled: float  # share of the lines that have a value
    distinct: float  # share of the values that occur but once
    is_count: bool  # each value is the one before it, plus 1
    units: Counter[str]  # how many of the values looked at are times, by unit
    looked_at: int
    values: pa.Array  # distinct ones

    @property
    def unit(self) -> TimeUnit | None:
        if not self.units:
            return None
        unit, count = self.units.most_common(1)[0]
        return unit if count >= LEAST_TIMES * self.looked_at else None  # type: ignore[return-value]


def guess(primary: Sample, foreign: Sample, answers: Answers) -> Guess:
    """The likeliest columns of both logs, after what the user said; CannotPropose where none is likely."""
    try:
        return _guess(primary, foreign, answers)
    except CannotPropose as error:
        passed_over = [*primary.passed_over, *foreign.passed_over]
        if not passed_over:
            raise
        raise CannotPropose(f"{error}. Passed over: {'; '.join(passed_over)}") from None


def _guess(primary: Sample, foreign: Sample, answers: Answers) -> Guess:
    _refuse_unknown(primary, [*(answers.primary_id or ()), answers.primary_time], "--primary-")
    said = [*(answers.foreign_id or ()), *(answers.foreign_key or ()), answers.foreign_time]
    _refuse_unknown(foreign, said, "--foreign-")
    primaries, foreigns = _look(primary), _look(foreign)
    unsure: list[Choice] = []
    primary_id, foreign_key = answers.primary_id, answers.foreign_key
    if primary_id is None or foreign_key is None:
        primary_id, foreign_key = _pair(primary, foreign, primaries, foreigns, answers, unsure)
    foreign_id = answers.foreign_id or _foreign_id(foreign, foreigns, foreign_key, unsure)
    primary_time, primary_unit = _time(primary, primaries, answers.primary_time, answers.primary_unit, unsure)
    foreign_time, foreign_unit = _time(foreign, foreigns, answers.foreign_time, answers.foreign_unit, unsure)
    return Guess(
        primary_id, primary_time, primary_unit, foreign_id, foreign_key, foreign_time, foreign_unit,
        tuple(unsure),
    )  # fmt: skip


def _refuse_unknown(sample: Sample, names: list[str | None], options: str) -> None:
    for name in names:
        if name is not None and name not in sample.columns:
            raise CannotPropose(
                f"{sample.side}: no column {name!r}, as an option {options}... says; "
                f"expected one of {', '.join(sample.columns)}"
            )


def _look(sample: Sample) -> dict[str, _Column]:
    return {name: _column(name, values) for name, values in sample.columns.items()}


def _column(name: str, values: pa.Array) -> _Column:
    some = values.drop_null()
    different = pc.unique(some)
    looked_at = some[:MOST_LOOKED_AT]
    return _Column(
        name,
        len(some) / max(1, len(values)),
        len(different) / max(1, len(some)),
        _is_count(looked_at.to_pylist()),
        _units(looked_at),
        len(looked_at),
        different,
    )


def _is_count(texts: list[str]) -> bool:
    numbers = [int(text) for text in texts if text.isascii() and text.isdigit() and len(text) < 19]
    steps = sum(after - before == 1 for before, after in itertools.pairwise(numbers))
    return len(numbers) > 1 and steps >= LEAST_TIMES * (len(texts) - 1)


def _units(texts: pa.Array) -> Counter[str]:
    """The units in which the values are times of our days."""
    units: Counter[str] = Counter()
    for text in texts.to_pylist():
        number = re.fullmatch(r"(\d+)(\.\d*)?", text)
        if number and (unit := _UNIT_OF_DIGITS.get(len(number[1]))):
            units[unit] += 1
    if not units:
        iso = len(texts) - parse_times(texts, "iso8601").null_count
        units += Counter(iso8601=iso)
    return units


def _pair(
    primary: Sample,
    foreign: Sample,
    primaries: dict[str, _Column],
    foreigns: dict[str, _Column],
    answers: Answers,
    unsure: list[Choice],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The primary's id and the foreign key: the columns whose values meet most."""
    for said, option in ((answers.primary_id, "--foreign-key"), (answers.foreign_key, "--primary-id")):
        if said is not None and len(said) > 1:
            raise CannotPropose(f"an id of {len(said)} columns needs a key of as many: give {option} too")
    ids = [primaries[name] for name in answers.primary_id or primaries]
    keys = [foreigns[name] for name in answers.foreign_key or foreigns]
    scored = [
        (met * one.distinct**2 + 0.3 * _alike(key.name, one.name) + 0.1 * key.distinct - 0.6 * key.is_count,
         one.name, key.name)
        for one in ids
        if one.unit is None and one.distinct >= LEAST_DISTINCT
        for key in keys
        if key.unit is None and (met := _met(key, one)) > 0
    ]  # fmt: skip
    if not scored:
        raise CannotPropose(
            "no column of the foreign log holds values of an id of the primary log. "
            f"Primary: {_described(primaries)}. Foreign: {_described(foreigns)}."
            " Expected a key, such as the query's id in each click. "
            "Are these the logs of the same days, in this order (primary, then foreign)? Else say "
            "--primary-id COLUMN and --foreign-key COLUMN"
        )
    scored.sort(key=lambda each: -each[0])
    best = scored[0]
    others = tuple(f"{key} = {one}" for score, one, key in scored[1:] if best[0] - score < NEAR)
    if others:
        unsure.append(Choice("--foreign-key and --primary-id", f"{best[2]} = {best[1]}", others))
    return (best[1],), (best[2],)


def _met(key: _Column, one: _Column) -> float:
    """The share of the key's values that the other column has too."""
    if not len(key.values):
        return 0.0
    return float(pc.mean(pc.is_in(key.values, one.values).cast(pa.int8())).as_py())


def _alike(key: str, one: str) -> float:
    key, one = key.lower(), one.lower()
    if key == one:
        return 1.0
    if key.endswith(one) or one.endswith(key):
        return 0.7
    return 0.3 if _ID_LIKE.search(key) else 0.0


def _foreign_id(
    foreign: Sample, columns: dict[str, _Column], key: tuple[str, ...], unsure: list[Choice]
) -> tuple[str, ...]:
    scored = sorted(
        (-(c.distinct * c.filled + 0.3 * bool(_ID_LIKE.search(c.name)) - 0.4 * c.is_count), c.name)
        for c in columns.values()
        if c.name not in key and c.unit is None and c.distinct * c.filled >= LEAST_DISTINCT
    )
    if not scored:
        raise CannotPropose(
            f"foreign: no column looks like an id of its events: {_described(columns)}. "
            "Expected one whose values differ from event to event. Say --foreign-id COLUMN, or several "
            f"columns that make an id together: --foreign-id {','.join([*key, *list(columns)[-1:]])}"
        )
    others = tuple(name for score, name in scored[1:] if score - scored[0][0] < NEAR)
    if others:
        unsure.append(Choice("--foreign-id", scored[0][1], others))
    return (scored[0][1],)


def _time(
    sample: Sample,
    columns: dict[str, _Column],
    said: str | None,
    unit: TimeUnit | None,
    unsure: list[Choice],
) -> tuple[str, TimeUnit]:
    """The time of a side's events, and its unit."""
    option = f"--{sample.side}-time"
    scored = sorted(
        (-_time_score(column), name) for name, column in columns.items() if column.unit and column.filled
    )
    if said is None and not scored:
        raise CannotPropose(
            f"{sample.side}: no column looks like a time: {_described(columns)}. Expected "
            f"ISO 8601, or seconds, ms, us or ns since 1970. Say {option} COLUMN and "
            f"--{sample.side}-unit UNIT"
        )
    name = said or scored[0][1]
    others = tuple(other for score, other in scored if other != name and score - scored[0][0] < NEAR)
    if said is None and others:
        unsure.append(Choice(option, name, others))
    found = unit or (columns[name].unit if name in columns else None)
    if found is None:
        seen = _units_seen(columns[name]) if name in columns else "objects"
        raise CannotPropose(
            f"{sample.side}: the unit of {name!r} is not clear: {seen}; say --{sample.side}-unit s, ms, us, "
            "ns or iso8601; lines of another unit become dead letters or times of other years"
        )
    return name, found


def _time_score(column: _Column) -> float:
    name = column.name
    return (
        column.filled
        + 0.3 * bool(_TIME_LIKE.search(name))
        + 0.3 * bool(_TIME_OF_EVENT.search(name))
        - 0.5 * bool(_TIME_OF_OTHERS.search(name))
    )


def _units_seen(column: _Column) -> str:
    if not column.units.total():
        return (
            f"its values are no times, such as {column.values[0].as_py()!r}"
            if len(column.values)
            else "empty"
        )
    return ", ".join(f"{count:,} of {column.looked_at:,} values in {u}" for u, count in column.units.items())


def _described(columns: dict[str, _Column]) -> str:
    """What each column is like, in a few words."""
    shown = [f"{c.name} ({_like(c)})" for c in columns.values()]
    return ", ".join(shown) or "no column"


def _like(column: _Column) -> str:
    if not column.filled:
        return "empty"
    if column.units.total() >= LEAST_TIMES * column.looked_at:
        return "times in " + " and ".join(column.units)
    return f"{column.distinct:.0%} distinct" + (", a count" if column.is_count else "")
