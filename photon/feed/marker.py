"""The marker of a fed folder, as the pipeline reads it whose primary log that folder is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from photon.feed.cursor_file import decoded
from photon.pipeline.location import Location
from photon.releases.release import Place, Release
from photon.storage.store import store_of

ASIDE = ".photon"  # no pattern of log files matches a name that begins with a dot
MARKER = "feed.json"
FED_FILE = re.compile(r"\d{12}\.jsonl")  # the name of the file of a release
_FACTS = ("files", "last_file", "begins_behind", "taken_back")


@dataclass(frozen=True)
class Marker:
    """How far a folder is fed: all files up to `last_file` are there, with the rows up to `release`.

    `pipeline`: the file of the pipeline whose rows they are, as the follower was given it. `begins_behind`:
    rows up to there never come. `taken_back`: what lines in the folder are no rows any more.
    """

    pipeline: Path
    name: str
    release: Release
    files: int
    last_file: str | None  # None: no release had rows yet
    begins_behind: Mapping[str, Place]
    taken_back: Mapping[str, Any]


def read_marker(folder: Location) -> Marker | None:
    """The marker of a folder; None: it has none. FeedStopped, FormatTooNew, OSError."""
    try:
        stored = store_of(folder / ASIDE).read(MARKER)
    except FileNotFoundError:
        return None
    said = decoded(stored, folder / ASIDE / MARKER, "pipeline", "name", *_FACTS)
    return Marker(
        Path(said["pipeline"]),
        said["name"],
        said["release"],
        said["files"],
        said["last_file"],
        {name: Place(*place) for name, place in said["begins_behind"].items()},
        said["taken_back"],
    )
