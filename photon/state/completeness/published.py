"""A datacenter's statement of its rows' completeness: one document beside its tables, written anew."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from photon.errors import FormatTooNew
from photon.pipeline.location import Location
from photon.state.completeness.arrivals import Arrivals
from photon.state.completeness.estimate import Completeness
from photon.storage.store import content, store_of

DOCUMENT = "complete_up_to.json"
FORMAT = 1


def publish(lake: Location, said: Completeness, arrivals: Arrivals) -> None:
    """Put what is said in the place of what was said before. OSError."""
    document = {
        "format": FORMAT,
        **asdict(said),
        "minutes": _to_json(arrivals.records),
        "late_by_minute": _to_json(arrivals.late),
    }
    store_of(lake).put(DOCUMENT, content(json.dumps(document).encode()))


def published(lake: Location) -> tuple[Completeness, Arrivals] | None:
    """The last statement; None where there is none.

    OSError, FormatTooNew; ValueError and KeyError if it is no such document.
    """
    try:
        document = json.loads(store_of(lake).read(DOCUMENT))
    except FileNotFoundError:
        return None
    if document["format"] > FORMAT:
        raise FormatTooNew(lake / DOCUMENT, document["format"], FORMAT)
    document.setdefault("is_final", False)  # an earlier version wrote it
    said = Completeness(**{name: document[name] for name in Completeness.__dataclass_fields__})
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
