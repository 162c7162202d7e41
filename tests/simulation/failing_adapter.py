"""An adapter that fails on the clicks that a test names, until it is mended."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pyarrow as pa

from photon.adapters import Adapter, per_event

NAME = "tests.simulation.failing_adapter"
fails_on: Collection[str] = ()
drops: Collection[str] = ()
text_on: Collection[str] = ()  # a text in place of a number
value_of: Mapping[str, Any] = {}  # the `value` that each click's row gets


@per_event
def join(foreign: dict[str, Any], primary: dict[str, Any]) -> dict[str, Any] | None:
    click = foreign["click"]
    if click in drops:
        return None
    if click in fails_on:
        raise KeyError("position")
    if click in value_of:
        return {"click": click, "value": value_of[click]}
    return {"click": click, "position": "first" if click in text_on else 1}


@per_event
def echo(foreign: dict[str, Any], primary: dict[str, Any]) -> dict[str, Any]:
    """The foreign columns as they are."""
    if foreign["click"] in fails_on:
        raise KeyError("position")
    return dict(foreign)


class Skips(Adapter):
    """Looks at each event before its lookup."""

    def skip(self, foreign: pa.Table) -> None:
        if set(foreign["click"].to_pylist()) & set(fails_on):
            raise KeyError("position")
