"""Rows that a join or a refill has found to be second rows of their events: told until they are gone.

A registry that was put back while a lake was away lets another datacenter join what has a row there. Nobody
joins such an event a third time, so that nothing stops; and later batches hide it from whoever looks at the
newest rows. Hence a file beside the state, which outlives epochs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from photon.storage.sync import in_place_of

SECOND_ROWS_FILE = "second-rows.json"
MOST_NOTED = 100  # `photon verify` finds the others; status looks each of these up


def note_second_rows(folder: Path, found: Mapping[str, str]) -> None:
    """Remember these rows, by token, with their events' ids. OSError."""
    known = second_rows_noted(folder)
    if found.keys() <= known.keys() or len(known) >= MOST_NOTED:
        return
    noted = dict(list({**known, **found}.items())[:MOST_NOTED])
    with in_place_of(folder / SECOND_ROWS_FILE) as unfinished:
        unfinished.write_text(json.dumps(noted))


def second_rows_noted(folder: Path) -> dict[str, str]:
    """Return the event ids that were noted, by token; nothing where the file can't be read."""
    try:
        stored = json.loads((folder / SECOND_ROWS_FILE).read_text())
        return {str(token): str(event_id) for token, event_id in stored.items()}
    except (OSError, ValueError, AttributeError):
        return {}
