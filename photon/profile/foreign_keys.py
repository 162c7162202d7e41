"""Which column of the foreign log names the primary event, and by which of its columns. Pure decisions."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from photon.profile.column import LEAST_DISTINCT, LEAST_FILLED, Column, described
from photon.profile.column_names import alikeness, id_name, is_time_name
from photon.profile.event_ids import MOST_COLUMNS_OF_AN_ID, is_unique_together
from photon.profile.findings import OpenQuestion, Proposal, Sureness
from photon.profile.sample import CannotPropose

NEAR = 0.1  # two pairs whose scores differ by less are both likely
# Least share of distinct values in a primary id: a record that comes again costs no foreign event.
LEAST_UNIQUE = 0.99
LEAST_ALIKE = 0.5  # likeness of two names: integers of two columns meet by chance
LEAST_MET = 3  # values that two columns of other names have in common
LEAST_MET_OF_TIMES = 0.5  # share of integers that could be times: two logs seldom have the same ones
LEAST_MET_TOGETHER = 0.5  # share of the keys of several columns
_NAME_COUNTS = 0.6  # as much as this share of the values that meet
_SHOWN = 4
OPTIONS = ("--foreign-key", "--primary-id")
Found = tuple[Proposal, Proposal]  # the key, and the primary id


@dataclass(frozen=True, slots=True)
class Pair:
    """A column of the foreign log whose values are in one of the primary log."""

    key: str
    primary_id: str
    score: float
    met: float  # the share of the key's values that the primary's column has
    is_unique: bool  # nearly no two primary events have the same value

    @property
    def said(self) -> tuple[str, ...]:
        return (self.key, self.primary_id)


def key_and_id(
    foreign: Mapping[str, Column],
    primary: Mapping[str, Column],
    key: tuple[str, ...] | None,
    primary_id: tuple[str, ...] | None,
    primary_log: frozenset[str],
) -> Found | OpenQuestion:
    """The foreign key and the primary id, in this order; None for what the user did not say."""
    for said, option in ((primary_id, OPTIONS[0]), (key, OPTIONS[1])):
        if said is not None and len(said) > 1:
            raise CannotPropose(f"an id of {len(said)} columns needs a key of as many: give {option} too")
    keys = [foreign[name] for name in key or foreign]
    ids = [primary[name] for name in primary_id or primary]
    is_said = key is not None, primary_id is not None
    found = [pair for k in keys for p in ids if (pair := _pair(k, p, is_said, primary_log))]
    found.sort(key=lambda pair: -pair.score)
    unique = [pair for pair in found if pair.is_unique or primary_id]
    if not unique and not any(is_said) and (together := _together(foreign, primary)):
        return together
    if not unique:
        perhaps = found or _perhaps(keys, ids, primary_log)
        is_by_chance = bool(perhaps) and not found
        why = _by_chance(perhaps[0], foreign) if is_by_chance else _nothing(foreign, primary, found)
        return _question(why, perhaps, primary)
    best, *others = unique
    near = [pair for pair in others if best.score - pair.score < NEAR]
    if near:
        return _question("several columns of the foreign log may be the key", (best, *near), primary)
    key_column, alike = foreign[best.key], alikeness(best.key, best.primary_id, primary_log)
    sure: Sureness = "sure" if best.met > LEAST_MET_TOGETHER and alike >= LEAST_ALIKE else "likely"
    form = key_column.form or "values"
    there = f"{best.primary_id} of the primary log"
    why = f"{best.met:.0%} of its {len(key_column.different):,} {form} are in {there}"
    one = primary[best.primary_id]
    again = f"{one.count - len(one.different):,} of its {one.count:,} values occur again" * (one.distinct < 1)
    why_id = again or f"all {one.count:,} values differ"
    return (
        Proposal("foreign key", (best.key,), sure, why),
        Proposal("primary id", (best.primary_id,), "likely" if again else sure, why_id),
    )


def _question(why: str, pairs: Sequence[Pair], primary: Mapping[str, Column]) -> OpenQuestion:
    """Ask for one of these pairs. Of each primary id that is offered, say how often it comes again."""
    ids = dict.fromkeys(pair.primary_id for pair in pairs[:_SHOWN])
    again = [primary[name].says_again for name in ids if primary[name].count_again]
    doubt = f"primary: {'; '.join(again)}, so that rows may name a doubtful one; " if again else ""
    return OpenQuestion(OPTIONS, doubt + why, tuple(pair.said for pair in pairs[:_SHOWN]))


def _pair(key: Column, one: Column, is_said: tuple[bool, bool], log: frozenset[str]) -> Pair | None:
    """The pair, if the values meet and do not look as if they did so by chance."""
    if not len(key.different):
        return None
    met = float(pc.mean(pc.is_in(key.different, one.different).cast(pa.int8())).as_py())
    alike = alikeness(key.name, one.name, log)
    # Ids that a device counts anew after each boot come again as often as it boots.
    is_by_name = (
        key.name == one.name and met > LEAST_MET_TOGETHER and id_name(one.name, frozenset()) is not None
    )
    if not met or (one.distinct < LEAST_DISTINCT and not is_by_name):
        return None
    if not any(is_said) and _meet_by_chance(key, one, alike, met):
        return None
    score = met + _NAME_COUNTS * alike + 0.1 * key.distinct
    is_unique = one.filled >= LEAST_FILLED and one.distinct >= LEAST_UNIQUE
    return Pair(key.name, one.name, score, met, is_unique)


def _perhaps(keys: Sequence[Column], ids: Sequence[Column], log: frozenset[str]) -> list[Pair]:
    """Pairs whose values meet, perhaps by chance: for somebody to choose from."""
    pairs = (_pair(key, one, (True, True), log) for key in keys for one in ids if one.unit != "iso8601")
    return sorted(
        (p for p in pairs if p and p.is_unique and p.met > LEAST_MET_TOGETHER), key=lambda p: -p.score
    )


def _meet_by_chance(key: Column, one: Column, alike: float, met: float) -> bool:
    """Whether values that both columns have need not be those of an id: times, counts, words."""
    both = (key, one)
    called_so = [id_name(column.name, frozenset()) is not None for column in both]
    if any(column.unit is not None for column in both):
        if any(column.unit == "iso8601" or is_time_name(column.name) for column in both):
            return True
        if not any(called_so) and not (alike == 1 and met >= LEAST_MET_OF_TIMES):
            return True
    if all(column.kind == "integer" for column in both) and not (key.form and one.form):
        is_small = any(column.why_no_id for column in both)
        return alike < LEAST_ALIKE or not (any(called_so) or (alike == 1 and not is_small))
    if any(column.why_no_id for column in both):
        return not (alike >= LEAST_ALIKE and any(called_so))
    return alike < LEAST_ALIKE and met * len(key.different) < LEAST_MET


def _together(foreign: Mapping[str, Column], primary: Mapping[str, Column]) -> Found | None:
    """Columns of equal names that make an id together; None unless just one such group is the smallest."""
    names = [
        name
        for name in foreign.keys() & primary.keys()
        if all(
            c.kind in ("text", "integer") and c.unit is None and not c.values.null_count
            for c in (foreign[name], primary[name])
        )
    ]
    for size in range(2, MOST_COLUMNS_OF_AN_ID + 1):
        found = [
            (group, met)
            for group in itertools.combinations(sorted(names, key=list(primary).index), size)
            if is_unique_together(primary, group)
            and (met := _met_together(foreign, primary, group)) >= LEAST_MET_TOGETHER
        ]
        if len(found) == 1:
            group, met = found[0]
            why = f"no column is an id by itself; {met:.0%} of the keys are in the primary log"
            return Proposal("foreign key", group, "likely", why), Proposal("primary id", group, "likely", why)
        if found:
            return None
    return None


def _met_together(
    foreign: Mapping[str, Column], primary: Mapping[str, Column], names: Sequence[str]
) -> float:
    keys, ids = (
        set(zip(*(side[n].values.to_pylist() for n in names), strict=True)) for side in (foreign, primary)
    )
    return len(keys & ids) / max(1, len(keys))


def _by_chance(pair: Pair, foreign: Mapping[str, Column]) -> str:
    why_no_id = foreign[pair.key].why_no_id
    doubt = f"They are {why_no_id}" if why_no_id else "Their names do not say that they belong together"
    return (
        f"{pair.met:.0%} of the values of {pair.key} in the foreign log are values of {pair.primary_id} in "
        f"the primary log too. {doubt}, so that it may be by chance. If it is not"
    )


def _nothing(foreign: Mapping[str, Column], primary: Mapping[str, Column], found: Sequence[Pair]) -> str:
    if found and not found[0].is_unique:
        pair = found[0]
        why = f"{pair.primary_id} is no id of primary events"
        if foreign[pair.key].is_unique:
            why += f", and {pair.key} of the foreign log is unique. "
            why += "Both logs may be named in the wrong order; else"
        return why
    return (
        "no column of the foreign log holds values of an id of the primary log. "
        f"Primary: {described(dict(primary))}. Foreign: {described(dict(foreign))}. "
        "Expected a key, such as the query's id in each click. "
        "Are these the logs of the same days, in this order (primary, then foreign)? If they are"
    )
