"""Which settings the state of a datacenter depends on, and what a change of each means.

Every key of the pipeline file is in one of the lists below, by itself or with its whole section. A new key
that is in none fails a test: who adds it decides what becomes of a state that was begun with another value.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from photon.pipeline.file import Pipeline

Change = Literal["refused", "new epoch"]

# Ids in the registry would be those of other events, or have other times: it refuses a change too (B9).
REFUSED = (
    "name",
    "foreign.id",
    "foreign.time",
    "foreign.time_unit",
    "foreign.time_format",
    "foreign.time_zone",
    "foreign.id_codec",
    "foreign.id_time_unit",
)
# Offsets, index and waiting records would be wrong: a new epoch reads all logs again; registered ids stay so.
NEW_EPOCH: Mapping[str, str] = {
    **dict.fromkeys(("primary.files", "foreign.files"), "which files count: offsets, index, waiting records"),
    **{
        f"{side}.{key}": "where records begin and end, and their values: offsets, index, waiting records"
        for side in ("primary", "foreign")
        for key in (
            "format",
            "delimiter",
            "quote",
            "escape",
            "header",
            "comment",
            "encoding",
        )
    },
    "primary.id": "by what primary events are found: index segments",
    "primary.watermark": "up to when primary logs are read: watermark, events that are given up",
    "foreign.key": "for what events wait and are given up: waiting records",
    **{
        f"primary.{key}": "when primary events were: watermark, index segments, events that are given up"
        for key in ("time", "time_unit", "time_format", "time_zone", "id_codec", "id_time_unit")
    },
}
# Nothing that is stored means something else: only what is done from now on.
GOES_ON: Mapping[str, str] = {
    "datacenters": "a file is known again by its content, a lake by its id, a state and its work move along",
    "adapter": "rows that are there stay, until a backfill makes them again",
    "primary.prefix": "rows that are there stay, until a backfill makes them again",
    "primary.columns": "types are needed when a row is made: index and waiting records hold lines",
    "foreign.columns": "types are needed when a row is made: index and waiting records hold lines",
    "registry": "where ids are kept and how they are asked for; it knows itself whose they are",
    "retry": "when a waiting record is looked at is decided when it is put back",
    "home": "whom an event is left to is decided anew for each",
    "recovery": "when others take over",
    "limits": "a longer or wider record is a dead letter, which people have looked at again",
    "tailing": "how files are watched",
    "verification": "what a verification keeps names its settings",
    "availability": "minutes that are judged stay as they are",
    "backfill": "how rows are made again; a rebuild that is under way names its settings",
    "compaction": "how tables are stored",
    "unmatched": "runs from now on; rows that are there stay",
    "releases": "a release that is made says all of itself",
    "health": "thresholds",
    "alerts": "whom to tell",
    "shift": "how runs follow one another",
    "spark": "where tasks run",
    "owners": "shown",
    "links": "shown",
    "new_epoch_reads_from": "asked when an epoch begins",
}
WIDENS = {
    "primary.files": "primary",
    "foreign.files": "foreign",
}  # harmless where all known files still match


@dataclass(frozen=True, slots=True)
class ChangedSetting:
    """A setting that has another value than the state was begun with."""

    key: str
    was: object
    now: object

    @property
    def change(self) -> Change:
        return "refused" if self.key in REFUSED else "new epoch"

    def __str__(self) -> str:
        return f"{self.key} is {_shown(self.now)} and was {_shown(self.was)}"


def remembered_settings(pipeline: Pipeline) -> Mapping[str, object]:
    """Return the settings that a state remembers: JSON values, by key."""
    return {key: _value(pipeline, key) for key in (*REFUSED, *NEW_EPOCH)}


def changed_settings(remembered: Mapping[str, object], pipeline: Pipeline) -> Sequence[ChangedSetting]:
    """Return the settings that are not as the state remembers; one that it does not know is as it was."""
    now = remembered_settings(pipeline)
    return [
        ChangedSetting(key, remembered[key], value)
        for key, value in now.items()
        if key in remembered and remembered[key] != value
    ]


def _value(pipeline: Pipeline, key: str) -> object:
    section, _, name = key.rpartition(".")
    model = getattr(pipeline, section) if section else pipeline
    return model.model_dump(mode="json", include={name})[name]


def _shown(value: object) -> str:
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)
