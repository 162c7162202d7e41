"""The pipeline file that is proposed, as text: what the samples show, and defaults for all else."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from photon.pipeline.sections import ForeignLog, Log, PrimaryLog
from photon.profile.guess import Guess
from photon.profile.sample import Sample, Where

_PLAIN = re.compile(r"[A-Za-z_][\w./-]*")
_WORDS_OF_YAML = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}


def logs_of(
    guess: Guess, primary: Sample, foreign: Sample, places: tuple[Where, Where]
) -> tuple[PrimaryLog, ForeignLog]:
    """The sections `primary` and `foreign`."""
    return (
        PrimaryLog(
            files=places[0].glob,
            format=primary.format,
            id=guess.primary_id,
            time=guess.primary_time,
            time_unit=guess.primary_unit,
        ),
        ForeignLog(
            files=places[1].glob,
            format=foreign.format,
            id=guess.foreign_id,
            key=guess.foreign_key,
            time=guess.foreign_time,
            time_unit=guess.foreign_unit,
        ),
    )


def pipeline_text(name: str, datacenters: Mapping[str, str], primary: PrimaryLog, foreign: ForeignLog) -> str:
    """The text of a pipeline file; every key that is not in it has its default."""
    lines = [
        "# Written by photon init. Every key: docs/pipeline-file.md. Paths are relative to this file.",
        f"name: {name}",
        "datacenters:",
        *(f"  {each}: {{logs: {_text(logs)}}}" for each, logs in datacenters.items()),
        "primary:",
        *_section(primary),
        "foreign:",
        *_section(foreign),
    ]
    return "\n".join(lines) + "\n"


def _section(log: Log) -> list[str]:
    lines = [f"  files: {json.dumps(log.files)}", f"  format: {log.format}", f"  id: {_names(log.id)}"]
    if isinstance(log, ForeignLog):
        lines.append(f"  key: {_names(log.key)}")
    return [*lines, f"  time: {_text(log.time)}", f"  time_unit: {log.time_unit}"]


def _names(names: tuple[str, ...]) -> str:
    return _text(names[0]) if len(names) == 1 else f"[{', '.join(map(_text, names))}]"


def _text(text: str) -> str:
    is_plain = _PLAIN.fullmatch(text) and text.lower() not in _WORDS_OF_YAML
    return text if is_plain else json.dumps(text)
