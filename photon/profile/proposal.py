"""The text and the name of the pipeline file that is proposed: what samples show, and else defaults."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from photon.pipeline.sections import ForeignLog, Limits, Log, PrimaryLog
from photon.pipeline.values import PIPELINE_NAME
from photon.profile.column_roles import Guess
from photon.profile.column_types import column_types
from photon.profile.event_times import EventTime
from photon.profile.ids_used_again import IdsUsedAgain
from photon.profile.sample import SideSample, Where, word_of

TABLES_AND_STATE = ("lake", "state")  # a datacenter's folders, by their keys
DEFAULT_NAME = "joined"
ROOM = 2  # times the longest record of the sample: others may be longer
_OF_WRITING = ("delimiter", "quote", "escape", "header", "comment", "encoding")
_PLAIN = re.compile(r"[A-Za-z_][\w./-]*")
_WORDS_OF_YAML = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}


def proposed_name(primary: str, foreign: str) -> str:
    """A pipeline's name by its two logs, such as `queries_clicks`; `joined` where these are no two words."""
    words = [word_of(place) for place in (primary, foreign)]
    name = "_".join(words)
    return name if words[0] != words[1] and all(words) and re.match(PIPELINE_NAME, name) else DEFAULT_NAME


def logs_of(
    guess: Guess, primary: SideSample, foreign: SideSample, places: tuple[Where, Where]
) -> tuple[PrimaryLog, ForeignLog]:
    """The sections `primary` and `foreign`."""
    return (
        PrimaryLog(
            files=places[0].glob,
            id=guess.primary_id,
            columns=column_types(primary),
            **primary.format.settings(),
            **_time(guess.primary_time),
        ),
        ForeignLog(
            files=places[1].glob,
            id=guess.foreign_id,
            key=guess.foreign_key,
            columns=column_types(foreign),
            **foreign.format.settings(),
            **_time(guess.foreign_time),
        ),
    )


def _time(found: EventTime) -> dict[str, Any]:
    settings: dict[str, Any] = {"time": found.columns, "time_unit": found.unit}
    return settings | ({"time_format": (found.format,)} if found.format else {})


def pipeline_text(
    name: str,
    datacenters: Mapping[str, str],
    before: str,
    primary: PrimaryLog,
    foreign: ForeignLog,
    longest_bytes: int,
    links_lead_out: bool,
) -> str:
    """The text of a pipeline file; every key that is not in it has its default.

    `datacenters`: the folder of logs of each. `before`: a folder within `lake` and `state` that has those of
    this pipeline, with a slash behind it; empty where they lie there as by default. `longest_bytes`: of the
    longest record of both logs, for which `limits.line` has to leave room. `links_lead_out`: some of their
    files are links that leave the logs folder.
    """
    lines = [
        "# By photon init. Every key: Photon's docs/pipeline-file.md. Paths are relative to this file.",
        f"name: {_text(name)}",
        "datacenters:",
        *(f"  {each}: {{{_folders(each, logs, before)}}}" for each, logs in datacenters.items()),
        "primary:",
        *_section(primary),
        "foreign:",
        *_section(foreign),
    ]
    if ROOM * longest_bytes > Limits().line_bytes:
        limit_mib = 1 << (ROOM * longest_bytes // 2**20).bit_length()
        lines += ["limits:", f"  line: {limit_mib}MiB  # the longest record has {longest_bytes:,} bytes"]
    if links_lead_out:
        lines.append("tailing: {links_lead_out: true}  # of the logs folder")
    return "\n".join(lines) + "\n"


def with_window(text: str, used_again: IdsUsedAgain | None) -> str:
    """The text with the window that tells primaries of one id apart, where there are such."""
    if used_again is None or used_again.lookup_window is None:
        return text
    why = f"{used_again.ids:,} of {used_again.of_ids:,} primary ids are used again"
    return f"{text}retry:\n  lookup_window: {used_again.lookup_window}  # {why}\n"


def _section(log: Log) -> list[str]:
    lines = [f"  files: {json.dumps(log.files)}", f"  format: {log.format}"]
    lines += [f"  {key}: {_value(getattr(log, key))}" for key in _OF_WRITING if key in log.model_fields_set]
    lines.append(f"  id: {_names(log.id)}")
    if isinstance(log, ForeignLog):
        lines.append(f"  key: {_names(log.key)}")
    lines += [f"  time: {_names(log.time)}", f"  time_unit: {log.time_unit}"]
    if log.time_format:
        lines.append(f"  time_format: {_names(log.time_format)}")
    if log.columns:
        lines.append("  columns:  # the others are text")
        lines += [f"    {_text(name)}: {kind}" for name, kind in log.columns.items()]
    return lines


def _folders(datacenter: str, logs: str, before: str) -> str:
    own = [f"{key}: {_text(f'{key}/{before}{datacenter}')}" for key in TABLES_AND_STATE if before]
    return ", ".join([f"logs: {_text(logs)}", *own])


def _value(value: str | tuple[str, ...]) -> str:
    return _text(value) if isinstance(value, str) else f"[{', '.join(map(_text, value))}]"


def _names(names: tuple[str, ...]) -> str:
    return _text(names[0]) if len(names) == 1 else f"[{', '.join(map(_text, names))}]"


def _text(text: str) -> str:
    is_plain = _PLAIN.fullmatch(text) and text.lower() not in _WORDS_OF_YAML
    return text if is_plain else json.dumps(text)
