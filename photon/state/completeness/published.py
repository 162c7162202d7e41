"""A datacenter's statement of its rows' completeness: one document beside its tables, written anew."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from photon.pipeline.location import Location
from photon.process.errors import FormatTooNew
from photon.state.completeness.arrivals import Arrivals
from photon.state.completeness.estimate import Completeness
from photon.storage.documents import LakeDocument

DOCUMENT = "complete_up_to.json"
_STORED = LakeDocument(DOCUMENT, 1)


def publish(lake: Location, said: Completeness, arrivals: Arrivals) -> None:
    """Put what is said in the place of what was said before. OSError."""
    counts = {"minutes": _to_json(arrivals.records), "late_by_minute": _to_json(arrivals.late)}
    _STORED.put(lake, {**asdict(said), **counts})


def published(lake: Location) -> tuple[Completeness, Arrivals] | None:
    """The last statement; None where there is none.

    OSError, FormatTooNew; ValueError and KeyError if it is no such document.
    """
    if (document := _STORED.read(lake)) is None:
        return None
    stored = {name: document[name] for name in Completeness.__dataclass_fields__}
    said = Completeness(**{**stored, "unread_named": tuple(document["unread_named"])})
    return said, Arrivals(_from_json(document["minutes"]), _from_json(document["late_by_minute"]))


def last_said(lake: Location) -> Completeness | None:
    """The last statement; None also where it can't be read, as nothing depends on it."""
    try:
        found = published(lake)
    except (OSError, ValueError, KeyError, FormatTooNew):
        return None
    return None if found is None else found[0]


def _to_json(counts: Mapping[int, int]) -> list[list[int]]:
    return [[minute, counts[minute]] for minute in sorted(counts)]


def _from_json(pairs: list[list[Any]]) -> dict[int, int]:
    return {int(minute): int(n) for minute, n in pairs}
