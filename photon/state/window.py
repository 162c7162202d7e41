"""How many records of each class a datacenter had one or two windows ago: its latest ones are those since.

Its dispatcher notes them with a batch, so that whoever judges the datacenter later finds the same window,
also after a single join that nobody watched.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from photon.process.clock import MICROSECONDS

# Shares of the latest records are of those of the last one or two windows in which any were read.
WINDOW_US = 3_600 * MICROSECONDS


@dataclass(frozen=True)
class CountsMark:
    """How many records ever came into each class of an epoch (`Counts.gained`), at one moment."""

    at_us: int
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class CountsWindow:
    """Two marks, at least a window apart. The latest records are those since `before`."""

    before: CountsMark
    latest: CountsMark

    def after(self, counts: Mapping[str, int], now_us: int, window_us: int) -> CountsWindow:
        """The window once a batch ends now; `counts`: those without this batch's own.

        Its records are among the latest, however long ago the one before it ended. A clock that was set back
        begins a new window.
        """
        if 0 <= now_us - self.latest.at_us < window_us:
            return self
        return CountsWindow(self.latest, CountsMark(now_us, counts))


def begin_window(now_us: int) -> CountsWindow:
    """The window of an epoch that has read nothing yet."""
    return CountsWindow(CountsMark(now_us), CountsMark(now_us))


def window_to_json(window: CountsWindow) -> str:
    """The stored form."""
    return json.dumps(asdict(window))


def window_from_json(text: str) -> CountsWindow:
    """The inverse of `window_to_json`."""
    stored = json.loads(text)
    return CountsWindow(CountsMark(**stored["before"]), CountsMark(**stored["latest"]))
